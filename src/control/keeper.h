/*
 * Keeps what was learnt (learning.h) over restarts, and trains models from it, on a thread of its
 * own: both take longer than the loop may wait.
 *
 *   DIRECTORY/learnt/programs      what programs are alone
 *   DIRECTORY/learnt/measurements  by how much they slowed each other
 *   DIRECTORY/learnt/model         trained from those
 *
 * Each is whole or absent, with a version and a checksum (learn/stored.h). One that is refused
 * is set aside as NAME.refused, and what it held is learnt anew: the model from the
 * measurements, at once.
 */
#pragma once
#include <stdint.h>

#include "base/error.h"
#include "base/log.h"
#include "control/learning.h"

enum {
    KEEPER_SAVE_MS = 2000,       /* between two times that something is written */
    KEEPER_TRAIN_MS = 60 * 1000, /* between two models */
};

struct event_base;
struct keeper;

/* Restores what was kept. Learning and log are borrowed; learning's model comes from here. Fails
 * for what cannot be read or made, never for what is refused. */
int keeper_new(struct error *e, struct event_base *base, const struct log *log,
               const char *directory, struct learning *learning, struct keeper **ret);
/* Waits for what the thread is at, and keeps what it has not kept yet. */
void keeper_free(struct keeper *k);
/* To be called about every second: starts what is due. */
void keeper_tick(struct keeper *k, int64_t now_boot_ms);
/* Models that were trained since it was made. */
uint64_t keeper_models(const struct keeper *k);
