/* gpumux cancel, requeue, suspend, resume, advise, drain, undrain, enable, disable: one request for
 * each operand. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli/change/changing.h"
#include "cli/connect/client.h"
#include "cli/connect/reference.h"
#include "model/workload.h"

enum { LOOK_AGAIN_NS = 100 * 1000 * 1000 };

/* Handles the response to a request; an error counts as the operand's. NULL: nothing to do. */
typedef int (*change_follow)(struct error *e, struct client *c, const json_t *answer);

/* Returns whether an element of an array, which the user did not name, has ended since the array
 * was expanded. Such a conflict is no error. */
static bool ended_meanwhile(struct client *c, const char *reference)
{
    const struct invocation *in = c->in;
    for (size_t i = 0; i < in->operand_count; i++)
        if (in->operands[i] == reference)
            return false;
    json_t *workload = NULL;
    enum workload_state state;
    bool ended = client_get(NULL, c, client_path(c, "workloads", reference, ""), &workload) == 0 &&
                 workload_state_parse(json_text(workload, "state", ""), &state) == 0 &&
                 workload_state_is_terminal(state);
    json_decref(workload);
    return ended;
}

/* Sends a request for every operand, and returns the exit code of the first failure. Requests are
 * safe to repeat. */
static int change_each(const struct invocation *in, const char *collection, const char *suffix,
                       const char *body, change_follow follow)
{
    struct client c;
    int status = client_init(&c, in);
    if (status != COMMAND_OK)
        return status;
    struct error e = {0};
    struct references list = {.count = in->operand_count, .items = (const char **)in->operands};
    if (strcmp(collection, "workloads") == 0 &&
        references_expand(&e, &c, in->operand_count, in->operands, ARRAY_LIVE, &list) < 0) {
        status = client_fail(&c, &e);
        list.count = 0;
    } else {
        status = references_tell_ended(in, &list);
    }
    for (size_t i = 0; i < list.count; i++) {
        json_t *answer = NULL;
        e = (struct error){0};
        const char *path = client_path(&c, collection, list.items[i], suffix);
        int r = client_request(&e, &c, "POST", path, body, CLIENT_RETRY_MS, &answer);
        if (r == 0 && follow)
            r = follow(&e, &c, answer);
        if (r < 0 && !(r == -ERR_CONFLICT && ended_meanwhile(&c, list.items[i]))) {
            if (!e.field[0])
                (void)str_copy(e.field, sizeof e.field, list.items[i]);
            int failure = client_fail(&c, &e);
            status = status == COMMAND_OK ? failure : status;
        }
        json_decref(answer);
    }
    client_done(&c);
    return status;
}

int cancel_command(const struct invocation *in)
{
    const char *grace = option_value(in, "grace");
    if (!grace)
        return change_each(in, "workloads", "/cancel", NULL, NULL);
    json_t *body = json_pack("{s:s}", "grace", grace);
    char *text = body ? json_dumps(body, 0) : NULL;
    json_decref(body);
    if (!text) {
        fprintf(stderr, "gpumux: cancel: --grace must be a time, such as 5s\n");
        return COMMAND_USAGE;
    }
    int status = change_each(in, "workloads", "/cancel", text, NULL);
    free(text);
    return status;
}

int requeue_command(const struct invocation *in)
{
    return change_each(in, "workloads", "/requeue", NULL, NULL);
}

/* The command waits, because the move takes seconds and only the node knows whether it works. */
static int await_suspended(struct error *e, struct client *c, const json_t *answer)
{
    char reference[24];
    snprintf(reference, sizeof reference, "%lld", (long long)json_number(answer, "id", 0));
    const char *path = client_path(c, "workloads", reference, "");
    for (;;) {
        json_t *workload = NULL;
        int r = client_get(e, c, path, &workload);
        if (r < 0)
            return r;
        const char *state = json_text(workload, "state", "");
        bool waits = strcmp(state, "suspending") == 0;
        if (!waits && strcmp(state, "suspended") != 0)
            r = error_set(e, ERR_CONFLICT, "the task is %s: %s", state,
                          json_text(workload, "text", ""));
        json_decref(workload);
        if (!waits)
            return r;
        nanosleep(&(struct timespec){.tv_nsec = LOOK_AGAIN_NS}, NULL);
    }
}

int suspend_command(const struct invocation *in)
{
    return change_each(in, "workloads", "/suspend", NULL, await_suspended);
}

/* Prints what the task waits for if it is still suspended. */
static int tell_waiting(struct error *e, struct client *c, const json_t *answer)
{
    char reference[24];
    json_t *workload = NULL;
    snprintf(reference, sizeof reference, "%lld", (long long)json_number(answer, "id", 0));
    int r = client_get(e, c, client_path(c, "workloads", reference, ""), &workload);
    if (r == 0 && strcmp(json_text(workload, "state", ""), "suspended") == 0)
        fprintf(stderr, "gpumux: %s %s\n", reference, json_text(workload, "text", ""));
    json_decref(workload);
    return r;
}

int resume_command(const struct invocation *in)
{
    return change_each(in, "workloads", "/resume", NULL, tell_waiting);
}

static int usage_of_advise(const char *what)
{
    fprintf(stderr, "gpumux: advise: %s\n", what);
    return COMMAND_USAGE;
}

static bool parse_batch(const char *text, int64_t *ret)
{
    char *end;
    if (*text < '0' || *text > '9')
        return false;
    errno = 0;
    long long size = strtoll(text, &end, 10);
    *ret = size;
    return *end == '\0' && errno == 0 && size <= ADVICE_BATCH_MAX;
}

int advise_command(const struct invocation *in)
{
    const char *batch = option_value(in, "batch");
    bool checkpoint = option_given(in, "checkpoint");
    int64_t size = 0;
    if (!batch && !checkpoint)
        return usage_of_advise("give --batch N, --checkpoint or both");
    if (batch && !parse_batch(batch, &size))
        return usage_of_advise("--batch must be a number of samples; 0: the workload's own");
    json_t *body = json_object();
    if (batch)
        json_object_set_new(body, "batch", json_integer(size));
    if (checkpoint)
        json_object_set_new(body, "checkpoint", json_true());
    char *text = body ? json_dumps(body, 0) : NULL;
    json_decref(body);
    if (!text)
        return usage_of_advise("out of memory");
    int status = change_each(in, "workloads", "/advise", text, NULL);
    free(text);
    return status;
}

int drain_command(const struct invocation *in)
{
    return change_each(in, "nodes", "/drain", NULL, NULL);
}

int undrain_command(const struct invocation *in)
{
    return change_each(in, "nodes", "/undrain", NULL, NULL);
}

int enable_command(const struct invocation *in)
{
    return change_each(in, "devices", "/enable", NULL, NULL);
}

int disable_command(const struct invocation *in)
{
    return change_each(in, "devices", "/disable", NULL, NULL);
}
