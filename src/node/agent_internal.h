/*
 * The parts of the agent, and how they hang together:
 *
 *   link.c       the connection to control: hello, welcome, lines both ways
 *   dial.c       making that connection, on this machine or over the network
 *   renewal.c    a certificate that is about to expire
 *   orders.c     what control asks for: grant, stop, settle, read, signal, input
 *   run.c        one attempt on this node, as its directory and its processes show it
 *   act.c        its machine (attempt/attempt.h): events in, actions out
 *   launch.c     starting a supervisor
 *   adopt.c      finding what an agent before us left
 *   mailbox.c    commands to one supervisor, and its answers
 *   reader.c     requests for output, waiting ones included
 *   usage.c      what attempts use
 *   holders.c    who holds the devices' memory
 *   monitor.c    how the devices are, and what follows for attempts (device/device.h)
 *   suspend.c    moving an attempt's device memory to the host's, and back
 *   divide.c     how services and tasks share a device (device/share.h)
 *   protect.c    what keeps attempts from hurting each other: registrar.h
 *
 * Everything here runs on the loop's thread.
 */
#pragma once
#include <event2/util.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "attempt/attempt.h"
#include "base/list.h"
#include "base/log.h"
#include "base/rng.h"
#include "node/attempt/account.h"
#include "node/attempt/own_record.h"
#include "node/agent.h"
#include "node/supervisor/attempt_file.h"
#include "node/supervisor/control_socket.h"
#include "node/link/credentials.h"
#include "node/device/divide.h"
#include "node/lease.h"
#include "node/device/monitor.h"
#include "node/mps/mps.h"
#include "node/mps/mps_guard.h"
#include "node/reaper.h"
#include "node/protect/registrar.h"
#include "node/device/sampler.h"
#include "node/checkpoint/suspend.h"
#include "wire/nodemsg.h"

struct event;
struct bufferevent;
struct dial;

enum {
    AGENT_RUNS_MAX = NODEMSG_ATTEMPTS_MAX,
    AGENT_READERS_MAX = 1024,
    AGENT_BEATS_KEPT = 16,
    AGENT_CONTROL_NAME_MAX = 300,
    MAILBOX_LETTERS_MAX = 64, /* waiting commands of one attempt */
};

/* A command on its way to a supervisor. */
struct letter {
    struct list link;
    uint64_t request; /* of control's, to be answered; 0: nobody asked */
    struct control_command command;
    char *data;         /* of an input; owned */
    uint64_t taken;     /* of an input: up to where the supervisor has it */
    int64_t give_up_ms; /* on an input that the task does not read */
};

struct mailbox {
    int fd; /* to control.sock; -1: not connected */
    struct event *readable;
    struct event *again; /* a task that did not take its input is asked again */
    struct list letters;
    size_t count;
    bool waiting; /* the first letter was sent and not answered yet */
    bool heard;   /* something, on this connection */
    bool was_cut; /* just now: the next connection is not made at once */
};

/* A supervisor that is started when its attempt's machine says so. */
struct pending_start {
    struct account account;
    int lock_fd;
};

/* One attempt on this node that is not settled: its machine, and what carries out its actions. */
struct run {
    struct list link; /* in agent.runs */
    struct agent *agent;
    uint64_t workload;
    int attempt;
    char name[ATTEMPT_NAME_MAX];
    int directory_fd;
    uid_t uid;                /* that its directory belongs to */
    struct attempt_life life; /* decides; all that may change it goes through run_tell() */
    struct own_record own;    /* facts of the agent's own */
    int device_count;         /* of its devices that are here, and their indexes in agent.info */
    int devices[WORKLOAD_DEVICES_MAX];
    bool is_adopted; /* its devices had it before this agent */
    bool is_unseen; /* it failed as a client of MPS while no agent ran; its end is told when all are
                       known */
    bool is_not_alone;                  /* and so did another of its device */
    bool recorded;                      /* record.json was read */
    struct attempt_record record;       /* by its user's word, but for what the kernel confirms */
    char start_text[WORKLOAD_TEXT_MAX]; /* why a supervisor could not start */
    bool granted;                       /* started by this agent, not found by it */
    struct pending_start *pending;      /* its supervisor is not started yet */
    pid_t child_pid;                    /* our own child, to be reaped; 0: not ours */
    int started_fd;                     /* see supervisor.h; -1: closed */
    struct event *started;
    int supervisor_fd;      /* a pidfd of run_supervisor(); -1: it is not known */
    struct event *vanished; /* that has ended, whatever its socket says */
    struct event *look;     /* looks again after look_ms */
    int look_ms;
    struct event *tick; /* the machine's */
    struct mailbox mailbox;
    struct checkpoint move; /* of its memory, see suspend.h */
    int64_t move_began_ms;
    bool holds_mps;                 /* one use of its device's daemon */
    struct session *session;        /* NULL: it has no devices, or has ended */
    struct share_drift share_drift; /* of a task's share, see divide.h */
    bool told_unheld;               /* that a process of it runs without the shim */
    bool is_unheld;                 /* all of them do, or did */
    uint64_t cpu_ticks;             /* at the last beat, for usage */
    int64_t cpu_at_ms;
    double samples_per_s;           /* as its supervisor last said */
    int64_t speed_at_ms;            /* 0: it never did */
    int64_t speed_since_ms;         /* what it said is of the time after that; 0: not known */
    struct control_latency latency; /* likewise */
    int64_t latency_at_ms;
};

/* An event of an attempt's machine that came while actions were carried out. */
struct queued_event {
    struct list link; /* in agent.events */
    uint64_t workload;
    int attempt;
    struct attempt_event event;
};

/* A request for output that waits for more. */
struct reader {
    struct list link;
    uint64_t request, workload;
    int attempt;
    uint64_t offset;
    size_t max;
    int64_t until_ms;
};

struct beat_sent {
    uint64_t number;
    int64_t sent_ms;
};

struct control_link {
    struct dial *dial;
    struct bufferevent *stream; /* NULL: not connected */
    struct event *retry;
    struct event *beat_timer;
    struct event *patience; /* control must say something before it is over */
    struct rng rng;
    int retry_ms;
    char trouble[ERROR_TEXT_MAX]; /* that was logged last; "" after a welcome */
    bool welcomed;
    uint64_t session, sequence;
    int64_t hello_sent_ms;
    int64_t lease_ms, fence_ms, drain_ms;
    int64_t beat_ms;
    int64_t silence_ms; /* after which control is taken for gone */
    uint64_t beat;
    uint64_t notes_beat; /* that devices' notes are on their way with; 0: none are */
    struct beat_sent beats[AGENT_BEATS_KEPT];
};

/* See renewal.h. */
struct renewal {
    struct event *timer;
    int64_t again_ms;
    struct str key; /* of the certificate that was asked for; empty: none was */
};

struct agent {
    struct event_base *base;
    const struct config *config;
    const struct log *log;
    void (*on_link)(void *arg, bool joined);
    void *on_link_arg;
    char *directory, *control_socket, *control_host, *control_port, *emulate, *emulate_libraries,
        *shim, *mps_control;
    char control_name[AGENT_CONTROL_NAME_MAX]; /* for people: the socket, or HOST:PORT */
    bool networked;                            /* control is reached by TLS, not by a unix socket */
    struct credentials credentials;            /* then */
    int directory_fd, attempts_fd, finished_fd, locks_fd, lock_fd;
    int executable_fd;
    int cgroup_fd; /* -1: none */
    struct node_info info;
    struct gpu *gpu;
    struct sampler *sampler;
    struct monitor *monitor; /* NULL: there are no devices */
    struct divide *divide;
    struct registrar *registrar;
    struct mps *mps;                           /* NULL: this node does without, and always did */
    struct mps_guard mps_guard;                /* not open: the same */
    int register_fd, records_fd, suspended_fd; /* directories */
    struct event *measure;                     /* what processes hold */
    bool measures_soon;                        /* it is set because somebody died */
    struct gpu_sample *measured;               /* scratch of that */
    struct reaper reaper;
    bool has_stale_locks; /* of moves of memory, perhaps */
    struct lease lease;
    struct list runs;
    size_t run_count;
    struct list events; /* of their machines, while held > 0 */
    int held;
    struct list readers;
    size_t reader_count;
    struct event *reader_timer;
    struct control_link link;
    struct renewal renewal;
    struct retention *retention;
};

/* ---- agent.c ---- */

/* Its index in info.devices; -1: it is not there. */
int agent_find_device(const struct agent *a, const char *uuid);

/* ---- run.c ---- */

/* A new run for a directory that exists. Owns directory_fd from now on, also on failure. */
struct run *run_new(struct agent *a, uint64_t workload, int attempt, int directory_fd);
void run_free(struct run *r);
struct run *run_find(const struct agent *a, uint64_t workload, int attempt);
/* Its terms are known: what they say of it, its machine knows too. Keeps nothing. */
void run_begin(struct run *r);
/* Looks at the directory and the lock, and tells the machine what is new. Called whenever there may
 * be. */
void run_look(struct run *r);
/* One that was found: it has failed by its exit status, since the machine was started. */
bool run_failed_unseen(struct run *r);
/* SIGTERM to its supervisor, which then ends it. */
void run_signal(struct run *r);
void run_report(struct run *r);
/* Its supervisor, if the kernel confirms that it is that; 0: none is known. */
pid_t run_supervisor(struct run *r);
/* Is this process, seen from here, one of the attempt's? */
bool run_owns(struct run *r, pid_t pid);
bool run_is_alive(const struct run *r);
/* The one answer to that; device: its index in agent.info. */
bool run_is_on(const struct run *r, int device);
/* Writes its exit record, unless there is one. */
void run_bury(struct run *r);
/* Its directory goes to the finished ones; r is gone afterwards, unless that cannot be done. */
void run_put_away(struct run *r);

/* ---- act.c ---- */

/* Steps the machine and carries out its actions: at once, or when nobody holds the agent any more.
 * r may be gone afterwards, after ATTEMPT_SETTLE alone. */
void run_tell(struct run *r, const struct attempt_event *event);
void run_tell_kind(struct run *r, enum attempt_event_kind kind);
void run_stop(struct run *r, const struct attempt_stop *stop);
/* While actions are carried out no machine is stepped: its own would be stale. */
void agent_hold(struct agent *a);
void agent_release(struct agent *a);

/* ---- launch.c ---- */

/* Starts an attempt. Always leaves a run: one that could not start has ended. */
void launch(struct agent *a, const struct grant *grant);
/* Starts its supervisor. */
void launch_supervisor(struct run *r);
/* Its supervisor is not started after all. */
void launch_give_up(struct run *r, const char *why);
void pending_free(struct run *r);
/* A run that never ran and never will. */
void launch_tombstone(struct agent *a, uint64_t workload, int attempt, const char *text);

/* ---- adopt.c ---- */

int adopt_all(struct error *e, struct agent *a);

/* ---- mailbox.c ---- */

void mailbox_init(struct mailbox *m);
void mailbox_close(struct run *r); /* the connection; letters stay */
void mailbox_done(struct run *r);  /* letters are answered: it has ended */
/* Connects if the supervisor answers, and has not hung up just now. */
bool mailbox_connect(struct run *r);
/* Data is copied. -ERR_BUSY when there are too many, though never of stops and kills: each replaces
 * an earlier one. */
int mailbox_post(struct run *r, uint64_t request, const struct control_command *command);

/* ---- orders.c ---- */

void orders_obey(struct agent *a, const struct nodemsg *msg);

/* ---- reader.c ---- */

void reader_ask(struct agent *a, const struct nodemsg *msg);
/* Something may have changed: answers who can be answered. */
void reader_wake(struct agent *a);
void reader_done(struct agent *a);

/* ---- link.c ---- */

int link_start(struct error *e, struct agent *a);
void link_stop(struct agent *a);
/* Dropped when there is no session: hello will say it all. */
void link_send(struct agent *a, const struct nodemsg *msg);
/* Tells control at once what it would hear with the next beat. */
void link_beat(struct agent *a);
/* Answers a request with a result. */
void link_done(struct agent *a, uint64_t request, int result, const char *text);

/* ---- protect.c ---- */

int protect_open(struct error *e, struct agent *a);
/* Members of what runs keep what they have. */
void protect_close(struct agent *a);
/* On which terms it runs here. */
void protect_decide(const struct agent *a, const struct grant *grant, uid_t user,
                    struct terms *ret);
/* Before its supervisor is started. */
int protect_begin(struct error *e, struct run *r);
/* Its device's MPS daemon is not ready yet. */
bool protect_must_wait(const struct run *r);
/* Everything that runs is known: MPS daemons that nobody needs are ended. */
void protect_start(struct agent *a);
/* A neighbour is just joining its MPS server: the end of another client's work would hurt it. */
bool protect_others_join(const struct run *r);
/* Ends the GPU work of its processes, if they are clients of MPS. */
void protect_end_work(struct run *r);
/* Its MPS daemon has answered since then, or it has none. */
bool protect_mps_is_well(const struct run *r, int64_t since_ms);
/* Several times a second: a process that ends and has a kernel outstanding for too long to wait for
 * it has its work ended, so that its end harms nobody else. */
void protect_look(struct agent *a);
/* An attempt that an agent before us started. */
void protect_adopt(struct run *r);
/* Nothing of it runs any more. */
void protect_end(struct run *r);
/* This agent goes, or the run does: what protects the attempt is left as it is. */
void protect_forget(struct run *r);
int protect_ledger_fd(const struct run *r);
/* Nobody gets MPS any more, but clients that an agent before us started may be there. */
bool protect_mps_is_off(const struct agent *a);
/* Of the daemon of a device. False: too long. */
bool protect_mps_path(const struct agent *a, const char *uuid, char *path, size_t size);

/* ---- usage.c ---- */

/* What the attempts that are alive use now; returns how many of `max` were filled. */
size_t usage_measure(struct agent *a, const struct gpu_sample *sample, struct attempt_usage *usage,
                     size_t max);
