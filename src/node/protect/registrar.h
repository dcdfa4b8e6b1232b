/*
 * Where the processes of attempts register (abi/register.h), and what follows from that: each gets
 * the limits of its attempt and a place in its ledger, tasks get to see the services beside them,
 * and a process that has ended leaves nothing behind.
 *
 * A session is an attempt with devices. It has one socket, DIRECTORY/W.A, which only its user can
 * reach, and on which only processes of the attempt are heard. A member is one of them. Whatever a
 * member writes is its own claim: it can mislead its own attempt, and nobody else.
 *
 * A new agent finds the ledger of an attempt in its supervisor, and in it who has which slot: so it
 * knows its members before they speak. They notice by themselves that the agent they knew is
 * gone, and register again; until then they keep to the limits that they have.
 *
 * On the loop's thread.
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
    REGISTRAR_MEMBERS_MAX = 8192, /* of all attempts of the node */
};

struct registrar_options {
    struct event_base *base;
    const struct log *log;
    const char *directory;  /* of the sockets, absolute */
    int directory_fd;       /* the same; stays the caller's */
    uint64_t context_bytes; /* what a context is taken to cost until it is measured; 0: as usual */
    uint32_t window_us;     /* of GPU time that a task may have outstanding beside a service */
    uint32_t linger_us;     /* that the gate stays shut after a service has become idle */
    uint32_t gate_us_max;   /* longest hold of a task for a busy service */
    /* A process ended that held device memory: somebody should look soon whether that is free. */
    void (*on_death)(void *arg);
    void *arg;
};

int registrar_new(struct error *e, const struct registrar_options *options, struct registrar **ret);
/* No session is left. */
void registrar_free(struct registrar *r);
/* This agent goes, and its sessions live on: nobody is told anything from now on, all keep what
 * they have. */
void registrar_leave(struct registrar *r);

/* Until when (boot clock) tasks may launch without a word from control, and how long after that
 * they end; 0: as usual. */
void registrar_extend_lease(struct registrar *r, uint64_t deadline_ms, uint32_t fence_ms);
/* Tasks on this device get the smallest window, and at most this part of its time; 0: as they were
 * granted. */
void registrar_throttle(struct registrar *r, const char *uuid, uint32_t rate_permille);
/* Nobody is welcomed on this device until registrar_go_on(), or a second has passed: a process that
 * joins MPS while another is taken out of it could be hurt. Processes that say hello meanwhile
 * wait. */
void registrar_hold(struct registrar *r, const char *uuid);
void registrar_go_on(struct registrar *r, const char *uuid);
/* How the tasks on this device share it with the services there. */
void registrar_divide(struct registrar *r, const char *uuid, const struct share_division *division);
/* What the devices say: what processes hold beyond their own account, and that what the dead held
 * is free. */
void registrar_measure(struct registrar *r, const struct gpu_sample *sample);
/* Somebody died, and what it held is not known to be free yet. */
bool registrar_waits(const struct registrar *r);

struct session_options {
    const char *name;          /* "W.A" */
    uid_t uid;                 /* whose processes may come */
    const struct terms *terms; /* the owner's, which outlive the session */
    int ledger_fd; /* that an agent before this one made; -1: none. The session's from now on */
    /* Is this process one of the attempt's? */
    bool (*belongs)(void *arg, pid_t pid);
    void *arg;
};

/* An attempt that may use its devices from now on. Without protection it is only known to be there.
 * */
int session_new(struct error *e, struct registrar *r, const struct session_options *options,
                struct session **ret);
/* It has ended. NULL is fine. */
void session_free(struct session *s);
/* Its owner has changed its terms. NULL is fine. */
void session_terms_changed(struct session *s);
/* Its device memory lies in the host's, or is on its way there or back: meanwhile nobody new may
 * come to its devices, and what they show says nothing of it. NULL is fine. */
void session_rest(struct session *s, bool rests);
/* Its processes; returns how many of `max`. */
size_t session_pids(const struct session *s, pid_t *ret_pids, size_t max);
/* This process of it has registered; also one that has ended, while what it held is not known to be
 * free. */
bool session_knows(const struct session *s, pid_t pid);
/* Those of its processes that drain before they end, and nothing of whose work was completed for
 * that long, each once; returns how many of `max`. To be asked often: it counts from the first time
 * it sees them do so. */
size_t session_take_stuck(struct session *s, int64_t for_ms, pid_t *ret_pids, size_t max);
/* One of its processes has registered lately and is about to use the device, or makes a context
 * there. */
bool session_joins(const struct session *s);
/* The part of the time since the last call that it kept its devices busy, by its own marks; -1: not
 * known. */
double session_busy_fraction(struct session *s, int64_t now_us);
/* A task whose launches are too long for a gate is not gated from now on. True: it is such a one.
 * */
bool session_look_for_coarse(struct session *s);
/* To be kept open by its supervisor; -1: without protection. */
int session_ledger_fd(const struct session *s);
/* Of the socket that a session of this name has. False: it does not fit into a socket's address. */
bool registrar_socket_path(const char *directory, const char *name, char *path, size_t size);

/* What its processes have counted since the attempt began, or this agent. */
struct session_usage {
    size_t members;
    uint64_t counted_bytes;  /* device memory by their own account, context and all */
    uint64_t peak_bytes;     /* the largest of that, as far as it was seen */
    uint64_t overhead_bytes; /* beyond that, measured: contexts, code */
    uint64_t counters[PAGE_COUNTERS_MAX];
    enum limits_mode mode; /* on its first device */
};
void session_measure(struct session *s, struct session_usage *ret);
/* Whether the driver says what processes hold on its devices. If not, contexts count for what they
 * are taken to cost. */
bool session_is_listed(const struct session *s, const struct gpu_sample *sample);
/* What it is held to at the moment, and why. Returns how many; 0: without protection. */
int session_limits(const struct session *s, struct attempt_limit ret[USAGE_LIMITS_MAX]);
