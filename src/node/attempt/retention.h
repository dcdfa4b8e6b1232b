/* Deletes the output of finished attempts by age, count and size. The directory must contain only
 * settled attempts. */
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

/* Sweeps once, in the caller's thread, keeping the newest attempts. The sweep ends early when *stop
 * (may be NULL) is set. Returns the number of deleted attempts. */
size_t retention_sweep(int finished_fd, const struct retention_limits *limits,
                       const atomic_bool *stop);

/* Starts periodic sweeps in a thread of their own, because there may be 100,000 directories. The
 * caller keeps ownership of finished_fd. */
int retention_new(struct error *e, struct event_base *base, int finished_fd,
                  const struct retention_limits *limits, struct retention **ret);
/* Counts an attempt that was moved into the directory. A sweep is due when the attempts counted
 * since the last sweep reach an eighth of the count limit. */
void retention_settled(struct retention *r);
void retention_free(struct retention *r);
