/*
 * The protocol by which a process registers with the agent of its node.
 *
 * GPUMUX_REGISTER names a unix SOCK_SEQPACKET socket of the agent. One packet is one of the structs
 * below; file descriptors travel with the packet by SCM_RIGHTS, in the order given in brackets. The
 * agent identifies a process by SO_PEERCRED, refuses a peer whose pid is not visible to the agent,
 * and learns of the end of a process from a pidfd, because a child may keep the socket open.
 *
 *   from     packet     descriptors       when and why
 *   process  HELLO      [status]          once, before the first CUDA call
 *   process  HELLO      [status, ledger]  again, after the agent's end: the process's own pages
 *                                         and its slot, which a new agent takes over
 *   process  FILES      [device files]    after a context was made or a stream first used, and
 *                                         after a second HELLO: all device files, see below
 *   agent    WELCOME    [limits, ledger]  the process has slot `slot` of the attempt's ledger
 *   agent    REFUSED                      the process gets no slot; `reason` says why
 *   agent    NEIGHBOUR  [status]          the status page of a service on a device of the attempt
 *   agent    GONE                         neighbour `number` has ended; the number may be reused
 *
 * The agent adds 1 to limits_page.messages after it has sent a packet, except for WELCOME. A forked
 * child registers like any other process, by a HELLO with its own status page.
 *
 * Why FILES. If the device files of an MPS client close while a kernel of the client still runs,
 * all neighbours of the client fail. On an H200, half of the kills of a client with 20 ms of
 * outstanding work had this effect. The agent therefore keeps the device files open too, and closes
 * the files when the device has finished the work of the process.
 *
 * Versions. `version` is REGISTER_VERSION of the sender, `size_bytes` the sender's size of the
 * struct. A struct only grows at its end. A receiver uses the known part of a longer packet, and
 * reads the missing end of a shorter packet as 0. A receiver ignores a packet of an unknown kind
 * and closes its descriptors. Two sides with different values of REGISTER_VERSION cannot
 * communicate: the agent refuses the process, which then runs without an agent.
 */
#pragma once
#include <stdint.h>

enum {
    REGISTER_VERSION = 1,
    REGISTER_FDS_MAX = 2,       /* descriptors in one packet */
    REGISTER_FILES_MAX = 128,   /* descriptors in one FILES packet */
    REGISTER_PACKET_MAX = 4096, /* largest packet of this and later versions, in bytes */
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
    uint32_t again; /* 1: registered before; `slot` and the ledger are those of that registration */
    uint64_t features; /* bits of enum status_feature: fields that the process may fill */
    char mark[128]; /* GPUMUX_MARK, 0-terminated; a hint that the agent checks against the cgroup */
    uint32_t slot;  /* the slot of the earlier registration; valid if `again` is 1 */
    uint32_t reserved;
};

struct register_welcome {
    struct register_header header;
    uint32_t page_version; /* PAGE_VERSION of the agent */
    uint32_t slot;         /* index in the ledger and in limits_page.overhead_bytes */
};

enum register_refusal {
    REGISTER_STRANGER = 1, /* the process belongs to no attempt of this node */
    REGISTER_FULL = 2,     /* PAGE_PROCESSES_MAX processes are registered */
    REGISTER_UNKNOWN_VERSION = 3,
    REGISTER_BROKEN = 4, /* the packet or its page is malformed */
};

struct register_refused {
    struct register_header header;
    uint32_t reason; /* enum register_refusal */
    uint32_t reserved;
};

struct register_neighbour {
    struct register_header header;
    uint32_t number; /* number by which GONE names the neighbour; below REGISTER_NEIGHBOURS_MAX */
    uint32_t device; /* index in limits_page.devices */
};

/* Neighbours of one attempt at one time, over all its devices. */
enum { REGISTER_NEIGHBOURS_MAX = 64 };

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
