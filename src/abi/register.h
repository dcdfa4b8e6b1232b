/*
 * How a process and the agent of its node find each other. GPUMUX_REGISTER names a unix
 * SOCK_SEQPACKET socket of the agent; one packet is one of the structs below, file descriptors go
 * with it by SCM_RIGHTS, in the order said here. The agent knows who speaks from SO_PEERCRED (and
 * refuses a peer whose pid it cannot see), and when that process ends from a pidfd: the socket
 * alone may be held open by a child.
 *
 *   process → agent   HELLO [status] once, before its first CUDA call HELLO [status, ledger] again,
 *                     when the agent it knew is gone: the pages that
 *                                                   it has, and its slot; a new agent
 *                                                   takes them over
 *                     FILES      [device files]     when a context was made or a stream used, and
 *                                                   after a second HELLO: all of them; see below
 *   agent → process   WELCOME [limits, ledger] the process has slot `slot` of the attempt's ledger;
 *                     REFUSED or it gets none, and `reason` says why
 *   agent → process   NEIGHBOUR [status] the page of a service on one of the attempt's devices
 *   agent → process   GONE neighbour `number` has ended; its number may be given again
 *
 * After WELCOME the agent adds 1 to limits_page.messages whenever it has sent something.
 * A forked child is a process of its own: it says HELLO with a status page of its own.
 *
 * Why FILES. A client of MPS whose device files close while a kernel of it still runs takes
 * all its neighbours along: killed, one with 20 ms of work left does so every second time
 * (measured on an H200). The agent has them open too, and closes them when the device has done
 * what the process left.
 *
 * Versions. `version` is REGISTER_VERSION of the sender, `size_bytes` its size of the struct; a
 * struct only grows at its end. A receiver takes a longer packet's part that it knows, and reads
 * the missing end of a shorter one as 0. A kind that it does not know it ignores, closing what came
 * with it. Two sides whose REGISTER_VERSION differ do not understand each other: the agent refuses,
 * the process does without.
 */
#pragma once
#include <stdint.h>

enum {
    REGISTER_VERSION = 1,
    REGISTER_FDS_MAX = 2,       /* in one packet */
    REGISTER_FILES_MAX = 128,   /* in one of FILES */
    REGISTER_PACKET_MAX = 4096, /* bytes, now and later */
    REGISTER_MAGIC = 0x52786d67,
};

enum register_kind {
    REGISTER_HELLO = 1,
    REGISTER_WELCOME = 2,
    REGISTER_REFUSED = 3,
    REGISTER_NEIGHBOUR = 4,
    REGISTER_GONE = 5,
    REGISTER_FILES = 6,
};

struct register_header {
    uint32_t magic; /* REGISTER_MAGIC */
    uint16_t version;
    uint16_t kind; /* enum register_kind */
    uint32_t size_bytes;
    uint32_t reserved;
};

struct register_hello {
    struct register_header header;
    uint32_t page_version; /* PAGE_VERSION of the shim */
    uint32_t again;        /* 1: registered before; `slot` and the ledger are from then */
    uint64_t features;     /* bits of enum status_feature that it may come to fill */
    char mark[128]; /* GPUMUX_MARK, 0-terminated: a hint; the agent checks it against the cgroup */
    uint32_t slot;  /* that it had, if it says so again */
    uint32_t reserved;
};

struct register_welcome {
    struct register_header header;
    uint32_t page_version; /* PAGE_VERSION of the agent */
    uint32_t slot;         /* in the ledger, and in limits_page.overhead_bytes */
};

enum register_refusal {
    REGISTER_STRANGER = 1, /* the process belongs to no attempt of this node */
    REGISTER_FULL = 2,     /* PAGE_PROCESSES_MAX processes are registered */
    REGISTER_UNKNOWN_VERSION = 3,
    REGISTER_BROKEN = 4, /* the packet or its page is not what it should be */
};

struct register_refused {
    struct register_header header;
    uint32_t reason; /* enum register_refusal */
    uint32_t reserved;
};

struct register_neighbour {
    struct register_header header;
    uint32_t number; /* by which GONE names it; below REGISTER_NEIGHBOURS_MAX */
    uint32_t device; /* index in limits_page.devices */
};

enum { REGISTER_NEIGHBOURS_MAX = 64 }; /* of one attempt at one time, over all its devices */

struct register_gone {
    struct register_header header;
    uint32_t number;
    uint32_t reserved;
};

_Static_assert(sizeof(struct register_header) == 16, "a message's layout");
_Static_assert(sizeof(struct register_hello) == 168, "a message's layout");
_Static_assert(sizeof(struct register_welcome) == 24, "a message's layout");
_Static_assert(sizeof(struct register_refused) == 24, "a message's layout");
_Static_assert(sizeof(struct register_neighbour) == 24, "a message's layout");
