/*
 * Marks: the device writes its progress in a stream into the status page, where other processes
 * read the progress without a call. A mark is the value of the stream's `launched` at the time of
 * the mark. cuStreamWriteValue64 or, on devices that lack this call, a host function writes the
 * mark after all earlier work of the stream.
 *
 * Tasks wait for the busy streams of a service. The shim marks a service's streams after each
 * graph, after every eighth kernel, and before any call that may show the program that its work is
 * done. The shim uses a task's marks only for the task's own window.
 */
#pragma once
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "abi/cuda.h"
#include "shim/sys/lock.h"

struct process;
struct stream;

enum {
    MARKS_KERNELS = 8,       /* most launches of a service between two marks */
    MARKS_PENDING_MAX = 256, /* outstanding marks by host functions */
};

enum marks_way { MARKS_UNKNOWN, MARKS_BY_DEVICE, MARKS_BY_HOST_FUNCTION };

/* A mark that a host function is going to write. */
struct marks_pending {
    _Atomic uint32_t is_taken;
    _Atomic uint64_t *word;
    uint64_t value;
};

struct marks {
    struct lock lock; /* protects the choice of `way` */
    _Atomic uint32_t way;
    _Atomic uint64_t address; /* device address of status_page.completed */
    _Atomic uint32_t due;     /* a service has unmarked launches */
    struct marks_pending pending[MARKS_PENDING_MAX];
};

/* Puts a mark after the stream's last launch, unless a mark follows that launch already. Returns
 * false if the driver refused. Not for a capturing stream. */
bool marks_write(struct process *p, struct stream *stream);
/* Like marks_write(), also for a stream that captures, or whose handle this thread cannot use. */
bool marks_write_if_possible(struct process *p, struct stream *stream);
/* Puts a mark into every stream with unmarked launches, before the program of a service may learn
 * that work is done. */
void marks_flush(struct process *p);
/* Returns whether the device writes marks and can read the page. The calling thread needs a
 * context. */
bool marks_are_by_device(struct process *p);
/* Makes later launches into the stream wait until the word, in the page of `completed`, is 0.
 * Returns false if the driver refused. Not for a capturing stream. */
bool marks_await_zero(struct process *p, const struct stream *stream, const _Atomic uint32_t *word);
/* Resets the state in a forked child. */
void marks_reset(struct marks *marks);
