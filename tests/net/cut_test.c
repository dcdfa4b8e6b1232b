/*
 * cut_test --directory DIR --journal FILE --cables FIFO [--tasks N] [--cuts K] NODE...: checks that
 * a task has at most one living copy under any network failure.
 *
 * Control's state is in DIR/s. Short tasks are submitted over time while the nodes' cables are cut
 * and healed at random moments, each independently: in both directions or one, briefly or for
 * longer than tasks may live without control. Afterwards every task must have succeeded exactly
 * once, never with two living copies, and with complete output.
 *
 * The moments derive from GPUMUX_SEED, which is printed. GPUMUX_BUILD names the build under test.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/rng.h"
#include "scenario.h"
#include "wire/http/http_client.h"

enum {
    NODES_MAX = 8,
    END_MS = 180000, /* time limit for all tasks after the last cut */
    CALL_MS = 30000,
    POLL_US = 20000,
    WHOLE_LEAST_MS = 300, /* duration of an intact cable */
    WHOLE_MOST_MS = 4000,
    CUT_BRIEF_MS = 1500, /* duration of a cut: half of the cuts end before the lease */
    CUT_LONG_MS = 6000,
    TASK_MS = 3000,
};

struct cable {
    const char *node;
    bool cut;
    int64_t change_boot_ms; /* time of the next cut or healing */
};

struct cut_run {
    struct scenario scenario;
    int cables_fd;
    size_t cable_count;
    struct cable cables[NODES_MAX];
    struct rng rng;
    int both_ways, one_way, longest_ms;
};

static int say(const struct cut_run *r, const char *command, const char *node)
{
    char line[64];
    int length = snprintf(line, sizeof line, "%s %s\n", command, node);
    return write(r->cables_fd, line, (size_t)length) == length ? 0 : -1;
}

static int heal(struct cut_run *r, struct cable *cable)
{
    cable->cut = false;
    cable->change_boot_ms = clock_boot_ms() + WHOLE_LEAST_MS +
                            (int64_t)rng_below(&r->rng, WHOLE_MOST_MS - WHOLE_LEAST_MS);
    return say(r, "heal", cable->node);
}

static int cut(struct cut_run *r, struct cable *cable)
{
    uint64_t kind = rng_below(&r->rng, 6);
    int ms = (int)rng_below(&r->rng, rng_below(&r->rng, 2) ? CUT_LONG_MS : CUT_BRIEF_MS);
    cable->cut = true;
    cable->change_boot_ms = clock_boot_ms() + ms;
    *(kind < 4 ? &r->both_ways : &r->one_way) += 1;
    if (ms > r->longest_ms)
        r->longest_ms = ms;
    atomic_fetch_add(&r->scenario.progress->kills, 1);
    return say(r, kind < 4 ? "cut" : kind == 4 ? "mute" : "deaf", cable->node);
}

static int cut_at_random(struct cut_run *r)
{
    int result = 0;
    for (size_t i = 0; i < r->cable_count; i++)
        result |= heal(r, &r->cables[i]);
    while (result == 0 && atomic_load(&r->scenario.progress->kills) < r->scenario.kills) {
        struct cable *next = &r->cables[0];
        for (size_t i = 1; i < r->cable_count; i++)
            if (r->cables[i].change_boot_ms < next->change_boot_ms)
                next = &r->cables[i];
        int64_t wait_ms = next->change_boot_ms - clock_boot_ms();
        if (wait_ms > 0)
            usleep((useconds_t)wait_ms * 1000);
        result = next->cut ? heal(r, next) : cut(r, next);
    }
    /* The last cuts also last their full time. */
    for (size_t i = 0; i < r->cable_count; i++) {
        int64_t wait_ms = r->cables[i].change_boot_ms - clock_boot_ms();
        if (r->cables[i].cut && wait_ms > 0)
            usleep((useconds_t)wait_ms * 1000);
        result |= heal(r, &r->cables[i]);
    }
    return result;
}

static int start_submitters(const struct scenario *s, pid_t pids[SUBMITTERS])
{
    for (int i = 0; i < SUBMITTERS; i++) {
        pids[i] = fork();
        if (pids[i] == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            _exit(submitter_run(s, i) < 0 ? 1 : 0);
        }
        if (pids[i] < 0)
            return -1;
    }
    return 0;
}

static int wait_submitters(const pid_t pids[SUBMITTERS])
{
    int result = 0;
    for (int i = 0; i < SUBMITTERS; i++) {
        int status = 0;
        while (waitpid(pids[i], &status, 0) < 0 && errno == EINTR)
            ;
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
            result = -1;
    }
    return result;
}

static bool all_connected(const struct cut_run *r, struct http_client *client)
{
    struct http_call call = {.method = "GET", .target = "/v1/nodes", .timeout_ms = CALL_MS};
    if (http_client_call(NULL, client, &call) < 0)
        return false;
    size_t length = 0, i, connected = 0;
    const char *body = http_client_body(client, &length);
    json_t *document = json_loadb(body, length, 0, NULL), *node;
    json_array_foreach(json_object_get(document, "nodes"), i, node) connected +=
        json_is_true(json_object_get(node, "connected"));
    json_decref(document);
    return connected == r->cable_count;
}

/* Waits until nodes are connected, because they hold the output. */
static int wait_nodes(const struct cut_run *r, int64_t deadline_boot_ms)
{
    char socket[DAEMON_PATH_MAX];
    daemons_socket(&r->scenario.daemons, socket);
    struct http_client *client = http_client_new(socket);
    bool back = false;
    while (client && !(back = all_connected(r, client)) && clock_boot_ms() < deadline_boot_ms)
        usleep(POLL_US);
    http_client_free(client);
    return back ? 0 : -1;
}

/* Counts the attempts, and those that control gave up. */
static void count_attempts(const struct scenario *s, int *ret_attempts, int *ret_lost)
{
    char socket[DAEMON_PATH_MAX], target[64];
    daemons_socket(&s->daemons, socket);
    struct http_client *client = http_client_new(socket);
    for (int task = 0; client && task < s->tasks; task++) {
        snprintf(target, sizeof target, "/v1/workloads/%llu",
                 (unsigned long long)atomic_load(&s->progress->ids[task]));
        struct http_call call = {.method = "GET", .target = target, .timeout_ms = CALL_MS};
        if (http_client_call(NULL, client, &call) < 0)
            continue;
        size_t length = 0, i;
        const char *body = http_client_body(client, &length);
        json_t *document = json_loadb(body, length, 0, NULL), *attempt;
        json_array_foreach(json_object_get(document, "attempts"), i, attempt)
        {
            *ret_attempts += 1;
            *ret_lost += json_is_true(json_object_get(attempt, "lost"));
        }
        json_decref(document);
    }
    http_client_free(client);
}

static int run(struct cut_run *r)
{
    pid_t submitters[SUBMITTERS];
    if (start_submitters(&r->scenario, submitters) < 0 || cut_at_random(r) < 0 ||
        wait_submitters(submitters) < 0) {
        fprintf(stderr, "the test itself failed: %s\n", strerror(errno));
        return -1;
    }
    if (verdict_wait(&r->scenario, clock_boot_ms() + END_MS) < 0)
        fprintf(stderr, "breach: not everything has ended\n");
    if (wait_nodes(r, clock_boot_ms() + END_MS) < 0)
        fprintf(stderr, "breach: not every node is back\n");
    return verdict_judge(&r->scenario) == 0 ? 0 : -1;
}

static void read_options(int argc, char **argv, struct cut_run *r)
{
    static const struct option options[] = {
        {"directory", required_argument, NULL, 'd'}, {"journal", required_argument, NULL, 'j'},
        {"cables", required_argument, NULL, 'c'},    {"tasks", required_argument, NULL, 'n'},
        {"cuts", required_argument, NULL, 'k'},      {0}};
    struct scenario *s = &r->scenario;
    int option;
    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (option == 'd')
            s->daemons.directory = optarg;
        else if (option == 'j')
            snprintf(s->journal, sizeof s->journal, "%s", optarg);
        else if (option == 'c')
            r->cables_fd = open(optarg, O_WRONLY | O_CLOEXEC);
        else if (option == 'n')
            s->tasks = (int)strtol(optarg, NULL, 10);
        else if (option == 'k')
            s->kills = (int)strtol(optarg, NULL, 10);
        else
            exit(2);
    }
    for (; optind < argc && r->cable_count < NODES_MAX; optind++)
        r->cables[r->cable_count++].node = argv[optind];
    if (optind != argc || !s->daemons.directory || !s->journal[0] || r->cables_fd < 0 ||
        r->cable_count == 0 || s->tasks < 1 || s->tasks > TASKS_MAX || s->kills < 1) {
        fprintf(stderr, "usage: cut_test --directory DIR --journal FILE --cables FIFO [--tasks N] "
                        "[--cuts K] NODE...\n");
        exit(2);
    }
}

int main(int argc, char **argv)
{
    struct cut_run r = {
        .scenario = {.tasks = 24, .kills = 15, .task_ms_max = TASK_MS, .daemons.apart = true},
        .cables_fd = -1};
    struct scenario *s = &r.scenario;
    const char *build = getenv("GPUMUX_BUILD"), *seed = getenv("GPUMUX_SEED");
    char task[DAEMON_PATH_MAX];
    read_options(argc, argv, &r);
    s->progress =
        mmap(NULL, sizeof *s->progress, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (!build || s->progress == MAP_FAILED) {
        fprintf(stderr, "set GPUMUX_BUILD to the build that is to be tested\n");
        return 2;
    }
    snprintf(task, sizeof task, "%s/tests/system/kill_task", build);
    s->task_program = task;
    s->seed = seed ? strtoull(seed, NULL, 10) : rng_os_seed() >> 32;
    rng_seed(&r.rng, s->seed);
    printf("GPUMUX_SEED=%llu\n", (unsigned long long)s->seed);
    fflush(stdout);
    int64_t start_ms = clock_boot_ms();
    int result = run(&r), attempts = 0, lost = 0;
    count_attempts(s, &attempts, &lost);
    printf("cuts=%d both_ways=%d one_way=%d longest_ms=%d nodes=%zu tasks=%d attempts=%d lost=%d "
           "seconds=%.1f %s\n",
           atomic_load(&s->progress->kills), r.both_ways, r.one_way, r.longest_ms, r.cable_count,
           s->tasks, attempts, lost, (double)(clock_boot_ms() - start_ms) / 1000,
           result == 0 ? "passed" : "failed");
    return result == 0 ? 0 : 1;
}
