/*
 * Layout of the device file. Internal to emu/; a process with another EMU_STATE_VERSION refuses the
 * file.
 *
 *   struct emu_file                      header, EMU_HEADER_BYTES
 *   struct emu_device × device_count     each starts on a page
 *
 * Who may write what:
 * - header: the creator, before anyone else sees the file; but for `alarms`.
 * - everything in a device but the fields named below: only under emu_device.lock, and only after
 *   undo_save() (undo.h), so that a client killed at any instruction leaves no half-made change.
 * - emu_stream.tail and the ring's free entries: the client that owns the stream, without lock. An
 *   entry belongs to the owner until `tail` has passed it and again after `free_head` has.
 * - emu_stream.free_head: under the lock, after a commit. It lags behind `head`, which a roll-back
 *   may take back: an entry is not overwritten before its effects are committed.
 *
 * Sharing. Clients of one MPS server are one party: their kernels overlap, and what one of them
 * does wrong ends all (fault.h). Every other client is a party of its own. Parties take turns
 * (contention.h).
 */
#pragma once
#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#include "contention/contention.h"
#include "emu/device/device_file.h"
#include "emu/device/undo.h"

#define EMU_STATE_MAGIC UINT64_C(0x554d4558554d5047) /* "GPMUXEMU" */

enum {
    EMU_STATE_VERSION = 6,
    EMU_HEADER_BYTES = 4096, /* devices start behind the header, each on a page */
    EMU_CLIENTS_MAX = 256,   /* processes on a device */
    EMU_STREAMS_MAX = 32,    /* streams of a client on a device, the legacy one included */
    EMU_EVENTS_MAX = 1024,   /* events of a client on a device */
    EMU_RING_ENTRIES = 512,  /* operations that a stream can have outstanding */
    EMU_RUNNING_MAX = EMU_CLIENTS_MAX * EMU_STREAMS_MAX,
    EMU_NAME_MAX = 64,
    EMU_UUID_BYTES = 16,
    EMU_BOOT_ID_MAX = 40,
    EMU_XIDS_MAX = 64, /* errors of a device that are remembered */
};

/* Whatever runs, its speed is read from here and from nowhere else. */
struct emu_model {
    char name[EMU_NAME_MAX];
    uint64_t memory_bytes;
    uint32_t sms, cc_major, cc_minor;
    uint32_t dram_gb_s, host_gb_s;
    uint32_t power_idle_w, power_limit_w;
    uint32_t sm_clock_mhz, memory_clock_mhz, bus_bits, l2_mib;
};

struct emu_file {
    uint64_t magic;
    uint32_t version;
    uint32_t device_count;
    uint64_t device_bytes;         /* sizeof(struct emu_device) rounded to a page */
    uint64_t started_mono_ns;      /* CLOCK_MONOTONIC at emulated time 0 */
    uint64_t speed_q20;            /* emulated ns a ns, << 20 */
    char boot_id[EMU_BOOT_ID_MAX]; /* CLOCK_MONOTONIC means nothing after a reboot */
    char spec[256];
    /* Counts, without any lock, what nobody may sleep over: faults, ended servers, Xids. Sleepers
     * wait for a change of it (mapping_sleep). */
    _Atomic uint32_t alarms;
};

enum emu_operation {
    /* Takes the device for duration_ns: a kernel, copy or fill. A copy over the bus moves `value`
     * bytes, in the direction `target` (enum emu_direction). */
    EMU_RUN,
    EMU_RECORD, /* event `target` gets the time, as record number `value` */
    EMU_WAIT,   /* until event `target` has had record number `value` */
    EMU_FREE,   /* gives `value` bytes back */
    EMU_FAULT,  /* an illegal address: the end of its client (fault.h) */
};

enum emu_direction { EMU_TO_DEVICE, EMU_FROM_DEVICE };

struct emu_entry {
    uint64_t enqueued_ns; /* emulated; it does not start before */
    uint64_t order;       /* of the client's launches over all its streams, from 1 */
    uint64_t duration_ns;
    uint64_t value;
    uint32_t target;
    uint16_t sm_permille, dram_permille;
    uint32_t operation; /* enum emu_operation */
    uint32_t block_ns;  /* EMU_RUN: how long one of its blocks takes; 0: as long as all */
};

/* What the owner writes at every launch, what it reads and what the simulation writes at every step
 * lie in lines of their own: they are used on different processors at the same time. */
enum { EMU_LINE_BYTES = 64 };

struct emu_stream {
    /* Entries ever put in, by the owner. */
    _Alignas(EMU_LINE_BYTES) _Atomic uint64_t tail;
    /* Entries ever finished, committed: what the owner may reuse. */
    _Alignas(EMU_LINE_BYTES) _Atomic uint64_t free_head;
    _Alignas(EMU_LINE_BYTES) uint64_t head; /* entries ever finished */
    uint32_t running;                       /* 1: the entry at head is in emu_device.running */
    uint32_t blocking;                      /* 1: orders itself with the legacy stream, number 0 */
    int32_t priority; /* as CUDA counts: 0 least, below it more; by whoever makes the stream */
    uint32_t reserved;
    uint64_t
        saved_batch; /* not undone: the batch (emu_device.batch) that has saved head, running */
    struct emu_entry ring[EMU_RING_ENTRIES];
};

struct emu_event {
    uint64_t records_done; /* the highest record number that was reached */
    uint64_t time_ns;      /* when */
};

/* As CUDA_MPS_CLIENT_PRIORITY counts. */
enum emu_client_priority { EMU_PRIORITY_NORMAL = 0, EMU_PRIORITY_BELOW_NORMAL = 1 };

struct emu_client {
    uint32_t live; /* 1: taken. Its process holds the record lock of the slot (client.h) */
    int32_t pid;
    /* How it shares the device: set with `live`, by the process that takes the slot, then kept. */
    uint32_t mps_generation; /* emu_mps.generation when it joined the server; 0: no MPS client */
    uint32_t share_permille; /* of the SMs, whole ones, by its active thread percentage: 1 … 1000 */
    uint32_t priority;       /* of an MPS client: enum emu_client_priority */
    /* A CUDA error that every later call of the client answers; 0: none. Set by any process under
     * the lock, after undo_save(), and never taken back; read by the owner without lock. */
    _Atomic uint32_t sticky_error;
    /* 0: it runs; else its calls wait (enum cuda_process_state). Set by any process under the lock,
     * after undo_save(); read by the owner without lock. */
    _Atomic uint32_t checkpoint_state;
    /* 1: it has had managed memory, or memory in common with another process, and no checkpoint is
     * made of it. Set by the owner without lock, and never taken back. */
    _Atomic uint32_t is_unmovable;
    uint64_t checkpoint_bytes; /* of memory that a checkpoint has taken off the device */
    uint64_t memory_bytes;
    uint64_t memory_limit_bytes; /* of an MPS client: what memory_bytes may not pass; 0: none */
    uint64_t streams_used;       /* bit i: streams[i] exists */
    uint64_t streams_closing;    /* bit i: destroyed; free again once it is empty */
    struct emu_event events[EMU_EVENTS_MAX];
    struct emu_stream streams[EMU_STREAMS_MAX];
};

enum emu_mps_state {
    EMU_MPS_NONE,    /* no server: clients are not MPS clients */
    EMU_MPS_READY,   /* takes clients */
    EMU_MPS_FAULTED, /* a client's fault: all have its error, no new one until they have left */
};

/* The MPS server of a device. Written by the server and by a client that faults, under the lock. */
struct emu_mps {
    uint32_t state;      /* enum emu_mps_state */
    uint32_t generation; /* of servers, from 1; a new server is a new number */
    int32_t server_pid;  /* 0: none */
    uint32_t is_implied; /* 1: by the creator (GPUMUX_EMU_MODE=shared): all clients are MPS clients
                          * of generation 1 without any server */
};

/* One error that the driver would have written to the system log. */
struct emu_xid {
    uint64_t time_ns;
    uint32_t number;
    int32_t pid; /* whose work it was; 0: nobody's */
};

struct emu_ecc {
    uint64_t corrected, uncorrected;
};

/* What is wrong with a device; all zeroes: nothing. Changed under the lock, by fault.c. */
struct emu_health {
    uint32_t is_lost;                /* 1: fallen off the bus */
    uint32_t clock_lowered_permille; /* of the SM clock; everything takes that much longer */
    uint64_t clock_reasons;          /* bits as NVML has them */
    struct emu_ecc ecc_now;          /* since the last reset */
    struct emu_ecc ecc_ever;
    uint32_t rows_remapped;
    uint32_t rows_pending; /* to be remapped at the next reset */
    uint64_t xid_count;    /* ever; the last EMU_XIDS_MAX are xids[number % EMU_XIDS_MAX] */
    struct emu_xid xids[EMU_XIDS_MAX];
};

/* Integrals over emulated time. */
struct emu_usage {
    uint64_t time_ns;
    uint64_t busy_ns;                            /* time with anything running */
    uint64_t sm_permille_ns;                     /* ∫ SMs in use */
    uint64_t dram_permille_ns;                   /* ∫ DRAM bandwidth in use */
    uint64_t to_device_bytes, from_device_bytes; /* that copies have moved over the bus */
};

/* A stream with operations, as the simulation found it. */
struct emu_active {
    uint64_t tail;
    uint32_t slot, index;
};

struct emu_device {
    pthread_mutex_t lock; /* process-shared, robust */
    struct undo_log undo;
    uint8_t uuid[EMU_UUID_BYTES];
    struct emu_model model;
    uint64_t context_bytes; /* that a client takes from the start */
    struct emu_mps mps;
    struct emu_health health;

    /* The simulation's own, under the lock, made anew each time and not undone. */
    uint64_t batch; /* of changes that are committed together; counts up for ever */
    struct emu_active active[EMU_RUNNING_MAX];
    uint32_t active_count;

    /* From here to `running`: saved as one piece by every batch of the simulation. */
    struct emu_usage usage;    /* usage.time_ns is how far the device has been simulated */
    struct emu_usage marks[2]; /* of the last two ends of a utilisation window, the older first */
    struct contention_device contention;
    uint64_t memory_used_bytes;
    uint64_t reaped_mono_ns; /* when dead clients were last looked for */
    uint32_t running_count;
    uint32_t clients_high;                             /* slots at or above this are free */
    struct contention_kernel running[EMU_RUNNING_MAX]; /* in order of arrival */

    struct emu_client clients[EMU_CLIENTS_MAX];
};

static_assert(sizeof(struct emu_file) <= EMU_HEADER_BYTES, "devices start behind the header");
static_assert(EMU_CLIENTS_MAX <= (int)CONTENTION_CLIENTS_MAX, "a slot is a client of the model");
static_assert(EMU_STREAMS_MAX <= 64, "emu_client.streams_used is one word");
