/*
 * Small files in directories that may belong to somebody else.
 *
 * A durable file is whole or absent, whatever happens: written under another name, synced, renamed,
 * and the directory synced. Nothing here follows a link or trusts a file that another user put
 * there.
 */
#pragma once
#include <stddef.h>
#include <sys/types.h>

#include "base/error.h"
#include "base/str.h"

/* Puts NAME.tmp there with `bytes` of disk space, so that a later durable_write of NAME succeeds on
 * a full disk. */
int durable_reserve(struct error *e, int directory_fd, const char *name, size_t bytes);
/* Replaces NAME. On failure NAME is as it was. */
int durable_write(struct error *e, int directory_fd, const char *name, const void *data,
                  size_t length);
/* The same without syncing: whole or absent, but not durable. */
int durable_replace(struct error *e, int directory_fd, const char *name, const void *data,
                    size_t length);

/*
 * Opens a plain file for reading that belongs to `owner` (or to root, or to this process's user).
 * -ERR_NOT_FOUND if there is none, -ERR_DENIED for a link, a pipe or somebody else's file.
 */
int durable_open(struct error *e, int directory_fd, const char *name, uid_t owner, int *ret_fd);
/* Appends its content to *out; -ERR_TOO_LARGE past out->max. */
int durable_read(struct error *e, int directory_fd, const char *name, uid_t owner, struct str *out);

/* Removes a directory with all that is in it, never following a link. Absent is fine. */
int durable_remove_tree(struct error *e, int parent_fd, const char *name);
