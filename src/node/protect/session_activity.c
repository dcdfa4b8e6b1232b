/* Requests, bursts and launches of a session's processes, by their status pages; and the word by
 * which a service's processes count their bursts. */
#include "base/str.h"
#include "node/protect/registrar_internal.h"

_Static_assert((int)CONTROLLER_KINDS == (int)PAGE_BURST_KINDS, "kinds of bursts");

static void add_bursts(struct controller_bursts *sums, const struct status_bursts *bursts)
{
    for (int k = 0; k < PAGE_BURST_KINDS; k++) {
        sums[k].count = claims_add(sums[k].count, atomic_load(&bursts[k].count));
        sums[k].total_us = claims_add(sums[k].total_us, atomic_load(&bursts[k].total_ns) / 1000);
    }
}

void session_activity(const struct session *s, struct session_activity *ret)
{
    *ret = (struct session_activity){0};
    list_for_each (it, &s->members) {
        const struct member *m = list_entry(it, struct member, link);
        const struct status_page *page = m->status.page;
        if (!page)
            continue;
        ret->reports_requests |= atomic_load(&page->reports_requests) != 0;
        ret->answered = claims_add(ret->answered, atomic_load(&page->requests_done));
        ret->late = claims_add(ret->late, atomic_load(&page->requests_late));
        ret->launches =
            claims_add(ret->launches, atomic_load(&page->counters[STATUS_launches_kernel]));
        ret->launches =
            claims_add(ret->launches, atomic_load(&page->counters[STATUS_launches_graph]));
        add_bursts(ret->alone, page->bursts[0]);
        add_bursts(ret->beside, page->bursts[1]);
    }
}

void session_set_company(struct session *s, const char *uuid, enum limits_company company)
{
    for (int i = 0; s->limits.page && i < s->terms->device_count; i++)
        if (str_equal(s->terms->devices[i], uuid))
            atomic_store(&s->limits.page->devices[i].company, company);
}
