/*
 * The store thread. The loop thread hands it one batch at a time; while that is being committed,
 * the next one fills up. That is what makes many submits share one sync.
 */
#pragma once
#include <stdbool.h>

#include "base/error.h"
#include "store/store.h"

struct event_base;
struct committer;

/* Called on the loop thread when the batch that was handed over is durable (result 0) or is not. */
typedef void (*committer_done)(void *arg, int result, const struct error *error);

/* Does not own the store. */
int committer_new(struct error *e, struct event_base *base, struct store *store,
                  uint64_t keep_events, committer_done done, void *arg, struct committer **ret);
/* Waits for the commit under way; its `done` is not called any more. */
void committer_free(struct committer *c);
bool committer_busy(const struct committer *c);
/* Takes ownership of the batch. Only when not busy. */
void committer_start(struct committer *c, struct store_batch *batch);
