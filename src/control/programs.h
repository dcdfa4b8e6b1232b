/*
 * What was seen of programs while they were alone on a device: how much of it they use, and how
 * fast they are by their own reports. All that is learnt of them beside others is measured against
 * that. Of services also how long their requests take, alone and beside others.
 *
 * Workloads run the same program if the same user starts the same command in the same directory, or
 * says that they are the same by the label `gpumux.profile`; with the same quota, share, number of
 * devices, batch size and SLO. Neither what it is called counts nor its environment, which is
 * another one in every shell. Programs have numbers, the kinds of the forecast, which stay as long
 * as the program is known.
 *
 * Pure: no I/O, no clock.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "learn/features.h"
#include "model/workload.h"
#include "policy/forecast.h"
#include "policy/learnt.h"

enum {
    PROGRAMS_MAX = LEARNT_KINDS_MAX, /* numbers from 1 to this, exclusive */
    PROGRAM_DEVICES_MAX = LEARNT_DEVICES_MAX,
    PROGRAM_NAME_MAX = 64,
    PROGRAMS_STORED_MAX = 16 << 20,
    PROGRAM_BESIDES_MAX = LEARNT_BESIDES_MAX, /* then the one that was measured longest ago goes */
    PROGRAM_NEIGHBOURS_MAX = LEARNT_NEIGHBOURS_MAX,
    PROGRAM_REQUESTS_MIN = 200, /* fewer say nothing about a p99 */
    /* A p99 that was measured longer ago refuses nobody: what is wrong with it would never
     * be seen. */
    PROGRAM_RECENT_MS = 60 * 60 * 1000,
};
#define PROGRAM_LABEL "gpumux.profile"

/* How long the requests of a service take. */
struct program_requests {
    double p99;   /* in ms alone, beside others as a multiple of that: at its SLO's percentile,
                geometric mean */
    double count; /* that this is of */
    int64_t measured_wall_ms;
    /* What the forecast was told, not kept: */
    double told;         /* p99; 0: nothing */
    bool told_as_recent; /* see PROGRAM_RECENT_MS */
};

/* A program alone on devices of one type. */
struct program_alone {
    uint64_t device;               /* forecast_device.hash */
    double watched_s;              /* how long */
    double sm_activity, dram_rate; /* means over that, 0 to 1 */
    double memory_part;            /* of the device's, the most */
    double samples_per_s;          /* mean */
    uint32_t speeds;              /* measurements of it, as far as they count; 0: it does not say */
    double settled_s;             /* watched_s when the features were last looked at; 0: never */
    struct task_profile features; /* what it is taken for, once it is settled */
    /* Of a service that reports how long its requests take: */
    struct program_requests requests;
};

/* A service beside others on devices of one type. */
struct program_beside {
    uint64_t device;
    size_t count;
    uint64_t keys[PROGRAM_NEIGHBOURS_MAX]; /* of their programs, ascending */
    bool is_bound; /* the p99 is this at least; requests before they were together count, too */
    struct program_requests requests;
};

struct program {
    uint64_t key;                /* 0: this number is free */
    uint64_t family;             /* equal in programs that differ by what they ask for alone */
    char name[PROGRAM_NAME_MAX]; /* of the workload that it was first seen as; for people */
    enum workload_kind kind;
    uint32_t batch; /* 0: not said */
    double share;   /* cap, 0 to 1 */
    double slo_ms;  /* of a service; 0: none */
    int64_t seen_wall_ms;
    bool is_met; /* a service was measured beside it; not kept */
    size_t alone_count;
    struct program_alone alone[PROGRAM_DEVICES_MAX];
    size_t beside_count;
    struct program_beside besides[PROGRAM_BESIDES_MAX];
};

struct programs;

/* NULL when memory is out. */
struct programs *programs_new(void);
void programs_free(struct programs *p);

/* Which program this is, with nothing known of it. */
void program_identify(const char *user, const struct workload_spec *spec,
                      struct program *ret_program);
/* Its number, a new one if it is not known; the time counts as when it was seen. -ERR_TOO_LARGE
 * when there is no number left, -ERR_NO_MEMORY. */
int programs_number(struct programs *p, const struct program *program, int64_t now_wall_ms,
                    uint32_t *ret_number);
/* NULL: nobody has this number. */
struct program *programs_at(const struct programs *p, uint32_t number);
/* Its number by its key; 0: nobody has this key. */
uint32_t programs_find(const struct programs *p, uint64_t key);
size_t programs_count(const struct programs *p);
/* Those that were alone for long enough to be known. */
size_t programs_settled(const struct programs *p);
/*
 * Forgets some of those that are not in use and were not seen since then: first who never was
 * alone, then who was not seen for longest, until a quarter of the numbers is free. Each that goes
 * is passed to `gone`.
 */
void programs_make_room(struct programs *p, const bool used[PROGRAMS_MAX], int64_t since_wall_ms,
                        void (*gone)(void *arg, uint32_t number), void *arg);

/* What is known of it on this type; NULL: nothing. */
struct program_alone *program_alone(struct program *program, uint64_t device);
/* The same, made if there is none; NULL: it is known on too many types. */
struct program_alone *program_alone_add(struct program *program, uint64_t device);
/* Beside these (their keys, ascending, at most PROGRAM_NEIGHBOURS_MAX), made if there is none. */
struct program_beside *program_beside_add(struct program *program, uint64_t device,
                                          const uint64_t *keys, size_t count);
/* Forgets what was not measured for PROGRAM_RECENT_MS; false: there was nothing. */
bool program_forget_besides(struct program *program, int64_t now_wall_ms);
/* Was it measured within PROGRAM_RECENT_MS, by a clock that may have been set? */
bool program_is_recent(const struct program_requests *requests, int64_t now_wall_ms);
/* Is enough known for a forecast? */
bool program_beside_is_known(const struct program_beside *beside);
/* What its features would be by what was seen. */
void program_features(const struct program *program, const struct program_alone *alone,
                      const struct forecast_device *device, struct task_profile *ret_features);

/* Appends all that were alone; at most PROGRAMS_STORED_MAX bytes. */
void programs_save(const struct programs *p, struct str *to);
/* -ERR_CORRUPT, -ERR_TOO_NEW: see learn/stored.h; -ERR_NO_MEMORY. */
int programs_load(struct error *e, const void *bytes, size_t length,
                  struct programs **ret_programs);
