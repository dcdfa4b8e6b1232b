/* The words in the pages by which tasks give device memory to services (abi/page.h). */
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "node/protect/registrar_internal.h"

static const struct status_page *page_of(const struct member *m)
{
    return m->status.page && (m->status.page->header.features & STATUS_HAS_SWAP) ? m->status.page
                                                                                 : NULL;
}

void session_read_room(const struct session *s, int device, struct session_room *ret)
{
    *ret = (struct session_room){0};
    if (!s->limits.page || device >= s->terms->device_count)
        return;
    list_for_each (it, &s->members) {
        const struct member *m = list_entry(it, struct member, link);
        const struct status_page *page = page_of(m);
        uint64_t held = claims_add(0, atomic_load(&s->ledger.page->held_bytes[device][m->slot]));
        ret->held_bytes = claims_add(ret->held_bytes, held);
        ret->holders += held > 0;
        if (!page)
            continue;
        uint64_t movable = claims_add(0, atomic_load(&page->movable_bytes[device]));
        uint64_t away = claims_add(0, atomic_load(&page->away_bytes[device]));
        /* A claim beyond the memory that the process counted is worth nothing. */
        movable = movable < held ? movable : held;
        ret->movable_bytes = claims_add(ret->movable_bytes, movable);
        ret->away_bytes = claims_add(ret->away_bytes, away < movable ? away : movable);
        ret->lacking_bytes =
            claims_add(ret->lacking_bytes, atomic_load(&page->lacking_bytes[device]));
        ret->failures += atomic_load(&page->swap_failures);
    }
}

void session_order_away(struct session *s, int device, uint64_t bytes)
{
    if (!s->limits.page || device >= s->terms->device_count)
        return;
    struct limits_device *limits = &s->limits.page->devices[device];
    atomic_store(&limits->away_bytes, bytes);
    atomic_fetch_add(&limits->away_orders, 1);
    (void)syscall(SYS_futex, &limits->away_orders, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

void session_show_room(struct session *s, int device, uint64_t bytes, bool has_answer)
{
    if (!s->limits.page || device >= s->terms->device_count)
        return;
    struct limits_device *limits = &s->limits.page->devices[device];
    if (atomic_load(&limits->room_bytes) != bytes)
        atomic_store(&limits->room_bytes, bytes);
    if (has_answer)
        atomic_fetch_add(&limits->room_answers, 1);
}
