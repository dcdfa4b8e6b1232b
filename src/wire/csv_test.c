#include "wire/csv.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

static void csv_cells_are_read_by_column(void **state)
{
    (void)state;
    static const char text[] = "# a notice\nmodel,batch,ms\r\nvgg16,128,23.5\n\n# more\nncf,7,-1e2";
    struct csv c;
    char name[8];
    int64_t batch;
    double ms;
    assert_int_equal(csv_open(NULL, text, strlen(text), &c), 0);
    assert_int_equal(csv_column(&c, "ms"), 2);
    assert_int_equal(csv_column(&c, "m"), -1);
    assert_int_equal(csv_column_required(NULL, &c, "speed"), -ERR_SYNTAX);
    assert_int_equal(csv_next(NULL, &c), 1);
    assert_int_equal(csv_text(NULL, &c, 0, name, sizeof name), 0);
    assert_string_equal(name, "vgg16");
    assert_int_equal(csv_integer(NULL, &c, 1, 1, 1000, &batch), 0);
    assert_int_equal(batch, 128);
    assert_int_equal(csv_integer(NULL, &c, 2, 1, 1000, &batch), -ERR_SYNTAX);
    assert_int_equal(csv_next(NULL, &c), 1);
    assert_int_equal(c.line, 6);
    assert_int_equal(csv_number(NULL, &c, 2, -1000, 0, &ms), 0);
    assert_true(ms == -100);
    assert_int_equal(csv_number(NULL, &c, 2, 0, 1, &ms), -ERR_SYNTAX);
    assert_int_equal(csv_number(NULL, &c, 0, 0, 1, &ms), -ERR_SYNTAX);
    assert_int_equal(csv_text(NULL, &c, 0, name, 3), -ERR_SYNTAX);
    assert_int_equal(csv_next(NULL, &c), 0);
}

static void csv_byte_order_mark_is_ignored(void **state)
{
    (void)state;
    static const char text[] = "\xef\xbb\xbfmodel,ms\nncf,7\n";
    struct csv c;
    assert_int_equal(csv_open(NULL, text, strlen(text), &c), 0);
    assert_int_equal(csv_column(&c, "model"), 0);
}

static void csv_malformed_table_is_refused(void **state)
{
    (void)state;
    struct csv c;
    struct error e;
    static const char quoted[] = "a,b\n\"x\",1\n", ragged[] = "a,b\n1,2\n3\n";
    assert_int_equal(csv_open(&e, "", 0, &c), -ERR_SYNTAX);
    assert_int_equal(csv_open(&e, "# only\n", 7, &c), -ERR_SYNTAX);
    assert_int_equal(csv_open(&e, "a,,b\n", 5, &c), -ERR_SYNTAX);
    assert_int_equal(csv_open(&e, quoted, strlen(quoted), &c), 0);
    assert_int_equal(csv_next(&e, &c), -ERR_SYNTAX);
    assert_int_equal(csv_open(&e, ragged, strlen(ragged), &c), 0);
    assert_int_equal(csv_next(&e, &c), 1);
    assert_int_equal(csv_next(&e, &c), -ERR_SYNTAX);
    assert_non_null(strstr(e.text, "line 3"));
    assert_int_equal(csv_open(&e, ",,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,", 40, &c),
                     -ERR_TOO_LARGE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(csv_cells_are_read_by_column),
        cmocka_unit_test(csv_byte_order_mark_is_ignored),
        cmocka_unit_test(csv_malformed_table_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
