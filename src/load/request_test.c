/* request_test: targets, headers, and bodies of the Open Inference Protocol. */
#include "load/request.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <jansson.h>

static struct request_target target(const char *text)
{
    struct request_target t;
    struct error e = {0};
    if (request_parse_target(&e, text, &t) < 0)
        fail_msg("%s: %s", text, e.text);
    return t;
}

static void check_tcp(const char *text, const char *host, const char *port, const char *path)
{
    struct request_target t = target(text);
    assert_false(t.is_unix);
    assert_string_equal(t.address.host, host);
    assert_string_equal(t.address.port, port);
    assert_string_equal(t.path, path);
}

static void targets_are_parsed(void **state)
{
    (void)state;
    check_tcp("http://localhost", "localhost", "80", "/");
    check_tcp("http://localhost:8000/a/b?c=d:1", "localhost", "8000", "/a/b?c=d:1");
    check_tcp("localhost:8000", "localhost", "8000", "/");
    check_tcp("127.0.0.1:1/x", "127.0.0.1", "1", "/x");
    check_tcp("http://[::1]/x", "::1", "80", "/x");
    check_tcp("[::1]:99/x", "::1", "99", "/x");
    struct request_target t = target("unix:/run/a.sock");
    assert_true(t.is_unix);
    assert_string_equal(t.socket, "/run/a.sock");
    assert_string_equal(t.path, "/");
    t = target("unix:a.sock:/v1/nodes?x=1");
    assert_string_equal(t.socket, "a.sock");
    assert_string_equal(t.path, "/v1/nodes?x=1");
}

static void wrong_targets_are_refused(void **state)
{
    (void)state;
    static const char *const wrong[] = {
        "",      "localhost", "https://a:1/", "http://", "http:///x", "a:1/b c",  "a:99999/",
        "unix:", "unix::/x",  "unix:a:/x\ny", "a:1?x",   "/x",        "ftp://a/", "http://a:1/\r"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct request_target t;
        struct error e = {0};
        if (request_parse_target(&e, wrong[i], &t) == 0)
            fail_msg("'%s' is accepted", wrong[i]);
        assert_true(*e.text);
    }
}

static void request_has_host_and_length(void **state)
{
    (void)state;
    struct request_target t = target("http://[::1]:80/a");
    struct request r = {.method = "POST",
                        .content_type = "text/plain",
                        .headers = {"User-Agent: me"},
                        .header_count = 1,
                        .body = "hello",
                        .body_length = 5};
    struct str out;
    str_init(&out, 1 << 16);
    request_write(&t, &r, &out);
    assert_string_equal(str_text(&out), "POST /a HTTP/1.1\r\nHost: [::1]:80\r\n"
                                        "Content-Type: text/plain\r\nUser-Agent: me\r\n"
                                        "Content-Length: 5\r\n\r\nhello");
    str_clear(&out);
    r = (struct request){
        .method = "GET", .headers = {"Host: x", "user-agent: y"}, .header_count = 2, .body = ""};
    request_write(&t, &r, &out);
    assert_string_equal(str_text(&out), "GET /a HTTP/1.1\r\nHost: x\r\nuser-agent: y\r\n\r\n");
    str_done(&out);
}

static void headers_are_checked(void **state)
{
    (void)state;
    assert_int_equal(request_check_header(NULL, "Accept: text/plain"), 0);
    static const char *const wrong[] = {
        "", "Accept", ": x", "A b: c", "A: \r\n", "content-length: 5", "Connection: close"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        if (request_check_header(NULL, wrong[i]) == 0)
            fail_msg("'%s' is accepted", wrong[i]);
}

static void model_extends_the_path(void **state)
{
    (void)state;
    struct request_target t = target("a:1");
    assert_int_equal(request_add_model(NULL, "res net/50", &t), 0);
    assert_string_equal(t.path, "/v2/models/res%20net%2F50/infer");
    t = target("a:1/base/");
    assert_int_equal(request_add_model(NULL, "m", &t), 0);
    assert_string_equal(t.path, "/base/v2/models/m/infer");
    t = target("a:1/?x");
    assert_int_not_equal(request_add_model(NULL, "m", &t), 0);
}

static size_t write_tensors(const char *const *texts, size_t count, bool is_binary, struct str *out)
{
    struct request_tensor tensors[REQUEST_TENSORS_MAX];
    size_t length = 0;
    for (size_t i = 0; i < count; i++)
        assert_int_equal(request_parse_tensor(NULL, texts[i], &tensors[i]), 0);
    str_init(out, REQUEST_BODY_MAX);
    request_write_tensors(tensors, count, is_binary, 1, out, &length);
    assert_false(str_failed(out));
    return length;
}

static void json_tensors_have_shape_and_data(void **state)
{
    (void)state;
    static const char *const texts[] = {"a:FP32:2x3", "b:INT64:4", "c:BOOL:1x1x1"};
    struct str out;
    (void)write_tensors(texts, 3, false, &out);
    json_t *body = json_loads(str_text(&out), 0, NULL);
    json_t *inputs = json_object_get(body, "inputs"), *a = json_array_get(inputs, 0);
    assert_int_equal(json_array_size(inputs), 3);
    assert_string_equal(json_string_value(json_object_get(a, "name")), "a");
    assert_string_equal(json_string_value(json_object_get(a, "datatype")), "FP32");
    assert_int_equal(json_integer_value(json_array_get(json_object_get(a, "shape"), 1)), 3);
    json_t *data = json_object_get(a, "data");
    assert_int_equal(json_array_size(data), 6);
    for (size_t i = 0; i < 6; i++) {
        double value = json_real_value(json_array_get(data, i));
        assert_true(value >= 0.5 && value < 1);
    }
    data = json_object_get(json_array_get(inputs, 1), "data");
    assert_int_equal(json_array_size(data), 4);
    assert_true(json_is_integer(json_array_get(data, 0)));
    data = json_object_get(json_array_get(inputs, 2), "data");
    assert_true(json_is_boolean(json_array_get(data, 0)));
    json_decref(body);
    str_done(&out);
}

/* Returns the value of an FP16 or BF16 number with an exponent in the normal range. */
static double half_value(uint16_t bits, int fraction_bits, int bias)
{
    int exponent = bits >> fraction_bits;
    double value = 1 + (double)(bits & ((1 << fraction_bits) - 1)) / (1 << fraction_bits);
    for (; exponent < bias; exponent++)
        value /= 2;
    return value;
}

/* The same seed gives the same values in every encoding, in JSON and as bytes. */
static void binary_tensors_equal_json(void **state)
{
    (void)state;
    static const char *const names[] = {"x:FP32:8", "x:FP64:8", "x:FP16:8", "x:BF16:8", "x:INT8:8"};
    for (size_t n = 0; n < 5; n++) {
        struct str text, bytes;
        size_t values_at = write_tensors(&names[n], 1, true, &bytes);
        (void)write_tensors(&names[n], 1, false, &text);
        json_t *body = json_loads(str_text(&text), 0, NULL);
        json_t *head = json_loadb(bytes.data, values_at, 0, NULL);
        json_t *data = json_object_get(json_array_get(json_object_get(body, "inputs"), 0), "data");
        json_t *size = json_object_get(
            json_object_get(json_array_get(json_object_get(head, "inputs"), 0), "parameters"),
            "binary_data_size");
        assert_int_equal(json_integer_value(size), bytes.length - values_at);
        for (size_t i = 0; i < 8; i++) {
            const char *at = bytes.data + values_at + i * (bytes.length - values_at) / 8;
            double wanted = json_number_value(json_array_get(data, i)), got = 0;
            float single;
            uint16_t half;
            memcpy(&single, at, sizeof single < bytes.length - values_at ? sizeof single : 1);
            memcpy(&half, at, n == 4 ? 1 : sizeof half);
            if (n == 0)
                got = (double)single;
            else if (n == 1)
                memcpy(&got, at, sizeof got);
            else if (n == 2)
                got = half_value(half, 10, 15);
            else if (n == 3)
                got = half_value(half, 7, 127);
            else
                got = (double)*at;
            assert_true(got == wanted);
        }
        json_decref(body);
        json_decref(head);
        str_done(&text);
        str_done(&bytes);
    }
}

static void wrong_tensors_are_refused(void **state)
{
    (void)state;
    static const char *const wrong[] = {"",
                                        "a",
                                        "a:FP32",
                                        "a:FP32:",
                                        ":FP32:1",
                                        "a:BYTES:1",
                                        "a:fp32:1",
                                        "a:FP32:0",
                                        "a:FP32:1x",
                                        "a:FP32:x",
                                        "a:FP32:-1",
                                        "a:FP32:99999999x9",
                                        "a:FP32:1:2",
                                        "a:FP32:1x1x1x1x1x1x1x1x1",
                                        "a:FP64:99999x99999x99999x99999"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct request_tensor t;
        if (request_parse_tensor(NULL, wrong[i], &t) == 0)
            fail_msg("'%s' is accepted", wrong[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(targets_are_parsed),
        cmocka_unit_test(wrong_targets_are_refused),
        cmocka_unit_test(request_has_host_and_length),
        cmocka_unit_test(headers_are_checked),
        cmocka_unit_test(model_extends_the_path),
        cmocka_unit_test(json_tensors_have_shape_and_data),
        cmocka_unit_test(binary_tensors_equal_json),
        cmocka_unit_test(wrong_tensors_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
