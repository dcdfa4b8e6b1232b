/*
 * Open requests of a service, and their deadlines in the status page, where the shims of
 * neighbouring tasks read the deadlines.
 *
 * A token contains the arrival of the request, and one more than the place of its deadline; 0: the
 * request has no place. A place belongs to the handle that set its deadline: another handle of the
 * process, or a child of fork(), finds another value there and leaves the place alone.
 */
#include <errno.h>
#include <stdbool.h>

#include "client/client_internal.h"
#include "client/gpumux.h"

/* Low bits of a token, for the place; an arrival is exact to as many nanoseconds. */
#define PLACE_MASK UINT64_C(63)
_Static_assert(PAGE_REQUESTS_MAX < (int)PLACE_MASK, "a token has room for every place");

/* The shim's function if the shim is loaded, else NULL. */
extern __typeof__(gpumux_pages) gpumux_pages __attribute__((weak));

const struct gpumux_pages *gpumux_client_pages(void)
{
    return &gpumux_pages ? gpumux_pages() : NULL;
}

/* A request that was never ended loses its place after some time, as readers ignore it then. */
static bool is_free(uint64_t due_ns, uint64_t now_ns)
{
    return due_ns == 0 || now_ns > due_ns + (uint64_t)PAGE_REQUEST_STALE_MS * GPUMUX_CLIENT_MS_NS;
}

/* Writes the deadline into a free place. Returns one more than the place; 0: no place is free. */
static unsigned take_place(struct status_page *status, uint64_t due_ns, uint64_t now_ns)
{
    for (unsigned i = 0; i < PAGE_REQUESTS_MAX; i++) {
        uint64_t due = atomic_load_explicit(&status->due_ns[i], memory_order_relaxed);
        if (is_free(due, now_ns) &&
            atomic_compare_exchange_strong(&status->due_ns[i], &due, due_ns))
            return i + 1;
    }
    return 0;
}

uint64_t gpumux_request_begin(struct gpumux *g, uint64_t age_us)
{
    if (!g)
        return 0;
    uint64_t now_ns = gpumux_client_clock_ns();
    uint64_t age_ns = age_us < GPUMUX_LATENCY_MAX ? age_us * GPUMUX_CLIENT_US_NS
                                                  : GPUMUX_LATENCY_MAX * GPUMUX_CLIENT_US_NS;
    uint64_t arrival_ns =
        now_ns > age_ns + PLACE_MASK ? (now_ns - age_ns) & ~PLACE_MASK : PLACE_MASK + 1;
    const struct gpumux_pages *pages = gpumux_client_pages();
    uint64_t target_us = pages ? atomic_load(&pages->limits->target_us) : 0;
    bool has_target = target_us > 0 && target_us <= GPUMUX_LATENCY_MAX;
    if (pages && atomic_load(&pages->status->reports_requests) != has_target)
        atomic_store(&pages->status->reports_requests, has_target);
    if (!has_target)
        return arrival_ns;
    uint64_t due_ns = arrival_ns + target_us * GPUMUX_CLIENT_US_NS;
    unsigned place = take_place(pages->status, due_ns, now_ns);
    if (place > 0) {
        struct gpumux_request *request = &g->requests[place - 1];
        atomic_store_explicit(&request->due_ns, due_ns, memory_order_relaxed);
        atomic_store_explicit(&request->token, arrival_ns | place, memory_order_release);
    }
    return arrival_ns | place;
}

/* Frees the request's place. Returns false if the token names a place that another request has, or
 * no request, because the request was ended before or has lost its place. */
static bool leave_place(struct gpumux *g, const struct gpumux_pages *pages, uint64_t token)
{
    unsigned place = (unsigned)(token & PLACE_MASK);
    if (place > PAGE_REQUESTS_MAX)
        return false;
    struct gpumux_request *request = &g->requests[place - 1];
    uint64_t due_ns = atomic_load_explicit(&request->due_ns, memory_order_relaxed);
    if (!atomic_compare_exchange_strong(&request->token, &token, 0))
        return false;
    if (pages)
        (void)atomic_compare_exchange_strong(&pages->status->due_ns[place - 1], &due_ns, 0);
    return true;
}

int gpumux_request_end(struct gpumux *g, uint64_t token)
{
    if (!g || token <= PLACE_MASK)
        return 0;
    const int errno_before = errno;
    const struct gpumux_pages *pages = gpumux_client_pages();
    uint64_t now_ns = gpumux_client_clock_ns(), arrival_ns = token & ~PLACE_MASK;
    uint64_t latency_us = now_ns > arrival_ns ? (now_ns - arrival_ns) / GPUMUX_CLIENT_US_NS : 0;
    if ((token & PLACE_MASK) != 0)
        (void)leave_place(g, pages, token);
    if (pages) {
        uint64_t target_us = atomic_load(&pages->limits->target_us);
        atomic_fetch_add_explicit(&pages->status->requests_done, 1, memory_order_relaxed);
        if (target_us > 0 && latency_us > target_us)
            atomic_fetch_add_explicit(&pages->status->requests_late, 1, memory_order_relaxed);
    }
    int r = gpumux_client_count_latency(g, latency_us, now_ns);
    errno = errno_before;
    return r;
}

void gpumux_request_drop(struct gpumux *g, uint64_t token)
{
    if (g && (token & PLACE_MASK) != 0)
        (void)leave_place(g, gpumux_client_pages(), token);
}
