/*
 * The files of the registrar:
 *
 * registrar.c        sockets, and admission to them
 * session.c          attempts and their slots
 * session_limits.c   content of the limits pages
 * session_reasons.c  reasons of the limits, as text for users
 * session_room.c     memory that tasks give to services
 * session_busy.c     activity of a service
 * session_activity.c requests, bursts and launches
 * leaving.c          device files of an ended process, until the device has finished its work
 * session_measure.c  device memory, as the devices report it and as the processes count it
 * neighbours.c       services whose status pages a task's processes receive
 */
#pragma once
#include "abi/register.h"
#include "base/list.h"
#include "node/protect/pages.h"
#include "node/protect/registrar.h"

struct event;

#define SHOWN_UNKNOWN UINT32_MAX
/* Larger than the memory of any device, so that no process's claim overflows a sum. */
#define CLAIM_MAX (UINT64_C(1) << 56)

static inline uint64_t claims_add(uint64_t sum, uint64_t claim)
{
    return claim < CLAIM_MAX && sum + claim < CLAIM_MAX ? sum + claim : CLAIM_MAX;
}

/* Adds a process's counter to a sum; for peaks, the result is the maximum. */
static inline uint64_t counters_add(int counter, uint64_t sum, uint64_t claim)
{
    if (counter != STATUS_held_peak && counter != STATUS_sms_peak)
        return claims_add(sum, claim);
    return claim > sum && claim < CLAIM_MAX ? claim : sum;
}

enum {
    APPLICANTS_MAX = 64, /* connections of one session without a hello */
    HELLO_MS = 2000,
    HOLD_MS = 1000, /* longest time for which a hello waits */
    /* longest time from a hello to the first context; a slower process may never make a context */
    JOINING_MS_MAX = 5000,
    ACCEPTED_AT_ONCE = 32,
    ACCEPT_AGAIN_MS = 100, /* pause after descriptors or memory were exhausted */
    BACKLOG = 256,
    /* Number of kept stable readings; the smaller of the two counts. */
    READINGS = 2,
};

/* Device memory of a process that the process has not counted. */
struct reading {
    int64_t taken_ms; /* 0: none */
    uint64_t bytes;
};

/* One process of a session. */
struct member {
    struct list link; /* in session.members */
    struct session *session;
    pid_t pid;
    int pid_fd;
    struct event *ended;
    int fd; /* socket of the process; -1: not connected to this agent, or closed */
    struct event *readable, *writable;
    int64_t left_ms; /* time at which the socket ended; 0: open */
    uint32_t slot;
    /* Time of the registration; 0: registered with an earlier agent. */
    int64_t came_ms;
    struct status_mapping status; /* fd -1: not received yet */
    struct {
        int64_t still_ms; /* start of the time without progress while draining; 0: not draining */
        uint64_t completed;
        bool is_taken; /* session_take_stuck() has returned the process */
    } drain;
    size_t file_count;
    int files[REGISTER_FILES_MAX]; /* open files of the device, sent in a REGISTER_FILES packet */
    /* Generation of each neighbour's entry in the last message; 0: no message; SHOWN_UNKNOWN: the
     * message came from an earlier agent. */
    uint32_t shown[REGISTER_NEIGHBOURS_MAX];
    /* counted bytes at the last measurement; CLAIM_MAX: none */
    uint64_t read_bytes[PAGE_DEVICES_MAX];
    uint64_t read_allocations; /* number of allocations at that measurement */
    struct reading readings[PAGE_DEVICES_MAX][READINGS]; /* two readings, oldest first */
    struct {
        uint64_t completed; /* sum over the streams at the last poll */
        bool is_busy;
        int64_t moved_us; /* time of the last poll that found a new sum; 0: never polled */
    } marks;
};

/* A connection without a hello. */
struct applicant {
    struct list link; /* in session.applicants */
    struct session *session;
    int fd;
    struct event *readable;
    bool is_held; /* the hello waits for registrar_go_on() of the device */
};

enum slot_state { SLOT_FREE, SLOT_TAKEN, SLOT_DRAINING };

struct slot {
    enum slot_state state;
    pid_t pid;
    int64_t died_ms; /* time of death, in state SLOT_DRAINING */
};

/* A process of a service, as announced to the members of a task's session. */
struct neighbour {
    struct member *service; /* NULL: the number is free */
    uint32_t device;        /* index in the session's limits */
    uint32_t generation;    /* generation of this entry; 0: never used */
};

struct session {
    struct list link; /* in registrar.sessions */
    struct registrar *registrar;
    char name[64];
    const struct terms *terms; /* borrowed from the owner */
    bool (*belongs)(void *arg, pid_t pid);
    void *arg;
    int listen_fd;              /* -1: without protection */
    struct event *listening;    /* pending while the session accepts connections */
    struct event *listen_again; /* timer */
    struct limits_mapping limits;
    struct ledger_mapping ledger;
    struct list members, applicants;
    size_t member_count, applicant_count;
    struct slot slots[PAGE_PROCESSES_MAX];
    size_t draining_count;
    struct neighbour neighbours[REGISTER_NEIGHBOURS_MAX];
    uint32_t generation;
    uint64_t ended_counters[PAGE_COUNTERS_MAX]; /* sums over members that have ended */
    bool rests;                                 /* see session_rest() */
    /* time of the last session_rest(); earlier readings are ignored for the session */
    int64_t rested_ms;
    uint64_t peak_bytes;
    bool is_coarse;         /* task with launches too long for a gate */
    int64_t busy_looked_us; /* 0: never */
};

/* Limits for all tasks of a device. */
struct shared_device {
    char uuid[DEVICE_UUID_MAX];
    uint32_t throttle_permille; /* 0: none */
    struct share_division division;
    bool is_guided; /* `limits` apply beside services */
    struct controller_limits limits;
};

struct registrar {
    struct registrar_options options;
    char *directory;
    struct list sessions;
    size_t member_count;
    uint64_t lease_deadline_ms;
    uint32_t fence_ms;
    int64_t measured_ms; /* time at which accounts were last read */
    bool is_leaving;
    struct shared_device shared[NODE_DEVICES_MAX];
    size_t shared_count;
    struct {
        char uuid[DEVICE_UUID_MAX];
        int64_t until_ms; /* boot clock; 0: not held */
    } holds[NODE_DEVICES_MAX];
    size_t hold_count;
    struct event *hold_over;
    struct list leavings; /* list of struct leaving */
    size_t leaving_count;
};

/* ---- registrar.c ---- */

int registrar_listen(struct error *e, struct session *s, uid_t uid);
void registrar_unlisten(struct session *s);
/* Sends one packet with at most one descriptor (-1: none). Returns false if the socket is full. */
bool member_send(struct member *m, const void *packet, size_t bytes, int fd);
struct register_header register_header_of(enum register_kind kind, size_t bytes);
/* Calls neighbours_tell() when the socket accepts more packets. */
void member_await_room(struct member *m);

/* ---- session.c ---- */

/* Makes a member in a slot of the ledger (wanted_slot -1: any). The call owns pid_fd, also on
 * failure. Returns NULL if there is no room. */
struct member *member_new(struct session *s, pid_t pid, int pid_fd, int wanted_slot);
/* Ends a member whose process has ended or exec'ed another program, so that the member's marks
 * delay no other process. The slot becomes free once the device has freed the memory. */
void member_end(struct member *m);
/* Frees a member without changing its memory account or its pages. */
void member_free(struct member *m);
/* Clears a slot that no process owns and whose memory is free. */
void session_clear_slot(struct session *s, uint32_t slot);
/* Adopts the members of an earlier agent. */
void session_adopt_members(struct session *s);

/* ---- leaving.c ---- */

/* Replaces the member's files with `files`, which the member then owns. */
void member_take_files(struct member *m, const int *files, size_t count);
void member_drop_files(struct member *m);
/* Closes the files of a process that lives and has closed its socket: the process has exec'ed a
 * program that does not use the device. */
void member_check_files(struct member *m);
/* Keeps the files and the status page of an ended process until the device has finished the work of
 * the process. */
void member_leave_files(struct member *m);
/* Closes all files at once. */
void leavings_free(struct registrar *r);

/* ---- session_limits.c ---- */

/* Updates all limits pages after a change of sessions or devices. */
void sessions_update_limits(struct registrar *r);
void limits_changed(struct session *s);
/* Writes the constant parts of a new page. */
void session_fill_limits(struct session *s);
/* Returns the monitor's limit for tasks on the device, in permille of the device's time; 0:
 * none. */
uint32_t registrar_throttled_to(const struct registrar *r, const char *uuid);

/* ---- neighbours.c ---- */

/* Announces a service's process, which has a status page, to the tasks beside the service. */
void neighbours_show(struct member *service);
void neighbours_withdraw(struct member *service);
/* Announces existing services to a new task's session. */
void neighbours_find(struct session *task);
/* Sends a member the changes of its neighbours. */
void neighbours_tell(struct member *m);
