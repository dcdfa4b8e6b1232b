/* gpumux token create | list | revoke: tokens of clients and nodes on the network. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/change/access.h"
#include "cli/connect/client.h"
#include "cli/frame/output.h"

static int usage(const char *text)
{
    fprintf(stderr, "gpumux: token: %s\n", text);
    return COMMAND_USAGE;
}

/* ---- create ---- */

static json_t *request_of(const struct invocation *in)
{
    static const char *const names[] = {"role", "account", "name", "ttl"};
    json_t *body = json_object();
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (option_value(in, names[i]))
            json_object_set_new(body, names[i], json_string(option_value(in, names[i])));
    return body;
}

/* Prints the secret, or for a node the command to run there, alone on standard output for
 * scripts. */
static int show_new(const struct invocation *in, const json_t *token)
{
    enum output_format format = output_format(in);
    if (format == OUTPUT_JSON || format == OUTPUT_YAML)
        return output_value(format, token);
    bool for_node = strcmp(json_text(token, "role", ""), "node") == 0;
    const char *secret = json_text(token, "token", ""), *line = json_text(token, "command", NULL);
    printf("%s\n", for_node && line && !option_given(in, "quiet") ? line : secret);
    if (option_given(in, "quiet"))
        return COMMAND_OK;
    fprintf(stderr, "token %lld, role %s, expires %s; the token is never shown again\n",
            (long long)json_number(token, "id", 0), json_text(token, "role", "?"),
            json_text(token, "expires", "never"));
    if (for_node && !line)
        fprintf(stderr,
                "this gpumux does not listen on the network: start gpumux with --listen, then use "
                "the token with 'gpumux node --control URL --ca sha256:… --token …'\n");
    return COMMAND_OK;
}

static int create(struct client *c)
{
    const struct invocation *in = c->in;
    if (!option_value(in, "role"))
        return usage("'create' needs --role viewer|user|admin|node");
    struct error e = {0};
    json_t *body = request_of(in), *answer = NULL;
    char *text = json_dumps(body, JSON_COMPACT);
    json_decref(body);
    int r = text ? client_request(&e, c, "POST", "/v1/tokens", text, 0, &answer)
                 : error_set(&e, ERR_NO_MEMORY, "out of memory");
    free(text);
    int status = r < 0 ? client_fail(c, &e) : show_new(in, answer);
    json_decref(answer);
    return status;
}

/* ---- list ---- */

static int show_list(const struct invocation *in, const json_t *answer)
{
    static const char *const titles[] = {"ID",      "ROLE",    "ACCOUNT", "CREATED",
                                         "EXPIRES", "CREATOR", NULL};
    enum output_format format = output_format(in);
    if (format == OUTPUT_JSON || format == OUTPUT_YAML)
        return output_value(format, answer);
    const json_t *tokens = json_object_get(answer, "tokens");
    struct output_table t;
    output_table_init(&t, titles);
    for (size_t i = 0; i < json_array_size(tokens); i++) {
        const json_t *token = json_array_get(tokens, i);
        const char *account = json_text(token, "account", json_text(token, "name", "-"));
        output_cell(&t, OUTPUT_BOLD, "%lld", (long long)json_number(token, "id", 0));
        output_cell(&t, OUTPUT_PLAIN, "%s", json_text(token, "role", "?"));
        output_cell(&t, OUTPUT_PLAIN, "%s", account);
        output_cell(&t, OUTPUT_PLAIN, "%s", json_text(token, "created", "?"));
        output_cell(&t, OUTPUT_PLAIN, "%s", json_text(token, "expires", "never"));
        output_cell(&t, OUTPUT_PLAIN, "%s", json_text(token, "creator", "?"));
    }
    return output_table_print(&t);
}

static int list(struct client *c)
{
    struct error e = {0};
    json_t *answer = NULL;
    int status = client_get(&e, c, "/v1/tokens", &answer) < 0 ? client_fail(c, &e)
                                                              : show_list(c->in, answer);
    json_decref(answer);
    return status;
}

/* ---- revoke ---- */

static int revoke(struct client *c)
{
    const struct invocation *in = c->in;
    int status = COMMAND_OK;
    if (in->operand_count < 2)
        return usage("'revoke' needs ids, which 'gpumux token list' shows");
    for (size_t i = 1; i < in->operand_count; i++) {
        struct error e = {0};
        const char *path = client_path(c, "tokens", in->operands[i], "");
        int r = path ? client_request(&e, c, "DELETE", path, NULL, 0, NULL)
                     : error_set(&e, ERR_NO_MEMORY, "out of memory");
        if (r < 0)
            status = client_fail(c, &e);
        else
            fprintf(stderr, "token %s revoked\n", in->operands[i]);
    }
    return status;
}

int token_command(const struct invocation *in)
{
    static const char *const of_create[] = {"role", "account", "name", "ttl", "quiet", NULL};
    const char *what = in->operands[0], *stray;
    int (*action)(struct client * c) = strcmp(what, "create") == 0   ? create
                                       : strcmp(what, "list") == 0   ? list
                                       : strcmp(what, "revoke") == 0 ? revoke
                                                                     : NULL;
    if (!action || (action != revoke && in->operand_count > 1))
        return usage("use 'gpumux token create', 'gpumux token list' or 'gpumux token revoke ID…'");
    if (action != create && (stray = option_given_of(in, of_create))) {
        fprintf(stderr, "gpumux: token: --%s belongs to 'create', not to '%s'\n", stray, what);
        return COMMAND_USAGE;
    }
    struct client c;
    int status = client_init(&c, in);
    if (status != COMMAND_OK)
        return status;
    status = action(&c);
    client_done(&c);
    return status;
}
