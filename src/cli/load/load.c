/* gpumux load: measures a service under an open-loop load. */
#include "cli/load/load.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "cli/frame/output.h"
#include "cli/load/load_picture.h"
#include "cli/load/load_plan.h"
#include "cli/load/load_report.h"

enum { OUTPUT_TEXT_MAX = 64 << 20, DESCRIPTORS_SPARE = 64 };

static int fail(const struct error *e)
{
    fprintf(stderr, "gpumux: load: %s\n", e->text);
    switch (e->code) {
    case ERR_INVALID:
    case ERR_SYNTAX:
    case ERR_TOO_LARGE:
        return COMMAND_USAGE;
    case ERR_DENIED:
    case ERR_UNAVAILABLE:
        return COMMAND_UNREACHABLE;
    default:
        return COMMAND_FAILED;
    }
}

/* Shows the latency of the whole run so far. */
static void show_progress(void *arg, int64_t now_ns, const struct tally *t)
{
    const struct load_plan *p = arg;
    char p50[LOAD_TIME_TEXT_MAX], p99[LOAD_TIME_TEXT_MAX];
    uint64_t failures = tally_failures(t);
    fprintf(stderr, "\r%.0f s  %llu due, %llu answered", (double)now_ns / 1e9,
            (unsigned long long)(t->due + t->warmup), (unsigned long long)t->answered);
    if (failures > 0)
        fprintf(stderr, ", %llu failed", (unsigned long long)failures);
    if (t->latency.count > 0)
        fprintf(stderr, ", p50 %s, p99 %s",
                load_time_text(histogram_quantile(&t->latency, 0.5), p50),
                load_time_text(histogram_quantile(&t->latency, 0.99), p99));
    else if (now_ns < p->tally.warmup_ns)
        fputs(" (warm-up)", stderr);
    fputs("\033[K", stderr);
}

/* Allows as many descriptors as the connections need, as far as the hard limit allows. */
static void raise_descriptors(int connections)
{
    struct rlimit limit;
    rlim_t wanted = (rlim_t)connections + DESCRIPTORS_SPARE;
    if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur >= wanted)
        return;
    limit.rlim_cur = wanted < limit.rlim_max ? wanted : limit.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &limit);
}

/* Runs the plan; SIGINT and SIGTERM end the run, and the results so far are reported. */
static int run(struct error *e, struct load_plan *p)
{
    sigset_t signals, before;
    bool shows = isatty(STDERR_FILENO);
    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    sigprocmask(SIG_BLOCK, &signals, &before);
    p->config.stop_fd = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
    p->config.on_progress = shows ? show_progress : NULL;
    p->config.arg = p;
    raise_descriptors(p->config.connections);
    int r = p->config.stop_fd < 0 ? error_set_errno(e, ERR_IO, errno, "cannot receive signals")
                                  : load_run(e, &p->config, &p->arrivals, &p->tally, &p->cost);
    if (shows)
        fputs("\r\033[K", stderr);
    if (p->config.stop_fd >= 0) {
        struct signalfd_siginfo received; /* a pending signal would end the process below */
        while (read(p->config.stop_fd, &received, sizeof received) > 0)
            ;
        close(p->config.stop_fd);
    }
    sigprocmask(SIG_SETMASK, &before, NULL);
    return r;
}

/* Writes a text to a file, or to standard output for "-". */
static int write_text(struct error *e, const char *path, const struct str *text)
{
    if (str_failed(text))
        return error_set(e, ERR_NO_MEMORY, "out of memory for %s", path);
    bool is_stdout = strcmp(path, "-") == 0;
    FILE *file = is_stdout ? stdout : fopen(path, "we");
    if (!file)
        return error_set_errno(e, ERR_IO, errno, "cannot write %s", path);
    bool failed = fwrite(str_text(text), 1, text->length, file) != text->length;
    failed = fflush(file) != 0 || failed;
    int failure = errno;
    if (!is_stdout)
        failed = fclose(file) != 0 || failed;
    return failed ? error_set_errno(e, ERR_IO, failure, "cannot write %s", path) : 0;
}

static int write_files(struct error *e, const struct invocation *in, const struct load_plan *p)
{
    const char *json = option_value(in, "json"), *svg = option_value(in, "svg");
    struct str text;
    int r = 0;
    str_init(&text, OUTPUT_TEXT_MAX);
    if (json) {
        load_write_json(p, &text);
        r = write_text(e, json, &text);
    }
    str_clear(&text);
    if (r == 0 && svg) {
        load_draw_picture(p, &text);
        r = write_text(e, svg, &text);
    }
    str_done(&text);
    return r;
}

static int status_of(const struct load_plan *p)
{
    const struct tally *t = &p->tally;
    for (size_t i = 0; i < t->slo_count; i++)
        if (!tally_slo_is_met(t, &t->slos[i]))
            return COMMAND_FAILED;
    return t->due > 0 && t->answered == 0 ? COMMAND_FAILED : COMMAND_OK;
}

int load_command(const struct invocation *in)
{
    struct error e = {0};
    struct load_plan plan;
    const char *json = option_value(in, "json");
    int r = load_plan_init(&e, in, &plan);
    if (r == 0)
        r = run(&e, &plan);
    if (r == 0 && !(json && strcmp(json, "-") == 0))
        load_print_results(&plan);
    if (r == 0)
        r = write_files(&e, in, &plan);
    int status = r < 0 ? fail(&e) : status_of(&plan);
    load_plan_done(&plan);
    return status;
}
