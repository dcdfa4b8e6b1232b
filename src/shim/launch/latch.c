#include "shim/launch/latch.h"

static enum latch_turn take_open(struct latch *latch, const struct latch_terms *terms,
                                 const struct latch_look *look)
{
    bool has_moved = latch->sum != 0 && look->view.sum != latch->sum;
    latch->sum = look->view.sum;
    if (latch->is_passing && !look->is_held && look->now_ns - latch->turn_ns < terms->pass_ns)
        return LATCH_STAYS;
    latch->is_passing = false;
    if (!look->view.busy && !look->is_held && !(has_moved && terms->linger_ns > 0))
        return LATCH_STAYS;
    latch->is_shut = true;
    latch->turn_ns = latch->busy_ns = look->now_ns;
    return LATCH_SHUTS;
}

static enum latch_turn take_shut(struct latch *latch, const struct latch_terms *terms,
                                 const struct latch_look *look)
{
    uint64_t shut_ns = look->now_ns - latch->turn_ns;
    bool is_short = look->is_short && terms->short_ns < terms->most_ns;
    if (look->view.busy)
        latch->busy_ns = look->now_ns;
    bool is_idle = look->now_ns - latch->busy_ns >= terms->linger_ns && !look->view.busy;
    if (look->is_held || (!is_idle && shut_ns < (is_short ? terms->short_ns : terms->most_ns)))
        return LATCH_STAYS;
    latch->is_shut = false;
    latch->is_passing = look->view.busy != 0;
    latch->turn_ns = look->now_ns;
    latch->sum = look->view.sum;
    return latch->is_passing ? LATCH_PASSES : LATCH_OPENS;
}

enum latch_turn latch_take(struct latch *latch, const struct latch_terms *terms,
                           const struct latch_look *look)
{
    return latch->is_shut ? take_shut(latch, terms, look) : take_open(latch, terms, look);
}
