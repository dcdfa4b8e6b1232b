/* Shared by the cluster's unit tests: a cluster, its clock, and the events that drive the
 * cluster. */
#pragma once
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "cluster/cluster.h"

/* lease + fence + drain + margin of the default configuration */
enum { LOST_MS = 60000 + 30000 + 30000 + 5000 };

/* A cluster with a controllable clock. The last step's actions stay readable. */
struct fixture {
    struct cluster_config config;
    struct cluster *cluster;
    struct cluster_actions actions;
    struct clock_now now;
    uint64_t requests;
};

/* Creates an empty cluster with the default configuration, but with policy firstfit, which fills
 * the first device first. */
void fixture_open(struct fixture *f);
void fixture_close(struct fixture *f);

/* Executes one step that must not fail; replaces the actions. */
void step(struct fixture *f, struct cluster_event *event);

/* Queries on the last step's actions; NULL: no action of that kind. */
const struct cluster_action *find_nth(const struct fixture *f, enum cluster_action_kind kind,
                                      size_t n);
const struct cluster_action *find(const struct fixture *f, enum cluster_action_kind kind);
size_t count_of(const struct fixture *f, enum cluster_action_kind kind);
bool logged(const struct fixture *f, const char *word);
/* Returns the state of a live workload. */
enum workload_state state_of(const struct fixture *f, uint64_t id);
/* Returns the reason why a queued workload waits. */
const char *note_of(const struct fixture *f, uint64_t id);

/* Advances both clocks, then ticks. */
void tick_after(struct fixture *f, int64_t ms);

/* One device and a tenth of its memory. */
struct workload_needs task_needs(void);
/* Submit, and return the reply. */
const struct cluster_action *submit_all(struct fixture *f, const struct cluster_submission *items,
                                        size_t count, const char *key);
const struct cluster_action *submit_after(struct fixture *f, const struct workload_needs *needs,
                                          const struct cluster_after *after, size_t count);
/* Submit, require acceptance, and return the id. */
uint64_t submit(struct fixture *f, const struct workload_needs *needs);
uint64_t submit_task(struct fixture *f);

/* Messages of nodes. hello() returns the session, or 0 if the cluster refused the hello. */
struct node_info node_info(const char *name, const char *instance, int devices);
uint64_t hello_as(struct fixture *f, const char *name, const char *instance,
                  const struct attempt_report *attempts, size_t count);
uint64_t hello(struct fixture *f, const char *name);
void report_full(struct fixture *f, const char *node, uint64_t session,
                 const struct attempt_report *report);
void report(struct fixture *f, const char *node, uint64_t session, uint64_t id, int attempt,
            enum attempt_phase phase);
void report_failure(struct fixture *f, const char *node, uint64_t session, uint64_t id,
                    int attempt);
void beat(struct fixture *f, const char *node, uint64_t session);
void gone(struct fixture *f, const char *node, uint64_t session);

/* Requests of users; return the reply. */
const struct cluster_action *stop(struct fixture *f, enum cluster_event_kind kind, uint64_t id,
                                  int64_t grace_ms);
const struct cluster_action *drain(struct fixture *f, const char *node, bool on);
