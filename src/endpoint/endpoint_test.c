/* Tests of metrics and accounts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <grp.h>
#include <math.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "endpoint/auth.h"
#include "endpoint/metrics.h"

static void metrics_escape_help_and_labels(void **state)
{
    (void)state;
    struct str out;
    str_init(&out, 4096);
    metrics_family(&out, "gpumux_x", METRIC_GAUGE, "One\\two\nlines.");
    metrics_sample(&out, "gpumux_x", 1.5, NULL);
    metrics_sample(&out, "gpumux_x", 123456789012345, "name", "a\"b\\c\nd", "node", "box", NULL);
    metrics_sample(&out, "gpumux_x", INFINITY, NULL);
    metrics_family(&out, "gpumux_y_total", METRIC_COUNTER, "Y.");
    assert_string_equal(str_text(&out),
                        "# HELP gpumux_x One\\\\two\\nlines.\n# TYPE gpumux_x gauge\n"
                        "gpumux_x 1.5\n"
                        "gpumux_x{name=\"a\\\"b\\\\c\\nd\",node=\"box\"} 123456789012345\n"
                        "gpumux_x +Inf\n"
                        "# HELP gpumux_y_total Y.\n# TYPE gpumux_y_total counter\n");
    str_done(&out);
}

static void admin_is_root_daemon_or_group(void **state)
{
    (void)state;
    struct error e = {0};
    struct auth *a;
    const struct http_peer root = {.uid = 0}, daemon = {.uid = 4242}, other = {.uid = 4243};
    assert_int_equal(auth_new(&e, 4242, "no-such-group-here", &a), 0);
    assert_true(auth_is_admin(a, &root));
    assert_true(auth_is_admin(a, &daemon));
    assert_false(auth_is_admin(a, &other));
    assert_string_equal(auth_user_name(a, 4243), "4243");
    assert_string_equal(auth_user_name(a, 0), "root");
    assert_string_equal(auth_user_name(a, AUTH_CACHE_MAX), "256"); /* the same slot as uid 0 */
    assert_string_equal(auth_user_name(a, 0), "root");
    auth_free(a);

    /* An ordinary account is a member of its own group. */
    const struct passwd *account = getpwnam("nobody");
    const struct group *group = account ? getgrgid(account->pw_gid) : NULL;
    assert_non_null(group);
    struct http_peer member = {.uid = account->pw_uid};
    assert_int_equal(auth_new(&e, 4242, group->gr_name, &a), 0);
    assert_true(auth_is_admin(a, &member));
    assert_false(auth_is_admin(a, &other));
    auth_free(a);
    assert_int_equal(auth_new(&e, 4242, NULL, &a), 0);
    assert_false(auth_is_admin(a, &member));
    auth_free(a);
}

static void account_lookup_accepts_name_and_number(void **state)
{
    (void)state;
    struct error e = {0};
    uid_t uid = 99;
    assert_int_equal(auth_find_user(&e, "root", &uid), 0);
    assert_int_equal(uid, 0);
    uid = 99;
    assert_int_equal(auth_find_user(&e, "0", &uid), 0);
    assert_int_equal(uid, 0);
    assert_int_equal(auth_find_user(&e, "no-such-user", &uid), -ERR_NOT_FOUND);
    assert_non_null(strstr(e.text, "no-such-user"));
    assert_int_equal(auth_find_user(&e, "99999999999999", &uid), -ERR_NOT_FOUND);
    assert_int_equal(auth_find_user(&e, "0x0", &uid), -ERR_NOT_FOUND);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(metrics_escape_help_and_labels),
        cmocka_unit_test(admin_is_root_daemon_or_group),
        cmocka_unit_test(account_lookup_accepts_name_and_number),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
