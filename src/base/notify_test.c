/* Notifications to a service manager that the test plays: a datagram socket, by path and
 * abstract. */
#include "base/notify.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <cmocka.h>

/* Binds a datagram socket. path_bytes: bytes of the address in use. */
static int listen_at(const char *path, size_t path_bytes)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    assert_true(path_bytes <= sizeof address.sun_path);
    memcpy(address.sun_path, path, path_bytes);
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    socklen_t length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + path_bytes);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, length), 0);
    return fd;
}

static void expect_datagram(int fd, const char *text)
{
    char got[2 * NOTIFY_TEXT_MAX];
    ssize_t n = recv(fd, got, sizeof got - 1, MSG_DONTWAIT);
    assert_true(n >= 0);
    got[n] = '\0';
    assert_string_equal(got, text);
}

static void expect_nothing(int fd)
{
    char byte;
    assert_int_equal(recv(fd, &byte, 1, MSG_DONTWAIT), -1);
}

static void notifier_sends_to_socket_path(void **state)
{
    (void)state;
    char directory[] = "/tmp/gmn.XXXXXX", path[64];
    assert_non_null(mkdtemp(directory));
    snprintf(path, sizeof path, "%s/notify", directory);
    int manager = listen_at(path, strlen(path) + 1);
    struct notifier n;
    struct error e = {0};
    assert_int_equal(notify_init(&e, &n, path), 0);
    assert_int_equal(notify_send(&e, &n, "READY=1\nSTATUS=%d devices", 4), 0);
    assert_int_equal(notify_send(&e, &n, "STOPPING=1"), 0);
    expect_datagram(manager, "READY=1\nSTATUS=4 devices");
    expect_datagram(manager, "STOPPING=1");

    close(manager);
    assert_int_equal(notify_send(&e, &n, "STATUS=nobody hears it"), -ERR_IO);
    assert_non_null(strstr(e.text, "service manager"));
    notify_done(&n);
    assert_int_equal(notify_send(&e, &n, "STATUS=after the end"), 0);
    unlink(path);
    rmdir(directory);
}

static void notifier_sends_to_abstract_socket(void **state)
{
    (void)state;
    char name[64];
    snprintf(name, sizeof name, "@gpumux-notify-test-%d", (int)getpid());
    char bound[64];
    memcpy(bound, name, sizeof bound);
    bound[0] = '\0';
    int manager = listen_at(bound, strlen(name));
    struct notifier n;
    struct error e = {0};
    assert_int_equal(notify_init(&e, &n, name), 0);
    assert_int_equal(notify_send(&e, &n, "READY=1"), 0);
    expect_datagram(manager, "READY=1");
    notify_done(&n);
    close(manager);
}

static void notifier_overlong_message_is_refused(void **state)
{
    (void)state;
    char name[64], bound[64];
    snprintf(name, sizeof name, "@gpumux-notify-long-%d", (int)getpid());
    memcpy(bound, name, sizeof bound);
    bound[0] = '\0';
    int manager = listen_at(bound, strlen(name));
    struct notifier n;
    struct error e = {0};
    assert_int_equal(notify_init(&e, &n, name), 0);
    char text[NOTIFY_TEXT_MAX + 2];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    assert_int_equal(notify_send(&e, &n, "%s", text), -ERR_TOO_LARGE);
    expect_nothing(manager);
    text[NOTIFY_TEXT_MAX] = '\0';
    assert_int_equal(notify_send(&e, &n, "%s", text), 0);
    expect_datagram(manager, text);
    notify_done(&n);
    close(manager);
}

static void notifier_without_socket_does_nothing(void **state)
{
    (void)state;
    static const char *const nobody[] = {NULL, ""};
    for (size_t i = 0; i < sizeof nobody / sizeof *nobody; i++) {
        struct notifier n;
        struct error e = {0};
        assert_int_equal(notify_init(&e, &n, nobody[i]), 0);
        assert_int_equal(n.fd, -1);
        assert_int_equal(notify_send(&e, &n, "READY=1"), 0);
        notify_done(&n);
    }
}

static void notifier_unusable_address_fails_init(void **state)
{
    (void)state;
    char too_long[256];
    memset(too_long, 'a', sizeof too_long - 1);
    too_long[0] = '/';
    too_long[sizeof too_long - 1] = '\0';
    const struct {
        const char *socket;
        int result;
    } cases[] = {{"relative/path", -ERR_INVALID},
                 {"vsock:2:1234", -ERR_INVALID},
                 {"@", -ERR_INVALID},
                 {too_long, -ERR_INVALID},
                 {"/nonexistent/notify", -ERR_IO}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct notifier n;
        struct error e = {0};
        assert_int_equal(notify_init(&e, &n, cases[i].socket), cases[i].result);
        assert_true(e.text[0] != '\0');
        assert_int_equal(notify_send(&e, &n, "READY=1"), 0);
        notify_done(&n);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(notifier_sends_to_socket_path),
        cmocka_unit_test(notifier_sends_to_abstract_socket),
        cmocka_unit_test(notifier_overlong_message_is_refused),
        cmocka_unit_test(notifier_without_socket_does_nothing),
        cmocka_unit_test(notifier_unusable_address_fails_init),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
