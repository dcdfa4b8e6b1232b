/*
 * One decision of a policy with a `judge` function. The policy takes the class of devices with the
 * best score. With policy.by_end_times, the policy compares the best few classes and takes the
 * class whose end times grow least. A policy with policy.waits then decides whether to place the
 * workload now or to wait for another device.
 *
 * ΔCT(now, d) = F(d ∪ new) − F(d) − R_new: the growth of the sum of all end times on d, beyond the
 * time of the new workload itself. ΔCT(wait) is a minimum over the next departures: the time until
 * the departure, plus the same growth on the device after the departure. For each workload that is
 * ahead in the queue, the minimum skips one departure. The workload is placed if ΔCT(now) ≤
 * ΔCT(wait) + the time that the workload has waited, so every workload is placed eventually. A
 * workload of unknown kind never waits, because its figures would be guesses.
 */
#pragma once
#include "policy/fleet.h"

enum {
    PLACE_CLASSES_MAX = 4,     /* classes compared by end times */
    PLACE_DEVICES_MAX = 16,    /* devices of a class that are examined individually */
    PLACE_DEPARTURES_MAX = 16, /* departures compared with placing now */
};

struct place_outcome {
    enum policy_verdict verdict;
    struct policy_decision decision; /* for POLICY_PLACES */
    /* Class of the first device; for POLICY_PLACES and POLICY_WAITS. */
    size_t class_index;
    double score;           /* score of the class; −INFINITY: none */
    double now_ms, wait_ms; /* ΔCT of both choices; 0 and INFINITY if not compared */
    /* POLICY_WAITS: delay after which the workload is placed in this class anyway. */
    int64_t retry_ms;
};

/* Decides about one workload. Requires policy->judge and snapshot->fleet. */
void policy_place(const struct policy *policy, const struct policy_snapshot *snapshot,
                  const struct policy_waiting *waiting, struct place_outcome *ret_outcome);

/* Judges all classes. Writes at most `room` candidates, the best first and classes without room
 * last, and returns their number. */
size_t policy_candidates(const struct policy *policy, const struct policy_snapshot *snapshot,
                         const struct policy_waiting *waiting, struct policy_candidate *ret,
                         size_t room);

/* Judges one class: room, forecast, and the result of policy->judge. */
void policy_consider(const struct policy *policy, const struct policy_snapshot *snapshot,
                     const struct policy_waiting *waiting, size_t class_index,
                     struct policy_candidate *ret_candidate);

/* Returns whether the workload should wait instead of starting on this device, by the rule above;
 * false if the policy does not wait. */
bool policy_should_wait(const struct policy *policy, const struct policy_snapshot *snapshot,
                        const struct policy_waiting *waiting, size_t device);
/* Returns ΔCT(now) of one more workload on this device. */
double policy_added_ms(const struct policy_snapshot *snapshot, const struct policy_waiting *waiting,
                       size_t device);
