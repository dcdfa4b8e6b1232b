#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/durable.h"
#include "node/link/credentials.h"
#include "tls/files.h"

struct fixture {
    char path[64];
    int fd;
    struct str ca_key, ca;
};

static int set_up(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    snprintf(f->path, sizeof f->path, "/tmp/gpumux-credentials-XXXXXX");
    assert_non_null(mkdtemp(f->path));
    f->fd = open(f->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(f->fd >= 0);
    str_init(&f->ca_key, CERTIFICATE_PEM_MAX);
    str_init(&f->ca, CERTIFICATE_PEM_MAX);
    assert_int_equal(certificate_make_ca(NULL, clock_wall_ms() - 7200000, &f->ca_key, &f->ca), 0);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    close(f->fd);
    assert_int_equal(durable_remove_tree(NULL, AT_FDCWD, f->path), 0);
    str_done(&f->ca_key);
    str_done(&f->ca);
    free(f);
    return 0;
}

/* Makes credentials as control would issue them. */
static void obtain(struct fixture *f, enum certificate_role role, int64_t now_wall_ms,
                   struct credentials *c)
{
    struct str request;
    const struct certificate_order order = {
        .name = "node-1", .role = role, .now_wall_ms = now_wall_ms, .life_ms = 60000};
    str_init(&request, CERTIFICATE_PEM_MAX);
    credentials_init(c);
    str_append(&c->ca, str_text(&f->ca));
    assert_int_equal(certificate_make_request(NULL, order.name, &c->key, &request), 0);
    assert_int_equal(certificate_issue(NULL, str_text(&f->ca_key), str_text(&f->ca),
                                       str_text(&request), &order, &c->certificate),
                     0);
    str_done(&request);
}

static int load(struct fixture *f, struct credentials *c)
{
    struct error e = {0};
    credentials_init(c);
    int r = credentials_load(&e, f->fd, c);
    if (r < 0)
        assert_true(e.code == -r && e.text[0]);
    return r;
}

static void stored_credentials_are_loaded(void **state)
{
    struct fixture *f = *state;
    struct credentials c, found;
    assert_int_equal(load(f, &found), -ERR_NOT_FOUND);
    credentials_done(&found);
    obtain(f, CERTIFICATE_NODE, clock_wall_ms(), &c);
    assert_int_equal(credentials_store(NULL, f->fd, &c), 0);
    assert_int_equal(load(f, &found), 0);
    assert_string_equal(found.facts.name, "node-1");
    assert_string_equal(str_text(&found.key), str_text(&c.key));
    credentials_done(&found);
    credentials_done(&c);
}

/* The node must be able to report the expiry. */
static void expired_credentials_are_loaded(void **state)
{
    struct fixture *f = *state;
    struct credentials c, found;
    obtain(f, CERTIFICATE_NODE, clock_wall_ms() - 3600000, &c);
    assert_int_equal(credentials_store(NULL, f->fd, &c), 0);
    assert_int_equal(load(f, &found), 0);
    assert_true(found.facts.until_wall_ms < clock_wall_ms());
    credentials_done(&found);
    credentials_done(&c);
}

/* Interrupts a renewal at every moment. */
static void interrupted_renewal_leaves_valid_credentials(void **state)
{
    struct fixture *f = *state;
    struct credentials old, next, found;
    obtain(f, CERTIFICATE_NODE, clock_wall_ms(), &old);
    obtain(f, CERTIFICATE_NODE, clock_wall_ms(), &next);
    assert_int_equal(credentials_store(NULL, f->fd, &old), 0);
    assert_int_equal(tls_write_key(NULL, f->fd, "node.key.next", str_text(&next.key)), 0);
    assert_int_equal(load(f, &found), 0);
    assert_string_equal(str_text(&found.key), str_text(&old.key));
    credentials_done(&found);
    assert_int_equal(tls_write_certificate(NULL, f->fd, "node.pem", str_text(&next.certificate)),
                     0);
    for (int i = 0; i < 2; i++) { /* the first load repaired the files */
        assert_int_equal(load(f, &found), 0);
        assert_string_equal(str_text(&found.key), str_text(&next.key));
        assert_int_equal(faccessat(f->fd, "node.key.next", F_OK, 0), -1);
        credentials_done(&found);
    }
    credentials_done(&old);
    credentials_done(&next);
}

static void mismatched_credentials_are_refused(void **state)
{
    struct fixture *f = *state;
    struct credentials c, other, found;
    obtain(f, CERTIFICATE_NODE, clock_wall_ms(), &c);
    obtain(f, CERTIFICATE_SERVER, clock_wall_ms(), &other);
    assert_true(credentials_check(NULL, &other) < 0); /* control's certificate is not a node's */
    assert_int_equal(credentials_store(NULL, f->fd, &c), 0);
    assert_int_equal(tls_write_key(NULL, f->fd, "node.key", str_text(&other.key)), 0);
    assert_int_equal(load(f, &found), -ERR_CORRUPT);
    credentials_done(&found);
    credentials_done(&other);
    credentials_done(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(stored_credentials_are_loaded, set_up, tear_down),
        cmocka_unit_test_setup_teardown(expired_credentials_are_loaded, set_up, tear_down),
        cmocka_unit_test_setup_teardown(interrupted_renewal_leaves_valid_credentials, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(mismatched_credentials_are_refused, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
