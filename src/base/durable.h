/*
 * Small files in directories that may belong to another user.
 *
 * A durable file is either whole or absent, even after a crash: its content is written under a
 * temporary name, synced and renamed, and the directory is synced. No function here follows a
 * symbolic link or trusts a file that another user created.
 */
#pragma once
#include <stddef.h>
#include <sys/types.h>

#include "base/error.h"
#include "base/str.h"

/* Creates NAME.tmp with `bytes` of allocated disk space, so that a later durable_write of NAME
 * succeeds on a full disk. */
int durable_reserve(struct error *e, int directory_fd, const char *name, size_t bytes);
/* Replaces NAME. On failure NAME is unchanged. */
int durable_write(struct error *e, int directory_fd, const char *name, const void *data,
                  size_t length);
/* Replaces NAME without syncing: NAME is whole or absent, but may be lost in a crash. */
int durable_replace(struct error *e, int directory_fd, const char *name, const void *data,
                    size_t length);

/*
 * Opens for reading a regular file that belongs to `owner`, root or this process's user. Returns
 * -ERR_NOT_FOUND if the file is absent, -ERR_DENIED for a symbolic link, a pipe or another user's
 * file.
 */
int durable_open(struct error *e, int directory_fd, const char *name, uid_t owner, int *ret_fd);
/* Appends the file's content to *out. Returns -ERR_TOO_LARGE beyond out->max. */
int durable_read(struct error *e, int directory_fd, const char *name, uid_t owner, struct str *out);

/* Removes a directory tree without following symbolic links. Succeeds if the directory is
 * absent. */
int durable_remove_tree(struct error *e, int parent_fd, const char *name);
