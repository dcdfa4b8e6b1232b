/*
 * The files of the agent and their purpose:
 *
 *   link.c       the connection to control: hello, welcome, lines both ways
 *   dial.c       making that connection, on this machine or over the network
 *   renewal.c    renewing the certificate before it expires
 *   orders.c     control's orders: grant, stop, settle, read, signal, input
 *   run.c        one attempt on this node: its directory, its processes
 *   act.c        the attempt's state machine (attempt/attempt.h): events in, actions out
 *   launch.c     starting a supervisor
 *   adopt.c      taking over the attempts of an earlier agent
 *   mailbox.c    commands to one supervisor, and its answers
 *   reader.c     requests for output, waiting requests included
 *   usage.c      resource usage of attempts
 *   holders.c    processes that use device memory
 *   monitor.c    health of the devices, and its consequences for attempts (device/device.h)
 *   suspend.c    moving an attempt's device memory to the host's memory and back
 *   give_way.c   device memory that tasks give to services (device/room.h)
 *   divide.c     division of a device between services and tasks (device/share.h)
 *   steer.c      control of the tasks beside services while both run (device/controller.h)
 *   protect.c    protection of attempts from each other (registrar.h)
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
#include "node/device/attainment.h"
#include "node/device/divide.h"
#include "node/device/give_way.h"
#include "node/lease.h"
#include "node/device/monitor.h"
#include "node/mps/mps.h"
#include "node/mps/mps_guard.h"
#include "node/reaper.h"
#include "node/protect/registrar.h"
#include "node/device/sampler.h"
#include "node/device/steer.h"
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

/* A command for a supervisor, queued or in flight. */
struct letter {
    struct list link;
    uint64_t request; /* control's request to which the answer belongs; 0: none */
    struct control_command command;
    char *data;         /* data of an input; owned */
    uint64_t taken;     /* offset up to which the supervisor has taken the input */
    int64_t give_up_ms; /* time at which the agent gives up an input that the task does not read */
};

struct mailbox {
    int fd; /* connection to control.sock; -1: not connected */
    struct event *readable;
    struct event *again; /* timer to resend input that the task did not take */
    struct list letters;
    size_t count;
    bool waiting; /* the first command is in flight */
    bool heard;   /* the supervisor has sent something on this connection */
    bool was_cut; /* the supervisor has just closed the connection; delays the next connection */
};

/* A supervisor that is prepared; the attempt's state machine decides when to start it. */
struct pending_start {
    struct account account;
    int lock_fd;
};

/* An attempt on this node that is not settled: its state machine, and the state of its actions. */
struct run {
    struct list link; /* in agent.runs */
    struct agent *agent;
    uint64_t workload;
    int attempt;
    char name[ATTEMPT_NAME_MAX];
    int directory_fd;
    uid_t uid;                /* owner of the directory */
    struct attempt_life life; /* state machine; every event goes through run_tell() */
    struct own_record own;    /* facts that the agent itself recorded */
    int device_count;         /* devices present on this node, as indexes in agent.info */
    int devices[WORKLOAD_DEVICES_MAX];
    bool is_adopted;              /* placed on its devices by an earlier agent */
    struct attempt_stop stranded; /* reason NONE, unless a device was lost while no agent ran */
    bool is_unseen;               /* the attempt failed as a client of MPS while no agent ran */
    bool is_not_alone;            /* another client of MPS on the same device failed then, too */
    bool recorded;                /* the own record or record.json reports a started command */
    /* content of record.json, which the user can write: a hint at most */
    struct attempt_record record;
    char start_text[WORKLOAD_TEXT_MAX]; /* reason why the supervisor did not start */
    bool granted;                       /* started by this agent, not adopted */
    struct pending_start *pending;      /* supervisor that has not started yet */
    pid_t child_pid;                    /* child to be reaped; 0: not a child of this agent */
    int started_fd;                     /* read end of the pipe of supervisor.h; -1: closed */
    struct event *started;
    int supervisor_fd;      /* pidfd of run_supervisor(); -1: unknown */
    struct event *vanished; /* event when the supervisor has ended */
    struct event *look;     /* timer for the next run_look(), after look_ms */
    int look_ms;
    struct event *tick; /* timer of the state machine */
    struct mailbox mailbox;
    struct checkpoint move; /* move of device memory, see suspend.h */
    int64_t move_began_ms;
    bool holds_mps;                 /* counted as a user of its device's MPS daemon */
    struct session *session;        /* NULL: no devices, or ended */
    struct share_drift share_drift; /* drift of a task's share, see divide.h */
    bool told_unheld;               /* a process without the shim was reported */
    bool is_unheld;                 /* at some time no process with device memory had the shim */
    uint64_t cpu_ticks;             /* CPU time at the last beat, for usage */
    int64_t cpu_at_ms;
    double samples_per_s;   /* latest value from the supervisor */
    int64_t speed_at_ms;    /* 0: never reported */
    int64_t speed_since_ms; /* start of the period that samples_per_s covers; 0: unknown */
    bool is_steered;        /* a look has set `activity` */
    struct session_activity activity; /* at the last look, see steer.h */
    struct attainment attainment;     /* of a service, by its looks */
    double busy_fraction;             /* of a service, at the last look; < 0: unknown */
    uint64_t answered, late;          /* of a service, at the last look, by its supervisor */
    struct control_latency latency[CONTROL_TIMES]; /* latest values from the supervisor */
    int64_t latency_at_ms[CONTROL_TIMES];
    struct control_followed followed; /* latest value from the supervisor */
};

/* An event of an attempt's state machine that arrived during other actions. */
struct queued_event {
    struct list link; /* in agent.events */
    uint64_t workload;
    int attempt;
    struct attempt_event event;
};

/* A request for output that waits for more output. */
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
    struct event *patience; /* timer that ends a connection on which control is silent */
    struct rng rng;
    int retry_ms;
    char trouble[ERROR_TEXT_MAX]; /* last logged error; "" after a welcome */
    bool welcomed;
    uint64_t session, sequence;
    int64_t hello_sent_ms;
    int64_t lease_ms, fence_ms, drain_ms;
    int64_t beat_ms;
    int64_t silence_ms; /* silence after which control counts as unreachable */
    uint64_t beat;
    uint64_t notes_beat; /* number of the beat that carries the devices' notes; 0: none in flight */
    struct beat_sent beats[AGENT_BEATS_KEPT];
};

/* See renewal.h. */
struct renewal {
    struct event *timer;
    int64_t again_ms;
    struct str key; /* key of the requested certificate; empty: no request */
};

struct agent {
    struct event_base *base;
    const struct config *config;
    const struct log *log;
    void (*on_link)(void *arg, bool joined);
    void *on_link_arg;
    char *directory, *control_socket, *control_host, *control_port, *emulate, *emulate_libraries,
        *shim, *mps_control;
    char control_name[AGENT_CONTROL_NAME_MAX]; /* control's socket or HOST:PORT, for messages */
    bool networked;                            /* connection by TLS, not by a unix socket */
    struct credentials credentials;            /* valid if networked */
    int directory_fd, attempts_fd, finished_fd, locks_fd, lock_fd;
    int executable_fd;
    int cgroup_fd; /* -1: none */
    struct node_info info;
    struct gpu *gpu;
    struct sampler *sampler;
    struct monitor *monitor; /* NULL: no devices */
    struct divide *divide;
    struct steer *steer;
    struct give_way *give_way;
    struct registrar *registrar;
    struct mps *mps;                           /* NULL: MPS is not used */
    struct mps_guard mps_guard;                /* not open: MPS was never used */
    int register_fd, records_fd, suspended_fd; /* directories */
    struct event *measure;                     /* timer for measuring the memory of processes */
    bool measures_soon;                        /* the timer was advanced because a process died */
    struct gpu_sample *measured;               /* scratch buffer for measuring */
    struct reaper reaper;
    bool has_stale_locks; /* locks of earlier moves of memory may be left */
    struct lease lease;
    struct list runs;
    size_t run_count;
    struct list events; /* struct queued_event, while held > 0 */
    int held;
    struct list readers;
    size_t reader_count;
    struct event *reader_timer;
    struct control_link link;
    struct renewal renewal;
    struct retention *retention;
};

/* ---- agent.c ---- */

/* Returns the index in info.devices; -1: not present. */
int agent_find_device(const struct agent *a, const char *uuid);

/* ---- run.c ---- */

/* Makes a run for an existing directory. The call owns directory_fd, also on failure. */
struct run *run_new(struct agent *a, uint64_t workload, int attempt, int directory_fd);
void run_free(struct run *r);
struct run *run_find(const struct agent *a, uint64_t workload, int attempt);
/* Initialises the state machine from the attempt's terms, without its saved state. */
void run_begin(struct run *r);
/* Inspects the directory and the lock, and passes changes to the state machine. To be called
 * whenever the directory or the lock may have changed. */
void run_look(struct run *r);
/* Returns whether an adopted attempt failed by its exit status in this boot, while no agent ran. */
bool run_failed_unseen(struct run *r);
/* Sends SIGTERM to the supervisor, which then ends the attempt. */
void run_signal(struct run *r);
/* Kills the descendants of the supervisor; `again`: also the supervisor, and all processes in the
 * attempt's cgroup. */
void run_force(struct run *r, bool again);
void run_report(struct run *r);
/* Returns the supervisor's pid, confirmed by the kernel; 0: unknown. */
pid_t run_supervisor(struct run *r);
/* Returns whether the attempt's lock is free or the known supervisor has ended. A process of the
 * user can keep a copy of the lock, so the lock alone does not suffice. */
bool run_has_ended(const struct run *r);
/* Kills the processes that a dead supervisor left; thoroughly: also outside of the cgroup. Returns
 * false if a process still lives. */
bool run_clean_up(struct run *r, bool thoroughly);
/* Notes that the supervisor, a child of this agent, is about to execute the command. */
void run_begins(struct run *r);
/* Ends a task that is still alive lease_after_ms after its lease has expired; normally the
 * supervisor has ended the task earlier. */
void run_check_lease(struct run *r);
/* Returns whether the process, with a pid of this namespace, belongs to the attempt. */
bool run_owns(struct run *r, pid_t pid);
bool run_is_alive(const struct run *r);
/* Returns whether the attempt occupies the device, an index in agent.info. Only this function
 * decides whether an attempt occupies a device. */
bool run_is_on(const struct run *r, int device);
/* Writes the exit record unless one exists. */
void run_bury(struct run *r);
/* Moves the directory to the finished attempts and frees r. On failure r stays valid. */
void run_put_away(struct run *r);

/* ---- act.c ---- */

/* Steps the state machine and carries out its actions, at once or when the last agent_hold() is
 * released. Only ATTEMPT_SETTLE may free r. */
void run_tell(struct run *r, const struct attempt_event *event);
void run_tell_kind(struct run *r, enum attempt_event_kind kind);
void run_stop(struct run *r, const struct attempt_stop *stop);
/* Between agent_hold() and agent_release() events are queued, because a state machine must not step
 * during its own actions. */
void agent_hold(struct agent *a);
void agent_release(struct agent *a);

/* ---- launch.c ---- */

/* Starts an attempt. The call always makes a run; if the start fails, the run has ended. */
void launch(struct agent *a, const struct grant *grant);
/* Starts the supervisor of a pending run. */
void launch_supervisor(struct run *r);
/* Cancels the start of the supervisor. */
void launch_give_up(struct run *r, const char *why);
void pending_free(struct run *r);
/* Makes a run for an attempt that ends without starting. */
void launch_tombstone(struct agent *a, uint64_t workload, int attempt, const char *text);

/* ---- adopt.c ---- */

int adopt_all(struct error *e, struct agent *a);

/* ---- mailbox.c ---- */

void mailbox_init(struct mailbox *m);
void mailbox_close(struct run *r); /* closes the connection; commands stay */
void mailbox_done(struct run *r);  /* answers all commands: the attempt has ended */
/* Connects to the supervisor, unless the supervisor does not answer or has just closed a
 * connection. */
bool mailbox_connect(struct run *r);
/* Queues a command; its data is copied. Returns 0, or -ERR_BUSY if too many commands wait. The
 * mailbox always accepts a stop or kill, which replaces an earlier stop or kill. */
int mailbox_post(struct run *r, uint64_t request, const struct control_command *command);

/* ---- orders.c ---- */

void orders_obey(struct agent *a, const struct nodemsg *msg);

/* ---- reader.c ---- */

void reader_ask(struct agent *a, const struct nodemsg *msg);
/* Answers every waiting request that can be answered; to be called after any change. */
void reader_wake(struct agent *a);
void reader_done(struct agent *a);

/* ---- link.c ---- */

int link_start(struct error *e, struct agent *a);
void link_stop(struct agent *a);
/* Sends a message. Without a session the call drops the message, because the next hello carries the
 * same facts. */
void link_send(struct agent *a, const struct nodemsg *msg);
/* Sends a beat now. */
void link_beat(struct agent *a);
/* Answers a request with a result. */
void link_done(struct agent *a, uint64_t request, int result, const char *text);

/* ---- protect.c ---- */

int protect_open(struct error *e, struct agent *a);
/* Closes the registrar and MPS, without changing the protection of running processes. */
void protect_close(struct agent *a);
/* Decides the terms of a grant on this node. */
void protect_decide(const struct agent *a, const struct grant *grant, uid_t user,
                    struct terms *ret);
/* Prepares protection before the supervisor starts. */
int protect_begin(struct error *e, struct run *r);
/* Returns whether the start must wait for the device's MPS daemon. */
bool protect_must_wait(const struct run *r);
/* Ends MPS daemons that no attempt needs; to be called once all running attempts are known. */
void protect_start(struct agent *a);
/* Returns whether a neighbour is joining the same MPS server; ending the work of another client
 * would then harm the neighbour. */
bool protect_others_join(const struct run *r);
/* Ends the GPU work of the attempt's processes, if they are clients of MPS. */
void protect_end_work(struct run *r);
/* Returns whether the attempt's MPS daemon has answered since since_ms; true without MPS. */
bool protect_mps_is_well(const struct run *r, int64_t since_ms);
/* Ends the GPU work of exiting processes that have had a kernel outstanding for too long, so that
 * their exit does not harm other clients of MPS. To be called several times per second. */
void protect_look(struct agent *a);
/* Restores the protection of an attempt that an earlier agent started. */
void protect_adopt(struct run *r);
/* Ends protection; to be called when no process of the attempt is left. */
void protect_end(struct run *r);
/* Forgets the session and leaves the protection of running processes in place. */
void protect_forget(struct run *r);
int protect_ledger_fd(const struct run *r);
/* Returns whether new attempts run without MPS; clients that an earlier agent started may still
 * run. */
bool protect_mps_is_off(const struct agent *a);
/* Writes the path of a device's MPS daemon. Returns false if the path is too long. */
bool protect_mps_path(const struct agent *a, const char *uuid, char *path, size_t size);

/* ---- usage.c ---- */

/* Measures the usage of live attempts. Returns the number of entries written, at most `max`. */
size_t usage_measure(struct agent *a, const struct gpu_sample *sample, struct attempt_usage *usage,
                     size_t max);
