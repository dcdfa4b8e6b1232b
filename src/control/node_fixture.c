#include "control/node_fixture.h"

#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"

enum { ARENA_BYTES = 1 << 20 };

bool test_node_connect(struct test_node *n, const char *socket_path, void (*wait)(void *arg),
                       void *arg)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    *n = (struct test_node){
        .fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), .wait = wait, .arg = arg};
    arena_init(&n->arena, ARENA_BYTES);
    assert_true(str_copy(address.sun_path, sizeof address.sun_path, socket_path));
    if (connect(n->fd, (struct sockaddr *)&address, sizeof address) == 0)
        return true;
    test_node_close(n);
    return false;
}

void test_node_hello(struct test_node *n, const char *name, const char *version, int protocol)
{
    struct node_info *info = calloc(1, sizeof *info);
    assert_non_null(info);
    assert_true(str_copy(info->name, sizeof info->name, name));
    assert_true(str_copy(info->instance, sizeof info->instance, "0123456789abcdef"));
    assert_true(str_copy(info->version, sizeof info->version, version));
    const struct nodemsg hello = {
        .type = NODEMSG_HELLO, .protocol = protocol, .version = info->version, .node = info};
    test_node_send(n, &hello);
    free(info);
}

void test_node_send(struct test_node *n, const struct nodemsg *msg)
{
    struct str line;
    str_init(&line, NODE_BYTES_MAX);
    assert_int_equal(nodemsg_write(msg, &line), 0);
    assert_int_equal(send(n->fd, str_text(&line), line.length, MSG_NOSIGNAL), line.length);
    str_done(&line);
}

/* Moves the first complete line of the buffer into n->msg. */
static bool take_line(struct test_node *n)
{
    char *end = memchr(n->bytes, '\n', n->length);
    if (!end)
        return false;
    size_t length = (size_t)(end - n->bytes);
    struct error e = {0};
    arena_done(&n->arena);
    arena_init(&n->arena, ARENA_BYTES);
    if (nodemsg_parse(&e, &n->arena, n->bytes, length, &n->msg) < 0)
        fail_msg("%s", e.text);
    n->length -= length + 1;
    memmove(n->bytes, end + 1, n->length);
    return true;
}

bool test_node_hears(struct test_node *n)
{
    int64_t end_ms = clock_boot_ms() + NODE_WAIT_MS;
    while (!take_line(n)) {
        ssize_t got = recv(n->fd, n->bytes + n->length, sizeof n->bytes - n->length, MSG_DONTWAIT);
        if (got == 0)
            return false;
        if (got > 0) {
            n->length += (size_t)got;
            continue;
        }
        struct pollfd at = {.fd = n->fd, .events = POLLIN};
        assert_true(clock_boot_ms() < end_ms);
        if (n->wait)
            n->wait(n->arg);
        else
            assert_int_equal(poll(&at, 1, NODE_WAIT_MS), 1);
    }
    return true;
}

void test_node_expect(struct test_node *n, enum nodemsg_type type)
{
    assert_true(test_node_hears(n));
    assert_int_equal(n->msg.type, type);
}

void test_node_close(struct test_node *n)
{
    if (n->fd >= 0)
        close(n->fd);
    n->fd = -1;
    arena_done(&n->arena);
}
