/*
 * The registrar of the node: processes of attempts register here (abi/register.h). Each process
 * gets the limits of its attempt and a slot in the attempt's ledger. The registrar passes the
 * status pages of services to the tasks beside the services, and cleans up after processes that
 * have ended.
 *
 * A session is an attempt with devices. A session has one socket, DIRECTORY/W.A. Only the attempt's
 * user can reach the socket, and the registrar accepts only processes of the attempt. A member is a
 * registered process. Values that a member writes are claims: a false claim harms only the member's
 * own attempt.
 *
 * A new agent gets the ledger of an attempt from the attempt's supervisor. The ledger names the
 * process of each slot, so that the agent knows the members before they register again. Members
 * detect the loss of the earlier agent, keep their limits, and register again.
 *
 * Everything runs on the loop's thread.
 *
 * This folder contains the registration of processes, and the pages shared with processes. Files of
 * the folder node/protect may include base, model, device, attempt, abi, node, node/supervisor,
 * node/mps, node/device, node/attempt.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "abi/page.h"
#include "base/error.h"
#include "base/log.h"
#include "device/controller.h"
#include "device/share.h"
#include "model/node.h"
#include "node/device/gpu.h"
#include "node/attempt/terms.h"

struct event_base;
struct registrar;
struct session;

enum {
    REGISTRAR_MEMBERS_MAX = 8192, /* members of all attempts of the node */
    REGISTRAR_PAUSE_MS = 1000,
};

struct registrar_options {
    struct event_base *base;
    const struct log *log;
    const char *directory;  /* absolute path of the sockets' directory */
    int directory_fd;       /* descriptor of that directory; borrowed from the caller */
    uint64_t context_bytes; /* assumed memory of a context until it is measured; 0: the default */
    uint32_t window_us;     /* GPU time that a task may have outstanding beside a service */
    uint32_t linger_us;     /* time for which the gate stays shut after a service became idle */
    uint32_t gate_us_max;   /* longest wait of a launch for a busy service */
    uint32_t room_wait_ms;  /* longest wait of a service's allocation for memory of tasks */
    /* Called when a process with device memory ended, so that the caller soon measures whether the
     * memory is free. */
    void (*on_death)(void *arg);
    void *arg;
};

int registrar_new(struct error *e, const struct registrar_options *options, struct registrar **ret);
/* Frees the registrar, after all sessions were freed. */
void registrar_free(struct registrar *r);
/* Prepares for the end of this agent: sessions stay, and members keep their limits without any
 * further message. */
void registrar_leave(struct registrar *r);

/* Sets the boot-clock time until which tasks may launch without contact to control, and the time
 * from the deadline until the tasks end; fence_ms 0: the default. */
void registrar_extend_lease(struct registrar *r, uint64_t deadline_ms, uint32_t fence_ms);
/* Limits tasks on this device to the smallest window and to rate_permille of the device's time; 0:
 * ends the throttling, and the granted rate applies again. */
void registrar_throttle(struct registrar *r, const char *uuid, uint32_t rate_permille);
/* Admits no process on this device until registrar_go_on(), but for at most one second. A process
 * that joins MPS while the agent terminates another client could be harmed. A process that sends
 * HELLO during this time waits. */
void registrar_hold(struct registrar *r, const char *uuid);
void registrar_go_on(struct registrar *r, const char *uuid);
/* Sets the division of this device between its tasks and services. */
void registrar_divide(struct registrar *r, const char *uuid, const struct share_division *division);
/* Sets the limits of the tasks beside services on this device; NULL: the fixed gate of the options.
 * A pause lasts REGISTRAR_PAUSE_MS from each call. */
void registrar_guide(struct registrar *r, const char *uuid, const struct controller_limits *limits);
/* Evaluates a sample of the devices: memory of processes that the ledger does not count, and memory
 * of ended processes that the device has freed. */
void registrar_measure(struct registrar *r, const struct gpu_sample *sample);
/* Returns whether memory of an ended process may still be allocated. */
bool registrar_waits(const struct registrar *r);

struct session_options {
    const char *name;          /* "W.A" */
    uid_t uid;                 /* uid of the processes that may register */
    const struct terms *terms; /* borrowed from the caller, valid longer than the session */
    int ledger_fd; /* ledger that an earlier agent made; -1: none. Owned by the session */
    /* Returns whether the process belongs to the attempt. */
    bool (*belongs)(void *arg, pid_t pid);
    void *arg;
};

/* Makes a session for an attempt that may use its devices from now on. Without protection the
 * session only records the attempt. */
int session_new(struct error *e, struct registrar *r, const struct session_options *options,
                struct session **ret);
/* Frees the session of an attempt that has ended. NULL is allowed. */
void session_free(struct session *s);
/* Applies changed terms. NULL is allowed. */
void session_terms_changed(struct session *s);
/* Sets whether the attempt's device memory is in the host's memory or being moved. Meanwhile no
 * process may register, and samples of the devices are ignored for the attempt. NULL is allowed. */
void session_rest(struct session *s, bool rests);
/* Lists the session's processes; returns their number, at most `max`. */
size_t session_pids(const struct session *s, pid_t *ret_pids, size_t max);
/* Returns whether this process has registered. An ended process counts as registered until the
 * device has freed its memory. */
bool session_knows(const struct session *s, pid_t pid);
/* Lists the processes that are draining before their exit and whose work has made no progress for
 * for_ms; each process is listed once. Returns their number, at most `max`. To be called often,
 * because the time counts from the first call that finds the process draining. */
size_t session_take_stuck(struct session *s, int64_t for_ms, pid_t *ret_pids, size_t max);
/* Returns whether a process is making a context, or registered recently and has not made a context
 * yet. */
bool session_joins(const struct session *s);
/* Returns the part of the time since the last call for which the session kept its devices busy,
 * according to its marks; -1: unknown. */
double session_busy_fraction(struct session *s, int64_t now_us);
/* Turns the gate off if the launches of this task are too long for a gate. Returns whether the gate
 * is off for that reason. */
bool session_look_for_coarse(struct session *s);
/* Writes the newest advice into the limits page. NULL is allowed. */
void session_advise(struct session *s, const struct advice *advice);
/* Returns the newest advice that a process says it has followed, and the batch size that this
 * process used last. Returns false if there is none. NULL is allowed. */
bool session_followed(const struct session *s, uint64_t *ret_sequence, uint64_t *ret_batch);
/* Returns the ledger, which the supervisor keeps open; -1: without protection. */
int session_ledger_fd(const struct session *s);
/* Writes the path of the socket of a session with this name. Returns false if the path does not fit
 * into a socket's address. */
bool registrar_socket_path(const char *directory, const char *name, char *path, size_t size);

/* Sums over the session's live processes since they started; claims of the processes. */
struct session_activity {
    bool reports_requests; /* a process shows the deadlines of its requests */
    uint64_t answered, late;
    struct controller_bursts alone[CONTROLLER_KINDS], beside[CONTROLLER_KINDS];
    uint64_t launches;
};
void session_activity(const struct session *s, struct session_activity *ret);
/* Tells the processes of a service how the service shares the device, from its point of view. */
void session_set_company(struct session *s, const char *uuid, enum limits_company company);

/* Sums over the session's live processes. `counters` also includes the processes that ended while
 * this agent ran. */
struct session_usage {
    size_t members;
    uint64_t counted_bytes;  /* device memory that the processes counted, with contexts */
    uint64_t peak_bytes;     /* largest counted_bytes seen */
    uint64_t overhead_bytes; /* measured memory beyond counted_bytes: contexts, code */
    uint64_t counters[PAGE_COUNTERS_MAX];
    enum limits_mode mode; /* mode of the first device */
};
void session_measure(struct session *s, struct session_usage *ret);

/* The memory of a session on one device, as its processes claim it. */
struct session_room {
    uint64_t held_bytes;    /* counted device memory, also while it is in host memory */
    uint64_t movable_bytes; /* part that can move to host memory */
    uint64_t away_bytes;    /* part that is in host memory */
    uint64_t lacking_bytes; /* memory that allocations lack, which wait for it */
    uint32_t failures;      /* moves that failed */
    int holders;            /* processes with memory */
};
/* `device` is an index of the session's terms. */
void session_read_room(const struct session *s, int device, struct session_room *ret);
/* Orders the processes to keep so many bytes in host memory. */
void session_order_away(struct session *s, int device, uint64_t bytes);
/* Shows the processes of a service how much memory tasks can free. has_answer: waiting allocations
 * are to be repeated. */
void session_show_room(struct session *s, int device, uint64_t bytes, bool has_answer);
/* Returns whether the driver lists the memory of processes on the session's devices. Without a
 * list, contexts count with their assumed memory. */
bool session_is_listed(const struct session *s, const struct gpu_sample *sample);
/* Lists the limits in force and their reasons. Returns their number; 0: without protection. */
int session_limits(const struct session *s, struct attempt_limit ret[USAGE_LIMITS_MAX]);
