#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/clock.h"
#include "tls/certificate.h"
#include "tls/files.h"
#include "tls/fingerprint.h"
#include "tls/token.h"

enum { HOUR_MS = 3600000 };

struct authority {
    struct str key, certificate;
};

static void authority_make(struct authority *a, int64_t now_wall_ms)
{
    struct error e = {0};
    str_init(&a->key, CERTIFICATE_PEM_MAX);
    str_init(&a->certificate, CERTIFICATE_PEM_MAX);
    if (certificate_make_ca(&e, now_wall_ms, &a->key, &a->certificate) < 0)
        fail_msg("%s", e.text);
}

static void authority_done(struct authority *a)
{
    str_done(&a->key);
    str_done(&a->certificate);
}

/* Makes a key and issues a certificate for it. */
static int issue(struct error *e, const struct authority *a, const struct certificate_order *order,
                 struct str *ret)
{
    struct str key, request;
    str_init(&key, CERTIFICATE_PEM_MAX);
    str_init(&request, CERTIFICATE_PEM_MAX);
    assert_int_equal(certificate_make_request(e, "anything", &key, &request), 0);
    int r = certificate_issue(e, str_text(&a->key), str_text(&a->certificate), str_text(&request),
                              order, ret);
    str_done(&key);
    str_done(&request);
    return r;
}

static void certificate_matches_order_and_verifies(void **state)
{
    (void)state;
    struct error e = {0};
    struct authority a;
    struct str pem;
    struct certificate_facts facts;
    int64_t now = clock_wall_ms();
    authority_make(&a, now);
    str_init(&pem, CERTIFICATE_PEM_MAX);
    struct certificate_order order = {
        .name = "box-7", .role = CERTIFICATE_NODE, .now_wall_ms = now, .life_ms = HOUR_MS};
    assert_int_equal(issue(&e, &a, &order, &pem), 0);
    assert_int_equal(certificate_read(&e, str_text(&pem), &facts), 0);
    assert_string_equal(facts.name, "box-7"); /* not the name in the request */
    assert_int_equal(facts.role, CERTIFICATE_NODE);
    assert_int_equal(facts.until_wall_ms / 1000, (now + HOUR_MS) / 1000);
    assert_int_equal(facts.from_wall_ms / 1000, (now - CERTIFICATE_EARLY_MS) / 1000);

    assert_int_equal(
        certificate_verify(&e, str_text(&pem), str_text(&a.certificate), CERTIFICATE_NODE, now), 0);
    assert_int_equal(
        certificate_verify(&e, str_text(&pem), str_text(&a.certificate), CERTIFICATE_SERVER, now),
        -ERR_DENIED);
    assert_int_equal(certificate_verify(&e, str_text(&pem), str_text(&a.certificate),
                                        CERTIFICATE_NODE, now + HOUR_MS + 2000),
                     -ERR_DENIED);
    assert_non_null(strstr(e.text, "expired"));
    assert_int_equal(certificate_verify(&e, str_text(&pem), str_text(&a.certificate),
                                        CERTIFICATE_NODE, now - 2 * CERTIFICATE_EARLY_MS),
                     -ERR_DENIED);
    struct authority other;
    authority_make(&other, now);
    assert_int_equal(
        certificate_verify(&e, str_text(&pem), str_text(&other.certificate), CERTIFICATE_NODE, now),
        -ERR_DENIED);
    authority_done(&other);
    authority_done(&a);
    str_done(&pem);
}

static void certificate_issue_refuses_invalid_input(void **state)
{
    (void)state;
    struct error e = {0};
    struct authority a, other;
    struct str pem, key, request;
    int64_t now = clock_wall_ms();
    authority_make(&a, now);
    authority_make(&other, now);
    str_init(&pem, CERTIFICATE_PEM_MAX);
    str_init(&key, CERTIFICATE_PEM_MAX);
    str_init(&request, CERTIFICATE_PEM_MAX);
    char name[CERTIFICATE_NAME_MAX + 1];
    memset(name, 'x', sizeof name);
    name[CERTIFICATE_NAME_MAX] = '\0';
    struct certificate_order order = {
        .name = name, .role = CERTIFICATE_NODE, .now_wall_ms = now, .life_ms = HOUR_MS};
    assert_int_equal(issue(&e, &a, &order, &pem), -ERR_INVALID);
    name[CERTIFICATE_NAME_MAX - 1] = '\0';
    assert_int_equal(issue(&e, &a, &order, &pem), 0);
    order.role = CERTIFICATE_CA;
    assert_int_equal(issue(&e, &a, &order, &pem), -ERR_INVALID);
    order.role = CERTIFICATE_NODE;

    assert_int_equal(certificate_make_request(&e, "n", &key, &request), 0);
    assert_int_equal(certificate_issue(&e, str_text(&other.key), str_text(&a.certificate),
                                       str_text(&request), &order, &pem),
                     -ERR_CORRUPT);
    assert_int_equal(certificate_issue(&e, str_text(&a.key), str_text(&a.certificate),
                                       str_text(&a.certificate), &order, &pem),
                     -ERR_SYNTAX);
    char *middle = strchr(str_text(&request), '\n') + 180; /* a byte of the signature */
    *middle = *middle == 'A' ? 'B' : 'A';
    int r = certificate_issue(&e, str_text(&a.key), str_text(&a.certificate), str_text(&request),
                              &order, &pem);
    assert_true(r == -ERR_DENIED || r == -ERR_SYNTAX);

    struct certificate_facts facts;
    assert_int_equal(certificate_read(&e, "nothing", &facts), -ERR_SYNTAX);
    str_done(&pem);
    str_done(&key);
    str_done(&request);
    authority_done(&a);
    authority_done(&other);
}

static void fingerprint_text_parses_back_equal(void **state)
{
    (void)state;
    struct error e = {0};
    struct authority a;
    struct fingerprint f, again;
    char text[FINGERPRINT_TEXT_MAX];
    authority_make(&a, clock_wall_ms());
    assert_int_equal(fingerprint_of(&e, str_text(&a.certificate), &f), 0);
    assert_int_equal(strlen(fingerprint_format(&f, text)), FINGERPRINT_TEXT_MAX - 1);
    assert_int_equal(fingerprint_parse(&e, text, &again), 0);
    assert_true(fingerprint_equal(&f, &again));
    text[FINGERPRINT_TEXT_MAX - 2] = text[FINGERPRINT_TEXT_MAX - 2] == '0' ? '1' : '0';
    assert_int_equal(fingerprint_parse(&e, text, &again), 0);
    assert_false(fingerprint_equal(&f, &again));
    text[FINGERPRINT_TEXT_MAX - 2] = '\0';
    assert_int_equal(fingerprint_parse(&e, text, &again), -ERR_SYNTAX);
    assert_int_equal(fingerprint_parse(&e, "", &again), -ERR_SYNTAX);
    assert_int_equal(fingerprint_parse(&e, text + strlen("sha256:"), &again), -ERR_SYNTAX);
    assert_int_equal(fingerprint_of(&e, "nothing", &again), -ERR_SYNTAX);
    authority_done(&a);
}

static void tokens_differ_and_hash_reproducibly(void **state)
{
    (void)state;
    struct error e = {0};
    char a[TOKEN_TEXT_MAX], b[TOKEN_TEXT_MAX];
    char ha[TOKEN_HASH_TEXT_MAX], hb[TOKEN_HASH_TEXT_MAX];
    assert_int_equal(token_make(&e, TOKEN_API, a), 0);
    assert_int_equal(token_make(&e, TOKEN_API, b), 0);
    assert_string_not_equal(a, b);
    assert_true(token_is_formed(TOKEN_API, a));
    assert_false(token_is_formed(TOKEN_JOIN, a));
    assert_int_equal(token_hash(&e, a, ha), 0);
    assert_int_equal(token_hash(&e, b, hb), 0);
    assert_false(token_hash_equal(ha, hb));
    assert_int_equal(token_hash(&e, a, hb), 0);
    assert_true(token_hash_equal(ha, hb));
    assert_null(strstr(a, ha));
    /* The SHA-256 of "abc", from FIPS 180-4. */
    assert_int_equal(token_hash(&e, "abc", ha), 0);
    assert_string_equal(ha, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    a[10] = 'G';
    assert_false(token_is_formed(TOKEN_API, a));
    assert_false(token_is_formed(TOKEN_API, "gmx_"));
}

static void key_file_is_private_to_owner(void **state)
{
    (void)state;
    struct error e = {0};
    char path[] = "/tmp/gpumux-tls-XXXXXX";
    assert_non_null(mkdtemp(path));
    int directory = open(path, O_RDONLY | O_DIRECTORY);
    struct str text;
    struct stat st;
    str_init(&text, CERTIFICATE_PEM_MAX);
    assert_int_equal(tls_write_key(&e, directory, "a.key", "secret\n"), 0);
    assert_int_equal(tls_write_certificate(&e, directory, "a.pem", "public\n"), 0);
    assert_int_equal(fstatat(directory, "a.key", &st, 0), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    assert_int_equal(fstatat(directory, "a.pem", &st, 0), 0);
    assert_int_equal(st.st_mode & 07777, 0644);
    assert_int_equal(tls_read_key(&e, directory, "a.key", &text), 0);
    assert_int_equal(tls_read_certificate(&e, directory, "a.pem", &text), 0);
    assert_string_equal(str_text(&text), "secret\npublic\n");
    assert_int_equal(tls_read_key(&e, directory, "a.pem", &text), -ERR_DENIED);
    assert_int_equal(tls_read_key(&e, directory, "b.key", &text), -ERR_NOT_FOUND);
    str_done(&text);
    unlinkat(directory, "a.key", 0);
    unlinkat(directory, "a.pem", 0);
    close(directory);
    rmdir(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(certificate_matches_order_and_verifies),
        cmocka_unit_test(certificate_issue_refuses_invalid_input),
        cmocka_unit_test(fingerprint_text_parses_back_equal),
        cmocka_unit_test(tokens_differ_and_hash_reproducibly),
        cmocka_unit_test(key_file_is_private_to_owner),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
