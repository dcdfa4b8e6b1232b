/*
 * The registrar of the node: processes of attempts register here (abi/register.h). Each process
 * gets the limits of its attempt and a slot in the attempt's ledger. Tasks are shown the services
 * beside them. The registrar cleans up after processes that have ended.
 *
 * A session is an attempt with devices. A session has one socket, DIRECTORY/W.A, which only its
 * user can reach, and the registrar accepts only processes of the attempt there. A member is such a
 * process. Values that a member writes are claims: a member can deceive its own attempt, and no
 * other.
 *
 * A new agent finds the ledger of an attempt in the attempt's supervisor. The ledger names the
 * process of each slot, so that the agent knows the members before they register again. Members
 * detect the loss of the earlier agent and register again; until then they keep their limits.
 *
 * Everything runs on the loop's thread.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "abi/page.h"
#include "base/error.h"
#include "base/log.h"
#include "device/share.h"
#include "model/node.h"
#include "node/device/gpu.h"
#include "node/attempt/terms.h"

struct event_base;
struct registrar;
struct session;

enum {
    REGISTRAR_MEMBERS_MAX = 8192, /* members of all attempts of the node */
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
    /* Called when a process with device memory ended, so that the caller soon measures whether the
     * memory is free. */
    void (*on_death)(void *arg);
    void *arg;
};

int registrar_new(struct error *e, const struct registrar_options *options, struct registrar **ret);
/* Frees the registrar; no session may be left. */
void registrar_free(struct registrar *r);
/* Prepares for the end of this agent: sessions live on, and members keep their limits without any
 * further message. */
void registrar_leave(struct registrar *r);

/* Sets the boot-clock time until which tasks may launch without contact to control, and the time
 * after which they then end; 0: the default. */
void registrar_extend_lease(struct registrar *r, uint64_t deadline_ms, uint32_t fence_ms);
/* Limits tasks on this device to the smallest window and to this part of its time; 0: to their
 * granted share. */
void registrar_throttle(struct registrar *r, const char *uuid, uint32_t rate_permille);
/* Welcomes no process on this device until registrar_go_on(), or for a second at most. A process
 * that joins MPS while another client is terminated could be harmed. Processes that say hello
 * meanwhile wait. */
void registrar_hold(struct registrar *r, const char *uuid);
void registrar_go_on(struct registrar *r, const char *uuid);
/* Sets the division of this device between its tasks and services. */
void registrar_divide(struct registrar *r, const char *uuid, const struct share_division *division);
/* Evaluates a sample of the devices: memory that processes hold beyond their own account, and
 * memory of ended processes that is free now. */
void registrar_measure(struct registrar *r, const struct gpu_sample *sample);
/* Returns whether the memory of an ended process is not known to be free yet. */
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
 * process may join, and samples of the devices do not concern the attempt. NULL is allowed. */
void session_rest(struct session *s, bool rests);
/* Lists the session's processes; returns their number, at most `max`. */
size_t session_pids(const struct session *s, pid_t *ret_pids, size_t max);
/* Returns whether this process has registered. An ended process counts until its memory is known to
 * be free. */
bool session_knows(const struct session *s, pid_t pid);
/* Takes the processes that are draining before their exit and whose work made no progress for that
 * long; each is returned once. Returns their number, at most `max`. To be called often, because the
 * time counts from the first call that sees a process drain. */
size_t session_take_stuck(struct session *s, int64_t for_ms, pid_t *ret_pids, size_t max);
/* Returns whether a process registered recently and is about to use the device, or is making a
 * context. */
bool session_joins(const struct session *s);
/* Returns the part of the time since the last call for which the session kept its devices busy, by
 * its own marks; -1: unknown. */
double session_busy_fraction(struct session *s, int64_t now_us);
/* Turns the gate off for a task whose launches are too long for it. Returns whether the task is
 * such a task. */
bool session_look_for_coarse(struct session *s);
/* Returns the ledger, which the supervisor keeps open; -1: without protection. */
int session_ledger_fd(const struct session *s);
/* Writes the path of the socket of a session with this name. Returns false if the path does not fit
 * into a socket's address. */
bool registrar_socket_path(const char *directory, const char *name, char *path, size_t size);

/* Sums over the session's processes, since the attempt or this agent began. */
struct session_usage {
    size_t members;
    uint64_t counted_bytes;  /* device memory by the processes' own account, with contexts */
    uint64_t peak_bytes;     /* largest counted_bytes seen */
    uint64_t overhead_bytes; /* measured memory beyond counted_bytes: contexts, code */
    uint64_t counters[PAGE_COUNTERS_MAX];
    enum limits_mode mode; /* mode of the first device */
};
void session_measure(struct session *s, struct session_usage *ret);
/* Returns whether the driver lists the memory of processes on the session's devices. Without a
 * list, contexts count with their assumed memory. */
bool session_is_listed(const struct session *s, const struct gpu_sample *sample);
/* Lists the limits in force and their reasons. Returns their number; 0: without protection. */
int session_limits(const struct session *s, struct attempt_limit ret[USAGE_LIMITS_MAX]);
