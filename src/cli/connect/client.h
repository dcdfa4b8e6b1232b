/*
 * The room connect: how a command reaches gpumux, here or on another machine, and follows its
 * events and output. Uses the HTTP client of wire/, tls and frame.
 *
 * A client command's line to gpumux: requests with JSON answers, problems as errors, and the exit
 * code that goes with each. Requests that are safe to repeat are repeated while gpumux restarts. On
 * this machine one that is starting is waited for: it has its state directory before it listens.
 */
#pragma once
#include <jansson.h>

#include "cli/frame/answer.h"
#include "cli/frame/options.h"
#include "cli/connect/remote.h"
#include "wire/http/http_client.h"

enum {
    CLIENT_TIMEOUT_MS = 30000,
    CLIENT_RETRY_MS = 10000, /* how long a request is repeated once gpumux had been reached */
    CLIENT_START_MS = 5000,  /* how long one that is starting is waited for */
};

struct client {
    const struct invocation *in;
    struct arena arena;
    const char *socket;   /* on this machine; NULL: it is remote */
    struct remote remote; /* on another */
    struct http_client *http;
    bool reached;  /* gpumux has answered, or at least listened, once */
    bool answered; /* the last error is gpumux's own answer */
    bool fits;     /* gpumux has answered, and its version goes with ours */
    bool quiet;    /* --quiet, or no place for lines: nothing is said while gpumux is silent */
    bool is_told;  /* that gpumux is silent */
    int64_t silent_boot_ms; /* since then gpumux has not answered; 0: it has */
    int64_t until_boot_ms; /* what follows waits that long; 0, or INT64_MAX: until gpumux is back */
};

/* Finds gpumux: --socket, else --url or $GPUMUX_URL (remote.h), else the socket of this machine
 * (paths.h). Does not connect yet. Prints and returns an exit code ≠ 0 if it cannot. */
int client_init(struct client *c, const struct invocation *in);
/* One connection more to the same gpumux, for the caller. NULL: no memory. */
struct http_client *client_open(const struct client *c);
void client_done(struct client *c);
/* gpumux does not answer, and this command waits for it until then, INT64_MAX: until it is back, or
 * until c->until_boot_ms if that is later. After a second one line on standard error says so. */
void client_tell_silence(struct client *c, int64_t until_boot_ms);
/* gpumux has answered. */
void client_end_silence(struct client *c);

/*
 * One request; the body is JSON, or NULL for none. A 2xx answer's JSON goes to *ret (owned by the
 * caller; NULL: not wanted, or an empty answer); a problem document becomes the error.
 * Connections that break or are refused after gpumux was reached are tried again for `retry_ms`:
 * only for requests that are harmless to repeat.
 * A gpumux whose version is too far from ours (skew.h) is an error, and nothing is changed there:
 * it is asked before the first request that would.
 */
int client_request(struct error *e, struct client *c, const char *method, const char *target,
                   const char *body, int64_t retry_ms, json_t **ret);
/* The same, with everything that a call can have. */
int client_call(struct error *e, struct client *c, const struct http_call *call, int64_t retry_ms,
                json_t **ret);
/* GET of a list, page by page: an object whose `member` has the elements of all of them. */
int client_get_pages(struct error *e, struct client *c, const char *path, const char *member,
                     int64_t retry_ms, json_t **ret);
/* GET, repeated. */
int client_get(struct error *e, struct client *c, const char *target, json_t **ret);

/* "/v1/workloads/REF" + suffix, with REF encoded; in the client's arena. NULL: no memory. */
const char *client_path(struct client *c, const char *collection, const char *reference,
                        const char *suffix);
/* Does the version in an answer's Server header go with ours? An answer that does not say passes.
 * -ERR_UNSUPPORTED names both, and what to install. */
int client_check_server(struct error *e, const char *server);
/* What an answer ≥ 300 says, as an error. Returns -code. */
int client_problem(struct error *e, int status, const char *body, size_t length);
/* Prints the error as this command's; returns the exit code. */
int client_fail(const struct client *c, const struct error *e);
/* The same for an error that is not about one request. */
int command_fail(const struct invocation *in, const struct error *e);
