#include <fcntl.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/durable.h"
#include "node/agent_internal.h"

/* Returns whether the order belongs to this session and is in sequence; other orders are stale. */
static bool is_current(struct agent *a, const struct nodemsg *msg)
{
    if (!a->link.welcomed || msg->session != a->link.session || msg->sequence <= a->link.sequence)
        return false;
    a->link.sequence = msg->sequence;
    return true;
}

/* Reports the end of a settled attempt again. Returns false if there is none. */
static bool report_finished(struct agent *a, uint64_t workload, int attempt)
{
    char name[ATTEMPT_NAME_MAX];
    int fd = openat(a->finished_fd, attempt_name(workload, attempt, name),
                    O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return false;
    struct run *r = run_new(a, workload, attempt, fd);
    if (!r)
        return true;
    struct str text;
    struct attempt_report exit, *report = &r->life.kept.report;
    str_init(&text, ATTEMPT_EXIT_MAX);
    if (durable_read(NULL, r->directory_fd, "exit.json", r->uid, &text) == 0 &&
        attempt_exit_parse(NULL, str_text(&text), text.length, &exit) == 0 &&
        exit.workload == workload && exit.attempt == attempt)
        *report = exit;
    else {
        report->phase = ATTEMPT_EXITED;
        report->failure = FAILURE_SIGNAL;
        str_copy(report->text, sizeof report->text, "how it ended is no longer known");
    }
    str_done(&text);
    run_report(r);
    run_free(r);
    return true;
}

/* Obeys a grant, but starts nothing after the lease's end, when another node may have the attempt.
 * Control repeats a grant that is still valid. */
static void obey_grant(struct agent *a, const struct grant *grant)
{
    struct run *r = run_find(a, grant->workload, grant->attempt);
    if (r)
        run_report(r);
    else if (!report_finished(a, grant->workload, grant->attempt) &&
             clock_boot_ms() < lease_deadline(&a->lease))
        launch(a, grant);
}

static void obey_stop(struct agent *a, const struct nodemsg *msg)
{
    struct run *r = run_find(a, msg->workload, msg->attempt);
    const struct attempt_stop stop = {.reason = STOP_REASON_CONTROL, .grace_ms = msg->grace_ms};
    if (r)
        run_stop(r, &stop);
    else if (!report_finished(a, msg->workload, msg->attempt))
        launch_tombstone(a, msg->workload, msg->attempt, "it was stopped before it started");
}

/* Passes a signal or input to the supervisor of a live attempt. */
static void forward(struct agent *a, const struct nodemsg *msg)
{
    struct run *r = run_find(a, msg->workload, msg->attempt);
    if (!r || !run_is_alive(r)) {
        link_done(a, msg->request, -ERR_CONFLICT, "it does not run");
        return;
    }
    struct control_command command = {.kind = CONTROL_SIGNAL, .signal = msg->signal};
    if (msg->type == NODEMSG_INPUT)
        command = (struct control_command){.kind = CONTROL_INPUT,
                                           .offset = msg->offset,
                                           .end = msg->end,
                                           .data = msg->data,
                                           .length = msg->length};
    if (mailbox_post(r, msg->request, &command) < 0)
        link_done(a, msg->request, -ERR_UNAVAILABLE, "too many commands wait for it");
}

static void obey_move(struct run *r, const struct nodemsg *msg)
{
    const struct attempt_event event = {
        .kind = msg->type == NODEMSG_SUSPEND ? ATTEMPT_SUSPEND : ATTEMPT_RESUME, .turn = msg->turn};
    run_tell(r, &event);
}

static void obey_advice(struct run *r, const struct nodemsg *msg)
{
    const struct attempt_event event = {.kind = ATTEMPT_ADVISE, .advice = msg->advice};
    run_tell(r, &event);
}

void orders_obey(struct agent *a, const struct nodemsg *msg)
{
    struct run *r;
    int result;
    switch (msg->type) {
    case NODEMSG_GRANT:
        if (is_current(a, msg))
            obey_grant(a, &msg->grant);
        break;
    case NODEMSG_STOP:
        if (is_current(a, msg))
            obey_stop(a, msg);
        break;
    case NODEMSG_SUSPEND:
    case NODEMSG_RESUME:
        r = is_current(a, msg) ? run_find(a, msg->workload, msg->attempt) : NULL;
        if (r)
            obey_move(r, msg);
        break;
    case NODEMSG_ADVISE:
        r = is_current(a, msg) ? run_find(a, msg->workload, msg->attempt) : NULL;
        if (r)
            obey_advice(r, msg);
        break;
    case NODEMSG_SETTLE:
        r = is_current(a, msg) ? run_find(a, msg->workload, msg->attempt) : NULL;
        if (r)
            run_tell_kind(r, ATTEMPT_SETTLE);
        break;
    case NODEMSG_READ:
        reader_ask(a, msg);
        break;
    case NODEMSG_SIGNAL:
    case NODEMSG_INPUT:
        forward(a, msg);
        break;
    case NODEMSG_DEVICE:
        result = monitor_enable(a, msg->uuid, msg->enable);
        link_done(a, msg->request, result, result < 0 ? "it has no such device" : "");
        break;
    default: /* a node's message, or a message of a newer control */
        break;
    }
}
