#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/durable.h"
#include "control/authority.h"
#include "tls/certificate.h"
#include "tls/context.h"

static const char url[] = "https://control.example:7443";

static int make_directory(void **state)
{
    char *path = strdup("/tmp/gpumux-authority-XXXXXX");
    assert_non_null(path);
    assert_non_null(mkdtemp(path));
    *state = path;
    return 0;
}

static int remove_directory(void **state)
{
    assert_int_equal(durable_remove_tree(NULL, AT_FDCWD, *state), 0);
    free(*state);
    return 0;
}

static void make(const char *directory)
{
    struct error e = {0};
    if (authority_make(&e, directory, url, "control.example") < 0)
        fail_msg("%s", e.text);
}

static const char *path_of(const char *directory, const char *name, char path[128])
{
    snprintf(path, 128, "%s/tls/%s", directory, name);
    return path;
}

static void authority_is_made_only_once(void **state)
{
    struct error e = {0};
    struct authority *a = NULL;
    char path[128];
    struct stat st;
    assert_int_equal(authority_open(&e, *state, &a), -ERR_NOT_FOUND);
    assert_non_null(strstr(e.text, "gpumux control init"));
    make(*state);
    assert_int_equal(authority_open(&e, *state, &a), 0);
    assert_string_equal(authority_url(a), url);
    struct fingerprint before = *authority_fingerprint(a);
    authority_free(a);
    assert_int_equal(stat(path_of(*state, "ca.key", path), &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_int_equal(stat(path_of(*state, "", path), &st), 0);
    assert_int_equal(st.st_mode & 0777, 0700);

    assert_int_equal(authority_make(&e, *state, url, "control.example"), -ERR_CONFLICT);
    assert_non_null(strstr(e.text, "token create"));
    assert_int_equal(authority_open(&e, *state, &a), 0);
    assert_true(fingerprint_equal(authority_fingerprint(a), &before));
    authority_free(a);
}

/* After a crash before the last file, all files are made again. */
static void interrupted_authority_is_made_again(void **state)
{
    struct error e = {0};
    struct authority *a = NULL;
    char path[128];
    make(*state);
    assert_int_equal(unlink(path_of(*state, "ca.pem", path)), 0);
    assert_int_equal(authority_open(&e, *state, &a), -ERR_NOT_FOUND);
    make(*state);
    assert_int_equal(authority_open(&e, *state, &a), 0);
    struct tls_context *context;
    int64_t due_ms;
    assert_int_equal(authority_server_context(&e, a, &context, &due_ms), 0);
    assert_true(due_ms > 0);
    tls_context_free(context);
    authority_free(a);
}

static void read_server(const char *directory, struct str *pem)
{
    char path[128], text[8192];
    FILE *file = fopen(path_of(directory, "server.pem", path), "re");
    assert_non_null(file);
    size_t n = fread(text, 1, sizeof text, file);
    fclose(file);
    str_clear(pem);
    str_append_bytes(pem, text, n);
}

/* The missing key stands for a crash between the two writes. */
static void server_certificate_without_key_is_renewed(void **state)
{
    struct error e = {0};
    struct authority *a = NULL;
    struct tls_context *context;
    struct str before, after;
    char path[128];
    int64_t due_ms;
    str_init(&before, CERTIFICATE_PEM_MAX);
    str_init(&after, CERTIFICATE_PEM_MAX);
    make(*state);
    assert_int_equal(authority_open(&e, *state, &a), 0);
    read_server(*state, &before);
    assert_int_equal(authority_server_context(&e, a, &context, &due_ms), 0);
    tls_context_free(context);
    read_server(*state, &after);
    assert_string_equal(str_text(&before), str_text(&after));
    assert_int_equal(certificate_verify(&e, str_text(&after), authority_certificate(a),
                                        CERTIFICATE_SERVER, clock_wall_ms()),
                     0);

    assert_int_equal(unlink(path_of(*state, "server.key", path)), 0);
    assert_int_equal(authority_server_context(&e, a, &context, &due_ms), 0);
    tls_context_free(context);
    read_server(*state, &after);
    assert_string_not_equal(str_text(&before), str_text(&after));
    authority_free(a);
    str_done(&before);
    str_done(&after);
}

static void authority_issues_node_certificates(void **state)
{
    struct error e = {0};
    struct authority *a = NULL;
    struct str key, request, certificate;
    struct certificate_facts facts;
    str_init(&key, CERTIFICATE_PEM_MAX);
    str_init(&request, CERTIFICATE_PEM_MAX);
    str_init(&certificate, CERTIFICATE_PEM_MAX);
    make(*state);
    assert_int_equal(authority_open(&e, *state, &a), 0);
    assert_int_equal(certificate_make_request(&e, "somebody else", &key, &request), 0);
    assert_int_equal(authority_issue_node(&e, a, str_text(&request), "node-1", 9000, &certificate),
                     0);
    assert_int_equal(certificate_read(&e, str_text(&certificate), &facts), 0);
    assert_string_equal(facts.name, "node-1"); /* the issuer's name, not the name in the request */
    assert_int_equal(facts.role, CERTIFICATE_NODE);
    int64_t now = clock_wall_ms();
    assert_in_range(facts.until_wall_ms, now, now + 9000);
    assert_int_equal(authority_renew_ms(90000, 90000, 0), 60000);
    assert_int_equal(authority_renew_ms(90000, 90000, 89999), 1);
    str_clear(&certificate);
    assert_int_equal(authority_issue_node(&e, a, "nonsense", "n", 9000, &certificate), -ERR_SYNTAX);
    authority_free(a);
    str_done(&key);
    str_done(&request);
    str_done(&certificate);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(authority_is_made_only_once, make_directory,
                                        remove_directory),
        cmocka_unit_test_setup_teardown(interrupted_authority_is_made_again, make_directory,
                                        remove_directory),
        cmocka_unit_test_setup_teardown(server_certificate_without_key_is_renewed, make_directory,
                                        remove_directory),
        cmocka_unit_test_setup_teardown(authority_issues_node_certificates, make_directory,
                                        remove_directory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
