#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "wire/address.h"

static void address_parses_host_and_port(void **state)
{
    (void)state;
    static const struct {
        const char *text, *host, *port; /* host NULL: refused */
    } cases[] = {
        {"box:7443", "box", "7443"},   {"10.1.2.3:0", "10.1.2.3", "0"},
        {"[::1]:7443", "::1", "7443"}, {":7443", "127.0.0.1", "7443"},
        {"7443", "127.0.0.1", "7443"}, {"", NULL, NULL},
        {"box", NULL, NULL},           {"box:", NULL, NULL},
        {"box:65536", NULL, NULL},     {"box:-1", NULL, NULL},
        {"::1:7443", NULL, NULL},      {"[]:7443", NULL, NULL},
        {"[::1]7443", NULL, NULL},     {"[::1", NULL, NULL},
        {"a b:1", NULL, NULL},         {"unix:/x", NULL, NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct address a;
        struct error e = {0};
        int r = address_parse(&e, cases[i].text, "127.0.0.1", &a);
        assert_int_equal(r, cases[i].host ? 0 : -ERR_INVALID);
        if (cases[i].host) {
            assert_string_equal(a.host, cases[i].host);
            assert_string_equal(a.port, cases[i].port);
        }
    }
    struct address a;
    assert_int_equal(address_parse(NULL, ":1", NULL, &a), -ERR_INVALID);
}

static void url_must_be_https_with_port(void **state)
{
    (void)state;
    struct error e = {0};
    struct address a;
    assert_int_equal(address_parse_url(&e, "https://box.example:7443/", &a), 0);
    assert_string_equal(a.host, "box.example");
    assert_string_equal(a.port, "7443");
    assert_int_equal(address_parse_url(&e, "https://[fe80::1]:1", &a), 0);
    struct str text;
    str_init(&text, ADDRESS_TEXT_MAX);
    address_write(&a, &text);
    assert_string_equal(str_text(&text), "[fe80::1]:1");
    str_done(&text);
    assert_int_equal(address_parse_url(&e, "http://box:7443", &a), -ERR_INVALID);
    assert_non_null(strstr(e.text, "https://"));
    assert_int_equal(address_parse_url(&e, "https://box", &a), -ERR_INVALID);
    assert_int_equal(address_parse_url(&e, "https://:7443", &a), -ERR_INVALID);
    assert_int_equal(address_parse_url(&e, "https://box:7443/path", &a), -ERR_INVALID);
    assert_int_equal(address_parse_url(&e, "https://user@box:7443", &a), -ERR_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(address_parses_host_and_port),
        cmocka_unit_test(url_must_be_https_with_port),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
