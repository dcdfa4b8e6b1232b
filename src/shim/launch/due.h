/*
 * The gate's rule DUE: a task waits for a service only while a request of the service could
 * otherwise miss its deadline. Until then the task uses the slack of the request.
 *
 * A service process that reports its requests shows their deadlines in its status page. Of any
 * other process only the bursts are known: each burst may last for a fixed time before the task
 * waits. A deadline that passed DUE_STALE_NS ago belongs to a request that will never end, and so
 * does a burst of that age without outstanding work.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "abi/page.h"

#define DUE_STALE_NS (PAGE_REQUEST_STALE_MS * UINT64_C(1000000))

struct due_rule {
    uint64_t need_ns; /* time that one request needs without the task */
    uint64_t each_ns; /* further time for every request that is due earlier */
    uint64_t burst_ns;
};

/* Returns whether a request or a burst of the service needs the device for itself. `is_busy`: the
 * service has work outstanding. */
bool due_is_near(const struct status_page *service, const struct due_rule *rule, uint64_t now_ns,
                 bool is_busy);
