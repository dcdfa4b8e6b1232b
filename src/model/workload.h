/*
 * A workload: what a user asked for (spec), and what has become of it (status).
 *
 * Plain data and its validation. Pointers inside a spec belong to the arena that it was built in;
 * a spec is never changed after validation. Parsers and writers live in wire/.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/error.h"
#include "model/names.h"

enum {
    WORKLOAD_NAME_MAX = 128,     /* bytes with NUL; an array's "[i]" included */
    WORKLOAD_COMMAND_MAX = 4096, /* words */
    WORKLOAD_ENVIRONMENT_MAX = 4096,
    WORKLOAD_LABELS_MAX = 64,
    WORKLOAD_AFTER_MAX = 256,
    WORKLOAD_ARRAY_MAX = 10000,
    WORKLOAD_DEVICES_MAX = 16,
    WORKLOAD_RETRIES_MAX = 1000,
    WORKLOAD_PRIORITY_MAX = 1000, /* and -1000 the least */
    WORKLOAD_KEY_MAX = 128,       /* a client's idempotency key */
    WORKLOAD_WORD_MAX =
        128 << 10, /* bytes with NUL of a command word or of KEY=VALUE: what execve takes */
    WORKLOAD_START_MAX =
        2 << 20, /* bytes of a command and the environment together: what execve takes of all */
    WORKLOAD_LABEL_MAX = 256,    /* bytes with NUL of a label's key, and of its value */
    WORKLOAD_UNSET = -1,         /* "not said", in the numbers of a spec whose 0 means something */
    WORKLOAD_TEXT_MAX = 192,     /* a sentence in a status */
    WORKLOAD_ATTEMPTS_KEPT = 16, /* older attempts of one workload are only counted */
    DEVICE_UUID_MAX = 48,
    DEVICE_MODEL_MAX = 64,
    NODE_NAME_MAX = 64,
    USER_NAME_MAX = 64,
};
/* In place of a uid: an account that is known by its name alone, to be looked up where it runs. */
#define UID_BY_NAME              UINT32_MAX
#define WORKLOAD_QUOTA_BYTES_MAX (UINT64_C(1) << 50)
#define WORKLOAD_QUOTA_BYTES_MIN (UINT64_C(1) << 20)   /* of one that is given to a new one */
#define WORKLOAD_TIME_MS_MAX     INT64_C(315360000000) /* ten years: no time in a spec is longer */
#define WORKLOAD_BATCH_MAX       INT64_C(1000000000)

enum workload_kind { WORKLOAD_TASK, WORKLOAD_SERVICE, WORKLOAD_KIND_END };

/* queued → placed → starting → running → stopping → one of the terminal three; a task may go
 * running → suspending → suspended → resuming → running in between. Their numbers are stored: a new
 * one goes to the end. */
enum workload_state {
    WORKLOAD_QUEUED,   /* no attempt is open */
    WORKLOAD_PLACED,   /* an attempt with devices is stored, its node not yet heard of it */
    WORKLOAD_STARTING, /* its supervisor lives; the process is not there (or not ready) yet */
    WORKLOAD_RUNNING,
    WORKLOAD_STOPPING,  /* told to end */
    WORKLOAD_SUSPENDED, /* it lives, and has nothing on its devices */
    WORKLOAD_SUCCEEDED,
    WORKLOAD_FAILED,
    WORKLOAD_CANCELLED,
    WORKLOAD_SUSPENDING, /* its device memory goes to the host's */
    WORKLOAD_RESUMING,   /* and comes back */
    WORKLOAD_STATE_END
};

/* Why a workload failed. */
enum failure_reason {
    FAILURE_NONE,
    FAILURE_EXIT,       /* exit code other than 0 */
    FAILURE_SIGNAL,     /* ended by a signal */
    FAILURE_START,      /* could not be started: no such command, directory, user */
    FAILURE_TIMEOUT,    /* its time limit */
    FAILURE_DEPENDENCY, /* what it waited for did not succeed */
    FAILURE_FAULT,      /* a GPU fault of its own */
    FAILURE_END
};

enum on_node_lost { ON_NODE_LOST_REQUEUE, ON_NODE_LOST_WAIT, ON_NODE_LOST_END };
enum protection { PROTECTION_ON, PROTECTION_OFF, PROTECTION_END };
enum ready_kind { READY_STARTED, READY_COMMAND, READY_PORT, READY_CLIENT, READY_END };

/* Names as users write them: "task", "queued", "exit", … */
DECLARE_NAMES(enum workload_kind, workload_kind);
DECLARE_NAMES(enum workload_state, workload_state);
DECLARE_NAMES(enum failure_reason, failure_reason);
DECLARE_NAMES(enum on_node_lost, on_node_lost);
DECLARE_NAMES(enum ready_kind, ready_kind);
DECLARE_NAMES(enum protection, protection);
static inline bool workload_state_is_terminal(enum workload_state state)
{
    return state >= WORKLOAD_SUCCEEDED && state <= WORKLOAD_CANCELLED;
}

struct words {
    size_t count;
    const char **items; /* NULL after the last: fit for execve */
};

struct pair {
    const char *key, *value;
};

struct pairs {
    size_t count;
    struct pair *items; /* sorted by key, keys unique */
};

/* The value of key, or NULL. */
const char *pairs_get(const struct pairs *pairs, const char *key);
/* Every pair of `wanted` is in `have`. */
bool pairs_contain(const struct pairs *have, const struct pairs *wanted);
/* Puts pairs in order. -ERR_INVALID names a key that is there twice. */
int pairs_sort(struct error *e, struct pairs *pairs);
/* Adds one, or replaces the value of its key. The array is made anew in the arena, key and value
 * are copied into it: for a few flags, not for building large sets. -ERR_NO_MEMORY. */
int pairs_set(struct arena *arena, struct pairs *pairs, const char *key, const char *value);

/* "after": start once another workload has ended (or, `succeeded`, ended well). */
struct after {
    const char *name; /* as written, a name or an id */
    bool succeeded;   /* the default; false: ended in any way */
};

/* The same once its name was looked up. */
struct after_id {
    uint64_t workload;
    bool succeeded;
};

/* The part of a spec that placing and ending a workload depend on; kept in memory by the cluster.
 */
struct workload_needs {
    enum workload_kind kind;
    int devices;           /* all on one node, all or nothing; 0: runs without a GPU */
    uint64_t quota_bytes;  /* device memory a device; 0: not said, the whole device is taken */
    int share_min_percent; /* guaranteed */
    int share_max_percent; /* cap */
    int priority;          /* larger goes first */
    int retries;           /* own failures that are forgiven */
    int64_t grace_ms;      /* between SIGTERM and SIGKILL */
    int64_t time_limit_ms; /* of one attempt; 0: none */
    enum on_node_lost on_node_lost;
    char model[DEVICE_MODEL_MAX]; /* device model wanted, or "" */
    bool suspect; /* never of a spec: it may have caused a fault, and shares its fate with nobody */
    bool wary;    /* nor this: it could not be started, and is tried where no start failed */
};

struct workload_spec {
    struct workload_needs needs;
    const char *name;     /* never NULL after validation: made from the command if not given */
    struct words command; /* at least one word */
    struct words resume;  /* run instead of command after an attempt that ran, if given */
    struct pairs environment;
    const char *directory;    /* absolute */
    const char *user;         /* account it runs as; NULL: the submitter's */
    struct pairs node_labels; /* a node must have them */
    struct pairs labels;
    int64_t batch_reference, batch_min, batch_max, batch_step; /* 0: not said */
    double slo_percentile, slo_latency_ms;                     /* 0: none */
    double expected_samples;
    int64_t expected_duration_ms;
    enum protection protection; /* off: nothing is put between it and the driver */
    enum ready_kind ready;
    struct words ready_command;
    int ready_port;
    size_t after_count;
    struct after *after;
    int array_count;  /* 0: not an array */
    bool wants_stdin; /* `run` forwards its standard input */
};

/* Whose the end of an attempt is. */
enum attempt_verdict {
    VERDICT_OWN,     /* the workload's: what its exit says counts */
    VERDICT_MOVED,   /* its device ended it: it is queued again, and nothing is counted */
    VERDICT_SUSPECT, /* a fault ended all that shared the device, and it may have been its */
    VERDICT_GUILTY,  /* it faulted alone */
    VERDICT_END
};
DECLARE_NAMES(enum attempt_verdict, attempt_verdict);

/* What has become of one run. */
struct attempt_outcome {
#define OUTCOME(type, member, array, ...) type member array;
#include "model/outcome.def"
};

/* One run of a workload. */
struct attempt {
    int number; /* 1, 2, … */
    char node[NODE_NAME_MAX];
    int device_count;
    char devices[WORKLOAD_DEVICES_MAX][DEVICE_UUID_MAX];
    int64_t placed_wall_ms;
    union {
        struct attempt_outcome outcome;
        struct {
#define OUTCOME(type, member, array, ...) type member array;
#include "model/outcome.def"
        };
    };
    bool lost; /* its node was lost: a service's copy may still live */
};

/* Why an open attempt was told to stop, and so what follows when it has ended. */
enum stop_cause {
    STOP_NONE,
    STOP_CANCEL,  /* the user's word: cancelled */
    STOP_REQUEUE, /* the user's word, eviction or a drained node: a new attempt, not counted */
    STOP_CAUSE_END
};
DECLARE_NAMES(enum stop_cause, stop_cause);

/* Why a task is off its devices, or about to be, and so when it comes back. */
enum hold {
    HOLD_NONE,
    HOLD_USER, /* a user's word: until another */
    HOLD_ROOM, /* it was evicted, or a user has resumed it: as soon as its own devices have room */
    HOLD_END
};
DECLARE_NAMES(enum hold, hold);

/* What has become of a workload. Stored at every change; what the API shows. */
struct workload_status {
    enum workload_state state;
    enum failure_reason failure;  /* of a failed one */
    enum stop_cause stop;         /* why it is stopping */
    char text[WORKLOAD_TEXT_MAX]; /* why it waits, failed or was cancelled; "" when there is nothing
                                     to say */
    int exit_code;                /* of the last attempt; -1: not known */
    int signal;
    int attempts_total; /* ever opened; the open or last one has this number */
    int failures;       /* own failures so far, against `retries` */
    int faults;         /* GPU faults of its own so far */
    bool suspect;       /* a fault may have been its: it is started where its faults are its own */
    enum hold hold;     /* of an open attempt, as the next two */
    bool off_device;    /* suspended: its devices' memory and shares are others' */
    int turn;           /* number of the last order to suspend or to resume it; grows for ever */
    int64_t backoff_ms; /* a service's last restart delay */
    int64_t submitted_wall_ms, started_wall_ms, ended_wall_ms;
    int attempts_kept;        /* in `attempts`, oldest first */
    struct attempt *attempts; /* owned by whoever owns the status */
};

/* The newest attempt, or NULL when there was none. */
struct attempt *workload_status_attempt(const struct workload_status *status);
/* Whether its command ran in one before that, as far as anybody knows: what was lost with its
 * node may have. */
bool workload_status_ran_before(const struct workload_status *status);

/* A spec in which nothing is said: what flags and documents are put into. */
void workload_spec_init(struct workload_spec *spec);
/*
 * Checks a spec from any source and completes its defaults (name from the command, share 0..100,
 * one device, grace 10 s). New strings come from `arena`. -ERR_INVALID names the field.
 */
int workload_spec_validate(struct error *e, struct arena *arena, struct workload_spec *spec);
/* What a valid spec may hold because it is stored, and nobody may ask for any more. */
int workload_spec_check_new(struct error *e, const struct workload_spec *spec);
/* Letters, digits, '.', '_', '-' (and, for an array's element, "[i]"); neither all digits
 * nor with '.' or '-' in front. */
bool workload_name_is_valid(const char *name);
