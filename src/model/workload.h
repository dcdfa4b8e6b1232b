/*
 * A workload: its description (spec) and its state (status).
 *
 * Plain data and validation. Pointers inside a spec belong to the arena in which the spec was
 * built. A spec never changes after validation. Parsers and writers live in wire/.
 *
 * This folder defines workload, attempt, device and node as plain data. Files of the folder model
 * may include base.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/error.h"
#include "model/names.h"

enum {
    WORKLOAD_NAME_MAX = 128,     /* bytes with NUL, including an array's "[i]" */
    WORKLOAD_COMMAND_MAX = 4096, /* words */
    WORKLOAD_ENVIRONMENT_MAX = 4096,
    WORKLOAD_LABELS_MAX = 64,
    WORKLOAD_AFTER_MAX = 256,
    WORKLOAD_ARRAY_MAX = 10000,
    WORKLOAD_DEVICES_MAX = 16,
    WORKLOAD_RETRIES_MAX = 1000,
    WORKLOAD_PRIORITY_MAX = 1000, /* the least is -1000 */
    WORKLOAD_KEY_MAX = 128,       /* a client's idempotency key */
    /* Bytes with NUL of one word of a command or one KEY=VALUE: execve's limit for a string. */
    WORKLOAD_WORD_MAX = 128 << 10,
    /* Bytes of a command and its environment together: execve's limit for the total. */
    WORKLOAD_START_MAX = 2 << 20,
    WORKLOAD_LABEL_MAX = 256,  /* bytes with NUL of a label's key, and of its value */
    WORKLOAD_METRIC_MAX = 128, /* bytes with NUL of a metric's name */
    WORKLOAD_UNSET = -1,       /* "not set", for numbers of a spec in which 0 has a meaning */
    WORKLOAD_TEXT_MAX = 192,   /* a sentence in a status */
    /* Attempts kept for each workload; older attempts are only counted. */
    WORKLOAD_ATTEMPTS_KEPT = 16,
    DEVICE_UUID_MAX = 48,
    DEVICE_MODEL_MAX = 64,
    NODE_NAME_MAX = 64,
    USER_NAME_MAX = 64,
};
/* Stands for the uid of an account that is known by name only; the node resolves the name. */
#define UID_BY_NAME              UINT32_MAX
#define WORKLOAD_QUOTA_BYTES_MAX (UINT64_C(1) << 50)
#define WORKLOAD_QUOTA_BYTES_MIN (UINT64_C(1) << 20)   /* for new submissions */
#define WORKLOAD_TIME_MS_MAX     INT64_C(315360000000) /* ten years; limit for any time of a spec */
#define WORKLOAD_BATCH_MAX       INT64_C(1000000000)

enum workload_kind { WORKLOAD_TASK, WORKLOAD_SERVICE, WORKLOAD_KIND_END };

/* queued → placed → starting → running → stopping → succeeded, failed or cancelled. A task may also
 * go running → suspending → suspended → resuming → running. The values are stored, so a new state
 * is appended at the end. */
enum workload_state {
    WORKLOAD_QUEUED,   /* no attempt is open */
    WORKLOAD_PLACED,   /* an attempt is stored with its devices; the node has not reported yet */
    WORKLOAD_STARTING, /* the supervisor runs; the command has not started, or is not ready */
    WORKLOAD_RUNNING,
    WORKLOAD_STOPPING,  /* ordered to end */
    WORKLOAD_SUSPENDED, /* alive, without memory on its devices */
    WORKLOAD_SUCCEEDED,
    WORKLOAD_FAILED,
    WORKLOAD_CANCELLED,
    WORKLOAD_SUSPENDING, /* device memory is moving to the host */
    WORKLOAD_RESUMING,   /* device memory is moving back */
    WORKLOAD_STATE_END
};

/* Reason why a workload failed. */
enum failure_reason {
    FAILURE_NONE,
    FAILURE_EXIT,       /* exit code other than 0 */
    FAILURE_SIGNAL,     /* ended by a signal */
    FAILURE_START,      /* no such command, directory or user */
    FAILURE_TIMEOUT,    /* time limit exceeded */
    FAILURE_DEPENDENCY, /* a workload in `after` did not succeed */
    FAILURE_FAULT,      /* GPU fault caused by the workload itself */
    FAILURE_END
};

enum on_node_lost { ON_NODE_LOST_REQUEUE, ON_NODE_LOST_WAIT, ON_NODE_LOST_END };
enum protection { PROTECTION_ON, PROTECTION_OFF, PROTECTION_END };
enum ready_kind { READY_STARTED, READY_COMMAND, READY_PORT, READY_CLIENT, READY_END };
enum proxy_kind { PROXY_OFF, PROXY_HTTP, PROXY_END };
/* Servers whose metrics page has latencies; AUTO: any of them, if the page has any. */
enum latency_source {
    LATENCY_SOURCE_NONE,
    LATENCY_SOURCE_AUTO,
    LATENCY_SOURCE_VLLM,
    LATENCY_SOURCE_SGLANG,
    LATENCY_SOURCE_TRITON,
    LATENCY_SOURCE_PROMETHEUS,
    LATENCY_SOURCE_END
};

/* Names as users write them: "task", "queued", "exit", … */
DECLARE_NAMES(enum workload_kind, workload_kind);
DECLARE_NAMES(enum workload_state, workload_state);
DECLARE_NAMES(enum failure_reason, failure_reason);
DECLARE_NAMES(enum on_node_lost, on_node_lost);
DECLARE_NAMES(enum ready_kind, ready_kind);
DECLARE_NAMES(enum proxy_kind, proxy_kind);
DECLARE_NAMES(enum latency_source, latency_source);
DECLARE_NAMES(enum protection, protection);
static inline bool workload_state_is_terminal(enum workload_state state)
{
    return state >= WORKLOAD_SUCCEEDED && state <= WORKLOAD_CANCELLED;
}

struct words {
    size_t count;
    const char **items; /* NULL-terminated, as execve expects */
};

struct pair {
    const char *key, *value;
};

struct pairs {
    size_t count;
    struct pair *items; /* sorted by key, keys unique */
};

/* Returns the value of the key, or NULL. */
const char *pairs_get(const struct pairs *pairs, const char *key);
/* Returns whether `have` contains every pair of `wanted`. */
bool pairs_contain(const struct pairs *have, const struct pairs *wanted);
/* Sorts the pairs by key. -ERR_INVALID names a duplicate key. */
int pairs_sort(struct error *e, struct pairs *pairs);
/* Adds a pair, or replaces the value of its key. Copies the array, key and value into the arena, so
 * the call suits a few flags, not large sets. Returns 0 or -ERR_NO_MEMORY. */
int pairs_set(struct arena *arena, struct pairs *pairs, const char *key, const char *value);

/* "after": start after another workload has ended or, with `succeeded`, has succeeded. */
struct after {
    const char *name; /* name or id, as written */
    bool succeeded;   /* default; false: any end suffices */
};

/* A struct after with its name resolved. */
struct after_id {
    uint64_t workload;
    bool succeeded;
};

/* The part of a spec that is needed to place and end a workload; the cluster keeps this part in
 * memory. */
struct workload_needs {
    enum workload_kind kind;
    int devices;           /* all on one node, all or none; 0: runs without a GPU */
    uint64_t quota_bytes;  /* device memory on each device; 0: unset, the whole device */
    int share_min_percent; /* guaranteed part of the SMs */
    int share_max_percent; /* largest part of the SMs */
    int priority;          /* workloads with larger values are placed first */
    int retries;           /* number of the workload's own failures that are retried */
    int64_t grace_ms;      /* time between SIGTERM and SIGKILL */
    int64_t time_limit_ms; /* longest duration of an attempt; 0: no limit */
    enum on_node_lost on_node_lost;
    /* A task whose device memory may move to host memory while a service needs the room. */
    bool swappable;
    char model[DEVICE_MODEL_MAX]; /* required device model, or "" */
    /* Never set in a spec: the workload may have caused a fault and must not share a device. */
    bool suspect;
    /* Never set in a spec: attempts failed to start, so the workload avoids nodes with failed
     * starts. */
    bool wary;
};

struct workload_spec {
    struct workload_needs needs;
    const char *name;     /* never NULL after validation; derived from the command if not set */
    struct words command; /* at least one word */
    struct words resume;  /* optional; replaces command once an attempt has run */
    struct pairs environment;
    const char *directory;    /* absolute */
    const char *user;         /* account that runs the command; NULL: the submitter's account */
    struct pairs node_labels; /* labels that a node must have */
    struct pairs labels;
    int64_t batch_reference, batch_min, batch_max, batch_step; /* 0: not set */
    double slo_percentile, slo_latency_ms;                     /* 0: none */
    /* targets at the same percentile: time to the first byte of an answer, and time between two
     * pieces of a streamed answer; 0: none */
    double slo_first_ms, slo_between_ms;
    double expected_samples;
    int64_t expected_duration_ms;
    enum protection protection; /* off: no shim between the program and the driver */
    enum ready_kind ready;
    struct words ready_command;
    int ready_port;
    int port;              /* on which clients reach a service; 0: unknown */
    int backend_port;      /* with a proxy: port of the program; 0: the supervisor chooses a port */
    enum proxy_kind proxy; /* of a service */
    /* Server whose metrics page tells the latencies of a service, on the port latency_port. */
    enum latency_source latency_from;
    int latency_port;           /* 0: port */
    const char *latency_metric; /* name of the histogram for LATENCY_SOURCE_PROMETHEUS */
    size_t after_count;
    struct after *after;
    int array_count;  /* 0: not an array */
    bool wants_stdin; /* `run` forwards its standard input */
};

/* Cause of an attempt's end; determines whether the workload ends, fails or is requeued. */
enum attempt_verdict {
    VERDICT_OWN,     /* the workload itself; its exit status decides */
    VERDICT_MOVED,   /* the device; the workload is requeued, and no failure is counted */
    VERDICT_SUSPECT, /* a fault that ended every attempt on the device, possibly of this workload */
    VERDICT_GUILTY,  /* a fault while the workload had the device to itself */
    VERDICT_END
};
DECLARE_NAMES(enum attempt_verdict, attempt_verdict);

/* Result of one attempt. */
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
    bool lost; /* the node was lost; the process of a service may still be alive */
};

/* Reason of an order to stop an open attempt; determines what gpumux does with the workload once
 * the attempt has ended. */
enum stop_cause {
    STOP_NONE,
    STOP_CANCEL,  /* a user's cancellation */
    STOP_REQUEUE, /* requeue, eviction or drain; the next attempt follows, no failure is counted */
    STOP_CAUSE_END
};
DECLARE_NAMES(enum stop_cause, stop_cause);

/* Reason why a task is suspended or about to be suspended; determines when the task resumes. */
enum hold {
    HOLD_NONE,
    HOLD_USER, /* suspended by a user, until a user resumes the task */
    HOLD_ROOM, /* evicted, or resumed by a user: waits until its devices have room */
    HOLD_END
};
DECLARE_NAMES(enum hold, hold);

/* Largest batch size that can be advised. */
#define ADVICE_BATCH_MAX INT64_C(1000000000000)

/* Advice to the programs of a workload, numbered like an order. */
struct advice {
    int sequence;    /* number of the newest advice, which never decreases; 0: none */
    int64_t batch;   /* batch size to use; 0: none */
    int checkpoints; /* number of checkpoints requested of the open attempt */
};

/* State of a workload. Stored at every change and shown by the API. */
struct workload_status {
    enum workload_state state;
    enum failure_reason failure; /* reason, if the workload failed */
    enum stop_cause stop;        /* reason of the last order to stop */
    /* Reason why the workload waits, failed or was cancelled; "": none. */
    char text[WORKLOAD_TEXT_MAX];
    int exit_code; /* of the last attempt; -1: unknown */
    int signal;
    int attempts_total; /* attempts opened so far; the newest attempt has this number */
    int failures;       /* own failures so far, counted against `retries` */
    int faults;         /* own GPU faults so far */
    bool suspect;       /* may have caused a fault; runs without MPS until its probation ends */
    enum hold hold;     /* hold, off_device and turn describe the open attempt */
    bool off_device;    /* suspended; its quota and share on the devices are free for others */
    int turn;           /* number of the last order to suspend or resume; never decreases */
    struct advice advice;
    int64_t backoff_ms; /* delay before the last restart of a service */
    int64_t submitted_wall_ms, started_wall_ms, ended_wall_ms;
    int attempts_kept;        /* length of `attempts`, oldest first */
    struct attempt *attempts; /* owned by the owner of the status */
};

/* Returns the newest attempt, or NULL if there is none. */
struct attempt *workload_status_attempt(const struct workload_status *status);
/* Returns whether the command ran, or may have run, before the newest attempt. An attempt that was
 * lost with its node counts as run. */
bool workload_status_ran_before(const struct workload_status *status);

/* Initializes a spec with no field set, for flags and documents to fill. */
void workload_spec_init(struct workload_spec *spec);
/*
 * Validates a spec from any source and fills in defaults (name from the command, share 0..100, one
 * device, grace 10 s). New strings come from `arena`. -ERR_INVALID names the field.
 */
int workload_spec_validate(struct error *e, struct arena *arena, struct workload_spec *spec);
/* Checks limits that apply to new submissions, but not to stored specs, which may be older than the
 * limits. */
int workload_spec_check_new(struct error *e, const struct workload_spec *spec);
/* Returns whether the name consists of letters, digits, '.', '_' and '-' (and "[i]" in an array's
 * element), is not all digits, and does not begin with '.' or '-'. */
bool workload_name_is_valid(const char *name);
