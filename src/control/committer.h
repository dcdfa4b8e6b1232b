/*
 * The store thread. The loop thread passes one batch at a time to the store thread, and fills the
 * next batch during the commit. Submits that arrive during a commit therefore share one sync.
 */
#pragma once
#include <stdbool.h>

#include "base/error.h"
#include "store/store.h"

struct event_base;
struct committer;

/* Called on the loop thread when the batch is durable (result 0), or when the commit failed. */
typedef void (*committer_done)(void *arg, int result, const struct error *error);

/* Starts the thread; the store is borrowed. */
int committer_new(struct error *e, struct event_base *base, struct store *store,
                  uint64_t keep_events, committer_done done, void *arg, struct committer **ret);
/* Waits for the commit in flight, without calling `done`. */
void committer_free(struct committer *c);
bool committer_busy(const struct committer *c);
/* Commits the batch and takes ownership of it. The committer must not be busy. */
void committer_start(struct committer *c, struct store_batch *batch);
