/*
 * Programs: measurements of each program alone on a device, that is, its use of the device and its
 * reported speed. Everything learnt beside other programs is relative to these measurements. For a
 * service, the measurements include the latency of requests, alone and beside others.
 *
 * Workloads run the same program if the same user starts the same command in the same directory, or
 * gives the workloads the same label `gpumux.profile`; and if quota, share, number of devices,
 * batch size and SLO are the same. Neither the workload's name nor its environment counts, because
 * the environment differs in every shell. Each program has a number, its kind in the forecast,
 * which does not change as long as the program is known.
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
    PROGRAMS_MAX = LEARNT_KINDS_MAX, /* numbers are 1 to PROGRAMS_MAX - 1 */
    PROGRAM_DEVICES_MAX = LEARNT_DEVICES_MAX,
    PROGRAM_NAME_MAX = 64,
    PROGRAMS_STORED_MAX = 16 << 20,
    PROGRAM_BESIDES_MAX = LEARNT_BESIDES_MAX, /* a further entry replaces the entry with the oldest
                                               * measurement */
    PROGRAM_NEIGHBOURS_MAX = LEARNT_NEIGHBOURS_MAX,
    PROGRAM_REQUESTS_MIN = 200, /* fewest requests for a meaningful p99 */
    /* Age beyond which a measured p99 excludes no placement. Without this limit, a wrong p99 would
     * never be measured again. */
    PROGRAM_RECENT_MS = 60 * 60 * 1000,
};
#define PROGRAM_LABEL "gpumux.profile"

/* The latency of a service's requests. */
struct program_requests {
    double p99;   /* percentile of the SLO, as a geometric mean: alone in ms, beside others as a
                   * multiple of the value alone */
    double count; /* number of requests measured */
    int64_t measured_wall_ms;
    /* The forecast's copy of the values, not saved: */
    double told;         /* p99 in the forecast; 0: none */
    bool told_as_recent; /* see PROGRAM_RECENT_MS */
};

/* A program alone on devices of one type. */
struct program_alone {
    uint64_t device;               /* forecast_device.hash */
    double watched_s;              /* time watched */
    double sm_activity, dram_rate; /* means over watched_s, 0 to 1 */
    double memory_part;            /* largest part of the device's memory */
    double samples_per_s;          /* mean speed */
    uint32_t speeds;               /* number of speed measurements in the mean, up to a limit; 0:
                                   * speed not reported */
    double settled_s;              /* watched_s when `features` was last updated; 0: never */
    struct task_profile features;  /* features for the predictor, valid once settled */
    /* Latency of a service that reports latencies: */
    struct program_requests requests;
};

/* A service beside others on devices of one type. */
struct program_beside {
    uint64_t device;
    size_t count;
    uint64_t keys[PROGRAM_NEIGHBOURS_MAX]; /* keys of the neighbours' programs, ascending */
    bool is_bound; /* the p99 is a lower bound, measured partly before the set came together */
    struct program_requests requests;
};

struct program {
    uint64_t key;                /* 0: this number is free */
    uint64_t family;             /* equal for programs that differ only in quota, share, devices,
                                  * batch or SLO */
    char name[PROGRAM_NAME_MAX]; /* name of the first workload of this program, for people */
    enum workload_kind kind;
    uint32_t batch; /* batch size; 0: not given */
    double share;   /* cap of the share, 0 to 1 */
    double slo_ms;  /* SLO of a service; 0: none */
    int64_t seen_wall_ms;
    bool is_met; /* a service was measured beside this program; not saved */
    size_t alone_count;
    struct program_alone alone[PROGRAM_DEVICES_MAX];
    size_t beside_count;
    struct program_beside besides[PROGRAM_BESIDES_MAX];
};

struct programs;

/* Returns NULL when out of memory. */
struct programs *programs_new(void);
void programs_free(struct programs *p);

/* Sets the identity of the program, without measurements. */
void program_identify(const char *user, const struct workload_spec *spec,
                      struct program *ret_program);
/* Returns the program's number in *ret_number, a new number for an unknown program, and records the
 * time of last use. Returns 0, -ERR_TOO_LARGE if no number is free, or -ERR_NO_MEMORY. */
int programs_number(struct programs *p, const struct program *program, int64_t now_wall_ms,
                    uint32_t *ret_number);
/* Returns the program of a number, or NULL. */
struct program *programs_at(const struct programs *p, uint32_t number);
/* Returns the number of a key's program, or 0. */
uint32_t programs_find(const struct programs *p, uint64_t key);
size_t programs_count(const struct programs *p);
/* Returns the number of programs that were alone for long enough to be known. */
size_t programs_settled(const struct programs *p);
/*
 * Forgets programs that are unused and were last seen before since_wall_ms, until a quarter of the
 * numbers is free: first programs that were never alone, then the least recently seen. Calls `gone`
 * for each forgotten program.
 */
void programs_make_room(struct programs *p, const bool used[PROGRAMS_MAX], int64_t since_wall_ms,
                        void (*gone)(void *arg, uint32_t number), void *arg);

/* Returns the measurements on this type of device, or NULL. */
struct program_alone *program_alone(struct program *program, uint64_t device);
/* Returns the measurements on this type of device, added if absent; NULL: the program has
 * measurements on too many types. */
struct program_alone *program_alone_add(struct program *program, uint64_t device);
/* Returns the lowest latency in ms that a service reached alone on any type of device, at the
 * percentile of its SLO: of this program, else of programs that differ only in quota, share,
 * devices, batch or SLO; 0: unknown. */
double programs_alone_ms(const struct programs *p, const struct program *program);
/* Returns the measurements beside programs with these keys (ascending, at most
 * PROGRAM_NEIGHBOURS_MAX), added if absent. */
struct program_beside *program_beside_add(struct program *program, uint64_t device,
                                          const uint64_t *keys, size_t count);
/* Forgets measurements older than PROGRAM_RECENT_MS; returns false if there are none. */
bool program_forget_besides(struct program *program, int64_t now_wall_ms);
/* Returns whether the measurement is at most PROGRAM_RECENT_MS old, by a wall clock that may have
 * been set meanwhile. */
bool program_is_recent(const struct program_requests *requests, int64_t now_wall_ms);
/* Returns whether the forecast can use the measurement. */
bool program_beside_is_known(const struct program_beside *beside);
/* Computes the features from the measurements so far. */
void program_features(const struct program *program, const struct program_alone *alone,
                      const struct forecast_device *device, struct task_profile *ret_features);

/* Appends all programs that were alone; at most PROGRAMS_STORED_MAX bytes. */
void programs_save(const struct programs *p, struct str *to);
/* Returns 0, -ERR_CORRUPT or -ERR_TOO_NEW (see learn/stored.h), or -ERR_NO_MEMORY. */
int programs_load(struct error *e, const void *bytes, size_t length,
                  struct programs **ret_programs);
