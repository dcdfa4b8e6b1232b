/* Parts of the controller: see device/controller.h. */
#pragma once
#include "device/controller.h"

/* ---- settings ---- */

struct controller_facts {
    bool reports_requests;
    double allowed_stretch;
    double target_us; /* 0: unknown */
    double kernel_us;
};
/* Returns the speed of tasks that is assumed before measurements, relative to FREE. */
double controller_prior_speed(int setting);
bool controller_uses_due(int setting);
/* Returns the time that a request or burst needs alone, for the rule DUE; 0: unknown. */
double controller_need_us(const struct controller_solo *solo, bool reports_requests);
struct controller_limits controller_limits_of(int setting, const struct controller_solo *solo,
                                              const struct controller_facts *facts);

/* ---- places in the memory ---- */

static inline struct controller_pair *controller_pair_of(struct controller *c)
{
    return &c->memory->pairs[c->pair];
}

static inline struct controller_record *controller_record_of(struct controller *c, int setting)
{
    return &controller_pair_of(c)->records[setting];
}

static inline const struct controller_solo *controller_solo_of(const struct controller *c)
{
    return &c->memory->solos[c->solo];
}

/* ---- memory ---- */

enum { SPEED_MS_LEAST = 1000 }; /* of a measured speed */

/* Return the place of a pair or service, created if necessary; `ret_is_new` may be NULL. */
int32_t controller_pair_place(struct controller_memory *m, uint64_t service, uint64_t neighbours,
                              int octave, bool *ret_is_new);
int32_t controller_solo_place(struct controller_memory *m, uint64_t service);
/* Returns the place of the pair with the nearest octave, or -1. */
int32_t controller_pair_nearest(const struct controller_memory *m, uint64_t service,
                                uint64_t neighbours, int octave);
/* Returns the place of the pair that was used last, at any load, or -1. */
int32_t controller_pair_recent(const struct controller_memory *m, uint64_t service,
                               uint64_t neighbours);
/* Copies the conclusions about another load of the same pair that still hold. */
void controller_pair_inherit(struct controller_pair *to, const struct controller_pair *from);
/* Copies speeds that are not yet measured at this load, with the weight of `least_ms`. */
void controller_pair_fill_speeds(struct controller_pair *to, const struct controller_pair *from,
                                 double least_ms);
/* Returns whether the tasks' speed was measured for long enough. */
bool controller_is_measured(const struct controller_record *r);
/* Returns the tasks' speed under `setting` ÷ the highest speed measured for the pair, 0 for a
 * pause; -1: the setting is not measured. */
double controller_pair_fraction(const struct controller_pair *p, int setting);
/* Adds what is known about the service alone. `is_whole`: no task worked since the last look. */
void controller_solo_learn(struct controller_solo *s, const struct controller_look *look,
                           double passed_ms, double alone_ms, bool is_whole);

/* ---- evidence ---- */

/* The target, as the present evidence can judge it. */
struct controller_aim {
    bool by_requests;
    double allowed; /* fraction of late requests */
    double stretch; /* 0: unknown */
};

enum controller_verdict { CONTROLLER_CALM, CONTROLLER_DOUBT, CONTROLLER_DANGER, CONTROLLER_SEVERE };

/* Returns the logarithm of the likelihood of too many late requests over few; grows with
 * `late`. */
double controller_late_evidence(double allowed, double answered, double late);
double controller_stretch_allowed(double target, double busy_fraction);
void controller_evidence_add(struct controller_evidence *e, const struct controller_aim *aim,
                             const struct controller_look *look, const struct controller_solo *solo,
                             double rate, bool is_tested);
/* Returns the stretch; 0: unknown. */
double controller_stretch(const struct controller_evidence *e);
/* `is_tested`: the setting has kept the target before. */
enum controller_verdict controller_judge(const struct controller_evidence *e,
                                         const struct controller_aim *aim, bool is_tested,
                                         bool is_overspent);

/* ---- the target ---- */

/* Returns the allowed fraction of late requests. */
double controller_allowed(const struct controller_look *look);
struct controller_aim controller_aim_of(struct controller *c, const struct controller_look *look);
/* Returns the safest setting. Beside an unreachable target, and without an SLO, tasks are gated and
 * no more. */
int controller_safest(const struct controller *c, const struct controller_look *look);
bool controller_is_possible(const struct controller *c, const struct controller_look *look,
                            int setting);
/* Updates c->is_unreachable. */
void controller_judge_reach(struct controller *c, const struct controller_look *look);
