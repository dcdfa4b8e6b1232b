/* Nodes as cluster.h requires: the duties of an agent and its supervisors towards control. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "world.h"

static bool is_alive(const struct run *r)
{
    return r->phase == ATTEMPT_STARTING || r->phase == ATTEMPT_RUNNING;
}

static void name_instance(struct machine *m, int node)
{
    (void)snprintf(m->info.instance, sizeof m->info.instance, "i%d.%d", node, m->boots);
}

void machine_init(struct world *w, int node)
{
    static struct pair gpu[] = {{"gpu", "yes"}};
    struct machine *m = &w->machines[node];
    *m = (struct machine){.up = true, .agent = true, .devices_present = 1 + node};
    if (node == 1)
        m->info.labels = (struct pairs){.count = 1, .items = gpu};
    (void)snprintf(m->info.name, sizeof m->info.name, "n%d", node);
    m->info.cores = node; /* an older node does not state its cores */
    (void)snprintf(m->info.version, sizeof m->info.version, "1");
    name_instance(m, node);
    for (int d = 0; d < WORLD_DEVICES; d++) {
        struct device *device = &m->info.devices[d];
        (void)snprintf(device->uuid, sizeof device->uuid, "%c%c", '0' + node, '0' + d);
        (void)snprintf(device->model, sizeof device->model, "%s",
                       node == 2 ? "NVIDIA H200" : "NVIDIA GeForce RTX 3090");
        device->memory_bytes = 100;
    }
    m->info.device_count = m->devices_present;
}

static struct run *find_run(struct machine *m, uint64_t workload, int attempt)
{
    for (size_t i = 0; i < m->run_count; i++)
        if (m->runs[i].workload == workload && m->runs[i].attempt == attempt)
            return &m->runs[i];
    return NULL;
}

static void remove_run(struct machine *m, struct run *r)
{
    *r = m->runs[--m->run_count];
}

static struct run *add_run(struct world *w, struct machine *m, const struct message *grant)
{
    world_check(w, m->run_count < WORLD_ATTEMPTS, "a node collects attempts without end");
    if (m->run_count == WORLD_ATTEMPTS)
        return NULL;
    m->runs[m->run_count] = (struct run){.workload = grant->workload,
                                         .attempt = grant->attempt,
                                         .service = grant->service,
                                         .stop_at_ms = INT64_MAX};
    return &m->runs[m->run_count++];
}

/* Starts the process, the one moment when two copies could coexist. */
static void begin(struct world *w, struct run *r)
{
    struct row *row = &w->rows[r->workload];
    r->phase = ATTEMPT_STARTING;
    row->living++;
    world_check(w, r->service || row->living == 1, "workload %llu has %d living copies",
                (unsigned long long)r->workload, row->living);
    world_check(w, !workload_state_is_terminal(row->status.state) || !row->exists || r->service,
                "workload %llu starts after its end", (unsigned long long)r->workload);
}

static void end(struct world *w, struct run *r, enum failure_reason failure, int exit_code,
                int signal)
{
    if (is_alive(r))
        w->rows[r->workload].living--;
    else
        r->never_ran = true;
    r->phase = ATTEMPT_EXITED;
    r->failure = failure;
    r->exit_code = exit_code;
    r->signal = signal;
}

void machine_time_passed(struct world *w, int node)
{
    struct machine *m = &w->machines[node];
    int64_t fenced_ms = m->lease_until_ms + w->config.fence_ms;
    for (size_t i = 0; i < m->run_count && m->up; i++) {
        struct run *r = &m->runs[i];
        if (r->phase == ATTEMPT_ACCEPTED && !r->service && w->now_ms >= m->lease_until_ms)
            end(w, r, FAILURE_NONE, 0, 0); /* too late, even if the lease is renewed */
        if (!is_alive(r))
            continue;
        if (w->now_ms >= r->stop_at_ms)
            end(w, r, FAILURE_SIGNAL, 0, 9);
        else if (!r->service && w->now_ms >= fenced_ms &&
                 (w->now_ms >= fenced_ms + w->config.drain_ms || world_chance(w, 20)))
            end(w, r, FAILURE_NONE, 0, 9);
    }
}

static void finish(struct world *w, struct run *r)
{
    uint64_t lot = w->calm ? 0 : world_below(w, 10);
    if (lot < 6)
        end(w, r, FAILURE_NONE, 0, 0);
    else if (lot < 8)
        end(w, r, FAILURE_EXIT, 3, 0);
    else
        end(w, r, lot == 8 ? FAILURE_SIGNAL : FAILURE_TIMEOUT, 0, 11);
}

bool machine_uses_device(struct world *w, int node, uint64_t workload, int attempt)
{
    const struct run *r = find_run(&w->machines[node], workload, attempt);
    return r && is_alive(r) && r->suspension != SUSPENSION_DONE;
}

/* Ends a move of memory, successfully or not. */
static void move(struct world *w, struct run *r)
{
    bool fails = !w->calm && world_chance(w, 20);
    bool leaves = r->suspension == SUSPENSION_LEAVING;
    if (r->suspension == SUSPENSION_DONE)
        return;
    r->suspension = leaves != fails ? SUSPENSION_DONE : SUSPENSION_NONE;
    r->evicted = false;
    bool is_off = r->suspension == SUSPENSION_DONE;
    if (!fails && is_off != r->wants_off) /* another order arrived in the meantime */
        r->suspension = is_off ? SUSPENSION_RETURNING : SUSPENSION_LEAVING;
}

static void turn_run(struct run *r, int turn, bool off)
{
    if (turn <= r->turn)
        return;
    r->turn = turn;
    r->wants_off = off;
    if (off && r->suspension == SUSPENSION_NONE)
        r->suspension = SUSPENSION_LEAVING;
    else if (!off && r->suspension == SUSPENSION_DONE)
        r->suspension = SUSPENSION_RETURNING;
}

static void run_on(struct world *w, struct run *r)
{
    if (r->suspension != SUSPENSION_NONE)
        move(w, r);
    else if (r->service ? !w->calm && world_chance(w, 20) : w->calm || world_chance(w, 40))
        finish(w, r);
    else if (!r->service && !w->calm && world_chance(w, 30))
        r->evicted = true;
}

void machine_progress(struct world *w, int node)
{
    struct machine *m = &w->machines[node];
    if (!m->up || m->run_count == 0)
        return;
    struct run *r = &m->runs[world_below(w, m->run_count)];
    switch (r->phase) {
    case ATTEMPT_ACCEPTED:
        if (!w->calm && world_chance(w, 3))
            end(w, r, FAILURE_START, 127, 0);
        else
            begin(w, r);
        break;
    case ATTEMPT_STARTING:
        r->phase = ATTEMPT_RUNNING;
        break;
    case ATTEMPT_RUNNING:
        run_on(w, r);
        break;
    case ATTEMPT_EXITED:
    case ATTEMPT_PHASE_END:
        break;
    }
}

static struct run *copy_runs(const struct run *runs, size_t count)
{
    struct run *copy = malloc((count + 1) * sizeof *copy);
    if (copy)
        memcpy(copy, runs, count * sizeof *copy);
    return copy;
}

static void say(struct world *w, int node, enum message_type type, const struct run *runs,
                size_t count)
{
    struct machine *m = &w->machines[node];
    struct message message = {.type = type,
                              .node = node,
                              .connection = m->connection,
                              .session = m->session,
                              .beat = m->beat,
                              .run_count = count};
    if (count > 0)
        message.runs = copy_runs(runs, count);
    network_send(w, &message);
}

static void say_hello(struct world *w, int node)
{
    struct machine *m = &w->machines[node];
    m->hello_ms = w->now_ms;
    m->info.device_count = m->devices_present;
    say(w, node, MESSAGE_HELLO, m->runs, m->run_count);
}

void machine_cut(struct world *w, int node)
{
    struct machine *m = &w->machines[node];
    struct message gone = {.type = MESSAGE_GONE, .node = node, .connection = m->connection};
    if (!m->connection)
        return;
    m->connection = 0;
    m->session = 0;
    network_send(w, &gone);
}

void machine_speak(struct world *w, int node)
{
    struct machine *m = &w->machines[node];
    if (!m->up || !m->agent)
        return;
    if (m->connection && w->now_ms - m->answered_ms > w->config.lease_ms / 2)
        machine_cut(w, node); /* no answer: a new connection may be better */
    if (!m->connection) {
        m->connection = ++w->last_connection;
        m->session = 0;
        m->connected_ms = m->answered_ms = w->now_ms;
        say_hello(w, node);
    } else if (!m->session) {
        if (w->now_ms - m->hello_ms >= w->config.resend_ms)
            say_hello(w, node);
    } else {
        m->beat++;
        m->beat_sent_ms = w->now_ms;
        say(w, node, MESSAGE_BEAT, NULL, 0);
        for (size_t i = 0; i < m->run_count; i++)
            if (w->calm || world_chance(w, 60))
                say(w, node, MESSAGE_REPORT, &m->runs[i], 1);
    }
}

static void extend_lease(struct world *w, struct machine *m, int64_t asked_ms)
{
    m->answered_ms = w->now_ms;
    if (asked_ms + w->config.lease_ms > m->lease_until_ms)
        m->lease_until_ms = asked_ms + w->config.lease_ms;
}

static void stop_run(struct world *w, struct machine *m, const struct message *stop)
{
    struct run *r = find_run(m, stop->workload, stop->attempt);
    if (!r) {
        r = add_run(w, m, stop);
        if (r)
            end(w, r, FAILURE_NONE, 0, 0);
    } else if (r->phase == ATTEMPT_ACCEPTED) {
        end(w, r, FAILURE_NONE, 0, 0);
    } else if (w->now_ms + stop->grace_ms < r->stop_at_ms) {
        r->stop_at_ms = w->now_ms + stop->grace_ms;
    }
}

void machine_receive(struct world *w, const struct message *m)
{
    struct machine *to = &w->machines[m->node];
    if (!to->up || !to->agent)
        return;
    if (m->type == MESSAGE_WELCOME) {
        if (m->session > to->session) {
            to->session = m->session;
            to->sequence = 0;
            extend_lease(w, to, to->connected_ms);
        }
        return;
    }
    if (m->session != to->session)
        return;
    if (m->type == MESSAGE_BEAT_ANSWER) {
        if (m->beat == to->beat)
            extend_lease(w, to, to->beat_sent_ms);
        return;
    }
    if (m->sequence <= to->sequence)
        return;
    to->sequence = m->sequence;
    struct run *r = find_run(to, m->workload, m->attempt);
    if (m->type == MESSAGE_GRANT) {
        if (!r && w->now_ms < to->lease_until_ms)
            (void)add_run(w, to, m);
    } else if (m->type == MESSAGE_STOP) {
        stop_run(w, to, m);
    } else if (m->type == MESSAGE_SUSPEND || m->type == MESSAGE_RESUME) {
        if (r && is_alive(r))
            turn_run(r, m->turn, m->type == MESSAGE_SUSPEND);
    } else if (m->type == MESSAGE_ADVISE) {
        world_check(w, m->advice <= w->rows[m->workload].status.advice.sequence,
                    "workload %llu is given advice that is not durable",
                    (unsigned long long)m->workload);
        if (r && is_alive(r) && m->advice > r->advice)
            r->advice = m->advice;
    } else if (m->type == MESSAGE_SETTLE && r && r->phase == ATTEMPT_EXITED) {
        remove_run(to, r);
    }
    machine_time_passed(w, m->node);
}

void machine_agent_dies(struct world *w, int node)
{
    struct machine *m = &w->machines[node];
    machine_cut(w, node);
    m->agent = false;
    for (size_t i = 0; i < m->run_count; i++)
        if (m->runs[i].phase == ATTEMPT_ACCEPTED)
            end(w, &m->runs[i], FAILURE_NONE, 0, 0); /* no agent is left to start the attempt */
}

void machine_supervisor_dies(struct world *w, int node)
{
    struct machine *m = &w->machines[node];
    if (!m->up || m->run_count == 0)
        return;
    struct run *r = &m->runs[world_below(w, m->run_count)];
    if (is_alive(r))
        end(w, r, FAILURE_SIGNAL, 0, 9);
}

void machine_dies(struct world *w, int node, bool wiped)
{
    struct machine *m = &w->machines[node];
    machine_agent_dies(w, node);
    m->up = false;
    m->lease_until_ms = 0; /* the boot clock restarts */
    for (size_t i = 0; i < m->run_count; i++)
        if (is_alive(&m->runs[i]))
            end(w, &m->runs[i], FAILURE_NONE, 0, 9);
    if (!wiped)
        return;
    m->run_count = 0;
    if (world_chance(w, 30)) { /* otherwise only the attempts' directories are lost */
        m->boots++;
        name_instance(m, node);
    }
}

void machine_starts(struct world *w, int node)
{
    struct machine *m = &w->machines[node];
    m->up = m->agent = true;
    m->answered_ms = w->now_ms;
}

void machine_done(struct world *w)
{
    for (int n = 0; n < WORLD_NODES; n++) {
        struct machine *m = &w->machines[n];
        world_check(w, m->run_count == 0, "node %s still has %zu attempts, first %llu.%d phase %d",
                    m->info.name, m->run_count, (unsigned long long)m->runs[0].workload,
                    m->runs[0].attempt, (int)m->runs[0].phase);
    }
}
