/*
 * The three pages of memory through which a node's agent and the shim in a workload's processes
 * know of each other. This header is their specification; it is all that the two share besides
 * abi/register.h, which says how the pages get from one to the other.
 *
 * page     one a      written by                       read by                      sealed
 * limits   attempt the agent the attempt's processes by the agent, before it is sent
 * status   process that process, and the GPU for it the agent, its neighbours by the agent,
 *          before others get it
 * ledger   attempt    the attempt's processes; the     the same                     size only
 *                     agent for those that died
 *
 * A page is a memfd, mapped shared. "Sealed" is F_SEAL_FUTURE_WRITE | SHRINK | GROW | SEAL: the
 * writer's mapping, made before, stays writable, and nobody else gets one, not even by opening
 * /proc/PID/fd anew. The ledger is sealed SHRINK | GROW | SEAL. The agent checks a status page's
 * size after it has sealed it and before it maps it; nobody can then make a reader fault. What a
 * status or a ledger says is a workload's own claim: the agent bounds every number that it reads
 * there, and nothing outside the attempt is decided by its ledger.
 *
 * Versions. Every page starts with struct page_header. Fields are added at the end of a struct or
 * in its reserved bytes, never moved; then `size_bytes` grows, or a bit of `features` says that
 * the writer fills what was reserved. `version` changes when that cannot be kept, and two sides
 * without a version in common do without each other. A reader maps zeros behind the end of a
 * shorter page: so a field that the writer did not know is 0, and 0 always means "as if this field
 * did not exist".
 *
 * Concurrency. Every field that changes while others can see it is one atomic word of at most 8
 * bytes, and no two need to be read together. There is no lock. A writer that is killed between any
 * two instructions leaves each page valid.
 *
 * Sizes are in bytes, times of day do not occur, `_ms` deadlines are of CLOCK_BOOTTIME.
 */
#pragma once
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

enum {
    PAGE_VERSION = 1,
    PAGE_DEVICES_MAX = 16,    /* of one attempt */
    PAGE_PROCESSES_MAX = 256, /* of one attempt that use CUDA at the same time */
    PAGE_STREAMS_MAX = 64,    /* with marks of their own, in a process */
    PAGE_COUNTERS_MAX = 128,
};

enum page_magic {
    PAGE_LIMITS = 0x4c786d67, /* "gmxL" */
    PAGE_STATUS = 0x53786d67,
    PAGE_LEDGER = 0x47786d67,
};

struct page_header {
    uint32_t magic;      /* enum page_magic */
    uint32_t version;    /* PAGE_VERSION of the writer */
    uint32_t size_bytes; /* of the page's struct, as its writer knows it */
    uint32_t reserved0;
    uint64_t features; /* bits of the page's own enum: which parts the writer fills */
    uint8_t reserved[40];
};

/* ---- limits: what the attempt may do, and until when ---- */

enum limits_feature {
    LIMITS_HAS_QUOTA = 1 << 0,
    LIMITS_HAS_WINDOW = 1 << 1, /* window_us, gate_us_max, linger_us, mode */
    LIMITS_HAS_RATE = 1 << 2,
    LIMITS_HAS_LEASE = 1 << 3,
    LIMITS_HAS_OVERHEAD = 1 << 4,
    LIMITS_HAS_GATE_PLACE = 1 << 5,
};

enum limits_kind { LIMITS_TASK = 1, LIMITS_SERVICE = 2 };

/* What waits for a busy service, where both are possible. */
enum limits_gate_place {
    LIMITS_GATE_DEVICE = 0, /* the attempt's streams, on the device: its threads run ahead */
    LIMITS_GATE_HOST = 1,   /* the threads that launch */
};

/* How an attempt shares a device with a service. */
enum limits_mode {
    LIMITS_ALONE = 0, /* no service there: the window only keeps a kill harmless */
    LIMITS_TIME = 1,  /* gated and windowed around the service's requests */
    LIMITS_SPACE = 2, /* the service has SMs of its own */
};

/* What a context is taken to cost where limits do not say. */
#define LIMITS_CONTEXT_BYTES (UINT64_C(600) << 20)
/* How long a task that launches nothing any more waits for its lease to be extended, where limits
 * do not say. */
enum { LIMITS_FENCE_MS = 30000 };

struct limits_device {
    uint8_t uuid[16];                 /* as cuDeviceGetUuid has it */
    _Atomic uint64_t quota_bytes;     /* that all its processes together may hold; 0: no limit */
    _Atomic uint32_t mode;            /* enum limits_mode */
    _Atomic uint32_t window_us;       /* GPU time outstanding at most; 0: no limit */
    _Atomic uint32_t gate_us_max;     /* longest hold for a busy service; 0: no gate */
    _Atomic uint32_t rate_permille;   /* of the device's time; 0: no limit */
    _Atomic uint32_t share_percent;   /* of the SMs: so much its GPU time counts for; 0: all */
    _Atomic uint32_t neighbour_count; /* services on the device whose status this attempt gets */
    _Atomic uint32_t linger_us;  /* the gate stays shut so long after a service has become idle:
                                       * its next request may be waiting */
    _Atomic uint32_t gate_place; /* enum limits_gate_place */
    uint8_t reserved[64];
    /* What a context is taken to cost before it is made, until it is measured. 0:
     * LIMITS_CONTEXT_BYTES. */
    _Atomic uint64_t context_bytes;
};

struct limits_page {
    struct page_header header;
    /* Goes up after any other field changed, and from one agent to the next: who keeps something
     * that follows from limits looks here whether it still holds. */
    _Atomic uint64_t sequence;
    /* Goes up after the agent has sent a message to any of the attempt's processes: the shim reads
     * its socket when this moves, and needs no thread for it. */
    _Atomic uint64_t messages;
    _Atomic uint64_t lease_deadline_ms; /* past it a task launches nothing; 0: no lease */
    _Atomic uint32_t kind;              /* enum limits_kind */
    _Atomic uint32_t slot_count;        /* slots 0 … slot_count - 1 may be in use */
    /* Fixed for the attempt. 0: they are not listed, and a device's index is its number in
     * the process. */
    uint32_t device_count;
    _Atomic uint32_t
        fence_ms; /* from the lease's end until a task ends itself; 0: LIMITS_FENCE_MS */
    uint8_t reserved[152];
    struct limits_device devices[PAGE_DEVICES_MAX];
    /* What a process holds on a device beyond what the ledger counts: contexts, modules; measured
     * by the agent. By device, then by slot. */
    _Atomic uint64_t overhead_bytes[PAGE_DEVICES_MAX][PAGE_PROCESSES_MAX];
    /* When the reading of the device began that overhead_bytes follows from, written after
     * it; of several readings the first. Contexts that were complete by then are in it. 0:
     * not measured. */
    _Atomic uint64_t measured_ms[PAGE_DEVICES_MAX][PAGE_PROCESSES_MAX];
};

/* ---- status: what one process does ---- */

enum status_feature {
    STATUS_HAS_MARKS = 1 << 0, /* open_streams, started, completed */
    STATUS_HAS_SHUT = 1 << 1,
};

enum status_state {
    STATUS_RUNNING = 1,
    STATUS_CLOSING = 2,  /* has drained, and ends */
    STATUS_FENCED = 3,   /* its lease ran out: it launches nothing */
    STATUS_DRAINING = 4, /* waits for what it launched, for 1.5 s at most, then ends */
};

enum status_counter {
#define COUNTER(name, what) STATUS_##name,
#include "abi/counters.def"
#undef COUNTER
    STATUS_COUNTER_COUNT
};
_Static_assert((int)STATUS_COUNTER_COUNT <= PAGE_COUNTERS_MAX, "counters.def is full");

struct status_page {
    struct page_header header;
    uint32_t pid; /* in the process's own namespace; the agent goes by the socket's credentials */
    uint32_t slot;
    _Atomic uint32_t state; /* enum status_state */
    uint32_t reserved0;
    uint8_t reserved[176];
    _Atomic uint64_t counters[PAGE_COUNTERS_MAX]; /* by enum status_counter */
    _Atomic uint64_t held_bytes[PAGE_DEVICES_MAX];
    uint8_t reserved_page[4096 - 64 - 192 - 8 * PAGE_COUNTERS_MAX - 8 * PAGE_DEVICES_MAX];

    /* Marks. Stream slot i is busy while started[i] != completed[i]; streams beyond the slots share
     * the last one. Both only grow, by at least 1 a launch and about 1 for a nanosecond of the
     * device's time: their difference is what is outstanding. Bit i of open_streams is set before
     * started[i] moves and cleared only when the slot is idle, so that a reader looks at the slots
     * of set bits alone. `completed` is a page of its own because the GPU writes it. */
    _Atomic uint64_t open_streams;
    uint8_t reserved_marks[56];
    _Atomic uint64_t started[PAGE_STREAMS_MAX];
    uint8_t reserved_started[4096 - 64 - 8 * PAGE_STREAMS_MAX];
    _Atomic uint64_t completed[PAGE_STREAMS_MAX];
    /* By device: 1 while the process's streams wait there for a busy service. The GPU reads it. */
    _Atomic uint32_t shut[PAGE_DEVICES_MAX];
    uint8_t reserved_completed[4096 - 8 * PAGE_STREAMS_MAX - 4 * PAGE_DEVICES_MAX];
};

/* ---- ledger: what the attempt's processes hold ---- */

enum ledger_feature {
    LEDGER_HAS_OWNERS = 1 << 0,
};

struct ledger_page {
    struct page_header header;
    /* Who has the slot: pid << 32 | the low 32 bits of its start time, as /proc has both. Written
     * by the agent, for one after it, which finds the page and knows nobody. 0: nobody. */
    _Atomic uint64_t owners[PAGE_PROCESSES_MAX];
    /* As limits_page.slot_count, by whichever agent there is: limits may be those of an agent
     * that is no more, and do not know of slots that its successor gave. Raised before the
     * slot is given. */
    _Atomic uint32_t slot_count;
    uint8_t reserved[1980];
    /* Device memory held, by device, then by slot. A process adds to its own slot before it
     * allocates, and takes away after it freed; the sum over the slots never misses anything that
     * is held. The agent sets a dead process's slots to 0 once the device shows its memory gone. */
    _Atomic uint64_t held_bytes[PAGE_DEVICES_MAX][PAGE_PROCESSES_MAX];
    /* What contexts are taken to cost that the agent has not measured yet, reserved before they are
     * made; it counts while context_ms, when the newest was complete, is not before measured_ms.
     * UINT64_MAX: one is being made. Written and set to 0 by the same as held_bytes. */
    _Atomic uint64_t context_bytes[PAGE_DEVICES_MAX][PAGE_PROCESSES_MAX];
    _Atomic uint64_t context_ms[PAGE_DEVICES_MAX][PAGE_PROCESSES_MAX];
};

_Static_assert(sizeof(struct page_header) == 64, "a page's layout");
_Static_assert(sizeof(struct limits_device) == 128, "a page's layout");
_Static_assert(offsetof(struct limits_page, devices) == 256, "a page's layout");
_Static_assert(offsetof(struct limits_page, overhead_bytes) == 2304, "a page's layout");
_Static_assert(offsetof(struct limits_page, measured_ms) == 35072, "a page's layout");
_Static_assert(sizeof(struct limits_page) == 67840, "a page's layout");
_Static_assert(offsetof(struct status_page, counters) == 256, "a page's layout");
_Static_assert(offsetof(struct status_page, open_streams) == 4096, "a page's layout");
_Static_assert(offsetof(struct status_page, completed) == 8192, "a page's layout");
_Static_assert(offsetof(struct status_page, shut) == 8704, "a page's layout");
_Static_assert(sizeof(struct status_page) == 12288, "a page's layout");
_Static_assert(offsetof(struct ledger_page, owners) == 64, "a page's layout");
_Static_assert(offsetof(struct ledger_page, slot_count) == 2112, "a page's layout");
_Static_assert(offsetof(struct ledger_page, held_bytes) == 4096, "a page's layout");
_Static_assert(offsetof(struct ledger_page, context_bytes) == 36864, "a page's layout");
_Static_assert(sizeof(struct ledger_page) == 102400, "a page's layout");
_Static_assert(ATOMIC_LLONG_LOCK_FREE == 2 && ATOMIC_INT_LOCK_FREE == 2, "atomics need no lock");
