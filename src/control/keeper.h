/*
 * Saves the results of learning (learning.h) across restarts, and trains models from the results.
 * Saving and training run on a thread of their own, because they take longer than the loop may
 * wait.
 *
 *   DIRECTORY/learnt/programs      measurements of programs alone
 *   DIRECTORY/learnt/measurements  measurements of how much programs slow each other
 *   DIRECTORY/learnt/model         model trained from the measurements
 *
 * Each file is complete or absent, with a version and a checksum (learn/stored.h). If the keeper
 * cannot use a file, the keeper renames the file to NAME.refused, and control learns the content
 * again; a new model is trained from the measurements at once.
 */
#pragma once
#include <stdint.h>

#include "base/error.h"
#include "base/log.h"
#include "control/learning.h"

enum {
    KEEPER_SAVE_MS = 2000,       /* shortest time between two writes */
    KEEPER_TRAIN_MS = 60 * 1000, /* shortest time between two trainings */
};

struct event_base;
struct keeper;

/* Restores the saved results. The keeper borrows learning and log, and sets the model of learning.
 * The call fails if a file cannot be read or the directory cannot be made, not if a file is
 * refused. */
int keeper_new(struct error *e, struct event_base *base, const struct log *log,
               const char *directory, struct learning *learning, struct keeper **ret);
/* Waits for the thread, and saves all unsaved results. */
void keeper_free(struct keeper *k);
/* Starts saving or training if due; to be called about every second. */
void keeper_tick(struct keeper *k, int64_t now_boot_ms);
/* Returns the number of models trained since keeper_new(). */
uint64_t keeper_models(const struct keeper *k);
