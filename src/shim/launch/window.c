#include "shim/launch/window.h"

uint64_t window_outstanding(const struct status_page *status, const struct streams *streams,
                            uint64_t slots)
{
    uint64_t sum = 0;
    for (; slots; slots &= slots - 1) {
        int slot = __builtin_ctzll(slots);
        uint64_t completed = atomic_load_explicit(&status->completed[slot], memory_order_acquire);
        uint64_t started = atomic_load_explicit(&status->started[slot], memory_order_relaxed);
        uint64_t done = streams_done(&streams->slots[slot], completed);
        if (started > done)
            sum += started - done;
    }
    return sum;
}

void window_give_up(struct window *window, const struct status_page *status,
                    struct streams *streams, uint64_t slots)
{
    atomic_store(&window->begun_ns, atomic_load(&window->charged_ns));
    for (; slots; slots &= slots - 1) {
        int slot = __builtin_ctzll(slots);
        struct stream *stream = &streams->slots[slot];
        atomic_store_explicit(&stream->given_up_at,
                              atomic_load_explicit(&status->completed[slot], memory_order_acquire),
                              memory_order_relaxed);
        atomic_store_explicit(&stream->given_up,
                              atomic_load_explicit(&status->started[slot], memory_order_relaxed),
                              memory_order_relaxed);
    }
}

/* Uses given_up, as window_give_up() does. A mark that arrives later covers later launches, and
 * replaces this value. */
void window_note_done(const struct status_page *status, struct stream *stream, uint64_t launched)
{
    uint64_t completed =
        atomic_load_explicit(&status->completed[stream->slot], memory_order_acquire);
    if (launched <= streams_done(stream, completed))
        return;
    atomic_store_explicit(&stream->given_up, launched, memory_order_relaxed);
    atomic_store_explicit(&stream->given_up_at, completed, memory_order_release);
}
