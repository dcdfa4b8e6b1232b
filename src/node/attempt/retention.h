/* Deletes the output of finished attempts by age, count and size. Only settled attempts are in its
 * directory. */
#pragma once
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

struct event_base;
struct retention;

struct retention_limits {
    int64_t age_ms;
    size_t count;
    uint64_t bytes;
};

/* One sweep, in the caller's thread, which ends early when *stop (may be NULL) is set. Keeps the
 * newest attempts; returns how many were deleted. */
size_t retention_sweep(int finished_fd, const struct retention_limits *limits,
                       const atomic_bool *stop);

/* Sweeps periodically, in a thread of its own, since there may be 100,000 directories. finished_fd
 * stays the caller's. */
int retention_new(struct error *e, struct event_base *base, int finished_fd,
                  const struct retention_limits *limits, struct retention **ret);
/* Another attempt is in the directory. A sweep is due when an eighth of the limit has come since
 * the last sweep. */
void retention_settled(struct retention *r);
void retention_free(struct retention *r);
