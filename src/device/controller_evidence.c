/* The judgement of the setting in force. */
#include <math.h>

#include "device/controller_internal.h"

static const double LATE_FEW = 0.7, LATE_MANY = 1.4; /* × allowed: the two hypotheses */
static const double ALARM_UNTESTED = 3, ALARM_TESTED = 4.6, ALARM_OVERSPENT = 3.4;
/* Largest contribution of a look: late requests of one look often have one cause. */
static const double LOOK_UNTESTED = 2, LOOK_TESTED = 1.2;
static const double SEVERE = 5;          /* × allowed */
static const double SEVERE_AT_ONCE = 10; /* × the allowed excess of the stretch */
static const double REQUESTS_LEAST = 200;
static const double SINCE_MAX = 4000; /* requests; older ones lose weight */
static const double BURSTS_LEAST = 8, BURSTS_MANY = 150;
static const double BURSTS_SOLO_LEAST = 4; /* of a kind, before its duration is known */
static const double ERRORS = 2;            /* standard errors that make a stretch clear */
static const double STRETCH_SLACK = 1.01;
static const double STRETCH_FAR = 1.5;  /* × the allowed excess, beside late requests */
static const double BUSY_CLOSED = 0.85; /* the next burst follows the last one */
static const double COUNT_MAX = 1e9;    /* of a look */

double controller_late_evidence(double allowed, double answered, double late)
{
    double few = LATE_FEW * allowed, many = fmin(LATE_MANY * allowed, 0.99);
    return late * log(many / few) + (answered - late) * log((1 - many) / (1 - few));
}

double controller_stretch_allowed(double target, double busy_fraction)
{
    if (busy_fraction >= BUSY_CLOSED)
        return target;
    return target / (1 - busy_fraction + busy_fraction * target);
}

static void add_requests(struct controller_evidence *e, double allowed, double answered,
                         double late, double rate, bool is_tested)
{
    double keep = 1 - fmin(1, answered / fmax(REQUESTS_LEAST, rate));
    e->recent = e->recent * keep + answered;
    e->recent_late = e->recent_late * keep + late;
    e->answered += answered;
    e->late += late;
    if (e->answered > SINCE_MAX) {
        e->late *= SINCE_MAX / e->answered;
        e->answered = SINCE_MAX;
    }
    double step = controller_late_evidence(allowed, answered, late);
    e->alarm = fmax(0, e->alarm + fmin(step, is_tested ? LOOK_TESTED : LOOK_UNTESTED));
}

static void add_bursts(struct controller_evidence *e, const struct controller_look *look,
                       const struct controller_solo *solo, double rate)
{
    double count = 0, us = 0, solo_us = 0;
    for (int k = 0; k < CONTROLLER_KINDS; k++) {
        double n = fmin((double)look->beside[k].count, COUNT_MAX);
        if (n < 1 || solo->bursts[k] < BURSTS_SOLO_LEAST || !(solo->bursts_us[k] > 0))
            continue;
        count += n;
        us += (double)look->beside[k].total_us;
        solo_us += n * solo->bursts_us[k];
    }
    if (count < 1)
        return;
    double keep = 1 - fmin(1, count / fmax(REQUESTS_LEAST, rate)), x = us / solo_us;
    e->looks = e->looks * keep + 1;
    e->bursts = e->bursts * keep + count;
    e->ratio = e->ratio * keep + count * x;
    e->square = e->square * keep + count * x * x;
}

void controller_evidence_add(struct controller_evidence *e, const struct controller_aim *aim,
                             const struct controller_look *look, const struct controller_solo *solo,
                             double rate, bool is_tested)
{
    double answered = fmin((double)look->answered, COUNT_MAX);
    if (look->has_requests && answered > 0)
        add_requests(e, aim->allowed, answered, fmin((double)look->late, answered), rate,
                     is_tested);
    add_bursts(e, look, solo, rate);
    e->latency_ratio = look->latency_us > 0 && solo->latency_us > 0
                           ? fmin(look->latency_us / solo->latency_us, COUNT_MAX)
                           : 0;
}

double controller_stretch(const struct controller_evidence *e)
{
    return e->bursts >= 1 ? e->ratio / e->bursts : e->latency_ratio;
}

static double stretch_error(const struct controller_evidence *e)
{
    double mean = e->ratio / e->bursts;
    double variance = fmax(0, e->square - e->bursts * mean * mean) / fmax(1, e->looks - 1);
    return sqrt(variance / e->bursts);
}

static enum controller_verdict judge_stretch(const struct controller_evidence *e, double allowed)
{
    double stretch = controller_stretch(e);
    if (!(allowed > 0) || !(stretch > 0))
        return CONTROLLER_CALM;
    if (e->bursts < 1)
        return stretch > allowed * STRETCH_SLACK ? CONTROLLER_DANGER : CONTROLLER_CALM;
    if (e->bursts >= BURSTS_LEAST && stretch > 1 + SEVERE_AT_ONCE * (allowed - 1))
        return CONTROLLER_SEVERE;
    if (e->bursts < BURSTS_LEAST || e->looks < 2)
        return CONTROLLER_DOUBT;
    double error = stretch_error(e);
    if (stretch - ERRORS * error > 1 + SEVERE * (allowed - 1))
        return CONTROLLER_SEVERE;
    if (stretch - ERRORS * error > allowed * STRETCH_SLACK ||
        (e->bursts >= BURSTS_MANY && stretch > allowed * STRETCH_SLACK))
        return CONTROLLER_DANGER;
    return stretch > allowed ? CONTROLLER_DOUBT : CONTROLLER_CALM;
}

enum controller_verdict controller_judge(const struct controller_evidence *e,
                                         const struct controller_aim *aim, bool is_tested,
                                         bool is_overspent)
{
    if (!aim->by_requests)
        return judge_stretch(e, aim->stretch);
    double alarm = !is_tested ? ALARM_UNTESTED : is_overspent ? ALARM_OVERSPENT : ALARM_TESTED;
    if (e->alarm >= alarm)
        return e->late > SEVERE * aim->allowed * e->answered ? CONTROLLER_SEVERE
                                                             : CONTROLLER_DANGER;
    double far = 1 + STRETCH_FAR * (aim->stretch - 1);
    bool is_early = e->answered * aim->allowed < 1;
    if (is_early && e->late >= 1 && aim->stretch > 0 && e->bursts >= BURSTS_LEAST &&
        e->looks >= 2 && controller_stretch(e) - ERRORS * stretch_error(e) > far)
        return CONTROLLER_DANGER;
    return e->alarm >= ALARM_UNTESTED / 2 ? CONTROLLER_DOUBT : CONTROLLER_CALM;
}
