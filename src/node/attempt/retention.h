/* Forgetting the output of finished attempts, by age, count and bytes. Never what runs: only what
 * was settled is in the directory that it looks at. */
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

/* One sweep, in the caller's thread, left early once *stop (may be NULL); returns how many attempts
 * were forgotten. The newest are kept. */
size_t retention_sweep(int finished_fd, const struct retention_limits *limits,
                       const atomic_bool *stop);

/* Sweeps now and then, in a thread of its own: there may be 100,000 directories. finished_fd stays
 * the caller's. */
int retention_new(struct error *e, struct event_base *base, int finished_fd,
                  const struct retention_limits *limits, struct retention **ret);
/* One more attempt is in the directory. Once there came an eighth of what is to be kept since the
 * last sweep, the next one is due. */
void retention_settled(struct retention *r);
void retention_free(struct retention *r);
