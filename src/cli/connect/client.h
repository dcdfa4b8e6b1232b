/*
 * The folder connect contains the connections of commands to gpumux, on this machine or another,
 * and streams of events and output.
 *
 * A client sends requests for one command, and returns JSON responses, problems as errors, and an
 * exit code for each error. While gpumux restarts, the client repeats requests that are safe to
 * repeat. A client also waits for a gpumux on this machine that is starting; the state directory
 * exists before gpumux listens.
 *
 * Files of the folder cli/connect may include base, model, wire, tls, cli/frame.
 */
#pragma once
#include <jansson.h>

#include "cli/frame/answer.h"
#include "cli/frame/options.h"
#include "cli/connect/remote.h"
#include "wire/http/http_client.h"

enum {
    CLIENT_TIMEOUT_MS = 30000,
    CLIENT_RETRY_MS = 10000, /* longest time for repeating a request after gpumux was reached */
    CLIENT_START_MS = 5000,  /* longest wait for a gpumux that is starting */
};

struct client {
    const struct invocation *in;
    struct arena arena;
    const char *socket;   /* socket on this machine; NULL: gpumux is remote */
    struct remote remote; /* gpumux on another machine */
    struct http_client *http;
    bool reached;  /* gpumux has responded, or at least listened, once */
    bool answered; /* the last error is the response of gpumux */
    bool fits;     /* gpumux has responded, and its version is compatible */
    bool quiet;    /* with --quiet or on a full screen: prints nothing while gpumux is silent */
    bool is_told;  /* the silence was reported */
    int64_t silent_boot_ms; /* start of the silence; 0: gpumux has responded */
    /* end of the wait for gpumux after a lost connection; 0: none set; INT64_MAX: no limit */
    int64_t until_boot_ms;
};

/* Finds gpumux: --socket, else --url or $GPUMUX_URL (remote.h), else the socket of this machine
 * (paths.h), without connecting. On failure prints the error and returns an exit code ≠ 0. */
int client_init(struct client *c, const struct invocation *in);
/* Opens another connection to the same gpumux, owned by the caller. Returns NULL when out of
 * memory. */
struct http_client *client_open(const struct client *c);
void client_done(struct client *c);
/* Records that gpumux does not respond and that the command waits until until_boot_ms (INT64_MAX:
 * until gpumux responds again), or until c->until_boot_ms if that time is later. After a second of
 * silence prints one line on standard error. */
void client_tell_silence(struct client *c, int64_t until_boot_ms);
/* Records that gpumux has responded. */
void client_end_silence(struct client *c);

/*
 * Sends one request with a JSON body (NULL: none), and sets *ret to the JSON of a 2xx response,
 * owned by the caller (ret NULL: not wanted; *ret NULL: empty response). A problem document or an
 * incompatible version (skew.h, checked before the first change) becomes an error. After gpumux was
 * reached, broken connections are retried for retry_ms, so a repetition must be harmless.
 */
int client_request(struct error *e, struct client *c, const char *method, const char *target,
                   const char *body, int64_t retry_ms, json_t **ret);
/* Like client_request(), for a request with all members of struct http_call. */
int client_call(struct error *e, struct client *c, const struct http_call *call, int64_t retry_ms,
                json_t **ret);
/* Gets a list, page by page, as one object whose `member` contains the elements of all pages. */
int client_get_pages(struct error *e, struct client *c, const char *path, const char *member,
                     int64_t retry_ms, json_t **ret);
/* Sends a GET, which may be repeated. */
int client_get(struct error *e, struct client *c, const char *target, json_t **ret);

/* Returns "/v1/workloads/REF" + suffix, with REF percent-encoded, in the client's arena; NULL when
 * out of memory. */
const char *client_path(struct client *c, const char *collection, const char *reference,
                        const char *suffix);
/* Checks whether the version in a response's Server header is compatible with this program. Without
 * a version the check passes. -ERR_UNSUPPORTED names both versions and the version to install. */
int client_check_server(struct error *e, const char *server);
/* Sets the error of a response with a status ≥ 300. Returns -code. */
int client_problem(struct error *e, int status, const char *body, size_t length);
/* Prints the error of the client's command. Returns the exit code. */
int client_fail(const struct client *c, const struct error *e);
/* Prints an error that does not come from one request. Returns the exit code. */
int command_fail(const struct invocation *in, const struct error *e);
