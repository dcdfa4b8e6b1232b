/* Maps the pages of abi/page.h. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Maps the page in a file with a length of `bytes`, whatever the file's size: bytes behind the end
 * of the file read as 0, like fields that the writer did not know. Returns NULL if the file
 * contains no page of that kind and of this version. The caller keeps the descriptor. */
void *pages_map(int fd, uint32_t magic, size_t bytes, int protection);
/* Moves `page`, a result of pages_map(), to the place of another page of the same size, while other
 * threads read there: a reader sees each word of the old or of the new page. `page` is unmapped
 * afterwards. Returns false if nothing was replaced. */
bool pages_replace(void *place, void *page, size_t bytes);
/* Makes the page read as 0, for threads that still read the page. */
void pages_clear(void *place, size_t bytes);
