#include "shim/memory/room.h"

#include "shim/sys/clock.h"

enum {
    LOOK_NS = CLOCK_MS_NS,
    FREE_LOOK_NS = 20 * CLOCK_MS_NS, /* interval of checks whether memory became free by itself */
    TRIES_MAX = 3,
};
/* Memory that the driver may need besides, such as tables of pages. */
static const uint64_t SLACK_BYTES = UINT64_C(8) << 20;

/* Returns 0 if the thread has no context yet: the context may be all that is missing. */
static uint64_t free_bytes(struct process *p)
{
    size_t left = 0, total = 0;
    return p->calls.real.cuMemGetInfo_v2(&left, &total) == CUDA_SUCCESS ? left : 0;
}

static bool end(struct process *p, const struct room_wait *wait, bool has_failed)
{
    if (wait->begun_ns) {
        process_count(p, STATUS_room_waited_ns, clock_now_ns() - wait->begun_ns);
        if (has_failed)
            process_count(p, STATUS_room_failed, 1);
    }
    return false;
}

/* Waits for an answer of the agent, or for free memory. Returns false at the deadline. */
static bool wait_for_room(struct process *p, const struct limits_device *limits, uint64_t bytes,
                          uint64_t until_ns)
{
    uint32_t answers = atomic_load(&limits->room_answers);
    uint64_t now_ns = clock_now_ns(), looked_ns = now_ns;
    for (; now_ns < until_ns; now_ns = clock_now_ns()) {
        clock_sleep_ns(LOOK_NS);
        if (atomic_load(&limits->room_answers) != answers)
            return true;
        if (now_ns - looked_ns >= FREE_LOOK_NS) {
            looked_ns = now_ns;
            if (free_bytes(p) >= bytes + SLACK_BYTES)
                return true;
        }
    }
    return false;
}

bool room_await_slowly(struct process *p, CUresult result, int device, uint64_t bytes,
                       struct room_wait *wait)
{
    if (!process_is_ready(p) || device < 0)
        return false;
    struct status_page *status = p->client.status;
    const struct limits_device *limits = &p->client.limits->devices[device];
    uint64_t wait_ns = (uint64_t)atomic_load(&p->client.limits->room_wait_ms) * CLOCK_MS_NS;
    bool is_hopeless = atomic_load(&limits->room_bytes) == 0 || wait_ns == 0;
    if (result != CUDA_ERROR_OUT_OF_MEMORY || is_hopeless)
        return end(p, wait, result == CUDA_ERROR_OUT_OF_MEMORY);
    if (wait->begun_ns == 0) {
        wait->begun_ns = clock_now_ns();
        process_count(p, STATUS_room_waits, 1);
    }
    uint64_t needed = bytes + SLACK_BYTES, left = free_bytes(p);
    if (left >= needed) {
        clock_sleep_ns(LOOK_NS);
        return ++wait->tries <= TRIES_MAX || end(p, wait, true);
    }
    wait->lacking_bytes = needed - left;
    atomic_fetch_add(&status->lacking_bytes[device], wait->lacking_bytes);
    bool has_answer = wait_for_room(p, limits, bytes, wait->begun_ns + wait_ns);
    atomic_fetch_sub(&status->lacking_bytes[device], wait->lacking_bytes);
    return has_answer || end(p, wait, true);
}
