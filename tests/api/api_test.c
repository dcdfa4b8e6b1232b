/*
 * Provokes every path, method and status of api/openapi.yaml on a real `gpumux up` with emulated
 * devices. Each body is checked against the document, and a response that was never provoked fails
 * the test.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/clock.h"
#include "openapi.h"
#include "tls/certificate.h"
#include "tls/token.h"
#include "wire/http/http_client.h"
#include "wire/json_writer.h"

enum {
    CALL_MS = 30000,
    WAIT_MS = 60000,
    CONNECTIONS_MAX = 16, /* the least value that the configuration allows */
    QUEUE_MAX = 50,
    INPUT_TOO_LARGE = (256 << 10) + 1,
    SPEC_TOO_LARGE = 5 << 20,
    STRANGER_UID = 65534,
};

#define JSON             "application/json"
#define SPEC(name, rest) "{\"name\":\"" name "\",\"directory\":\"/\",\"quota\":\"1g\"," rest "}"

struct fixture {
    char directory[32], socket[64], log[64];
    pid_t daemon;
    struct openapi *document;
    struct http_client *client;
};

/* ---- requests ---- */

struct question {
    const char *method, *target, *body, *type, *accept, *key;
    size_t length; /* of the body; 0: a string */
    bool as_stranger;
    http_body_fn on_body;
    void *arg;
};

static struct http_client *client_new(const struct fixture *f)
{
    struct http_client *client = http_client_new(f->socket);
    assert_non_null(client);
    return client;
}

static void judge(struct fixture *f, const struct question *q, int status, const char *type,
                  const char *body, size_t length)
{
    char path[256];
    struct error e = {0};
    snprintf(path, sizeof path, "%.*s", (int)strcspn(q->target, "?"), q->target);
    if (openapi_check(&e, f->document, q->method, path, status, type, body, length) < 0)
        fail_msg("%s %s %d: %s: %s\n%.600s", q->method, q->target, status, e.field, e.text, body);
}

/* Sends a request and checks the response; the body is valid until the next request. */
static const char *ask(struct fixture *f, int status, struct question q)
{
    struct http_client *client = q.as_stranger ? client_new(f) : f->client;
    struct http_call call = {.method = q.method,
                             .target = q.target,
                             .content_type = q.type   ? q.type
                                             : q.body ? JSON
                                                      : NULL,
                             .accept = q.accept,
                             .idempotency_key = q.key,
                             .body = q.body,
                             .body_length = q.length ? q.length
                                            : q.body ? strlen(q.body)
                                                     : 0,
                             .timeout_ms = CALL_MS,
                             .on_body = q.on_body,
                             .arg = q.arg};
    struct error e = {0};
    /* The kernel reports the effective uid at connect(). */
    if (q.as_stranger)
        assert_int_equal(seteuid(STRANGER_UID), 0);
    int r = http_client_call(&e, client, &call);
    if (q.as_stranger)
        assert_int_equal(seteuid(0), 0);
    if (r < 0 && !q.on_body)
        fail_msg("%s %s: %s", q.method, q.target, e.text);
    size_t length = 0;
    const char *body = http_client_body(client, &length);
    int got = http_client_status(client);
    if (status && got != status)
        fail_msg("%s %s: %d instead of %d: %.600s", q.method, q.target, got, status, body);
    judge(f, &q, got, http_client_type(client), body, length);
    if (q.as_stranger)
        http_client_free(client);
    return q.as_stranger ? NULL : body;
}

#define ASK(status, ...)         ask(f, status, (struct question){__VA_ARGS__})
#define GET(status, path)        ASK(status, .method = "GET", .target = path)
#define POST(status, path, text) ASK(status, .method = "POST", .target = path, .body = text)

/* Repeats GET until the response contains `text`. */
static void wait_until(struct fixture *f, const char *path, const char *text, bool is_there)
{
    int64_t end_ms = clock_boot_ms() + WAIT_MS;
    const char *body;
    while ((strstr(body = GET(200, path), text) != NULL) != is_there) {
        if (clock_boot_ms() > end_ms)
            fail_msg("waited for %s%s in %s: %.600s", is_there ? "" : "no ", text, path, body);
        usleep(10000);
    }
}

static void wait_for(struct fixture *f, const char *path, const char *text)
{
    wait_until(f, path, text, true);
}

/* A request of another user needs a second identity, which requires root. */
static void deny(struct fixture *f, const char *method, const char *path, const char *body)
{
    if (geteuid() == 0)
        ASK(403, .method = method, .target = path, .body = body, .as_stranger = true);
}

/* ---- the daemon ---- */

static void start_daemon(struct fixture *f)
{
    char program[512], state[64], connections[32], queue[32];
    snprintf(program, sizeof program, "%s/src/cli/gpumux", getenv("GPUMUX_BUILD"));
    snprintf(state, sizeof state, "%s/s", f->directory);
    snprintf(connections, sizeof connections, "connections_max=%d", CONNECTIONS_MAX);
    snprintf(queue, sizeof queue, "queue_max=%d", QUEUE_MAX);
    f->daemon = fork();
    assert_true(f->daemon >= 0);
    if (f->daemon > 0)
        return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    int fd = open(f->log, O_WRONLY | O_CREAT | O_APPEND, 0600);
    dup2(fd, STDOUT_FILENO);
    dup2(fd, STDERR_FILENO);
    execl(program, program, "up", "--state", state, "--listen", "0", "--emulate", "2xH200:24g",
          "--set", "allow_root=true", "--set", "node_name=box", "--set", "beat=100ms", "--set",
          "keep_events=100", "--set", connections, "--set", queue, (char *)NULL);
    _exit(127);
}

/* Only a control with an authority and a network address accepts nodes. */
static void prepare_cluster(struct fixture *f)
{
    char program[512], state[64];
    int status;
    snprintf(program, sizeof program, "%s/src/cli/gpumux", getenv("GPUMUX_BUILD"));
    snprintf(state, sizeof state, "%s/s", f->directory);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        int fd = open(f->log, O_WRONLY | O_CREAT | O_APPEND, 0600);
        dup2(fd, STDOUT_FILENO);
        dup2(fd, STDERR_FILENO);
        execl(program, program, "control", "init", "--state", state, "--url",
              "https://localhost:7443", (char *)NULL);
        _exit(127);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

static bool daemon_answers(struct fixture *f)
{
    struct http_call call = {.method = "GET", .target = "/readyz", .timeout_ms = CALL_MS};
    return http_client_call(NULL, f->client, &call) == 0 && http_client_status(f->client) == 200;
}

static void print_log(const struct fixture *f)
{
    char line[1024];
    FILE *log = fopen(f->log, "re");
    while (log && fgets(line, sizeof line, log))
        fprintf(stderr, "daemon: %s", line);
    if (log)
        fclose(log);
}

static int set_up(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    char path[4096];
    struct error e = {0};
    assert_non_null(f);
    assert_non_null(getenv("GPUMUX_BUILD"));
    assert_non_null(getenv("GPUMUX_SOURCE"));
    snprintf(path, sizeof path, "%s/api/openapi.yaml", getenv("GPUMUX_SOURCE"));
    if (openapi_load(&e, path, &f->document) < 0)
        fail_msg("%s", e.text);
    snprintf(f->directory, sizeof f->directory, "/tmp/gma.XXXXXX");
    assert_non_null(mkdtemp(f->directory));
    *state = f;
    snprintf(f->socket, sizeof f->socket, "%s/s/api.sock", f->directory);
    snprintf(f->log, sizeof f->log, "%s/log", f->directory);
    f->client = client_new(f);
    prepare_cluster(f);
    start_daemon(f);
    return chmod(f->directory, 0755);
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    if (f->daemon > 0) {
        kill(f->daemon, SIGTERM);
        waitpid(f->daemon, NULL, 0);
    }
    http_client_free(f->client);
    openapi_free(f->document);
    pid_t child = fork();
    if (child == 0) {
        execlp("rm", "rm", "-rf", f->directory, (char *)NULL);
        _exit(127);
    }
    waitpid(child, NULL, 0);
    free(f);
    return 0;
}

/* ---- cases ---- */

static void daemon_becomes_ready(void **state)
{
    struct fixture *f = *state;
    int64_t end_ms = clock_boot_ms() + WAIT_MS;
    while (!daemon_answers(f)) {
        bool ended = waitpid(f->daemon, NULL, WNOHANG) != 0;
        if (ended)
            f->daemon = 0;
        if (ended || clock_boot_ms() > end_ms) {
            print_log(f);
            fail_msg("the daemon is not ready");
        }
        usleep(10000);
    }
    wait_for(f, "/v1/nodes", "\"connected\":true");
    /* Tasks are not admitted to a device until the monitor has watched it for a while. */
    wait_for(f, "/v1/nodes", "\"state\":\"healthy\"");
    wait_until(f, "/v1/nodes", "\"state\":\"init\"", false);
}

static void health_routes_match_document(void **state)
{
    struct fixture *f = *state;
    GET(200, "/healthz");
    GET(200, "/readyz");
    GET(200, "/metrics");
    GET(200, "/v1/version");
    GET(400, "/healthz?x=1");
    GET(400, "/readyz?x=1");
    GET(400, "/metrics?x=1");
    GET(400, "/v1/version?x=1");
}

static void node_routes_match_document(void **state)
{
    struct fixture *f = *state;
    GET(200, "/v1/nodes");
    GET(200, "/v1/nodes?limit=1");
    GET(200, "/v1/nodes?cursor=box");
    GET(400, "/v1/nodes?limit=0");
    GET(400, "/v1/nodes?x=1");
    GET(200, "/v1/nodes/box");
    GET(400, "/v1/nodes/box?x=1");
    GET(404, "/v1/nodes/nothing");
    POST(200, "/v1/nodes/box/drain", NULL);
    POST(400, "/v1/nodes/box/drain?x=1", NULL);
    POST(404, "/v1/nodes/nothing/drain", NULL);
    deny(f, "POST", "/v1/nodes/box/drain", NULL);
    POST(200, "/v1/nodes/box/undrain", NULL);
    POST(400, "/v1/nodes/box/undrain?x=1", NULL);
    POST(404, "/v1/nodes/nothing/undrain", NULL);
    deny(f, "POST", "/v1/nodes/box/undrain", NULL);
}

static void token_routes_match_document(void **state)
{
    struct fixture *f = *state;
    const char *made = POST(201, "/v1/tokens", "{\"role\":\"user\",\"account\":\"ada\"}");
    assert_non_null(strstr(made, "gmx_"));
    made = POST(201, "/v1/tokens", "{\"role\":\"node\",\"name\":\"box\",\"ttl\":\"1h\"}");
    assert_non_null(strstr(made, "gmj_"));
    POST(400, "/v1/tokens", "{\"role\":\"user\"}");
    POST(400, "/v1/tokens", "{\"role\":\"boss\",\"account\":\"ada\"}");
    POST(400, "/v1/tokens", "{\"role\":\"user\",\"account\":\"a b\"}");
    POST(400, "/v1/tokens", "{\"role\":\"user\",\"account\":\"ada\",\"ttl\":\"0\"}");
    POST(400, "/v1/tokens", "{\"role\":\"node\",\"account\":\"ada\"}");
    POST(400, "/v1/tokens", "{\"role\":\"user\",\"account\":\"ada\",\"more\":\"x\"}");
    POST(400, "/v1/tokens", "{");
    deny(f, "POST", "/v1/tokens", "{\"role\":\"admin\",\"account\":\"ada\"}");
    assert_null(strstr(GET(200, "/v1/tokens"), "gmx_"));
    GET(400, "/v1/tokens?x=1");
    deny(f, "GET", "/v1/tokens", NULL);
    ASK(400, .method = "DELETE", .target = "/v1/tokens/one");
    deny(f, "DELETE", "/v1/tokens/1", NULL);
    ASK(204, .method = "DELETE", .target = "/v1/tokens/1");
    ASK(404, .method = "DELETE", .target = "/v1/tokens/1");
    assert_null(strstr(GET(200, "/v1/tokens"), "\"id\":1,"));
    wait_for(f, "/v1/events", "token_revoked");
}

/* Extracts the token from a response of /v1/tokens. */
static void make_join_token(struct fixture *f, const char *name, char ret[TOKEN_TEXT_MAX])
{
    char body[128];
    snprintf(body, sizeof body, "{\"role\":\"node\"%s%s%s}", name ? ",\"name\":\"" : "",
             name ? name : "", name ? "\"" : "");
    const char *found = strstr(POST(201, "/v1/tokens", body), "gmj_");
    assert_non_null(found);
    snprintf(ret, TOKEN_TEXT_MAX, "%s", found);
}

static const char *join_body(const char *token, const char *name, const char *csr, struct str *out)
{
    struct json_writer w;
    str_clear(out);
    json_writer_init(&w, out);
    json_begin_object(&w);
    json_put_string(json_key(&w, "token"), token);
    json_put_string(json_key(&w, "name"), name);
    json_put_string(json_key(&w, "csr"), csr);
    json_end_object(&w);
    return str_text(out);
}

static void join_route_matches_document(void **state)
{
    struct fixture *f = *state;
    struct str key, csr, body;
    char any[TOKEN_TEXT_MAX], named[TOKEN_TEXT_MAX];
    str_init(&key, CERTIFICATE_PEM_MAX);
    str_init(&csr, CERTIFICATE_PEM_MAX);
    str_init(&body, 64 << 10);
    assert_int_equal(certificate_make_request(NULL, "x", &key, &csr), 0);
    make_join_token(f, NULL, any);
    make_join_token(f, "box", named);
    POST(400, "/v1/join", "{");
    POST(400, "/v1/join", "{\"token\":\"x\"}");
    POST(400, "/v1/join", join_body(any, "a b", str_text(&csr), &body));
    POST(400, "/v1/join", join_body(any, "new", "no request", &body));
    POST(401, "/v1/join", join_body("gmj_0", "new", str_text(&csr), &body));
    POST(403, "/v1/join", join_body(named, "new", str_text(&csr), &body));
    POST(409, "/v1/join", join_body(any, "box", str_text(&csr), &body));
    /* The failed requests have not used up the token. */
    assert_non_null(strstr(POST(200, "/v1/join", join_body(any, "new", str_text(&csr), &body)),
                           "BEGIN CERTIFICATE"));
    POST(401, "/v1/join", join_body(any, "newer", str_text(&csr), &body));
    make_join_token(f, NULL, any);
    POST(409, "/v1/join",
         join_body(any, "new", str_text(&csr), &body)); /* before the node's first hello */
    POST(200, "/v1/join", join_body(named, "box", str_text(&csr), &body));
    str_done(&key);
    str_done(&csr);
    str_done(&body);
}

/* Disables and enables a device; at the end every device is in service again. */
static void device_routes_match_document(void **state)
{
    struct fixture *f = *state;
    char uuid[48], path[128];
    const char *found = strstr(GET(200, "/v1/nodes"), "\"uuid\":\"");
    assert_non_null(found);
    assert_int_equal(sscanf(found, "\"uuid\":\"%47[^\"]", uuid), 1);
    static const char *const orders[] = {"disable", "enable"};
    for (size_t i = 0; i < sizeof orders / sizeof *orders; i++) {
        snprintf(path, sizeof path, "/v1/devices/%s/%s?x=1", uuid, orders[i]);
        POST(400, path, NULL);
        *strchr(path, '?') = '\0';
        POST(204, path, NULL);
        deny(f, "POST", path, NULL);
        snprintf(path, sizeof path, "/v1/devices/GPU-nothing/%s", orders[i]);
        POST(404, path, NULL);
        if (i == 0)
            wait_for(f, "/v1/nodes", "\"state\":\"disabled\"");
    }
    wait_until(f, "/v1/nodes", "\"state\":\"disabled\"", false);
    wait_until(f, "/v1/nodes", "\"state\":\"init\"", false);
}

static void submission_answers_match_document(void **state)
{
    struct fixture *f = *state;
    POST(201, "/v1/workloads", SPEC("sleeper", "\"command\":[\"sleep\",\"600\"]"));
    POST(201, "/v1/workloads", SPEC("waits", "\"command\":[\"true\"],\"after\":[\"sleeper\"]"));
    POST(201, "/v1/workloads", SPEC("reader", "\"command\":[\"cat\"],\"stdin\":true"));
    POST(201, "/v1/workloads", SPEC("pair", "\"command\":[\"true\"],\"array\":2"));
    const char *once = SPEC("once", "\"command\":[\"true\"]");
    ASK(201, .method = "POST", .target = "/v1/workloads", .body = once, .key = "k1");
    const char *again =
        ASK(200, .method = "POST", .target = "/v1/workloads", .body = once, .key = "k1");
    assert_non_null(strstr(again, "\"repeated\":true"));
    const char *preview = POST(200, "/v1/workloads?dry_run=1", once);
    assert_non_null(strstr(preview, "\"node\":\"box\""));
    preview = POST(200, "/v1/workloads?dry_run=1",
                   SPEC("next", "\"command\":[\"true\"],\"after\":[\"sleeper\"]"));
    assert_non_null(strstr(preview, "\"placement\":null,\"text\":\"waits for 1\""));
    POST(400, "/v1/workloads?dry_run=1", SPEC("x", "\"command\":[\"true\"],\"after\":[\"99\"]"));
    POST(429, "/v1/workloads?dry_run=1", SPEC("many", "\"command\":[\"true\"],\"array\":1000"));
    POST(400, "/v1/workloads", "{");
    POST(400, "/v1/workloads", "{\"directory\":\"/\",\"command\":[\"true\"],\"quota\":8}");
    POST(400, "/v1/workloads?x=1", once);
    ASK(415, .method = "POST", .target = "/v1/workloads", .body = once, .type = "text/html");
    POST(429, "/v1/workloads", SPEC("many", "\"command\":[\"true\"],\"array\":1000"));
    char *large = malloc(SPEC_TOO_LARGE);
    assert_non_null(large);
    memset(large, ' ', SPEC_TOO_LARGE);
    large[0] = '{';
    ASK(413, .method = "POST", .target = "/v1/workloads", .body = large, .length = SPEC_TOO_LARGE);
    free(large);
    deny(f, "POST", "/v1/workloads", SPEC("x", "\"command\":[\"true\"],\"user\":\"root\""));
}

static void workload_reads_match_document(void **state)
{
    struct fixture *f = *state;
    const char *list = GET(200, "/v1/workloads?limit=2");
    assert_null(strstr(list, "\"next\": null"));
    GET(200, "/v1/workloads?state=queued,running&kind=task&name=pair");
    GET(400, "/v1/workloads?limit=0");
    wait_for(f, "/v1/workloads/sleeper", "\"state\":\"running\"");
    wait_for(f, "/v1/workloads/once", "\"state\":\"succeeded\"");
    const char *again = ASK(200, .method = "POST", .target = "/v1/workloads",
                            .body = SPEC("other", "\"command\":[\"true\"]"), .key = "k1");
    assert_non_null(strstr(again, "\"name\":\"once\",\"state\":\"succeeded\""));
    GET(200, "/v1/workloads/pair%5B1%5D");
    GET(400, "/v1/workloads/sleeper?x=1");
    GET(404, "/v1/workloads/nothing");
    GET(404, "/v1/workloads/999999");
    GET(409, "/v1/workloads/pair");
}

static void signal_and_input_routes_match_document(void **state)
{
    struct fixture *f = *state;
    POST(204, "/v1/workloads/sleeper/signal", "{\"signal\":\"SIGCONT\"}");
    POST(400, "/v1/workloads/sleeper/signal", "{\"signal\":\"SIGNOTHING\"}");
    POST(400, "/v1/workloads/sleeper/signal", "{\"signal\":4294967305}"); /* 2^32 + SIGKILL */
    POST(400, "/v1/workloads/sleeper/signal", "{\"signal\":-4294967287}");
    deny(f, "POST", "/v1/workloads/sleeper/signal", "{\"signal\":10}");
    POST(404, "/v1/workloads/nothing/signal", "{\"signal\":10}");
    POST(409, "/v1/workloads/once/signal", "{\"signal\":10}");

    wait_for(f, "/v1/workloads/reader", "\"state\":\"running\"");
    POST(204, "/v1/workloads/reader/input?offset=0", "hello\n");
    POST(204, "/v1/workloads/reader/input?offset=0", "hello\n");
    POST(400, "/v1/workloads/reader/input?offset=x", "hello\n");
    deny(f, "POST", "/v1/workloads/reader/input?offset=0", "hello\n");
    POST(404, "/v1/workloads/nothing/input?offset=0", "hello\n");
    POST(409, "/v1/workloads/once/input?offset=0", "hello\n");
    char *large = calloc(1, INPUT_TOO_LARGE);
    assert_non_null(large);
    ASK(413, .method = "POST", .target = "/v1/workloads/reader/input?offset=0", .body = large,
        .length = INPUT_TOO_LARGE);
    free(large);
    POST(204, "/v1/workloads/reader/input?offset=6&end=1", NULL);
}

static void log_route_matches_document(void **state)
{
    struct fixture *f = *state;
    const char *text = GET(200, "/v1/workloads/reader/logs?follow=1");
    assert_non_null(strstr(text, " stdout F hello\n"));
    text = GET(200, "/v1/workloads/reader/logs?attempt=1");
    assert_non_null(strstr(text, " stdout F hello\n"));
    GET(400, "/v1/workloads/reader/logs?attempt=x");
    deny(f, "GET", "/v1/workloads/reader/logs", NULL);
    GET(404, "/v1/workloads/reader/logs?attempt=7");
    GET(409, "/v1/workloads/waits/logs");
}

/* Submits a task with memory on a device of its own, which can be suspended. */
static void submit_mover(struct fixture *f)
{
    char spec[1024];
    snprintf(spec, sizeof spec,
             "{\"name\":\"mover\",\"directory\":\"/\",\"command\":"
             "[\"%s/workloads/gpumux-burn\",\"--step-ms\",\"5\",\"--memory\",\"64m\"]}",
             getenv("GPUMUX_BUILD"));
    POST(201, "/v1/workloads", spec);
    wait_for(f, "/v1/workloads/mover", "\"samples_per_s\"");
    wait_until(f, "/v1/workloads/mover", "\"samples_per_s\":null", false);
}

static void suspend_and_resume_routes_match_document(void **state)
{
    struct fixture *f = *state;
    static const char *const words[] = {"suspend", "resume"};
    submit_mover(f);
    for (size_t i = 0; i < 2; i++) {
        char target[64];
        snprintf(target, sizeof target, "/v1/workloads/mover/%s", words[i]);
        POST(202, target, NULL);
        wait_for(f, "/v1/workloads/mover",
                 i == 0 ? "\"state\":\"suspended\"" : "\"state\":\"running\"");
        deny(f, "POST", target, NULL);
        snprintf(target, sizeof target, "/v1/workloads/mover/%s?x=1", words[i]);
        POST(400, target, NULL);
        snprintf(target, sizeof target, "/v1/workloads/nothing/%s", words[i]);
        POST(404, target, NULL);
        snprintf(target, sizeof target, "/v1/workloads/once/%s", words[i]);
        POST(409, target, NULL);
    }
    POST(202, "/v1/workloads/mover/cancel", "{\"grace\":\"0s\"}");
}

static void explain_route_matches_document(void **state)
{
    struct fixture *f = *state;
    GET(200, "/v1/workloads/sleeper/explain");
    GET(200, "/v1/workloads/waits/explain");
    GET(400, "/v1/workloads/sleeper/explain?x=1");
    GET(404, "/v1/workloads/nothing/explain");
    GET(404, "/v1/workloads/999999/explain");
    GET(409, "/v1/workloads/once/explain");
}

static void requeue_and_cancel_routes_match_document(void **state)
{
    struct fixture *f = *state;
    POST(202, "/v1/workloads/sleeper/requeue", NULL);
    wait_for(f, "/v1/workloads/sleeper", "\"attempt\":2");
    POST(400, "/v1/workloads/sleeper/requeue?x=1", NULL);
    deny(f, "POST", "/v1/workloads/sleeper/requeue", NULL);
    POST(404, "/v1/workloads/nothing/requeue", NULL);
    POST(409, "/v1/workloads/once/requeue", NULL);

    wait_for(f, "/v1/workloads/sleeper", "\"state\":\"running\"");
    POST(202, "/v1/workloads/sleeper/advise", "{\"batch\":64,\"checkpoint\":true}");
    wait_for(f, "/v1/workloads/sleeper", "\"batch_advised\":64,\"checkpoints_requested\":1");
    POST(400, "/v1/workloads/sleeper/advise", NULL);
    POST(400, "/v1/workloads/sleeper/advise", "{\"checkpoint\":false}");
    POST(400, "/v1/workloads/sleeper/advise", "{\"batch\":-1}");
    POST(400, "/v1/workloads/sleeper/advise", "{\"size\":1}");
    deny(f, "POST", "/v1/workloads/sleeper/advise", "{\"batch\":64}");
    POST(404, "/v1/workloads/nothing/advise", "{\"batch\":64}");
    POST(409, "/v1/workloads/once/advise", "{\"batch\":64}");

    POST(400, "/v1/workloads/sleeper/cancel", "{\"grace\":7}");
    deny(f, "POST", "/v1/workloads/sleeper/cancel", NULL);
    POST(404, "/v1/workloads/nothing/cancel", NULL);
    POST(409, "/v1/workloads/once/cancel", NULL);
    POST(202, "/v1/workloads/sleeper/cancel", "{\"grace\":\"1s\"}");
    wait_for(f, "/v1/workloads/sleeper", "\"state\":\"cancelled\"");
    wait_for(f, "/v1/workloads/waits", "\"failure\":\"dependency\"");
}

/* Receives a stream until a whole event has arrived. */
static int until_event(void *arg, const char *bytes, size_t length)
{
    struct str *text = arg;
    str_append_bytes(text, bytes, length);
    return strstr(str_text(text), "\n\n") ? -ERR_GONE : 0;
}

static void check_stream(struct fixture *f, const struct str *text)
{
    const char *data = strstr(str_text(text), "\ndata: ");
    assert_non_null(data);
    assert_int_equal(strncmp(str_text(text), "id: ", 4), 0);
    data += strlen("\ndata: ");
    struct str page;
    str_init(&page, 1 << 20);
    str_printf(&page, "{\"events\":[%.*s],\"revision\":1}", (int)strcspn(data, "\n"), data);
    const struct question q = {.method = "GET", .target = "/v1/events"};
    judge(f, &q, 200, JSON, page.data, page.length);
    str_done(&page);
}

static void event_routes_match_document(void **state)
{
    struct fixture *f = *state;
    GET(200, "/v1/events?limit=5");
    GET(200, "/v1/events?workload=once");
    struct str text;
    str_init(&text, 1 << 20);
    struct http_client *shared = f->client;
    f->client = client_new(f); /* the response was interrupted */
    struct http_call call = {.method = "GET",
                             .target = "/v1/events",
                             .accept = "text/event-stream",
                             .timeout_ms = CALL_MS,
                             .on_body = until_event,
                             .arg = &text};
    assert_int_equal(http_client_call(NULL, f->client, &call), -ERR_GONE);
    check_stream(f, &text);
    http_client_free(f->client);
    f->client = shared;
    str_done(&text);
    GET(400, "/v1/events?since=x");
    GET(410, "/v1/events?since=999999");
    GET(410, "/v1/events?since=999999&follow=1");
    GET(410, "/v1/events?since=999999&workload=once");
    GET(404, "/v1/events?workload=nothing");
    GET(404, "/v1/events?workload=999999");
    GET(404, "/v1/events?workload=999999&follow=1");
    GET(404, "/v1/events?workload=0");
    GET(409, "/v1/events?workload=pair");
}

/* Each drain is a commit and an event; the oldest are deleted after many of them. */
static void deleted_events_answer_gone(void **state)
{
    struct fixture *f = *state;
    int64_t end_ms = clock_boot_ms() + WAIT_MS;
    do {
        for (int i = 0; i < 50; i++) {
            POST(200, "/v1/nodes/box/drain", NULL);
            POST(200, "/v1/nodes/box/undrain", NULL);
        }
        assert_true(clock_boot_ms() < end_ms);
        GET(0, "/v1/events?since=0&limit=1");
    } while (http_client_status(f->client) == 200);
    GET(410, "/v1/events?since=0");
}

/* ---- too many connections ---- */

static int connect_raw(const struct fixture *f)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s", f->socket);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
    return fd;
}

static void expect_refused(struct fixture *f, const char *method, const char *path)
{
    char text[4096] = "", type[64] = "";
    int fd = connect_raw(f), status = 0;
    snprintf(text, sizeof text, "%s %s HTTP/1.1\r\nContent-Length: 0\r\n\r\n", method, path);
    (void)send(fd, text, strlen(text),
               MSG_NOSIGNAL); /* the server may already have closed the connection */
    size_t length = 0;
    for (ssize_t n; length < sizeof text - 1 &&
                    (n = recv(fd, text + length, sizeof text - 1 - length, 0)) > 0;)
        length += (size_t)n;
    text[length] = '\0';
    close(fd);
    const char *body = strstr(text, "\r\n\r\n"), *header = strstr(text, "Content-Type: ");
    assert_int_equal(sscanf(text, "HTTP/1.1 %d", &status), 1);
    assert_int_equal(status, 503);
    assert_true(body && header);
    assert_int_equal(sscanf(header, "Content-Type: %63[^\r]", type), 1);
    const struct question q = {.method = method, .target = path};
    judge(f, &q, 503, type, body + 4, strlen(body + 4));
}

static void every_route_refuses_excess_connections(void **state)
{
    struct fixture *f = *state;
    int open_fds[CONNECTIONS_MAX];
    struct str operations;
    char method[16], path[256];
    for (int i = 0; i < CONNECTIONS_MAX; i++)
        open_fds[i] = connect_raw(f);
    str_init(&operations, 1 << 20);
    openapi_list_operations(f->document, &operations);
    for (const char *line = str_text(&operations); *line; line = strchr(line, '\n') + 1) {
        assert_int_equal(sscanf(line, "%15s %255s", method, path), 2);
        expect_refused(f, method, path);
    }
    str_done(&operations);
    for (int i = 0; i < CONNECTIONS_MAX; i++)
        close(open_fds[i]);
}

static void every_documented_answer_was_provoked(void **state)
{
    struct fixture *f = *state;
    struct str unseen;
    str_init(&unseen, 1 << 20);
    size_t count = openapi_list_unseen(f->document, &unseen), excused = 0;
    if (geteuid() != 0) {
        for (const char *p = str_text(&unseen); (p = strstr(p, " 403\n")); p++)
            excused++;
        print_message("skipped: %zu answers to strangers, whom only root can play\n", excused);
    }
    if (count != excused)
        fail_msg("never provoked:\n%s", str_text(&unseen));
    str_done(&unseen);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(daemon_becomes_ready),
        cmocka_unit_test(health_routes_match_document),
        cmocka_unit_test(node_routes_match_document),
        cmocka_unit_test(token_routes_match_document),
        cmocka_unit_test(join_route_matches_document),
        cmocka_unit_test(device_routes_match_document),
        cmocka_unit_test(submission_answers_match_document),
        cmocka_unit_test(workload_reads_match_document),
        cmocka_unit_test(signal_and_input_routes_match_document),
        cmocka_unit_test(log_route_matches_document),
        cmocka_unit_test(suspend_and_resume_routes_match_document),
        cmocka_unit_test(explain_route_matches_document),
        cmocka_unit_test(requeue_and_cancel_routes_match_document),
        cmocka_unit_test(event_routes_match_document),
        cmocka_unit_test(deleted_events_answer_gone),
        cmocka_unit_test(every_route_refuses_excess_connections),
        cmocka_unit_test(every_documented_answer_was_provoked),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
