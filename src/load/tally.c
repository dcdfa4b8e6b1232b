#include "load/tally.h"

#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "wire/spec.h"

static const struct {
    const char *name, *text;
} causes[TALLY_CAUSE_END] = {
    [TALLY_STATUS] = {"status", "answered with an error"},
    [TALLY_CONNECT] = {"connect", "no connection"},
    [TALLY_BROKEN] = {"broken", "connection broke"},
    [TALLY_PROTOCOL] = {"protocol", "answer is not HTTP"},
    [TALLY_TIMEOUT] = {"timeout", "timeout"},
    [TALLY_DROPPED] = {"dropped", "dropped, queue full"},
    [TALLY_INTERRUPTED] = {"interrupted", "interrupted"},
};

const char *tally_cause_name(enum tally_cause cause)
{
    return causes[cause].name;
}

const char *tally_cause_text(enum tally_cause cause)
{
    return causes[cause].text;
}

/* Parses "p99<=20ms" up to `end`. */
static int parse_slo(struct error *e, const char *text, size_t length, struct tally_slo *ret)
{
    char part[64], *rest;
    struct tally_slo slo = {0};
    double ms;
    if (length < sizeof part) {
        memcpy(part, text, length);
        part[length] = '\0';
        if (part[0] == 'p' && strspn(part + 1, "0123456789.") > 0) {
            slo.percentile = strtod(part + 1, &rest);
            rest += *rest == '<';
            rest += *rest == '=';
            if (slo.percentile > 0 && slo.percentile <= 100 && rest[-1] == '=' &&
                spec_parse_real_duration(NULL, rest, &ms) == 0 && ms > 0 && ms <= 1e8) {
                slo.limit_ns = (int64_t)(ms * 1e6 + 0.5);
                *ret = slo;
                return 0;
            }
        }
    }
    return error_set(e, ERR_INVALID, "'%.40s' is not a target, such as p99<=20ms", text);
}

int tally_parse_slos(struct error *e, const char *text, struct tally_slo slos[TALLY_SLOS_MAX],
                     size_t *ret_count)
{
    size_t count = 0;
    for (;; text++) {
        size_t length = strcspn(text, ",");
        if (count == TALLY_SLOS_MAX)
            return error_set(e, ERR_TOO_LARGE, "more than %d targets", TALLY_SLOS_MAX);
        int r = parse_slo(e, text, length, &slos[count]);
        if (r < 0)
            return r;
        count++;
        text += length;
        if (!*text)
            break;
    }
    *ret_count = count;
    return 0;
}

int tally_init(struct error *e, int64_t warmup_ns, struct tally *t)
{
    *t = (struct tally){.warmup_ns = warmup_ns, .slice_ns = TALLY_SLICE_NS};
    t->slices = calloc(TALLY_SLICES_MAX, sizeof *t->slices);
    return t->slices ? 0 : error_set(e, ERR_NO_MEMORY, "out of memory");
}

void tally_done(struct tally *t)
{
    free(t->slices);
    t->slices = NULL;
}

static void merge_slices(struct tally *t)
{
    for (size_t i = 0; i < TALLY_SLICES_MAX; i++) {
        struct tally_slice *from = &t->slices[i], *to = &t->slices[i / 2];
        if (i % 2 == 0 && to != from)
            *to = *from;
        if (i % 2 == 1) {
            to->due += from->due;
            to->failed += from->failed;
            to->answered_in += from->answered_in;
            histogram_merge(&to->latency, &from->latency);
        }
    }
    memset(t->slices + TALLY_SLICES_MAX / 2, 0, TALLY_SLICES_MAX / 2 * sizeof *t->slices);
    t->slice_ns *= 2;
}

/* Returns the slice of a time of the run, after the warm-up. */
static struct tally_slice *slice_at(struct tally *t, int64_t at_ns)
{
    int64_t since_ns = at_ns > t->warmup_ns ? at_ns - t->warmup_ns : 0;
    while (since_ns / t->slice_ns >= TALLY_SLICES_MAX)
        merge_slices(t);
    return &t->slices[since_ns / t->slice_ns];
}

void tally_due(struct tally *t, int64_t due_ns, int64_t now_ns)
{
    if (due_ns < t->warmup_ns) {
        t->warmup++;
        return;
    }
    if (t->due == 0)
        t->first_due_ns = due_ns;
    t->last_due_ns = due_ns;
    t->due++;
    slice_at(t, due_ns)->due++;
    histogram_add(&t->lag, now_ns - due_ns);
}

void tally_sent(struct tally *t, int64_t due_ns, int64_t now_ns)
{
    if (due_ns < t->warmup_ns)
        return;
    t->sent++;
    t->late += now_ns - due_ns > TALLY_LATE_NS;
    histogram_add(&t->wait, now_ns - due_ns);
}

void tally_answered(struct tally *t, int64_t due_ns, int64_t now_ns, int status, uint64_t bytes)
{
    if (due_ns < t->warmup_ns)
        return;
    t->answered++;
    t->statuses[status % TALLY_STATUSES]++;
    t->bytes += bytes;
    t->last_answer_ns = now_ns > t->last_answer_ns ? now_ns : t->last_answer_ns;
    histogram_add(&t->latency, now_ns - due_ns);
    for (size_t i = 0; i < t->slo_count; i++)
        t->slos[i].met += now_ns - due_ns <= t->slos[i].limit_ns;
    slice_at(t, now_ns)->answered_in++;
    histogram_add(&slice_at(t, due_ns)->latency, now_ns - due_ns);
}

void tally_failed(struct tally *t, int64_t due_ns, int64_t now_ns, enum tally_cause cause,
                  int status)
{
    if (due_ns < t->warmup_ns)
        return;
    t->failed[cause]++;
    if (cause == TALLY_STATUS) {
        t->statuses[status % TALLY_STATUSES]++;
        t->last_answer_ns = now_ns > t->last_answer_ns ? now_ns : t->last_answer_ns;
    }
    slice_at(t, due_ns)->failed++;
}

void tally_chunk(struct tally *t, int64_t due_ns, int64_t last_ns, int64_t now_ns)
{
    if (due_ns < t->warmup_ns)
        return;
    t->chunks++;
    if (last_ns < 0)
        histogram_add(&t->first, now_ns - due_ns);
    else
        histogram_add(&t->gap, now_ns - last_ns);
}

uint64_t tally_failures(const struct tally *t)
{
    uint64_t sum = 0;
    for (enum tally_cause cause = 0; cause < TALLY_CAUSE_END; cause++)
        sum += t->failed[cause];
    return sum;
}

double tally_attainment(const struct tally *t, const struct tally_slo *slo)
{
    return t->due > 0 ? (double)slo->met / (double)t->due : 1;
}

bool tally_slo_is_met(const struct tally *t, const struct tally_slo *slo)
{
    return 100 * tally_attainment(t, slo) >= slo->percentile - 1e-9;
}

size_t tally_slice_count(const struct tally *t)
{
    size_t count = TALLY_SLICES_MAX;
    while (count > 0 && t->slices[count - 1].due == 0 && t->slices[count - 1].answered_in == 0)
        count--;
    return count;
}
