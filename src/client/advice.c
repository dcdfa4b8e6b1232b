/*
 * Advice: the batch size that gpumux asks for, and requests for checkpoints, from the limits page
 * and from the supervisor. The page is faster; the supervisor also reaches a process without pages,
 * and one that launches nothing after a new agent has replaced the pages. The newest advice counts.
 * The writer changes the sequence last, so a reader that reads the sequence first never takes old
 * advice for new.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "client/client_internal.h"
#include "client/gpumux.h"

enum { COMMAND_MAX = 64 };

struct advice {
    uint64_t sequence, batch, checkpoints;
};

static const struct gpumux_pages *pages_with_advice(void)
{
    const struct gpumux_pages *pages = gpumux_client_pages();
    return pages && (pages->limits->header.features & LIMITS_HAS_ADVICE) ? pages : NULL;
}

static struct advice read_advice(const struct gpumux *g)
{
    const struct gpumux_pages *pages = pages_with_advice();
    const struct limits_page *limits = pages ? pages->limits : NULL;
    uint64_t paged =
        limits ? atomic_load_explicit(&limits->advice_sequence, memory_order_acquire) : 0;
    uint64_t told = atomic_load_explicit(&g->told_sequence, memory_order_acquire);
    if (limits && paged >= told)
        return (struct advice){.sequence = paged,
                               .batch = atomic_load_explicit(&limits->batch, memory_order_acquire),
                               .checkpoints =
                                   atomic_load_explicit(&limits->checkpoint, memory_order_acquire)};
    return (struct advice){.sequence = told,
                           .batch = atomic_load_explicit(&g->told_batch, memory_order_acquire),
                           .checkpoints =
                               atomic_load_explicit(&g->told_checkpoints, memory_order_acquire)};
}

/* Records that the newest advice was followed, once the program has followed all of it. */
static void settle(struct gpumux *g, const struct advice *advice)
{
    uint64_t batch = atomic_load_explicit(&g->batch_followed, memory_order_relaxed);
    uint64_t checkpoints = atomic_load_explicit(&g->checkpoints_followed, memory_order_relaxed);
    const struct gpumux_pages *pages = pages_with_advice();
    if ((advice->batch != 0 && batch != advice->batch) || checkpoints < advice->checkpoints)
        return;
    atomic_store(&g->sequence_followed, advice->sequence);
    if (pages)
        atomic_store(&pages->status->advice_used, advice->sequence);
}

/* Settles after each change of the advice; a no-op otherwise. */
static void settle_news(struct gpumux *g, const struct advice *advice)
{
    if (advice->sequence != atomic_load_explicit(&g->sequence_followed, memory_order_relaxed))
        settle(g, advice);
}

static uint64_t bounded(const struct gpumux *g, uint64_t batch)
{
    if (g->batch_step > 0)
        batch -= batch % g->batch_step;
    if (g->batch_max > 0 && batch > g->batch_max)
        batch = g->batch_max;
    if (batch < g->batch_min)
        batch = g->batch_min;
    return batch > 0 ? batch : g->batch_step;
}

uint64_t gpumux_batch_size(const struct gpumux *g, uint64_t otherwise)
{
    if (!g)
        return otherwise;
    struct gpumux *own = (struct gpumux *)(uintptr_t)g; /* gpumux_open() made the handle */
    const struct advice advice = read_advice(g);
    if (atomic_load_explicit(&g->batch_read, memory_order_relaxed) != advice.batch)
        atomic_store(&own->batch_read, advice.batch);
    if (advice.batch != 0)
        return bounded(g, advice.batch);
    return g->batch_size ? g->batch_size : otherwise;
}

void gpumux_use_batch(struct gpumux *g, uint64_t batch)
{
    if (!g)
        return;
    const struct advice advice = read_advice(g);
    const struct gpumux_pages *pages = gpumux_client_pages();
    uint64_t read = atomic_load_explicit(&g->batch_read, memory_order_relaxed);
    if (atomic_load_explicit(&g->batch_used, memory_order_relaxed) != batch)
        atomic_store(&g->batch_used, batch);
    if (atomic_load_explicit(&g->batch_followed, memory_order_relaxed) != read)
        atomic_store(&g->batch_followed, read);
    if (pages && atomic_load_explicit(&pages->status->batch_used, memory_order_relaxed) != batch)
        atomic_store(&pages->status->batch_used, batch);
    settle_news(g, &advice);
}

int gpumux_checkpoint_wanted(struct gpumux *g)
{
    if (!g)
        return 0;
    const struct advice advice = read_advice(g);
    uint64_t followed = atomic_load_explicit(&g->checkpoints_followed, memory_order_relaxed);
    bool is_wanted =
        followed < advice.checkpoints &&
        atomic_compare_exchange_strong(&g->checkpoints_followed, &followed, advice.checkpoints);
    settle_news(g, &advice);
    return is_wanted;
}

void gpumux_client_ask_advice(struct gpumux *g)
{
    char command[COMMAND_MAX];
    if (atomic_load(&g->has_no_advice))
        return;
    snprintf(command, sizeof command, CONTROL_WORD_ADVICE " %" PRIu64 " %" PRIu64,
             atomic_load(&g->sequence_followed), atomic_load(&g->batch_used));
    (void)gpumux_client_report(g, command, true);
}
