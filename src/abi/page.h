/*
 * The three pages of memory that a node's agent shares with the shim in a workload's processes.
 * This header is their specification. abi/register.h specifies how each side gets the pages; the
 * agent and the shim share nothing else.
 *
 *   page    one per  written by                      read by                   sealed
 *   limits  attempt  the agent                       the attempt's processes   by the agent, before
 *                                                                              it is sent
 *   status  process  that process, and the GPU on    the agent, its            by the agent, before
 *                    its behalf                      neighbours                others receive it
 *   ledger  attempt  the attempt's processes, and    the same                  size only
 *                    the agent for dead processes
 *
 * A page is a memfd, mapped shared. "Sealed" means F_SEAL_FUTURE_WRITE | SHRINK | GROW | SEAL: the
 * writer's existing mapping stays writable, and nobody can make another writable mapping, not even
 * through /proc/PID/fd. The ledger is sealed SHRINK | GROW | SEAL. The agent checks the size of a
 * status page after sealing the page and before mapping it, so that no truncation can make a reader
 * crash. The contents of a status page and of a ledger are claims of the workload: the agent bounds
 * every number that it reads there, and uses the ledger for decisions about that attempt only.
 *
 * Versions. Every page starts with struct page_header. No field ever moves. A new field goes to the
 * end of a struct, and `size_bytes` grows; or the field goes into reserved bytes, and a new bit of
 * `features` says that the writer fills these bytes. `version` changes with every incompatible
 * layout change; two sides with different versions do not share pages. A reader maps zeros behind
 * the end of a shorter page: a field that the writer did not know reads as 0, and 0 always means
 * "as if this field did not exist".
 *
 * Concurrency. Every field that changes while others can read it is one atomic word of at most 8
 * bytes. No reader needs a consistent view of two words, so the pages need no lock. A writer that
 * is killed between any two instructions leaves each page valid.
 *
 * Marks. A stream's slot i of the status page is busy while started[i] != completed[i]; streams
 * beyond the slots share the last slot. Both numbers only grow, by at least 1 per launch and by
 * about 1 per nanosecond of GPU time: their difference is the outstanding GPU time. The GPU writes
 * completed[i]. The process sets bit i of open_streams before started[i] grows, and clears the bit
 * only while the slot is idle, so a reader reads only the slots whose bit is set.
 *
 * Bursts. A burst is a stand-in for a request of a service that reports none: it begins with the
 * first launch of the process after the last burst, and ends when the host has waited for the work
 * (one step of a decoder is one burst). The service counts each burst that ends, by its kind and by
 * `company` of the limits page. Bursts during which `company` changed are not counted.
 *
 * Sizes are in bytes. No field is a time of day; `_ms` deadlines are times of CLOCK_BOOTTIME.
 *
 * This folder contains the interfaces between gpumux and other programs. Files of the folder abi
 * may include nothing.
 */
#pragma once
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

enum {
    PAGE_VERSION = 1,
    PAGE_DEVICES_MAX = 16,    /* devices of one attempt */
    PAGE_PROCESSES_MAX = 256, /* processes of one attempt that use CUDA at the same time */
    PAGE_STREAMS_MAX = 64,    /* slots for streams in a status page */
    PAGE_COUNTERS_MAX = 128,
    PAGE_REQUESTS_MAX = 32, /* open requests of a process whose deadlines neighbours see */
    /* A request whose deadline lies further back was forgotten by its program: readers ignore the
     * deadline, and the program may reuse the place. */
    PAGE_REQUEST_STALE_MS = 30000,
    PAGE_BURST_KINDS = 16,  /* kinds of bursts: see `bursts` of the status page */
    PAGE_BURST_PLACES = 80, /* places of a histogram of durations: see `burst_lengths` */
};

enum page_magic {
    PAGE_LIMITS = 0x4c786d67, /* "gmxL" */
    PAGE_STATUS = 0x53786d67,
    PAGE_LEDGER = 0x47786d67,
};

struct page_header {
    uint32_t magic;      /* enum page_magic */
    uint32_t version;    /* PAGE_VERSION of the writer */
    uint32_t size_bytes; /* size of the page's struct, as the writer knows it */
    uint32_t reserved0;
    uint64_t features; /* bits of the page's own enum: the parts that the writer fills */
    uint8_t reserved[40];
};

/* ---- limits: the resources that an attempt may use, and its lease ---- */

enum limits_feature {
    LIMITS_HAS_QUOTA = 1 << 0,
    LIMITS_HAS_WINDOW = 1 << 1, /* window_us, gate_us_max, linger_us, mode */
    LIMITS_HAS_RATE = 1 << 2,
    LIMITS_HAS_LEASE = 1 << 3,
    LIMITS_HAS_OVERHEAD = 1 << 4,
    LIMITS_HAS_GATE_PLACE = 1 << 5,
    LIMITS_HAS_DUE = 1 << 6,    /* gate_rule and the fields that follow it, company, target_us */
    LIMITS_HAS_ADVICE = 1 << 7, /* advice_sequence, batch, checkpoint */
    LIMITS_HAS_SWAP = 1 << 8,   /* is_swappable, room_wait_ms, and per device away_bytes,
                                 * room_bytes, away_orders, room_answers */
};

enum limits_kind { LIMITS_TASK = 1, LIMITS_SERVICE = 2 };

/* The place where a task waits for a busy service, if the device supports both places. */
enum limits_gate_place {
    LIMITS_GATE_DEVICE = 0, /* on the device, in the attempt's streams; host threads run ahead */
    LIMITS_GATE_HOST = 1,   /* on the host, in the threads that launch */
};

/* The rule by which the gate of a task shuts beside a service. */
enum limits_gate_rule {
    LIMITS_GATE_BUSY = 0, /* while the service has work outstanding */
    LIMITS_GATE_DUE = 1,  /* while a request of the service could otherwise miss its deadline */
};

/* How a service shares a device with tasks, from the service's point of view. */
enum limits_company {
    LIMITS_COMPANY_UNKNOWN = 0, /* tasks came, left or were held since the last look */
    LIMITS_ALONE_NOW = 1,       /* no task has work on the device, or all tasks are held */
    LIMITS_BESIDE_NOW = 2,
};

/* Value of calm_us: while the services sleep, streams contain no waits. */
#define LIMITS_CALM_FREE UINT32_MAX

/* How a task shares a device with services. */
enum limits_mode {
    LIMITS_ALONE = 0, /* no service on the device; the window only bounds the damage of a kill */
    LIMITS_TIME = 1,  /* gate and window limit the task during the service's requests */
    LIMITS_SPACE = 2, /* the service has SMs of its own */
};

/* Assumed device memory of a context, if the limits page gives no value. */
#define LIMITS_CONTEXT_BYTES (UINT64_C(600) << 20)
/* Time from the expiry of the lease until a task ends itself, if the limits page gives no value. */
enum { LIMITS_FENCE_MS = 30000 };

struct limits_device {
    uint8_t uuid[16];               /* as returned by cuDeviceGetUuid */
    _Atomic uint64_t quota_bytes;   /* device memory of all processes together; 0: no limit */
    _Atomic uint32_t mode;          /* enum limits_mode */
    _Atomic uint32_t window_us;     /* largest outstanding GPU time; 0: no limit */
    _Atomic uint32_t gate_us_max;   /* longest wait of a launch for a busy service; 0: no gate */
    _Atomic uint32_t rate_permille; /* granted part of the device's time; 0: no limit */
    _Atomic uint32_t share_percent; /* part of the SMs, by which GPU time is weighted; 0: all SMs */
    /* Services on the device whose status pages this attempt receives. */
    _Atomic uint32_t neighbour_count;
    /* Time for which the gate stays shut after the services became idle, because another request
     * may follow soon. */
    _Atomic uint32_t linger_us;
    _Atomic uint32_t gate_place; /* enum limits_gate_place */
    _Atomic uint32_t gate_rule;  /* enum limits_gate_rule; the rule DUE uses the next three */
    /* The gate shuts `need_us` before the deadline of an open request, and `each_us` earlier for
     * every open request that is due before it. */
    _Atomic uint32_t need_us, each_us;
    /* The gate shuts `burst_us` after the begin of a burst, for processes of a service that do not
     * report requests. */
    _Atomic uint32_t burst_us;
    /* GPU time between two waits of a stream while all services sleep, that is, have launched
     * nothing for 2 s; LIMITS_CALM_FREE: no waits. 0: the shim does not watch for sleep. */
    _Atomic uint32_t calm_us;
    _Atomic uint32_t company; /* enum limits_company, in the page of a service */
    /* The streams of a task are held until this time, whatever its services do; 0: not held. The
     * agent extends the time, so that the death of the agent ends the hold. */
    _Atomic uint64_t hold_deadline_ms;
    /* In the page of a swappable task: device memory that each process keeps in host memory; 0:
     * none. A process with memory in host memory launches nothing (shim/memory/swap.h). */
    _Atomic uint64_t away_bytes;
    /* In the page of a service: device memory that tasks can free for it. 0: none, so an
     * allocation on a full device fails at once. */
    _Atomic uint64_t room_bytes;
    _Atomic uint32_t away_orders; /* grows after each change of away_bytes; a futex */
    /* Grows after tasks have freed memory that the service lacked, or have refused to. */
    _Atomic uint32_t room_answers;
    uint8_t reserved[8];
    /* Assumed memory of a context until the agent has measured it. 0: LIMITS_CONTEXT_BYTES. */
    _Atomic uint64_t context_bytes;
};

struct limits_page {
    struct page_header header;
    /* Increases after a change of any other field, and when a new agent takes over the page. Code
     * that caches a value derived from limits compares this number to detect a change. */
    _Atomic uint64_t sequence;
    /* Increases after the agent has sent a message to any of the attempt's processes. The shim
     * reads its socket when this number changes, and so needs no thread for the socket. */
    _Atomic uint64_t messages;
    _Atomic uint64_t lease_deadline_ms; /* time after which a task launches nothing; 0: no lease */
    _Atomic uint32_t kind;              /* enum limits_kind */
    _Atomic uint32_t slot_count;        /* slots 0 … slot_count - 1 may be in use */
    /* Number of entries in `devices`, fixed for the attempt. 0: the entries have no UUIDs, and an
     * entry's index is the number of the device in the process. */
    uint32_t device_count;
    /* Time from the expiry of the lease until a task ends itself; 0: LIMITS_FENCE_MS. */
    _Atomic uint32_t fence_ms;
    _Atomic uint64_t target_us; /* latency that the SLO of a service allows; 0: none */
    /* The channel to the program. advice_sequence grows after each change of the other two. */
    _Atomic uint64_t advice_sequence;
    _Atomic uint64_t batch;        /* batch size to use, or limit of a service's batches; 0: none */
    _Atomic uint64_t checkpoint;   /* number of requested checkpoints: grows by 1 per request */
    _Atomic uint32_t is_swappable; /* 1: a task whose device memory can move to host memory */
    /* Longest wait of a service's allocation for memory that tasks free; 0: no wait. */
    _Atomic uint32_t room_wait_ms;
    uint8_t reserved[112];
    struct limits_device devices[PAGE_DEVICES_MAX];
    /* Device memory of a process that the ledger does not count, such as contexts and modules;
     * measured by the agent. Indexed by device, then by slot. */
    _Atomic uint64_t overhead_bytes[PAGE_DEVICES_MAX][PAGE_PROCESSES_MAX];
    /* Time at which the agent began to measure overhead_bytes; 0: not measured. If the agent
     * combined several measurements: the time at which the first began. The agent writes this field
     * after overhead_bytes. The measurement includes all contexts that were complete at this
     * time. */
    _Atomic uint64_t measured_ms[PAGE_DEVICES_MAX][PAGE_PROCESSES_MAX];
};

/* ---- status: the activity of one process ---- */

enum status_feature {
    STATUS_HAS_MARKS = 1 << 0, /* open_streams, started, completed */
    STATUS_HAS_SHUT = 1 << 1,
    STATUS_HAS_BURSTS = 1 << 2, /* burst_begin_ns, wakes, bursts, burst_lengths */
    STATUS_HAS_SWAP = 1 << 3,   /* movable_bytes, away_bytes, lacking_bytes, swap_failures */
};

enum status_state {
    STATUS_RUNNING = 1,
    STATUS_CLOSING = 2,  /* drained, about to end */
    STATUS_FENCED = 3,   /* lease expired; the process launches nothing */
    STATUS_DRAINING = 4, /* waiting for outstanding work, at most 1.5 s, before it ends */
};

enum status_counter {
#define COUNTER(name, what) STATUS_##name,
#include "abi/counters.def"
#undef COUNTER
    STATUS_COUNTER_COUNT
};
_Static_assert((int)STATUS_COUNTER_COUNT <= PAGE_COUNTERS_MAX, "counters.def is full");

/* Bursts of one kind that ended. */
struct status_bursts {
    _Atomic uint64_t count, total_ns;
};

struct status_page {
    struct page_header header;
    uint32_t pid; /* in the process's own namespace; the agent uses the pid from SO_PEERCRED */
    uint32_t slot;
    _Atomic uint32_t state; /* enum status_state */
    uint32_t reserved0;
    uint8_t reserved[176];
    _Atomic uint64_t counters[PAGE_COUNTERS_MAX]; /* indexed by enum status_counter */
    _Atomic uint64_t held_bytes[PAGE_DEVICES_MAX];

    /* Written by libgpumux: the advice that the program has followed, and its requests. */
    _Atomic uint64_t advice_used, batch_used;
    _Atomic uint64_t requests_done, requests_late; /* answered, and answered after the deadline */
    uint8_t reserved_requests[32];
    /* Deadlines of open requests, as times of CLOCK_MONOTONIC; 0: no request. */
    _Atomic uint64_t due_ns[PAGE_REQUESTS_MAX];

    /* Bursts of a service, explained above. */
    _Atomic uint64_t burst_begin_ns;   /* CLOCK_MONOTONIC; 0: no burst is open */
    _Atomic uint32_t reports_requests; /* 1: the program reports requests in due_ns */
    /* Grows when the service launches after more than 1 s without a launch; a futex, on which the
     * keepers of tasks sleep. */
    _Atomic uint32_t wakes;
    uint8_t reserved_bursts[48];
    /* By limits_device.company (alone first, then beside tasks), and by kind. Kind 0 contains a
     * graph; kind k contains 2^(k-1) … 2^k - 1 kernels, the last kind also more. */
    struct status_bursts bursts[2][PAGE_BURST_KINDS];
    /* Histograms of durations, in the same order: four places per doubling, from 16 us. */
    _Atomic uint32_t burst_lengths[2][PAGE_BURST_PLACES];

    /* Device memory of a swappable task that can move to host memory, and the part of it that is
     * there. Indexed by device. */
    _Atomic uint64_t movable_bytes[PAGE_DEVICES_MAX], away_bytes[PAGE_DEVICES_MAX];
    /* Device memory that the allocations of a service lack, which wait for it. Indexed by
     * device. */
    _Atomic uint64_t lacking_bytes[PAGE_DEVICES_MAX];
    _Atomic uint32_t swap_failures; /* moves to host memory or back that failed */
    uint8_t reserved_page[764];

    /* The marks of streams, explained above. The GPU writes `completed`, which therefore is in a
     * page of its own. */
    _Atomic uint64_t open_streams;
    uint8_t reserved_marks[56];
    _Atomic uint64_t started[PAGE_STREAMS_MAX];
    uint8_t reserved_started[4096 - 64 - 8 * PAGE_STREAMS_MAX];
    _Atomic uint64_t completed[PAGE_STREAMS_MAX];
    /* Indexed by device; read by the GPU. 1: the process's streams on the device wait for a busy
     * service. */
    _Atomic uint32_t shut[PAGE_DEVICES_MAX];
    uint8_t reserved_completed[4096 - 8 * PAGE_STREAMS_MAX - 4 * PAGE_DEVICES_MAX];
};

/* ---- ledger: the device memory of the attempt's processes ---- */

enum ledger_feature {
    LEDGER_HAS_OWNERS = 1 << 0,
};

struct ledger_page {
    struct page_header header;
    /* The slot's owner: pid << 32 | the low 32 bits of the start time, both as in /proc. 0: the
     * slot is free. The agent writes this word for the next agent, which inherits the page without
     * knowing the processes. */
    _Atomic uint64_t owners[PAGE_PROCESSES_MAX];
    /* Number of slots in use, as limits_page.slot_count, but kept up to date by every agent: a
     * process may still map the limits page of an earlier agent, which lacks the slots that a later
     * agent assigned. The agent raises this number before it assigns a slot. */
    _Atomic uint32_t slot_count;
    uint8_t reserved[1980];
    /* Allocated device memory, indexed by device, then by slot. A process adds to its own slot
     * before it allocates, and subtracts after it has freed: the sum over the slots therefore
     * includes all allocated memory. The agent sets a dead process's slots to 0 once the device has
     * freed the memory of that process. */
    _Atomic uint64_t held_bytes[PAGE_DEVICES_MAX][PAGE_PROCESSES_MAX];
    /* Assumed device memory of contexts that the agent has not measured yet, reserved before a
     * context is made. context_bytes counts against the quota unless context_ms is before
     * measured_ms. context_ms is the time when the newest context was complete; UINT64_MAX: a
     * context is being made. The writers of held_bytes also write and reset context_bytes and
     * context_ms. */
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
_Static_assert(offsetof(struct limits_device, away_bytes) == 88, "a page's layout");
_Static_assert(offsetof(struct limits_device, context_bytes) == 120, "a page's layout");
_Static_assert(offsetof(struct status_page, due_ns) == 1472, "a page's layout");
_Static_assert(offsetof(struct status_page, burst_begin_ns) == 1728, "a page's layout");
_Static_assert(offsetof(struct status_page, bursts) == 1792, "a page's layout");
_Static_assert(offsetof(struct status_page, burst_lengths) == 2304, "a page's layout");
_Static_assert(offsetof(struct status_page, movable_bytes) == 2944, "a page's layout");
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
