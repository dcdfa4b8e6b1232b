#include "cli/connect/client.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/skew.h"
#include "base/version.h"
#include "cli/connect/paths.h"

enum {
    ARENA_BYTES = 64 << 20,
    BACKOFF_MIN_MS = 10,
    BACKOFF_MAX_MS = 500,
    START_LOOK_MS = 10,
    START_SIGN_MS = 100, /* a gpumux that was just started holds its lock by then */
    NOTICE_MS = 1000,    /* silence after which the user is told */
    SOCKET_PATH_MAX = 107,
};

struct http_client *client_open(const struct client *c)
{
    return c->socket ? http_client_new(c->socket) : remote_open(&c->remote);
}

static const char *address_of(const struct client *c)
{
    return c->socket ? c->socket : c->remote.url;
}

void client_tell_silence(struct client *c, int64_t until_boot_ms)
{
    int64_t now = clock_boot_ms();
    char until[32] = "gpumux is back";
    if (c->silent_boot_ms == 0)
        c->silent_boot_ms = now;
    if (c->quiet || c->is_told || now - c->silent_boot_ms < NOTICE_MS)
        return;
    c->is_told = true;
    if (until_boot_ms < c->until_boot_ms)
        until_boot_ms = c->until_boot_ms;
    if (until_boot_ms < INT64_MAX) {
        time_t then = (time_t)((clock_wall_ms() + until_boot_ms - now) / 1000);
        struct tm local;
        (void)strftime(until, sizeof until, "%T", localtime_r(&then, &local));
    }
    fprintf(stderr, "gpumux: %s: no answer from %s: waiting until %s\n", c->in->command->name,
            address_of(c), until);
}

void client_end_silence(struct client *c)
{
    c->silent_boot_ms = 0;
    c->is_told = false;
}

static void on_wait(void *arg, int64_t since_boot_ms, int64_t deadline_boot_ms)
{
    struct client *c = arg;
    if (c->silent_boot_ms == 0)
        c->silent_boot_ms = since_boot_ms;
    client_tell_silence(c, deadline_boot_ms);
}

static int find_gpumux(struct error *e, struct client *c)
{
    const char *socket = option_value(c->in, "socket");
    int r = socket ? 0 : remote_find(e, &c->arena, option_value(c->in, "url"), &c->remote);
    if (r < 0)
        return r;
    if (!c->remote.url)
        c->socket = paths_api_socket(&c->arena, socket);
    c->http = c->socket || c->remote.url ? client_open(c) : NULL;
    if (c->http) {
        http_client_on_wait(c->http, on_wait, c);
        return 0;
    }
    if (c->socket && strlen(c->socket) > SOCKET_PATH_MAX)
        return error_set(e, ERR_INVALID, "the socket's path is longer than %d bytes: %s",
                         SOCKET_PATH_MAX, c->socket);
    return error_set(e, ERR_NO_MEMORY, "out of memory");
}

int client_init(struct client *c, const struct invocation *in)
{
    *c = (struct client){.in = in};
    for (size_t i = 0; i < in->given_count; i++)
        c->quiet = c->quiet || strcmp(in->given[i].option->name, "quiet") == 0;
    arena_init(&c->arena, ARENA_BYTES);
    struct error e = {0};
    if (find_gpumux(&e, c) == 0)
        return COMMAND_OK;
    (void)command_fail(in, &e);
    client_done(c);
    return COMMAND_FAILED;
}

void client_done(struct client *c)
{
    http_client_free(c->http);
    remote_done(&c->remote);
    arena_done(&c->arena);
}

int client_problem(struct error *e, int status, const char *body, size_t length)
{
    static const char prefix[] = "urn:gpumux:problem:";
    json_t *problem = json_loadb(body, length, 0, NULL);
    const char *type = json_text(problem, "type", "");
    int code = str_starts_with(type, prefix) ? error_from_slug(type + sizeof prefix - 1)
               : status == 404               ? ERR_NOT_FOUND
               : status == 403               ? ERR_DENIED
               : status == 401               ? ERR_UNAUTHENTICATED
                                             : ERR_PROTOCOL;
    const char *detail = json_text(problem, "detail", json_text(problem, "title", ""));
    if (*detail)
        error_set_field(e, (enum error_code)code, json_text(problem, "field", ""), "%s", detail);
    else
        error_set(e, (enum error_code)code, "the answer was HTTP status %d", status);
    json_decref(problem);
    return -code;
}

int client_check_server(struct error *e, const char *server)
{
    static const char product[] = "gpumux/";
    const char *theirs = server + sizeof product - 1;
    if (!str_starts_with(server, product) || skew_is_allowed(GPUMUX_VERSION, theirs))
        return 0;
    return error_set(
        e, ERR_UNSUPPORTED,
        "this command is gpumux %s, but the gpumux that is up is %.40s: versions may be at most "
        "one minor version apart; install gpumux %.40s here, or restart the other gpumux as %s",
        GPUMUX_VERSION, theirs, theirs, GPUMUX_VERSION);
}

static void sleep_ms(int64_t ms)
{
    struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    nanosleep(&t, NULL);
}

/* The user's own gpumux may have started, where only the machine's was found at first. */
static void look_again(struct client *c)
{
    const char *socket = paths_api_socket(&c->arena, option_value(c->in, "socket"));
    if (!socket || str_equal(socket, c->socket))
        return;
    struct http_client *http = http_client_new(socket);
    if (!http)
        return;
    http_client_free(c->http);
    http_client_on_wait(http, on_wait, c);
    c->http = http;
    c->socket = socket;
}

/* Sends the first request, while gpumux may still be starting. */
static int send_first(struct error *e, struct client *c, const struct http_call *call)
{
    for (int64_t since_ms = clock_boot_ms();;) {
        int r = http_client_send(e, c->http, call);
        int64_t waited_ms = clock_boot_ms() - since_ms;
        if (r != -ERR_UNAVAILABLE || !c->socket ||
            waited_ms >= (paths_is_held(c->socket) ? CLIENT_START_MS : START_SIGN_MS))
            return r;
        client_tell_silence(c, since_ms + CLIENT_START_MS);
        http_client_close(c->http);
        sleep_ms(START_LOOK_MS);
        look_again(c);
    }
}

/* Sends until there is a response, whatever its status. */
static int call_repeatedly(struct error *e, struct client *c, const struct http_call *call,
                           int64_t retry_ms)
{
    int64_t give_up = clock_boot_ms() + retry_ms;
    for (int64_t wait = BACKOFF_MIN_MS;;
         wait = wait * 2 < BACKOFF_MAX_MS ? wait * 2 : BACKOFF_MAX_MS) {
        int r = c->reached ? http_client_send(e, c->http, call) : send_first(e, c, call);
        if (r == 0) {
            c->reached = true;
            for (bool done = false; r == 0 && !done;)
                r = http_client_receive(e, c->http, call->timeout_ms, &done);
        }
        if (r == -ERR_TIMEOUT)
            r = error_set(e, ERR_UNAVAILABLE, "no answer from %s within %d s", address_of(c),
                          (int)(call->timeout_ms / 1000));
        bool broken = r == -ERR_UNAVAILABLE || r == -ERR_PROTOCOL;
        if (r == 0)
            client_end_silence(c);
        if (!broken || !c->reached || clock_boot_ms() + wait > give_up)
            return r;
        client_tell_silence(c, give_up);
        http_client_close(c->http);
        sleep_ms(wait);
    }
}

static int call_checked(struct error *e, struct client *c, const struct http_call *call,
                        int64_t retry_ms)
{
    int r = call_repeatedly(e, c, call, retry_ms);
    if (r == 0)
        r = client_check_server(e, http_client_server(c->http));
    c->fits = r == 0;
    return r;
}

int client_call(struct error *e, struct client *c, const struct http_call *call, int64_t retry_ms,
                json_t **ret)
{
    const struct http_call ask = {
        .method = "GET", .target = "/v1/version", .timeout_ms = call->timeout_ms};
    c->answered = false;
    int r = 0;
    if (!c->fits && !str_equal(call->method, "GET"))
        r = call_checked(e, c, &ask, retry_ms);
    if (r == 0)
        r = call_checked(e, c, call, retry_ms);
    if (r < 0)
        return r;
    c->answered = true;
    size_t length;
    const char *body = http_client_body(c->http, &length);
    int status = http_client_status(c->http);
    if (status >= 300)
        return client_problem(e, status, body, length);
    if (!ret)
        return 0;
    *ret = NULL;
    if (length == 0)
        return 0;
    json_error_t where;
    *ret = json_loadb(body, length, 0, &where);
    if (!*ret)
        return error_set(e, ERR_PROTOCOL, "the answer is not JSON: %s", where.text);
    return 0;
}

int client_request(struct error *e, struct client *c, const char *method, const char *target,
                   const char *body, int64_t retry_ms, json_t **ret)
{
    struct http_call call = {.method = method,
                             .target = target,
                             .accept = "application/json",
                             .content_type = body ? "application/json" : NULL,
                             .body = body,
                             .body_length = body ? strlen(body) : 0,
                             .timeout_ms = CLIENT_TIMEOUT_MS};
    return target ? client_call(e, c, &call, retry_ms, ret)
                  : error_set(e, ERR_NO_MEMORY, "out of memory");
}

int client_get(struct error *e, struct client *c, const char *target, json_t **ret)
{
    return client_request(e, c, "GET", target, NULL, CLIENT_RETRY_MS, ret);
}

int client_get_pages(struct error *e, struct client *c, const char *path, const char *member,
                     int64_t retry_ms, json_t **ret)
{
    json_t *all = json_array(), *page = NULL;
    struct str target;
    str_init(&target, 4096);
    int r;
    do {
        str_clear(&target);
        str_printf(&target, "%s?limit=1000", path);
        if (page) {
            str_append(&target, "&cursor=");
            http_append_encoded(&target, json_text(page, "next", ""));
        }
        json_decref(page);
        page = NULL;
        r = client_request(e, c, "GET", str_text(&target), NULL, retry_ms, &page);
        (void)json_array_extend(all, json_object_get(page, member));
    } while (r == 0 && *json_text(page, "next", ""));
    json_decref(page);
    str_done(&target);
    json_t *answer = r == 0 ? json_pack("{s:O}", member, all) : NULL;
    json_decref(all);
    if (r == 0 && !answer)
        r = error_set(e, ERR_NO_MEMORY, "out of memory");
    if (r == 0)
        *ret = answer;
    return r;
}

const char *client_path(struct client *c, const char *collection, const char *reference,
                        const char *suffix)
{
    struct str path;
    str_init(&path, 4096);
    str_printf(&path, "/v1/%s/", collection);
    http_append_encoded(&path, reference);
    str_append(&path, suffix);
    const char *copy = str_failed(&path) ? NULL : arena_strdup(&c->arena, str_text(&path));
    str_done(&path);
    return copy;
}

static int exit_code(const struct error *e)
{
    switch (e->code) {
    case ERR_NOT_FOUND:
        return COMMAND_NOT_FOUND;
    case ERR_DENIED:
    case ERR_UNAUTHENTICATED:
        return COMMAND_DENIED;
    default:
        return COMMAND_FAILED;
    }
}

int command_fail(const struct invocation *in, const struct error *e)
{
    fprintf(stderr, "gpumux: %s: %s%s%s\n", in->command->name, e->field, *e->field ? ": " : "",
            *e->text ? e->text : error_title(e->code));
    return exit_code(e);
}

/* Faults in a request come from the command line or from the file that it names. */
static bool is_misuse(const struct error *e)
{
    return e->code == ERR_INVALID || e->code == ERR_SYNTAX;
}

/* A missing dependency is reported like any other missing workload. */
static bool lacks_dependency(const struct error *e)
{
    const char *last = strrchr(e->field, '.');
    return e->code == ERR_INVALID && strcmp(last ? last + 1 : e->field, "after") == 0;
}

int client_fail(const struct client *c, const struct error *e)
{
    if (c->answered || e->code != ERR_UNAVAILABLE) {
        int status = command_fail(c->in, e);
        return lacks_dependency(e) ? COMMAND_NOT_FOUND : is_misuse(e) ? COMMAND_USAGE : status;
    }
    fprintf(stderr, "gpumux: %s: %s\n%s.\n", c->in->command->name, e->text,
            c->socket ? "Start gpumux with 'gpumux up', or give the path of its socket with "
                        "--socket or GPUMUX_SOCKET"
                      : "Check that gpumux is up, and that --url or GPUMUX_URL is its address");
    return COMMAND_UNREACHABLE;
}
