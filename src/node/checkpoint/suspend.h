/*
 * Attempts whose device memory lies in their host's: carries out control's orders to suspend and to resume,
 * one at a time for each run, and shows in its report how far that has come.
 *
 * Before anything is moved the file suspended/W.A says what is wanted and of which processes, until they are
 * back: an agent that comes later finds it there, and goes on with whatever it finds them in.
 *
 * On the loop's thread.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "node/checkpoint/checkpoint.h"

struct agent;
struct run;
struct error;

struct suspended_process {
    pid_t pid;
    uint64_t start; /* with its pid, names it for ever */
};

/* Where its memory is, as far as is known. */
enum suspended_place { PLACE_DEVICE, PLACE_HOST, PLACE_UNKNOWN };

/* What a run keeps for it; `suspension`, `turn` and `evicted` are in its report. */
struct run_suspension {
    bool wants_off;
    enum suspended_place place;
    uint64_t bytes; /* of device memory that are moved */
    size_t process_count;
    struct suspended_process processes[CHECKPOINT_PROCESSES_MAX];
    struct checkpoint move;
    int64_t began_ms;
    char failure[WORKLOAD_TEXT_MAX]; /* of a move that must be undone first */
    char evicted_why[WORKLOAD_TEXT_MAX];
    struct event *patience; /* with control, which was asked to have it suspended */
    struct event *again;    /* makes sure that it is off, which could not be done */
};

void suspend_init(struct run *r);
/* control's order number `turn`. Older ones are only answered with a report. */
void suspend_obey(struct run *r, int turn, bool off);
/* Its device wants it off: control is asked to order it. The monitor hears whether it went or stays. */
void suspend_evict(struct run *r, const char *why);
/* Whether it is, or may be, off its devices: it can then be killed, but does not answer to less. */
bool suspend_is_on_the_way(const struct run *r);
/* Device memory that lies in the host's. */
uint64_t suspend_bytes(const struct run *r);
/* An attempt that was found: reads what an agent before this one knew; false: it was not suspended. */
bool suspend_adopt(struct run *r);
/* And goes on with it, once all else is known of it. */
void suspend_continue(struct run *r);
/* It has ended. */
void suspend_end(struct run *r);
/* Removes locks of processes that have moved memory, as far as they have ended. From time to time. */
void suspend_tidy(struct agent *a);
/* This agent goes, or the run does: what is under way goes on. */
void suspend_forget(struct run *r);
