/* Internals of an attempt's state machine: step.c is the entry point, stop.c handles stops,
 * suspend.c moves, and end.c judges ends. */
#pragma once
#include "attempt/attempt.h"

/* step.c */
int64_t life_earlier(int64_t a_ms, int64_t b_ms);
struct attempt_action *life_act(struct attempt_life *life, enum attempt_action_kind kind);
void life_report(struct attempt_life *life);
void life_save(struct attempt_life *life);
void life_say(struct attempt_life *life, const char *text);
/* Reports the arrival on the devices, unless the attempt is there already. */
void life_come(struct attempt_life *life);
void life_leave(struct attempt_life *life, bool failed);
/* Raises the verdict; returns true if the caller must save. */
bool life_blame(struct attempt_life *life, enum attempt_verdict verdict, const char *why);

/* stop.c */
void stop_decide(struct attempt_life *life, const struct attempt_stop *stop);
void stop_heard(struct attempt_life *life);
void stop_tick(struct attempt_life *life);
int64_t stop_next_ms(const struct attempt_life *life);
/* Returns when the agent enforces the time limit itself; INT64_MAX: never. */
int64_t stop_late_ms(const struct attempt_life *life);

/* suspend.c */
void suspension_order(struct attempt_life *life, int turn, bool off);
void suspension_evict(struct attempt_life *life, const char *why);
void suspension_moved(struct attempt_life *life, enum attempt_moved result, const char *text);
void suspension_continue(struct attempt_life *life);
void suspension_tick(struct attempt_life *life);
int64_t suspension_next_ms(const struct attempt_life *life);

/* end.c */
void end_found(struct attempt_life *life, const struct attempt_exit *exit);
void end_tick(struct attempt_life *life);
int64_t end_next_ms(const struct attempt_life *life);
