/* gpumux cancel, requeue, drain, undrain, enable, disable: one request for each operand. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/changing.h"
#include "cli/client.h"
#include "cli/reference.h"

/* All are tried; the answer is the first failure's exit code. Each is harmless to repeat. */
static int change_each(const struct invocation *in, const char *collection, const char *suffix,
                       const char *body)
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
    }
    for (size_t i = 0; i < list.count; i++) {
        json_t *answer = NULL;
        e = (struct error){0};
        const char *path = client_path(&c, collection, list.items[i], suffix);
        int r = client_request(&e, &c, "POST", path, body, CLIENT_RETRY_MS, &answer);
        if (r < 0) {
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
        return change_each(in, "workloads", "/cancel", NULL);
    json_t *body = json_pack("{s:s}", "grace", grace);
    char *text = body ? json_dumps(body, 0) : NULL;
    json_decref(body);
    if (!text) {
        fprintf(stderr, "gpumux: cancel: --grace takes a time such as 5s\n");
        return COMMAND_USAGE;
    }
    int status = change_each(in, "workloads", "/cancel", text);
    free(text);
    return status;
}

int requeue_command(const struct invocation *in)
{
    return change_each(in, "workloads", "/requeue", NULL);
}

int drain_command(const struct invocation *in)
{
    return change_each(in, "nodes", "/drain", NULL);
}

int undrain_command(const struct invocation *in)
{
    return change_each(in, "nodes", "/undrain", NULL);
}

int enable_command(const struct invocation *in)
{
    return change_each(in, "devices", "/enable", NULL);
}

int disable_command(const struct invocation *in)
{
    return change_each(in, "devices", "/disable", NULL);
}
