/* A wall clock that is wrong for a while must not affect tokens and finished workloads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "base/clock.h"
#include "control/control_fixture.h"

#define DAY_MS INT64_C(86400000)

/* ---- clocks that the test sets ---- */

int64_t __real_clock_wall_ms(void);
int64_t __wrap_clock_wall_ms(void);
int64_t __real_clock_boot_ms(void);
int64_t __wrap_clock_boot_ms(void);
struct clock_now __wrap_clock_read(void);

static int64_t wall_ahead_ms, boot_ahead_ms;

int64_t __wrap_clock_wall_ms(void)
{
    return __real_clock_wall_ms() + wall_ahead_ms;
}

int64_t __wrap_clock_boot_ms(void)
{
    return __real_clock_boot_ms() + boot_ahead_ms;
}

struct clock_now __wrap_clock_read(void)
{
    return (struct clock_now){.wall_ms = clock_wall_ms(), .boot_ms = clock_boot_ms()};
}

static int set_up(void **state)
{
    wall_ahead_ms = boot_ahead_ms = 0;
    return open_fixture(state);
}

/* Runs the timers of control. */
static void look(struct fixture *f)
{
    event_active(f->control->token_due, EV_TIMEOUT, 0);
    event_active(f->control->tick, EV_TIMEOUT, 0);
    event_base_loop(f->base, EVLOOP_NONBLOCK);
    while (committer_busy(f->control->committer) || store_batch_count(f->control->filling.batch))
        event_base_loop(f->base, EVLOOP_ONCE);
}

static void make_token(struct fixture *f, char ret[TOKEN_TEXT_MAX])
{
    post(f->first, "/v1/tokens", "{\"role\":\"viewer\",\"account\":\"me\"}");
    expect(f, f->first, 201, "\"token\":\"");
    size_t length;
    const char *body = strstr(http_client_body(f->first, &length), "\"token\":\"");
    snprintf(ret, TOKEN_TEXT_MAX, "%s", body + strlen("\"token\":\""));
    ret[strcspn(ret, "\"")] = '\0';
    assert_non_null(tokens_find(f->control, ret));
}

/* ---- tests ---- */

static void start_with_wrong_clock_deletes_nothing(void **state)
{
    struct fixture *f = *state;
    char token[TOKEN_TEXT_MAX];
    make_token(f, token);
    post(f->first, "/v1/workloads",
         "{\"name\":\"old\",\"directory\":\"/\",\"devices\":0,\"command\":[\"true\"]}");
    expect(f, f->first, 201, "\"id\":1");
    post(f->first, "/v1/workloads/1/cancel", "");
    expect(f, f->first, 202, "\"cancelled\"");

    wall_ahead_ms = 200 * DAY_MS;
    restart_control(f);
    look(f);
    look(f);
    assert_null(tokens_find(f->control, token));
    wall_ahead_ms = 0;
    restart_control(f);
    look(f);
    assert_non_null(tokens_find(f->control, token));
    get(f->first, "/v1/tokens");
    expect(f, f->first, 200, "\"account\":\"me\"");
    get(f->first, "/v1/workloads");
    expect(f, f->first, 200, "\"name\":\"old\"");
}

static void expired_token_is_deleted_after_day(void **state)
{
    struct fixture *f = *state;
    char token[TOKEN_TEXT_MAX];
    make_token(f, token);
    wall_ahead_ms = 100 * DAY_MS;
    look(f);
    assert_true(log_says(f, "token_expired"));
    assert_null(tokens_find(f->control, token));
    get(f->first, "/v1/tokens");
    expect(f, f->first, 200, "\"tokens\":[]");
    wall_ahead_ms = 0; /* the clock was wrong */
    boot_ahead_ms = 2 * DAY_MS;
    look(f);
    assert_non_null(tokens_find(f->control, token));

    wall_ahead_ms = 100 * DAY_MS;
    look(f);
    boot_ahead_ms += DAY_MS - 60000;
    look(f);
    assert_false(list_empty(&f->control->tokens));
    boot_ahead_ms += 60000;
    look(f);
    assert_true(list_empty(&f->control->tokens));
    wall_ahead_ms = 0;
    restart_control(f);
    assert_null(tokens_find(f->control, token));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(start_with_wrong_clock_deletes_nothing, set_up,
                                        close_fixture),
        cmocka_unit_test_setup_teardown(expired_token_is_deleted_after_day, set_up, close_fixture),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
