/* What the tests of store/ share: a directory of their own, rows to write, answers as text. */
#pragma once
#include <sys/resource.h>

#include "base/str.h"
#include "store/store.h"

/* A fresh directory; fixture_remove deletes it with what is in it and frees the name. */
char *fixture_directory(void);
void fixture_remove(char *directory);

/* Adds a spec and `count` elements of an array (or one plain workload, count 0) from id `first`. */
int fixture_submit(struct store_batch *b, uint64_t first, int count, uint32_t uid,
                   const char *base);
int fixture_event(struct store_batch *b, uint64_t workload, const char *what);

/* Callbacks that append what they are handed to a struct str, every field of it. */
int fixture_dump_workload(void *str, const struct store_workload *row);
int fixture_dump_event(void *str, const struct store_event *event);
int fixture_dump_node(void *str, const char *name, bool drained, const char *json);
/* Everything that the store holds: load, list and events. */
void fixture_dump(struct store *s, struct str *out);
/* The same as a text that is the caller's. */
char *fixture_text(struct store *s);

/* What only a store on disk has. A failure fails the test. */
struct store *fixture_open(const char *directory);
/* One batch: a workload and its event. */
void fixture_submit_one(struct store *s, uint64_t id);
void fixture_path(char path[256], const char *directory, const char *name);
/* On the database in `directory`, past the store. */
void fixture_execute(const char *directory, const char *sql);
/* From here on a larger file is a full disk. */
void fixture_limit_files(rlim_t bytes);
