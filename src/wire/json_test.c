#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "base/error.h"
#include "base/rng.h"
#include "base/str.h"
#include "wire/base64.h"
#include "wire/hint.h"
#include "wire/json_writer.h"

static void json_writer_puts_commas_between_values(void **state)
{
    (void)state;
    struct str out;
    str_init(&out, 4096);
    struct json_writer w;
    json_writer_init(&w, &out);
    json_begin_object(&w);
    json_key(&w, "empty");
    json_begin_array(&w);
    json_end_array(&w);
    json_key(&w, "list");
    json_begin_array(&w);
    json_put_int(&w, INT64_MIN);
    json_put_uint(&w, INT64_MAX);
    json_put_uint(&w, UINT64_MAX);
    json_put_real(&w, 0.1);
    json_put_real(&w, 1.0 / 3);
    json_put_real(&w, (double)NAN);
    json_begin_object(&w);
    json_end_object(&w);
    json_put_bool(&w, true);
    json_put_raw(&w, "[1]");
    json_end_array(&w);
    json_put_time(json_key(&w, "time"), 1000);
    json_put_time(json_key(&w, "never"), 0);
    json_put_string(json_key(&w, "none"), NULL);
    json_put_base64(json_key(&w, "data"), "abcd", 4);
    json_put_members(&w, "{}");
    json_put_members(&w, "{\"a\":1,\"b\":2}");
    json_put_bool(json_key(&w, "last"), true);
    json_end_object(&w);
    assert_string_equal(str_text(&out),
                        "{\"empty\":[],\"list\":[-9223372036854775808,9223372036854775807,"
                        "\"18446744073709551615\",0.1,0.3333333333333333,null,{},true,[1]],"
                        "\"time\":\"1970-01-01T00:00:01.000Z\",\"never\":null,\"none\":null,"
                        "\"data\":\"YWJjZA==\",\"a\":1,\"b\":2,\"last\":true}");
    str_done(&out);
}

static void json_strings_are_escaped(void **state)
{
    (void)state;
    struct str out;
    str_init(&out, 4096);
    struct json_writer w;
    json_writer_init(&w, &out);
    json_put_bytes(&w, "a\"\\\n\r\t\b\f\x01\x1f/\x7f\0b", 14);
    json_put_string(&w, "\xc3\xa4\xff\xf0\x9f\x90\x98\xe2\x82");
    assert_string_equal(str_text(&out),
                        "\"a\\\"\\\\\\n\\r\\t\\b\\f\\u0001\\u001f/\\u007f\\u0000b\","
                        "\"\xc3\xa4\xef\xbf\xbd\xf0\x9f\x90\x98\xef\xbf\xbd\xef\xbf\xbd\"");
    str_done(&out);
}

static void json_keys_are_escaped_and_separated(void **state)
{
    (void)state;
    struct str out;
    str_init(&out, 4096);
    struct json_writer w;
    json_writer_init(&w, &out);
    json_begin_object(&w);
    json_put_int(json_key(&w, "a\"b"), 1);
    json_put_string(json_plain_key(&w, "plain"), "");
    json_begin_object(json_plain_key_bytes(&w, "group.member", 5));
    json_put_int(json_key(&w, ""), -2);
    json_end_object(&w);
    json_end_object(&w);
    assert_string_equal(str_text(&out), "{\"a\\\"b\":1,\"plain\":\"\",\"group\":{\"\":-2}}");
    str_done(&out);
}

static void base64_reads_back_and_refuses_malformed(void **state)
{
    (void)state;
    struct rng rng;
    rng_seed(&rng, 1);
    struct str text;
    str_init(&text, 1 << 16);
    for (size_t length = 0; length < 2000; length += length < 20 ? 1 : 97) {
        struct arena arena;
        arena_init(&arena, 1 << 16);
        unsigned char bytes[2000];
        for (size_t i = 0; i < length; i++)
            bytes[i] = (unsigned char)rng_u64(&rng);
        str_clear(&text);
        base64_append(&text, bytes, length);
        void *read = NULL;
        size_t read_length = 1;
        assert_int_equal(base64_decode(&arena, str_text(&text), text.length, &read, &read_length),
                         0);
        assert_int_equal(read_length, length);
        if (length)
            assert_memory_equal(read, bytes, length);
        arena_done(&arena);
    }
    str_done(&text);
    static const char *const bad[] = {"a",        "ab",   "abc",    "a===", "ab=c", "====",
                                      "ab==ab==", "a b=", "YWI+\n", "YR==", "YWJ=", "Y-I="};
    struct arena arena;
    arena_init(&arena, 1 << 16);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        void *read;
        size_t length;
        assert_int_equal(base64_decode(&arena, bad[i], strlen(bad[i]), &read, &length),
                         -ERR_INVALID);
    }
    arena_done(&arena);
}

static void hint_keeps_nearest_offer(void **state)
{
    (void)state;
    struct hint hint;
    hint_init(&hint, "qouta");
    hint_offer(&hint, "share");
    assert_null(hint_get(&hint));
    hint_offer(&hint, "quota");
    assert_string_equal(hint_get(&hint), "quota");
    hint_offer(&hint, "quotas");
    assert_string_equal(hint_get(&hint), "quota");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(json_writer_puts_commas_between_values),
        cmocka_unit_test(json_strings_are_escaped),
        cmocka_unit_test(json_keys_are_escaped_and_separated),
        cmocka_unit_test(base64_reads_back_and_refuses_malformed),
        cmocka_unit_test(hint_keeps_nearest_offer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
