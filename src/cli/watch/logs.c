/* gpumux logs: the output of an attempt. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "cli/connect/client.h"
#include "cli/connect/follow.h"
#include "cli/watch/tail.h"
#include "cli/watch/watching.h"
#include "model/workload.h"

enum { STEP_MS = 1000 };

struct viewer {
    bool timestamps, no_stdout, no_stderr;
    bool queued; /* the workload is queued, and nothing was printed yet */
    char said[WORKLOAD_TEXT_MAX];
    struct tail tail; /* for --tail */
};

static bool is_hidden(const struct viewer *v, const struct logline *line)
{
    return line->is_stderr ? v->no_stderr : v->no_stdout;
}

static int print_line(void *arg, const struct logline *line)
{
    struct viewer *v = arg;
    v->queued = false;
    if (is_hidden(v, line))
        return 0;
    FILE *to = line->is_stderr ? stderr : stdout;
    if (v->timestamps)
        fprintf(to, "%.*s ", (int)line->time_length, line->time);
    fwrite(line->text, 1, line->length, to);
    if (line->is_full || v->timestamps)
        fputc('\n', to);
    return ferror(to) ? -ERR_IO : 0;
}

static int keep_line(void *arg, const struct logline *line)
{
    struct viewer *v = arg;
    return is_hidden(v, line) ? 0 : tail_keep(&v->tail, line);
}

/* Prints the last lines of the present output. All of it is read, because the API counts bytes.
 * With --follow, the following stream continues from there and reports errors. */
static int show_tail(struct error *e, struct follow_output *output, struct viewer *v)
{
    bool waits = output->waits, ended = false;
    output->waits = false;
    output->on_line = keep_line;
    int r = 0;
    while (r == 0 && !ended)
        r = follow_output_step(e, output, STEP_MS, &ended);
    output->waits = waits;
    output->on_line = print_line;
    if (r < 0 && !waits)
        return r;
    r = tail_emit(&v->tail, print_line, v);
    fflush(stdout);
    return r < 0 ? error_set(e, ERR_IO, "cannot print") : 0;
}

/* After gpumux ended the stream, finds out whether the attempt is over or gpumux stopped. */
static int attempt_is_over(struct error *e, struct client *c, const char *reference, int attempt,
                           bool *ret)
{
    json_t *workload = NULL;
    int r = client_get(e, c, client_path(c, "workloads", reference, ""), &workload);
    if (r < 0)
        return r;
    enum workload_state state;
    *ret = workload_state_parse(json_text(workload, "state", ""), &state) == 0 &&
           workload_state_is_terminal(state);
    int number = attempt > 0 ? attempt : (int)json_number(workload, "attempt", 0);
    const json_t *attempts = json_object_get(workload, "attempts");
    for (size_t i = 0; i < json_array_size(attempts); i++) {
        const json_t *a = json_array_get(attempts, i);
        if (json_number(a, "number", 0) == number)
            *ret = *ret || json_is_string(json_object_get(a, "ended"));
    }
    json_decref(workload);
    return 0;
}

static int read_attempt(const struct invocation *in, int *ret)
{
    const char *text = option_value(in, "attempt");
    char rest;
    *ret = 0;
    if (text && (sscanf(text, "%d%c", ret, &rest) != 1 || *ret < 1)) {
        fprintf(stderr, "gpumux: logs: --attempt must be a number from 1 on, not '%s'\n", text);
        return COMMAND_USAGE;
    }
    return COMMAND_OK;
}

/* *ret: number of lines; -1: all. */
static int read_tail(const struct invocation *in, int *ret)
{
    const char *text = option_value(in, "tail");
    char rest;
    *ret = -1;
    if (text && (sscanf(text, "%d%c", ret, &rest) != 1 || *ret < 0 || *ret > TAIL_LINES_MAX)) {
        fprintf(stderr, "gpumux: logs: --tail must be a number of lines up to %d, not '%s'\n",
                TAIL_LINES_MAX, text);
        return COMMAND_USAGE;
    }
    return COMMAND_OK;
}

/* Prints why there is no output yet. Errors are ignored, because the stream reports them as
 * well. */
static void tell_waiting(struct client *c, const char *path, struct viewer *v)
{
    json_t *workload = NULL;
    struct error unused;
    if (client_request(&unused, c, "GET", path, NULL, 0, &workload) < 0)
        return;
    v->queued = strcmp(json_text(workload, "state", ""), "queued") == 0;
    follow_tell_waiting(workload, v->said);
    json_decref(workload);
}

static int follow_logs(struct error *e, struct client *c, const char *reference, int attempt,
                       int tail)
{
    const struct invocation *in = c->in;
    struct viewer v = {.timestamps = option_given(in, "timestamps"),
                       .no_stdout = option_given(in, "stderr"),
                       .no_stderr = option_given(in, "stdout")};
    if (v.no_stdout && v.no_stderr)
        v.no_stdout = v.no_stderr = false;
    bool waits = option_given(in, "follow");
    int64_t quiet_until_boot_ms = clock_boot_ms() + FOLLOW_QUIET_MS;
    const char *path = client_path(c, "workloads", reference, "");
    v.queued = waits;
    struct follow_output output;
    int r = follow_output_init(e, &output, c, reference, attempt, waits, print_line, &v);
    if (r == 0 && tail >= 0 && (r = tail_init(&v.tail, (size_t)tail)) < 0)
        error_set(e, ERR_NO_MEMORY, "out of memory");
    if (r == 0 && tail >= 0)
        r = show_tail(e, &output, &v);
    bool over = tail >= 0 && !waits;
    while (r == 0 && !over) {
        bool ended = false;
        r = follow_output_step(e, &output, STEP_MS, &ended);
        fflush(stdout);
        over = ended && !waits;
        if (r == 0 && ended && waits)
            r = attempt_is_over(e, c, reference, attempt, &over);
        if (r == 0 && !over && v.queued && clock_boot_ms() >= quiet_until_boot_ms)
            tell_waiting(c, path, &v);
    }
    follow_output_done(&output);
    tail_done(&v.tail);
    return r;
}

int logs_command(const struct invocation *in)
{
    int attempt, tail;
    int status = read_attempt(in, &attempt);
    if (status == COMMAND_OK)
        status = read_tail(in, &tail);
    struct client c;
    if (status == COMMAND_OK)
        status = client_init(&c, in);
    if (status != COMMAND_OK)
        return status;
    struct error e = {0};
    if (follow_logs(&e, &c, in->operands[0], attempt, tail) < 0)
        status = client_fail(&c, &e);
    client_done(&c);
    return status;
}
