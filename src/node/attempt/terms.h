/*
 * The terms of an attempt on its devices: how the attempt and its neighbours are protected from
 * each other. The agent decides the terms when the attempt starts, and stores the terms in its own
 * record (own_record.h).
 */
#pragma once
#include "base/error.h"
#include "model/workload.h"
#include "wire/fields.h"

enum { TERMS_FILE_MAX = 8192, TERMS_WHY_MAX = 128 };

struct terms {
    enum workload_kind kind;
    int device_count;
    char devices[WORKLOAD_DEVICES_MAX][DEVICE_UUID_MAX];
    uint64_t quota_bytes; /* quota on each device; 0: the whole device */
    int share_min_percent, share_max_percent;
    /* Equal for attempts of the same program: the same user, kind and command. 0: unknown, in a
     * record of an earlier gpumux. */
    uint64_t program;
    int share_percent;             /* percent of the SMs at the start; 0: share_max_percent */
    char share_why[TERMS_WHY_MAX]; /* reason for a smaller share_percent; else "" */
    /* SLO of a service; 0: none */
    double slo_percentile, slo_latency_ms, slo_first_ms, slo_between_ms;
    bool is_protected;               /* the processes load the shim */
    char unprotected[TERMS_WHY_MAX]; /* reason for no protection; else "" */
    bool is_suspect;                 /* suspected of a GPU fault, and on probation */
    bool has_mps;                    /* shares its device through MPS */
    char without_mps[TERMS_WHY_MAX]; /* reason for running without MPS; else "" */
    bool swappable;                  /* a task whose device memory may move to host memory */
    bool resumable;                  /* has a resume command, so that a restart loses no work */
    bool suspendable; /* a task without a resume command, which an eviction suspends if possible */
};

/* Returns whether an eviction can suspend the attempt by a move of its memory. The attempt must be
 * a task that is not a client of MPS, has no resume command and is not swappable; a restart loses
 * no work of a task with a resume command, and the driver cannot move memory that the shim
 * moves. */
bool terms_are_suspendable(const struct terms *terms);
/* Returns the share at the start, which MPS enforces. */
int terms_share_percent(const struct terms *terms);

/* Changes the terms to run without MPS, time-sliced with neighbours. */
void terms_lose_mps(struct terms *terms, const char *why);

extern const struct fields terms_fields;
/* Checks conditions that terms_fields cannot express. Returns 0 or -ERR_CORRUPT. */
int terms_check(struct error *e, const struct terms *terms);

/* How many of the processes with device memory have loaded the shim. */
enum terms_loaded { LOADED_BY_ALL, LOADED_BY_SOME, LOADED_BY_NONE };

struct terms_facts {
    enum terms_loaded loaded;
    bool is_unlisted; /* the driver does not list the memory of processes */
};

/* Writes a text for users: whether the shim or MPS enforces quota and share, or the reason why
 * neither does. Returns text. */
char *terms_describe(const struct terms *terms, const struct terms_facts *facts,
                     char text[WORKLOAD_TEXT_MAX]);
