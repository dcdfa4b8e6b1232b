/*
 * kill_test [--together] [--short-lease] [--tasks N] [--kills K]: checks that no task is lost.
 *
 * Short tasks are submitted over time while the daemons are killed (SIGKILL) and restarted at
 * random moments, control and node as two processes or, with --together, as one. Afterwards every
 * accepted task must have succeeded exactly once, never with two living copies and with complete
 * output, and no process or memory may be left. With --short-lease, outages outlast the lease, so
 * that tasks are ended and run again; otherwise every task must have run exactly once.
 *
 * The moments derive from GPUMUX_SEED, which is printed. GPUMUX_BUILD names the build under test.
 */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <signal.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/rng.h"
#include "scenario.h"

enum {
    ANSWER_MS = 60000, /* time limit for a daemon to listen after its start */
    END_MS = 180000,   /* time limit for all tasks to end after the last kill */
    POLL_US = 1000,
    LOG_TAIL_LINES = 60,
};

struct targets {
    int control, node, both;
};

static void wait_answer(const struct scenario *s)
{
    int64_t deadline_ms = clock_boot_ms() + ANSWER_MS;
    while (!daemons_answer(&s->daemons) && clock_boot_ms() < deadline_ms)
        usleep(POLL_US);
}

/* A third of the kills come while the daemons start, the others while they work. */
static void wait_moment(const struct scenario *s, struct rng *rng)
{
    enum { EARLY_US = 30000, LATE_US = 150000 };
    if (rng_below(rng, 3) == 0) {
        usleep((useconds_t)rng_below(rng, EARLY_US));
        return;
    }
    wait_answer(s);
    usleep((useconds_t)rng_below(rng, LATE_US));
}

static int kill_once(struct scenario *s, struct rng *rng, struct targets *targets)
{
    int parts = daemons_parts(&s->daemons);
    uint64_t pick = rng_below(rng, 5);
    bool all = parts == 1 || pick == 4;
    int only = pick < 2 ? 0 : 1;
    *(all ? &targets->both : only == 0 ? &targets->control : &targets->node) += 1;
    for (int part = 0; part < parts; part++)
        if (all || part == only)
            daemons_kill(&s->daemons, part);
    atomic_fetch_add(&s->progress->kills, 1);
    if (rng_below(rng, 2) == 0)
        usleep((useconds_t)rng_below(rng, (uint64_t)s->outage_ms_max * 1000));
    for (int part = 0; part < parts; part++)
        if ((all || part == only) && daemons_start(&s->daemons, part) < 0)
            return -1;
    return 0;
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

static int run(struct scenario *s, struct targets *targets)
{
    struct rng rng;
    pid_t submitters[SUBMITTERS];
    rng_seed(&rng, s->seed);
    for (int part = 0; part < daemons_parts(&s->daemons); part++)
        if (daemons_start(&s->daemons, part) < 0)
            return -1;
    if (start_submitters(s, submitters) < 0)
        return -1;
    for (int kill = 0; kill < s->kills; kill++) {
        wait_moment(s, &rng);
        if (kill_once(s, &rng, targets) < 0)
            return -1;
    }
    if (wait_submitters(submitters) < 0)
        return -1;
    if (verdict_wait(s, clock_boot_ms() + END_MS) < 0)
        fprintf(stderr, "breach: not everything has ended\n");
    int breaches = verdict_judge(s);
    if (daemons_stop(&s->daemons) < 0)
        breaches++;
    return breaches + verdict_judge_processes(s) == 0 ? 0 : -1;
}

static void show_log(const char *directory)
{
    char path[DAEMON_PATH_MAX], line[512];
    snprintf(path, sizeof path, "%s/daemon.log", directory);
    FILE *log = fopen(path, "re");
    long lines = 0, skip;
    while (log && fgets(line, sizeof line, log))
        lines++;
    skip = lines - LOG_TAIL_LINES;
    if (log)
        rewind(log);
    while (log && fgets(line, sizeof line, log))
        if (skip-- <= 0)
            fputs(line, stderr);
    if (log)
        fclose(log);
}

static void remove_directory(const char *directory)
{
    pid_t pid = fork();
    if (pid == 0) {
        execlp("rm", "rm", "-rf", directory, (char *)NULL);
        _exit(127);
    }
    while (pid > 0 && waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        ;
}

static void read_options(int argc, char **argv, struct scenario *s, bool *ret_short_lease)
{
    static const struct option options[] = {{"together", no_argument, NULL, 't'},
                                            {"short-lease", no_argument, NULL, 's'},
                                            {"tasks", required_argument, NULL, 'n'},
                                            {"kills", required_argument, NULL, 'k'},
                                            {0}};
    int option;
    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (option == 't')
            s->daemons.apart = false;
        else if (option == 's')
            *ret_short_lease = true;
        else if (option == 'n')
            s->tasks = (int)strtol(optarg, NULL, 10);
        else if (option == 'k')
            s->kills = (int)strtol(optarg, NULL, 10);
        else
            exit(2);
    }
    if (optind != argc || s->tasks < 1 || s->tasks > TASKS_MAX || s->kills < 0) {
        fprintf(stderr, "usage: kill_test [--together] [--short-lease] [--tasks N] [--kills K]\n");
        exit(2);
    }
}

static void choose_settings(struct scenario *s, bool short_lease)
{
    static const char *const common[] = {"allow_root=true", "beat=100ms", "resend=200ms"};
    static const char *const lease_long[] = {"lease=10m"};
    static const char *const lease_short[] = {"lease=500ms", "fence=50ms", "drain=100ms",
                                              "lost_margin=50ms"};
    size_t count = 0;
    for (size_t i = 0; i < sizeof common / sizeof common[0]; i++)
        s->daemons.settings[count++] = common[i];
    const char *const *lease = short_lease ? lease_short : lease_long;
    size_t leases = short_lease ? sizeof lease_short / sizeof lease_short[0]
                                : sizeof lease_long / sizeof lease_long[0];
    for (size_t i = 0; i < leases; i++)
        s->daemons.settings[count++] = lease[i];
    s->outlives = !short_lease;
    s->outage_ms_max = short_lease ? 1500 : 100;
    s->task_ms_max = short_lease ? 600 : 300;
}

int main(int argc, char **argv)
{
    struct scenario s = {.tasks = 60, .kills = 25, .daemons.apart = true};
    bool short_lease = false;
    read_options(argc, argv, &s, &short_lease);
    choose_settings(&s, short_lease);
    const char *build = getenv("GPUMUX_BUILD"), *seed = getenv("GPUMUX_SEED");
    char directory[] = "/tmp/gmk.XXXXXX", program[DAEMON_PATH_MAX], task[DAEMON_PATH_MAX];
    if (!build || !mkdtemp(directory)) {
        fprintf(stderr, "set GPUMUX_BUILD to the build that is to be tested\n");
        return 2;
    }
    snprintf(program, sizeof program, "%s/src/cli/gpumux", build);
    snprintf(task, sizeof task, "%s/tests/system/kill_task", build);
    snprintf(s.journal, sizeof s.journal, "%s/journal", directory);
    s.seed = seed ? strtoull(seed, NULL, 10) : rng_os_seed() >> 32;
    s.daemons.program = program;
    s.daemons.directory = directory;
    s.task_program = task;
    s.progress =
        mmap(NULL, sizeof *s.progress, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (s.progress == MAP_FAILED)
        return 2;
    printf("GPUMUX_SEED=%llu\n", (unsigned long long)s.seed);
    fflush(stdout);

    struct targets targets = {0};
    int64_t start_ms = clock_boot_ms();
    int result = run(&s, &targets);
    printf(
        "kills=%d control=%d node=%d both=%d tasks=%d submits=%llu repeated=%llu seconds=%.1f %s\n",
        atomic_load(&s.progress->kills), targets.control, targets.node, targets.both, s.tasks,
        (unsigned long long)atomic_load(&s.progress->tries),
        (unsigned long long)atomic_load(&s.progress->repeats),
        (double)(clock_boot_ms() - start_ms) / 1000, result == 0 ? "passed" : "failed");
    if (result < 0) {
        show_log(directory);
        fprintf(stderr, "to repeat: GPUMUX_SEED=%llu; left for a look: %s\n",
                (unsigned long long)s.seed, directory);
        for (int part = 0; part < daemons_parts(&s.daemons); part++)
            daemons_kill(&s.daemons, part);
        return 1;
    }
    remove_directory(directory);
    return 0;
}
