/* Starting with unreadable records: the other workloads are served, and nothing is lost. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "control/control_fixture.h"

#define SPEC(name, more)                                                                           \
    "{\"name\":\"" name                                                                            \
    "\",\"directory\":\"/\",\"command\":\"true\",\"devices\":1,\"quota\":\"1G\"" more "}"

static sqlite3 *open_database(const struct fixture *f)
{
    char path[64];
    sqlite3 *database;
    snprintf(path, sizeof path, "%s/gpumux.db", f->directory);
    assert_int_equal(sqlite3_open(path, &database), SQLITE_OK);
    return database;
}

/* Changes the database while control is stopped. */
static void change(const struct fixture *f, const char *sql)
{
    sqlite3 *database = open_database(f);
    assert_int_equal(sqlite3_exec(database, sql, NULL, NULL, NULL), SQLITE_OK);
    assert_true(sqlite3_changes(database) > 0);
    sqlite3_close(database);
}

static void expect_stored(const struct fixture *f, const char *sql, const char *text)
{
    sqlite3 *database = open_database(f);
    sqlite3_stmt *query;
    assert_int_equal(sqlite3_prepare_v2(database, sql, -1, &query, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(query), SQLITE_ROW);
    assert_string_equal(sqlite3_column_text(query, 0), text);
    sqlite3_finalize(query);
    sqlite3_close(database);
}

static void submit(struct fixture *f, const char *spec)
{
    post(f->first, "/v1/workloads", spec);
    expect(f, f->first, 201, "\"id\":");
}

static void expect_answer(struct fixture *f, const char *path, const char *text)
{
    get(f->first, path);
    expect(f, f->first, 200, text);
}

static void restart_changed(struct fixture *f, const char *sql)
{
    struct error e = {0};
    stop_control(f);
    change(f, sql);
    if (start_control(&e, f) < 0)
        fail_msg("%s", e.text);
}

static void unreadable_workload_is_set_aside(void **state)
{
    struct fixture *f = *state;
    submit(f, SPEC("broken", ""));
    submit(f, SPEC("sound", ""));
    submit(f, SPEC("follows", ",\"after\":[\"broken\"]"));
    submit(f, SPEC("comes_later", ",\"after\":[\"broken:ended\"]"));
    restart_changed(f, "UPDATE workloads SET status = '{\"state\":\"que' WHERE id = 1");
    assert_true(log_says(f, "workload set aside"));
    assert_true(log_says(f, "workload=1 error=\"its record cannot be read: "));
    /* The workload is shown alone and in lists. */
    expect_answer(f, "/v1/workloads/1", "\"text\":\"its record cannot be read: ");
    expect_answer(f, "/v1/workloads/broken", "\"state\":\"failed\"");
    expect_answer(f, "/v1/workloads", "\"name\":\"broken\",\"kind\":\"task\",\"state\":\"failed\"");
    expect_answer(f, "/v1/workloads", "\"name\":\"sound\",\"kind\":\"task\",\"state\":\"queued\"");
    expect_answer(f, "/v1/events?workload=1", "its record cannot be read: ");
    /* Dependent workloads learn of its end, and its id is not assigned again. */
    post(f->first, "/v1/workloads", SPEC("new", ""));
    expect(f, f->first, 201, "\"id\":5,");
    expect_answer(f, "/v1/workloads/comes_later", "\"state\":\"queued\"");
    expect_answer(f, "/v1/workloads/follows", "did not succeed");
    /* The stored text is unchanged; and the failure is recorded once. */
    stop_control(f);
    expect_stored(f, "SELECT status FROM workloads WHERE id = 1", "{\"state\":\"que");
    expect_stored(f, "SELECT count(*) FROM events WHERE workload = 1 AND what = 'failed'", "1");
    assert_int_equal(start_control(NULL, f), 0);
    restart_control(f);
    stop_control(f);
    expect_stored(f, "SELECT count(*) FROM events WHERE workload = 1 AND what = 'failed'", "1");
    assert_int_equal(start_control(NULL, f), 0);
}

static void damaged_spec_or_dependencies_fail_workload(void **state)
{
    struct fixture *f = *state;
    for (int i = 0; i < 3; i++)
        submit(f, SPEC("w", ""));
    submit(f, SPEC("sound", ""));
    restart_changed(f, "UPDATE specs SET json = '{\"name\":' WHERE id = 1;"
                       "DELETE FROM specs WHERE id = 2;"
                       "UPDATE workloads SET after = '[[' WHERE id = 3");
    for (int i = 1; i <= 3; i++) {
        char path[32];
        snprintf(path, sizeof path, "/v1/workloads/%d", i);
        expect_answer(f, path, "\"text\":\"its record cannot be read: ");
        expect_answer(f, path, "\"state\":\"failed\"");
    }
    expect_answer(f, "/v1/workloads", "\"name\":\"sound\",\"kind\":\"task\",\"state\":\"queued\"");
    stop_control(f);
    expect_stored(f, "SELECT json FROM specs WHERE id = 1", "{\"name\":");
    expect_stored(f, "SELECT after FROM workloads WHERE id = 3", "[[");
    assert_int_equal(start_control(NULL, f), 0);
}

/* An unreadable finished workload does not prevent listing the others. */
static void unreadable_finished_workload_is_shown(void **state)
{
    struct fixture *f = *state;
    submit(f, SPEC("broken", ""));
    submit(f, SPEC("sound", ""));
    post(f->first, "/v1/workloads/broken/cancel", "");
    expect(f, f->first, 202, "\"state\":\"cancelled\"");
    restart_changed(f, "UPDATE workloads SET status = 'x' WHERE id = 1");
    expect_answer(f, "/v1/workloads", "\"name\":\"sound\",\"kind\":\"task\",\"state\":\"queued\"");
    expect_answer(f, "/v1/workloads/broken", "\"state\":\"cancelled\"");
}

static void many_unreadable_workloads_refuse_start(void **state)
{
    struct fixture *f = *state;
    struct error e = {0};
    submit(f, SPEC("w", ",\"array\":5"));
    stop_control(f);
    change(f, "UPDATE specs SET json = '{\"name\":\"w\",\"newer\":1}'");
    assert_int_equal(start_control(&e, f), -ERR_CORRUPT);
    assert_non_null(
        strstr(e.text, "live workloads that cannot be read: 5, the first is workload 1 ("));
    assert_non_null(strstr(e.text, "newer"));
    expect_stored(f, "SELECT count(DISTINCT state) FROM workloads", "1");
    change(f, "UPDATE specs SET json = '" SPEC("w", "") "'");
    assert_int_equal(start_control(NULL, f), 0);
    expect_answer(f, "/v1/workloads/1", "\"state\":\"queued\"");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, open_fixture, close_fixture)
    const struct CMUnitTest tests[] = {
        TEST(unreadable_workload_is_set_aside),
        TEST(damaged_spec_or_dependencies_fail_workload),
        TEST(unreadable_finished_workload_is_shown),
        TEST(many_unreadable_workloads_refuse_start),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
