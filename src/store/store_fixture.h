/* For the tests of store/: a temporary directory, rows to write, results as text. */
#pragma once
#include <sys/resource.h>

#include "base/str.h"
#include "store/store.h"

/* Makes a new directory. fixture_remove() deletes the directory with its content and frees the
 * name. */
char *fixture_directory(void);
void fixture_remove(char *directory);

/* Adds a spec and `count` elements of an array (or one plain workload, count 0) from id `first`. */
int fixture_submit(struct store_batch *b, uint64_t first, int count, uint32_t uid,
                   const char *base);
int fixture_event(struct store_batch *b, uint64_t workload, const char *what);

/* Callbacks that append every field of their argument to a struct str. */
int fixture_dump_workload(void *str, const struct store_workload *row);
int fixture_dump_event(void *str, const struct store_event *event);
int fixture_dump_node(void *str, const char *name, bool drained, const char *json);
/* Appends the whole content of the store: load, list and events. */
void fixture_dump(struct store *s, struct str *out);
/* Returns the whole content of the store as a text owned by the caller. */
char *fixture_text(struct store *s);

/* Opens a store on disk. A failure fails the test. */
struct store *fixture_open(const char *directory);
/* Commits one batch with a workload and its event. */
void fixture_submit_one(struct store *s, uint64_t id);
void fixture_path(char path[256], const char *directory, const char *name);
/* Executes SQL on the database in `directory`, bypassing the store. */
void fixture_execute(const char *directory, const char *sql);
/* Limits the size of files, so that a write beyond the limit fails as on a full disk. */
void fixture_limit_files(rlim_t bytes);
