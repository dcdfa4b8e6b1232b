/*
 * Marks: the device writes into the status page how far it is in a stream, so that others see it in
 * memory, without a call. A mark is the stream's `launched` when it is written, put behind all of
 * that with cuStreamWriteValue64; where a device cannot, a host function does it.
 *
 * A service's busy streams are what tasks wait for: it is marked after each graph, every eighth
 * kernel, and before whatever lets the program learn that its work is done. A task's marks are for
 * its own window.
 */
#pragma once
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "shim/hook/cuda_types.h"
#include "shim/sys/lock.h"

struct process;
struct stream;

enum {
    MARKS_KERNELS = 8,       /* a service's launches between two marks, at most */
    MARKS_PENDING_MAX = 256, /* by host functions */
};

enum marks_way { MARKS_UNKNOWN, MARKS_BY_DEVICE, MARKS_BY_HOST_FUNCTION };

/* A mark that a host function will write. */
struct marks_pending {
    _Atomic uint32_t is_taken;
    _Atomic uint64_t *word;
    uint64_t value;
};

struct marks {
    struct lock lock; /* for choosing the way */
    _Atomic uint32_t way;
    _Atomic uint64_t address; /* of status_page.completed, for the device */
    _Atomic uint32_t due;     /* a service has launches without a mark */
    struct marks_pending pending[MARKS_PENDING_MAX];
};

/* Puts a mark behind what was launched into the stream, if there is none yet. False if the driver
 * refused. Not if the stream captures. */
bool marks_write(struct process *p, struct stream *stream);
/* The same for a stream that may capture, or be out of the calling thread's reach. */
bool marks_write_if_possible(struct process *p, struct stream *stream);
/* Puts marks into all streams that lack one: of a service, before it can learn that work is
 * done. */
void marks_flush(struct process *p);
/* Whether the device writes them, and can read the page. Where the calling thread has a context. */
bool marks_are_by_device(struct process *p);
/* What is launched into the stream after this starts when the word, of the page of `completed`, is
 * 0. False if the driver refused. Not if the stream captures. */
bool marks_await_zero(struct process *p, const struct stream *stream, const _Atomic uint32_t *word);
/* In a child. */
void marks_reset(struct marks *marks);
