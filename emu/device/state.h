/*
 * Layout of the device file, internal to emu/. A process with another EMU_STATE_VERSION refuses the
 * file.
 *
 *   struct emu_file                      header, EMU_HEADER_BYTES
 *   struct emu_device × device_count     each starts on a page
 *
 * Writers:
 * - The header, except `alarms`: only its creator, before other processes see the file.
 * - All fields of a device except the fields below: only the owner of emu_device.lock, and only
 *   after undo_save() (undo.h). A client killed at any instruction thus leaves no half-made change.
 * - emu_stream.tail and the free entries of the ring: the client that owns the stream, without a
 *   lock. The owner may write an entry until `tail` has passed the entry, and again after
 *   `free_head` has passed the entry.
 * - emu_stream.free_head: the owner of the lock, after a commit. free_head lags behind `head`,
 *   because a roll-back may lower `head`: no entry is overwritten before its effects are committed.
 *
 * Sharing. Clients of one MPS server are one party: their kernels overlap, and a fault of one
 * client ends all clients (fault.h). Every other client is a party of its own. Parties take turns
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
    EMU_STREAMS_MAX = 32,    /* streams of a client on a device, including the legacy stream */
    EMU_EVENTS_MAX = 1024,   /* events of a client on a device */
    EMU_RING_ENTRIES = 512,  /* outstanding operations of a stream */
    EMU_RUNNING_MAX = EMU_CLIENTS_MAX * EMU_STREAMS_MAX,
    EMU_NAME_MAX = 64,
    EMU_UUID_BYTES = 16,
    EMU_BOOT_ID_MAX = 40,
    EMU_XIDS_MAX = 64, /* recorded errors of a device */
};

/* The performance of a device: the only source of its speed. */
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
    uint64_t device_bytes;         /* sizeof(struct emu_device), rounded up to a page */
    uint64_t started_mono_ns;      /* CLOCK_MONOTONIC at emulated time 0 */
    uint64_t speed_q20;            /* emulated ns per ns, << 20 */
    char boot_id[EMU_BOOT_ID_MAX]; /* CLOCK_MONOTONIC means nothing after a reboot */
    char spec[256];
    /* Number of events that must end every sleep: faults, ended servers, Xids. Changed without a
     * lock. Sleepers wait for a change of this number (mapping_sleep()). */
    _Atomic uint32_t alarms;
};

enum emu_operation {
    /* Occupies the device for duration_ns: a kernel, copy or fill. A copy over the bus moves
     * `value` bytes in the direction `target` (enum emu_direction). */
    EMU_RUN,
    EMU_RECORD, /* stores the time in event `target`, as record number `value` */
    EMU_WAIT,   /* waits until event `target` has reached record number `value` */
    EMU_FREE,   /* frees `value` bytes */
    EMU_FAULT,  /* an illegal address, which ends its client (fault.h) */
};

enum emu_direction { EMU_TO_DEVICE, EMU_FROM_DEVICE };

struct emu_entry {
    uint64_t enqueued_ns; /* emulated time; the operation does not start earlier */
    uint64_t order;       /* number of the launch among all streams of the client, from 1 */
    uint64_t duration_ns;
    uint64_t value;
    uint32_t target;
    uint16_t sm_permille, dram_permille;
    uint32_t operation; /* enum emu_operation */
    uint32_t block_ns;  /* EMU_RUN: duration of one block; 0: duration_ns */
};

/* Different processors use three groups of words, which therefore are on separate cache lines. The
 * owner writes the first group at every launch and reads the second group; the simulation writes
 * the third group at every step. */
enum { EMU_LINE_BYTES = 64 };

struct emu_stream {
    /* Number of entries that the owner ever added. */
    _Alignas(EMU_LINE_BYTES) _Atomic uint64_t tail;
    /* Number of entries ever finished and committed: the owner may reuse these entries. */
    _Alignas(EMU_LINE_BYTES) _Atomic uint64_t free_head;
    _Alignas(EMU_LINE_BYTES) uint64_t head; /* number of entries ever finished */
    uint32_t running;                       /* 1: the entry at head is in emu_device.running */
    uint32_t blocking; /* 1: ordered with the legacy stream, which is number 0 */
    /* CUDA's priority, set by the stream's creator; 0 is the lowest, negative values are higher. */
    int32_t priority;
    uint32_t reserved;
    /* Batch (emu_device.batch) that has saved head and running. A roll-back does not restore it. */
    uint64_t saved_batch;
    struct emu_entry ring[EMU_RING_ENTRIES];
};

struct emu_event {
    uint64_t records_done; /* highest record number reached */
    uint64_t time_ns;      /* time of that record */
};

/* Values of CUDA_MPS_CLIENT_PRIORITY. */
enum emu_client_priority { EMU_PRIORITY_NORMAL = 0, EMU_PRIORITY_BELOW_NORMAL = 1 };

struct emu_client {
    uint32_t live; /* 1: taken; its process has the claim of the slot (claim.h) */
    int32_t pid;
    /* The process that takes the slot sets the terms of sharing together with `live`; the terms
     * never change. First: emu_mps.generation when the client joined the server; 0: no MPS
     * client. */
    uint32_t mps_generation;
    uint32_t share_permille; /* whole SMs by the client's active thread percentage: 1 … 1000 */
    uint32_t priority;       /* priority of an MPS client: enum emu_client_priority */
    /* CUDA error that every later call of the client returns; 0: none. Any process sets the error
     * under the lock, after undo_save(), and no process clears it; the owner reads it without a
     * lock. */
    _Atomic uint32_t sticky_error;
    /* 0: running; otherwise the client's calls wait (enum cuda_process_state). Any process sets the
     * state under the lock, after undo_save(); the owner reads it without a lock. */
    _Atomic uint32_t checkpoint_state;
    /* 1: the client once had managed memory, or memory shared with another process, and cannot be
     * checkpointed. The owner sets this flag without a lock; no process clears it. */
    _Atomic uint32_t is_unmovable;
    uint64_t checkpoint_bytes; /* device memory that a checkpoint has saved to the host */
    uint64_t memory_bytes;
    uint64_t memory_limit_bytes; /* limit of an MPS client's memory_bytes; 0: none */
    uint64_t streams_used;       /* bit i: streams[i] exists */
    uint64_t streams_closing;    /* bit i: streams[i] is destroyed, and free once empty */
    struct emu_event events[EMU_EVENTS_MAX];
    struct emu_stream streams[EMU_STREAMS_MAX];
};

enum emu_mps_state {
    EMU_MPS_NONE,  /* no server: clients are not MPS clients */
    EMU_MPS_READY, /* accepts clients */
    /* A client faulted: all clients have its error, and new clients wait until the faulted clients
     * have left. */
    EMU_MPS_FAULTED,
};

/* The MPS server of a device. Written by the server and by a client that faults, under the lock. */
struct emu_mps {
    uint32_t state;      /* enum emu_mps_state */
    uint32_t generation; /* number of the latest server, from 1 */
    int32_t server_pid;  /* 0: none */
    /* 1: all clients are MPS clients of generation 1, without any server; set by the file's creator
     * (GPUMUX_EMU_MODE=shared). */
    uint32_t is_implied;
};

/* One error that the driver would have written to the system log. */
struct emu_xid {
    uint64_t time_ns;
    uint32_t number;
    int32_t pid; /* process whose work caused the error; 0: none */
};

struct emu_ecc {
    uint64_t corrected, uncorrected;
};

/* The faults of a device, changed under the lock by fault.c; all zero: healthy. */
struct emu_health {
    uint32_t is_lost;                /* 1: fallen off the bus */
    uint32_t clock_lowered_permille; /* reduction of the SM clock, which slows all work */
    uint64_t clock_reasons;          /* bits of NVML's clock reasons */
    struct emu_ecc ecc_now;          /* since the last reset */
    struct emu_ecc ecc_ever;
    uint32_t rows_remapped;
    uint32_t rows_pending; /* rows to be remapped at the next reset */
    uint64_t xid_count;    /* number of errors ever; error i is at xids[i % EMU_XIDS_MAX] */
    struct emu_xid xids[EMU_XIDS_MAX];
};

/* Integrals over emulated time. */
struct emu_usage {
    uint64_t time_ns;
    uint64_t busy_ns;                            /* time with any work running */
    uint64_t sm_permille_ns;                     /* ∫ SMs in use */
    uint64_t dram_permille_ns;                   /* ∫ DRAM bandwidth in use */
    uint64_t to_device_bytes, from_device_bytes; /* bytes that copies have moved over the bus */
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
    uint64_t context_bytes; /* device memory of each client's first context */
    struct emu_mps mps;
    struct emu_health health;

    /* Scratch data of the simulation, under the lock; rebuilt each time, without undo. First the
     * number of the present batch, whose changes are committed together; never reset. */
    uint64_t batch;
    struct emu_active active[EMU_RUNNING_MAX];
    uint32_t active_count;

    /* Every batch of the simulation saves the fields from here to `running` as one piece.
     * usage.time_ns is the time up to which the device has been simulated. */
    struct emu_usage usage;
    struct emu_usage marks[2]; /* ends of the last two utilisation windows, the older first */
    struct contention_device contention;
    uint64_t memory_used_bytes;
    uint64_t reaped_mono_ns; /* time of the latest search for dead clients */
    uint32_t running_count;
    uint32_t clients_high;                             /* slots from this number on are free */
    struct contention_kernel running[EMU_RUNNING_MAX]; /* in order of arrival */

    struct emu_client clients[EMU_CLIENTS_MAX];
};

static_assert(sizeof(struct emu_file) <= EMU_HEADER_BYTES, "devices start behind the header");
static_assert(EMU_CLIENTS_MAX <= (int)CONTENTION_CLIENTS_MAX, "a slot is a client of the model");
static_assert(EMU_STREAMS_MAX <= 64, "emu_client.streams_used is one word");
