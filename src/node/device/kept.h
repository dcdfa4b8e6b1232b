/*
 * A file of the state directory with a fixed size, mapped into memory, so that a later agent
 * continues with its content. After a crash of the machine the content may be out of date or
 * damaged: the owner of the content must check it.
 */
#pragma once
#include <stddef.h>

#include "base/error.h"

/* Makes the file if necessary, and fills a new file with zeros. *ret_map is valid until
 * kept_close(). */
int kept_open(struct error *e, int directory_fd, const char *name, size_t bytes, void **ret_map);
/* Ends the mapping; the file stays. NULL is allowed. */
void kept_close(void *map, size_t bytes);
