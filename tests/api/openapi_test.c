/* The document itself, and the check that compares answers with the document. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "openapi.h"

static struct openapi *load(void)
{
    const char *source = getenv("GPUMUX_SOURCE");
    char path[4096];
    struct openapi *o = NULL;
    struct error e = {0};
    assert_non_null(source);
    snprintf(path, sizeof path, "%s/api/openapi.yaml", source);
    if (openapi_load(&e, path, &o) < 0)
        fail_msg("%s", e.text);
    return o;
}

static int check(struct openapi *o, const char *method, const char *path, int status,
                 const char *type, const char *body)
{
    struct error e = {0};
    return openapi_check(&e, o, method, path, status, type, body, strlen(body));
}

#define EVENT                                                                                      \
    "{\"revision\":1,\"time\":\"2026-11-15T05:46:15.123Z\",\"what\":\"submitted\",\"workload\":7," \
    "\"attempt\":null,\"node\":null,\"text\":\"\"}"

static void matching_answers_pass(void **state)
{
    (void)state;
    struct openapi *o = load();
    const char *json = "application/json";
    assert_int_equal(check(o, "GET", "/v1/version", 200, json,
                           "{\"version\":\"0.1.0\",\"api\":1,\"policy\":\"firstfit\"}"),
                     0);
    assert_int_equal(check(o, "GET", "/v1/events", 200, json,
                           "{\"events\":[" EVENT "," EVENT "],\"revision\":2}"),
                     0);
    assert_int_equal(
        check(o, "POST", "/v1/workloads", 200, json, "{\"workloads\":[],\"repeated\":true}"), 0);
    assert_int_equal(check(o, "POST", "/v1/workloads", 200, json,
                           "{\"workloads\":[{\"name\":\"x\",\"placement\":null,\"text\":\"\","
                           "\"never\":false,\"unreachable\":null}]}"),
                     0);
    assert_int_equal(check(o, "POST", "/v1/workloads/7/signal", 204, "", ""), 0);
    assert_int_equal(check(o, "GET", "/healthz", 200, "text/plain; charset=utf-8", "ok\n"), 0);
    assert_int_equal(check(o, "GET", "/v1/nodes/box", 404, "application/problem+json",
                           "{\"type\":\"urn:gpumux:problem:not-found\",\"title\":\"t\","
                           "\"status\":404,\"detail\":\"d\"}"),
                     0);
    openapi_free(o);
}

static void mismatching_answers_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *method, *path;
        int status;
        const char *type, *body;
    } bad[] = {
        /* a status, a type, a body where none is allowed */
        {"GET", "/v1/version", 202, "application/json", "{}"},
        {"GET", "/v1/version", 200, "text/html", "{}"},
        {"POST", "/v1/workloads/7/signal", 204, "", "x"},
        /* missing, unexpected, of another type, out of range, not an allowed value, not JSON */
        {"GET", "/v1/version", 200, "application/json", "{\"version\":\"1\",\"api\":1}"},
        {"GET", "/v1/version", 200, "application/json",
         "{\"version\":\"1\",\"api\":1,\"policy\":\"p\",\"more\":1}"},
        {"GET", "/v1/version", 200, "application/json",
         "{\"version\":1,\"api\":1,\"policy\":\"p\"}"},
        {"GET", "/v1/version", 200, "application/json",
         "{\"version\":\"1\",\"api\":2,\"policy\":\"p\"}"},
        {"GET", "/v1/events", 200, "application/json", "{\"events\":[],\"revision\":-1}"},
        {"GET", "/v1/events", 200, "application/json", "{\"events\":[{}],\"revision\":1}"},
        {"GET", "/v1/events", 200, "application/json", "{\"events\":[" EVENT ",1],\"revision\":1}"},
        {"GET", "/v1/nodes", 200, "application/json", "{\"nodes\":"},
        /* both or neither of two choices; a property outside of the composition */
        {"POST", "/v1/workloads", 200, "application/json", "{\"workloads\":[{}]}"},
        {"POST", "/v1/workloads/7/cancel", 202, "application/json", "{\"id\":7}"},
    };
    struct openapi *o = load();
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_int_equal(
            check(o, bad[i].method, bad[i].path, bad[i].status, bad[i].type, bad[i].body) < 0, 1);
    assert_int_equal(check(o, "DELETE", "/v1/version", 200, "", ""), -ERR_NOT_FOUND);
    assert_int_equal(check(o, "GET", "/v1/nothing", 200, "", ""), -ERR_NOT_FOUND);
    assert_int_equal(check(o, "GET", "/v1/nodes//drain", 200, "", ""), -ERR_NOT_FOUND);
    openapi_free(o);
}

static void unseen_answers_are_listed(void **state)
{
    (void)state;
    struct openapi *o = load();
    struct str before, after;
    str_init(&before, 1 << 20);
    str_init(&after, 1 << 20);
    size_t all = openapi_list_unseen(o, &before);
    assert_non_null(strstr(str_text(&before), "GET /healthz 200\n"));
    assert_int_equal(check(o, "GET", "/healthz", 200, "text/plain", "ok"), 0);
    assert_int_equal(check(o, "GET", "/healthz", 200, "text/plain", "ok"), 0);
    assert_int_equal(check(o, "GET", "/readyz", 200, "text/html", "ok"), -ERR_INVALID);
    assert_int_equal(openapi_list_unseen(o, &after), all - 1);
    assert_null(strstr(str_text(&after), "GET /healthz 200\n"));
    assert_non_null(strstr(str_text(&after), "GET /readyz 200\n"));
    str_done(&before);
    str_done(&after);
    openapi_free(o);
}

/* Reads {HTTP_METHOD, "/path", … from the table of routes. */
static size_t read_routes(const char *path, const struct openapi *o, struct str *operations)
{
    char line[512], method[16], route[256], both[300];
    size_t count = 0;
    FILE *f = fopen(path, "re");
    assert_non_null(f);
    while (fgets(line, sizeof line, f)) {
        if (sscanf(line, " {HTTP_%15[A-Z], \"%255[^\"]\"", method, route) != 2)
            continue;
        if (!openapi_has_route(o, method, route))
            fail_msg("api/openapi.yaml misses %s %s", method, route);
        snprintf(both, sizeof both, "%s %s\n", method, route);
        assert_non_null(strstr(str_text(operations), both));
        count++;
    }
    fclose(f);
    return count;
}

static void document_lists_exactly_existing_routes(void **state)
{
    (void)state;
    struct openapi *o = load();
    struct str operations;
    char path[4096];
    str_init(&operations, 1 << 20);
    openapi_list_operations(o, &operations);
    size_t listed = 0;
    for (const char *p = str_text(&operations); *p; p++)
        listed += *p == '\n';
    snprintf(path, sizeof path, "%s/src/control/control.c", getenv("GPUMUX_SOURCE"));
    size_t routes = read_routes(path, o, &operations);
    assert_int_equal(routes, listed);
    assert_true(routes > 0);
    str_done(&operations);
    openapi_free(o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(matching_answers_pass),
        cmocka_unit_test(mismatching_answers_are_refused),
        cmocka_unit_test(unseen_answers_are_listed),
        cmocka_unit_test(document_lists_exactly_existing_routes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
