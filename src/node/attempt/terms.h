/*
 * On which terms an attempt runs on its devices: what protects its neighbours from it, and it from
 * them. Fixed when it starts, and kept in the agent's own record (own_record.h).
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
    uint64_t quota_bytes; /* on each device; 0: the whole device */
    int share_min_percent, share_max_percent;
    int share_percent; /* of the SMs that it starts with; 0: as much as share_max_percent */
    char share_why[TERMS_WHY_MAX];         /* if that is less; else "" */
    double slo_percentile, slo_latency_ms; /* of a service; 0: it has none */
    bool is_protected;                     /* the shim is in its processes */
    char unprotected[TERMS_WHY_MAX];       /* why not, if not */
    bool is_suspect;                       /* of a GPU fault: it is on probation */
    bool has_mps;                          /* it shares its device through MPS */
    char without_mps[TERMS_WHY_MAX];       /* why not, if not */
    bool resumable;   /* it has a resume command: what it did is not lost when it starts again */
    bool suspendable; /* a task without a resume command: evicted, it is suspended if that can be */
};

/* Evicted, it can be suspended: a client of MPS cannot, and who can resume does not need to. */
bool terms_are_suspendable(const struct terms *terms);
/* What it starts with, where MPS keeps it. */
int terms_share_percent(const struct terms *terms);

/* MPS cannot be had: it takes turns with its neighbours. */
void terms_lose_mps(struct terms *terms, const char *why);

extern const struct fields terms_fields;
/* What the table cannot say. -ERR_CORRUPT. */
int terms_check(struct error *e, const struct terms *terms);

/* Which of its processes that hold device memory are known to have the shim. */
enum terms_loaded { LOADED_BY_ALL, LOADED_BY_SOME, LOADED_BY_NONE };

struct terms_facts {
    enum terms_loaded loaded;
    bool is_unlisted; /* the driver does not say what processes hold */
};

/* For people: what holds the attempt to its quota and its share, and what does not. */
char *terms_describe(const struct terms *terms, const struct terms_facts *facts,
                     char text[WORKLOAD_TEXT_MAX]);
