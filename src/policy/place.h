/*
 * One decision of a policy that judges: over all classes of devices, the one of the best score, or
 * of the best few the one where end times grow least (policy.by_end_times); then, where the policy
 * waits, whether the workload should rather wait for another.
 *
 * ΔCT(now, d) = F(d ∪ new) − F(d) − R_new: by how much the sum of all end times on d grows beyond
 * the time that the new one takes anyway. ΔCT(wait) = the least, over the departures that are next
 * when those ahead of it in the queue have had theirs, of the time until then and the same on what
 * is left there. It is placed if ΔCT(now) ≤ ΔCT(wait) + the time that it has waited: so everything
 * is, in time. One of a kind of which nothing is known is not kept waiting on a guess.
 */
#pragma once
#include "policy/fleet.h"

enum {
    PLACE_CLASSES_MAX = 4,     /* that are compared by the end times there */
    PLACE_DEVICES_MAX = 16,    /* of a class that are looked at one by one */
    PLACE_DEPARTURES_MAX = 16, /* that are compared with placing it now */
};

struct place_outcome {
    enum policy_verdict verdict;
    struct policy_decision decision; /* of POLICY_PLACES */
    size_t class_index;              /* of its first device; of POLICY_PLACES and POLICY_WAITS */
    double score;                    /* of that; −INFINITY if there is none */
    double now_ms, wait_ms;          /* ΔCT; INFINITY and 0 where they were not compared */
    int64_t retry_ms;                /* POLICY_WAITS: after that long it is placed there even so */
};

/* policy->judge is there, and snapshot->fleet. */
void policy_place(const struct policy *policy, const struct policy_snapshot *snapshot,
                  const struct policy_waiting *waiting, struct place_outcome *ret_outcome);

/* What policies think of every class: all of them, the best first, those without room last. At most
 * `room`; returns how many. */
size_t policy_candidates(const struct policy *policy, const struct policy_snapshot *snapshot,
                         const struct policy_waiting *waiting, struct policy_candidate *ret,
                         size_t room);

/* One class: is there room, what does the forecast say, what does the policy think? */
void policy_consider(const struct policy *policy, const struct policy_snapshot *snapshot,
                     const struct policy_waiting *waiting, size_t class_index,
                     struct policy_candidate *ret_candidate);

/* Would it end sooner if it waited than on this device, by the rule above? false where the policy
 * does not wait. */
bool policy_should_wait(const struct policy *policy, const struct policy_snapshot *snapshot,
                        const struct policy_waiting *waiting, size_t device);
/* ΔCT(now) of one more on this device. */
double policy_added_ms(const struct policy_snapshot *snapshot, const struct policy_waiting *waiting,
                       size_t device);
