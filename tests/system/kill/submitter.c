#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/rng.h"
#include "scenario.h"
#include "wire/http/http_client.h"

enum { CALL_MS = 5000, RETRY_US = 2000, BODY_BYTES = 2048, ACCEPT_MS = 180000 };

/* Submits once. Returns 1: accepted, 0: no answer or told to retry, -1: refused permanently. */
static int try_submit(struct http_client *client, const struct scenario *s, int task,
                      const char *body, uint64_t *ret_id, bool *ret_repeated)
{
    char key[32];
    snprintf(key, sizeof key, "task-%d", task);
    struct http_call call = {.method = "POST",
                             .target = "/v1/workloads",
                             .content_type = "application/json",
                             .idempotency_key = key,
                             .body = body,
                             .body_length = strlen(body),
                             .timeout_ms = CALL_MS};
    atomic_fetch_add(&s->progress->tries, 1);
    if (http_client_call(NULL, client, &call) < 0)
        return 0;
    size_t length = 0;
    const char *answer = http_client_body(client, &length);
    int status = http_client_status(client);
    if (status >= 500)
        return 0;
    json_t *document = json_loadb(answer, length, 0, NULL);
    json_int_t id = json_integer_value(
        json_object_get(json_array_get(json_object_get(document, "workloads"), 0), "id"));
    *ret_repeated = json_is_true(json_object_get(document, "repeated"));
    *ret_id = (uint64_t)id;
    json_decref(document);
    if ((status == 201 || status == 200) && id > 0)
        return 1;
    fprintf(stderr, "task %d: refused with %d: %.*s\n", task, status, (int)length, answer);
    return -1;
}

static void write_body(const struct scenario *s, int task, int ms, char body[BODY_BYTES])
{
    snprintf(body, BODY_BYTES,
             "{\"name\": \"t%d\", \"command\": [\"%s\", \"%s\", \"t%d\", \"%d\", \"%d\"], "
             "\"quota\": \"4g\", \"directory\": \"/\"}",
             task, s->task_program, s->journal, task, TASK_LINES, ms);
}

/* Submits until accepted; with `again` once more, which must return the same id. */
static int submit(struct http_client *client, const struct scenario *s, int task, int ms,
                  bool again)
{
    char body[BODY_BYTES];
    write_body(s, task, ms, body);
    int64_t deadline_ms = clock_boot_ms() + ACCEPT_MS;
    uint64_t first = 0;
    for (int accepted = 0; accepted < (again ? 2 : 1);) {
        uint64_t id = 0;
        bool repeated = false;
        int r = try_submit(client, s, task, body, &id, &repeated);
        if (r < 0 || clock_boot_ms() > deadline_ms) {
            fprintf(stderr, "task %d was not accepted\n", task);
            return -1;
        }
        if (r == 0) {
            usleep(RETRY_US);
            continue;
        }
        if (repeated)
            atomic_fetch_add(&s->progress->repeats, 1);
        if (accepted++ == 0) {
            first = id;
        } else if (id != first || !repeated) {
            fprintf(stderr, "task %d: the same key gave %llu, then %llu\n", task,
                    (unsigned long long)first, (unsigned long long)id);
            return -1;
        }
        atomic_store(&s->progress->ids[task], id);
    }
    return 0;
}

int submitter_run(const struct scenario *s, int index)
{
    char socket[DAEMON_PATH_MAX];
    daemons_socket(&s->daemons, socket);
    struct http_client *client = http_client_new(socket);
    struct rng rng;
    rng_seed(&rng, s->seed + 1 + (uint64_t)index);
    int result = client ? 0 : -1;
    for (int task = index; result == 0 && task < s->tasks; task += SUBMITTERS) {
        int ms = (int)rng_below(&rng, (uint64_t)s->task_ms_max);
        bool again = rng_below(&rng, 8) == 0;
        while ((int64_t)atomic_load(&s->progress->kills) * s->tasks < (int64_t)task * s->kills)
            usleep(RETRY_US);
        result = submit(client, s, task, ms, again);
    }
    http_client_free(client);
    return result;
}
