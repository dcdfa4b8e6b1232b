#include "node/device/attainment.h"

enum { MINUTE_MS = 60 * 1000, TEN_MINUTES = 10 };

/* Empties the slots between *newest and `now`, and makes `now` the newest. */
static void advance(struct attainment_slot *slots, int64_t count, int64_t *newest, int64_t now)
{
    if (now - *newest > count)
        *newest = now - count;
    while (*newest < now)
        slots[++*newest % count] = (struct attainment_slot){0};
}

static uint32_t saturate(uint64_t a, uint64_t b)
{
    return b > UINT32_MAX - a ? UINT32_MAX : (uint32_t)(a + b);
}

static void add(struct attainment_slot *slot, uint64_t answered, uint64_t late)
{
    slot->answered = saturate(slot->answered, answered);
    slot->late = saturate(slot->late, late);
}

static uint64_t grow(uint64_t sum, uint64_t more)
{
    return more > UINT64_MAX - sum ? UINT64_MAX : sum + more;
}

void attainment_add(struct attainment *a, int64_t now_ms, uint64_t answered, uint64_t late)
{
    bool is_first = a->first_ms == 0;
    if (late > answered)
        late = answered;
    a->all.answered = grow(a->all.answered, answered);
    a->all.late = grow(a->all.late, late);
    if (is_first) {
        a->first_ms = now_ms;
        a->step = now_ms / ATTAINMENT_STEP_MS;
        a->minute = now_ms / MINUTE_MS;
        return;
    }
    advance(a->steps, ATTAINMENT_STEPS, &a->step, now_ms / ATTAINMENT_STEP_MS);
    advance(a->minutes, ATTAINMENT_MINUTES, &a->minute, now_ms / MINUTE_MS);
    add(&a->steps[a->step % ATTAINMENT_STEPS], answered, late);
    add(&a->minutes[a->minute % ATTAINMENT_MINUTES], answered, late);
}

static struct attainment_count sum(const struct attainment_slot *slots, int64_t size,
                                   int64_t newest, int64_t most)
{
    struct attainment_count sum = {0};
    for (int64_t i = 0; i < most && i <= newest; i++) {
        sum.answered += slots[(newest - i) % size].answered;
        sum.late += slots[(newest - i) % size].late;
    }
    return sum;
}

void attainment_read(const struct attainment *a, int64_t now_ms, struct attempt_control *ret)
{
    struct attainment now = *a;
    ret->all = a->all;
    ret->minute_count = ret->minute_late_count = 0;
    ret->minute = ret->ten_minutes = ret->hour = (struct attainment_count){0};
    if (a->first_ms == 0)
        return;
    advance(now.steps, ATTAINMENT_STEPS, &now.step, now_ms / ATTAINMENT_STEP_MS);
    advance(now.minutes, ATTAINMENT_MINUTES, &now.minute, now_ms / MINUTE_MS);
    ret->minute = sum(now.steps, ATTAINMENT_STEPS, now.step, ATTAINMENT_STEPS);
    ret->ten_minutes = sum(now.minutes, ATTAINMENT_MINUTES, now.minute, TEN_MINUTES);
    ret->hour = sum(now.minutes, ATTAINMENT_MINUTES, now.minute, ATTAINMENT_MINUTES);
    int64_t count = now.minute - a->first_ms / MINUTE_MS + 1;
    if (count > ATTAINMENT_MINUTES)
        count = ATTAINMENT_MINUTES;
    for (int64_t i = 0; i < count; i++) {
        const struct attainment_slot *slot =
            &now.minutes[(now.minute - count + 1 + i) % ATTAINMENT_MINUTES];
        ret->minutes_answered[i] = slot->answered;
        ret->minutes_late[i] = slot->late;
    }
    ret->minute_count = ret->minute_late_count = (int)count;
}
