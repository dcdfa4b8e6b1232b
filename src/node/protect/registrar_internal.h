/*
 * registrar.c   sockets, and who may speak on them
 * session.c        attempts and their slots
 * session_limits.c   what their limits pages say
 * session_reasons.c  and why, for people
 * session_busy.c   how busy a service is
 * leaving.c     the device files of a process, until the device has done what it left
 * session_measure.c  what they hold, by the devices' word and by their own
 * neighbours.c  which services a task's processes are shown
 */
#pragma once
#include "abi/register.h"
#include "base/list.h"
#include "node/protect/pages.h"
#include "node/protect/registrar.h"

struct event;

#define SHOWN_UNKNOWN UINT32_MAX
/* More than any device has: no process's claim spoils a sum. */
#define CLAIM_MAX (UINT64_C(1) << 56)

static inline uint64_t claims_add(uint64_t sum, uint64_t claim)
{
    return claim < CLAIM_MAX && sum + claim < CLAIM_MAX ? sum + claim : CLAIM_MAX;
}

/* Of a process's counter, to those of others: peaks are not added up. */
static inline uint64_t counters_add(int counter, uint64_t sum, uint64_t claim)
{
    if (counter != STATUS_held_peak && counter != STATUS_sms_peak)
        return claims_add(sum, claim);
    return claim > sum && claim < CLAIM_MAX ? claim : sum;
}

enum {
    APPLICANTS_MAX = 64, /* of one session that have not said hello yet */
    HELLO_MS = 2000,
    HOLD_MS = 1000, /* a hello waits for that long at most */
    JOINING_MS_MAX =
        5000, /* from its hello to its first context; who takes longer may never make one */
    ACCEPTED_AT_ONCE = 32,
    ACCEPT_AGAIN_MS = 100, /* after a descriptor, or memory, could not be had */
    BACKLOG = 256,
    /* Stable readings of what a process holds beyond its account: the smaller of two counts. */
    READINGS = 2,
};

/* What a process held on a device beyond its account. */
struct reading {
    int64_t taken_ms; /* 0: none */
    uint64_t bytes;
};

/* One process. */
struct member {
    struct list link; /* in session.members */
    struct session *session;
    pid_t pid;
    int pid_fd;
    struct event *ended;
    int fd; /* its socket; -1: it has not come to this agent yet, or has closed it */
    struct event *readable, *writable;
    int64_t left_ms; /* when its socket ended; 0: it has not */
    uint32_t slot;
    int64_t came_ms;              /* when it registered; 0: before this agent */
    struct status_mapping status; /* fd -1: not seen yet */
    struct {
        int64_t still_ms; /* since when nothing was completed while it drains; 0: it does not */
        uint64_t completed;
        bool is_taken; /* its work was ended for that */
    } drain;
    size_t file_count;
    int files[REGISTER_FILES_MAX]; /* the device's that it has open, as REGISTER_FILES says */
    /* Generation of what it was last told of each number; 0: nothing, SHOWN_UNKNOWN: what another
     * agent told it. */
    uint32_t shown[REGISTER_NEIGHBOURS_MAX];
    uint64_t
        read_bytes[PAGE_DEVICES_MAX]; /* its account at the last measurement; CLAIM_MAX: none */
    uint64_t read_allocations;        /* how many it had made by then */
    struct reading readings[PAGE_DEVICES_MAX][READINGS]; /* the older one first */
    struct {
        uint64_t completed; /* the sum over its streams at the last look */
        bool is_busy;
        int64_t moved_us; /* when they were last seen to move; 0: never looked at */
    } marks;
};

/* A connection without a hello. */
struct applicant {
    struct list link; /* in session.applicants */
    struct session *session;
    int fd;
    struct event *readable;
    bool is_held; /* its hello is read when nobody is taken out of MPS */
};

enum slot_state { SLOT_FREE, SLOT_TAKEN, SLOT_DRAINING };

struct slot {
    enum slot_state state;
    pid_t pid;
    int64_t died_ms; /* of a draining one */
};

/* A service's process, as the members of a task's session know it. */
struct neighbour {
    struct member *service; /* NULL: the number is free */
    uint32_t device;        /* index in the session's own limits */
    uint32_t generation;    /* of this entry; 0: it was never used */
};

struct session {
    struct list link; /* in registrar.sessions */
    struct registrar *registrar;
    char name[64];
    const struct terms *terms; /* its owner's, like all that is not in pages */
    bool (*belongs)(void *arg, pid_t pid);
    void *arg;
    int listen_fd;              /* -1: without protection */
    struct event *listening;    /* not set while more connections could not be taken */
    struct event *listen_again; /* a timer */
    struct limits_mapping limits;
    struct ledger_mapping ledger;
    struct list members, applicants;
    size_t member_count, applicant_count;
    struct slot slots[PAGE_PROCESSES_MAX];
    size_t draining_count;
    struct neighbour neighbours[REGISTER_NEIGHBOURS_MAX];
    uint32_t generation;
    uint64_t ended_counters[PAGE_COUNTERS_MAX]; /* of members that are no more */
    bool rests;                                 /* see session_rest */
    int64_t rested_ms; /* readings of the devices from before then are not about it */
    uint64_t peak_bytes;
    bool is_coarse;         /* a task with launches too long for a gate */
    int64_t busy_looked_us; /* 0: never */
};

/* What holds for the tasks of a device. */
struct shared_device {
    char uuid[DEVICE_UUID_MAX];
    uint32_t throttle_permille; /* 0: none */
    struct share_division division;
};

struct registrar {
    struct registrar_options options;
    char *directory;
    struct list sessions;
    size_t member_count;
    uint64_t lease_deadline_ms;
    uint32_t fence_ms;
    int64_t measured_ms; /* when accounts were last read */
    bool is_leaving;
    struct shared_device shared[NODE_DEVICES_MAX];
    size_t shared_count;
    struct {
        char uuid[DEVICE_UUID_MAX];
        int64_t until_ms; /* boot clock; 0: not held */
    } holds[NODE_DEVICES_MAX];
    size_t hold_count;
    struct event *hold_over;
    struct list leavings; /* leaving.c */
    size_t leaving_count;
};

/* ---- registrar.c ---- */

int registrar_listen(struct error *e, struct session *s, uid_t uid);
void registrar_unlisten(struct session *s);
/* Sends one packet with at most one descriptor (-1: none). False: not now. */
bool member_send(struct member *m, const void *packet, size_t bytes, int fd);
struct register_header register_header_of(enum register_kind kind, size_t bytes);
/* Asks to be called when its socket takes more. */
void member_await_room(struct member *m);

/* ---- session.c ---- */

/* A new member in a slot of the ledger; owns pid_fd from now on, also on failure. NULL: no room. */
struct member *member_new(struct session *s, pid_t pid, int pid_fd, int wanted_slot);
/* It has ended, or is another program now: nothing of it may hold up those who live. Its slot is
 * free once the device says so. */
void member_end(struct member *m);
/* Forgets it; what it holds and shows is left as it is. */
void member_free(struct member *m);
/* Nobody has it any more, and nothing is held in it. */
void session_clear_slot(struct session *s, uint32_t slot);
/* Takes the members that an agent before this one had. */
void session_adopt_members(struct session *s);

/* ---- leaving.c ---- */

/* Takes the files, in place of those that it had; owned from now on. */
void member_take_files(struct member *m, const int *files, size_t count);
void member_drop_files(struct member *m);
/* One that lives and has closed its socket is another program now, without a device: its files
 * close. */
void member_check_files(struct member *m);
/* It has ended: its files and its status page live on until its work is done. */
void member_leave_files(struct member *m);
/* All of them end now. */
void leavings_free(struct registrar *r);

/* ---- session_limits.c ---- */

/* Which sessions share which devices has changed, or how. */
void sessions_update_limits(struct registrar *r);
void limits_changed(struct session *s);
/* Of a page that nobody has seen yet: what does not change. */
void session_fill_limits(struct session *s);
/* What the monitor lets tasks have of the device's time; 0: as they were granted. */
uint32_t registrar_throttled_to(const struct registrar *r, const char *uuid);

/* ---- neighbours.c ---- */

/* A service's process is there and has a status page: tasks beside it get to see it. */
void neighbours_show(struct member *service);
void neighbours_withdraw(struct member *service);
/* A new task's session: services that are there already. */
void neighbours_find(struct session *task);
/* Tells a member what it does not know yet. */
void neighbours_tell(struct member *m);
