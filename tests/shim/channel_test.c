/*
 * The channel between a program with libgpumux and its agent, through the pages of the shim: real
 * processes with the emulated driver, and a registrar as their agent.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "abi/page.h"
#include "tests/shim/launch_fixture.h"

enum { TARGET_US = 50000000, US_NS = 1000 };

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static void expect_requests(const struct talker *registrar, unsigned open, unsigned done,
                            unsigned late)
{
    assert_int_equal(number_of(registrar, "service", "open_requests"), open);
    assert_int_equal(number_of(registrar, "service", "requests_done"), done);
    assert_int_equal(number_of(registrar, "service", "requests_late"), late);
}

static void requests_before_cuda_have_no_place(void **state)
{
    struct talker registrar, service;
    (void)state;
    start_registrar(&registrar, "--target-us", "50000000", "--gate-us", "0");
    start_closed_launcher(&service, "service");
    assert_int_equal(ask(&service, "pages"), 0);
    assert_int_equal(ask(&service, "begin 0"), 0);
    assert_int_equal(ask(&service, "open"), 0);
    assert_int_equal(ask(&service, "pages"), 1);
    assert_int_equal(ask(&service, "begin 0"), 1);
    expect_requests(&registrar, 1, 0, 0);
    assert_int_equal(ask(&service, "end 0"), 0);
    expect_requests(&registrar, 1, 1, 0);
    assert_int_equal(ask(&service, "end 1"), 0);
    expect_requests(&registrar, 0, 2, 0);
    assert_int_equal(finish(&service, "end"), 0);
    finish(&registrar, "quit");
}

static void deadline_is_arrival_plus_target(void **state)
{
    struct talker registrar, service;
    (void)state;
    start_registrar(&registrar, "--target-us", "50000000", "--gate-us", "0");
    start_launcher(&service, "service");
    uint64_t before_ns = now_ns();
    assert_int_equal(ask(&service, "begin 20000000"), 1);
    uint64_t after_ns = now_ns();
    uint64_t due_ns = number_of(&registrar, "service", "due_ns");
    const uint64_t left_ns = (uint64_t)(TARGET_US - 20000000) * US_NS, exact_ns = 64;
    assert_in_range(due_ns, before_ns + left_ns - exact_ns, after_ns + left_ns);
    assert_int_equal(number_of(&registrar, "service", "reports_requests"), 1);
    /* The latency of a request that arrived longer ago than the target is late. */
    assert_int_equal(ask(&service, "begin 60000000"), 2);
    assert_int_equal(ask(&service, "end 1"), 0);
    expect_requests(&registrar, 1, 1, 1);
    assert_int_equal(ask(&service, "drop 0"), 0);
    expect_requests(&registrar, 0, 1, 1);
    /* A token that is used again has no effect on the request that has the place now. */
    assert_int_equal(ask(&service, "begin 0"), 1);
    assert_int_equal(ask(&service, "drop 0"), 0);
    expect_requests(&registrar, 1, 1, 1);
    assert_int_equal(finish(&service, "end"), 0);
    finish(&registrar, "quit");
}

static void places_run_out_and_return(void **state)
{
    struct talker registrar, service;
    (void)state;
    start_registrar(&registrar, "--target-us", "50000000", "--gate-us", "0");
    start_launcher(&service, "service");
    for (int i = 0; i < PAGE_REQUESTS_MAX; i++)
        assert_int_equal(ask(&service, "begin 0"), i + 1);
    assert_int_equal(ask(&service, "begin 0"), 0);
    expect_requests(&registrar, PAGE_REQUESTS_MAX, 0, 0);
    assert_int_equal(ask(&service, "end 32"), 0);
    expect_requests(&registrar, PAGE_REQUESTS_MAX, 1, 0);
    assert_int_equal(ask(&service, "end 7"), 0);
    assert_int_equal(ask(&service, "begin 0"), 8);
    expect_requests(&registrar, PAGE_REQUESTS_MAX, 2, 0);
    assert_int_equal(finish(&service, "end"), 0);
    finish(&registrar, "quit");
}

/* Forgotten requests, whose deadlines lie more than PAGE_REQUEST_STALE_MS back. */
static void stale_request_gives_up_place(void **state)
{
    struct talker registrar, service;
    (void)state;
    start_registrar(&registrar, "--target-us", "1000", "--gate-us", "0");
    start_launcher(&service, "service");
    for (int i = 0; i < PAGE_REQUESTS_MAX; i++)
        assert_int_equal(ask(&service, i == 31 ? "begin 31000000" : "begin 0"), i + 1);
    assert_int_equal(ask(&service, "begin 0"), 32);
    assert_int_equal(ask(&service, "end 31"), 0); /* answered after all */
    expect_requests(&registrar, PAGE_REQUESTS_MAX, 1, 1);
    assert_int_equal(finish(&service, "end"), 0);
    finish(&registrar, "quit");
}

/* Also beside an agent that does not know the field: a field that the agent never wrote is 0. */
static void without_target_nothing_is_due(void **state)
{
    struct talker registrar, service;
    (void)state;
    start_registrar(&registrar, "--gate-us", "0", "--linger-us", "0");
    start_launcher(&service, "service");
    assert_int_equal(ask(&service, "begin 60000000"), 0);
    assert_int_equal(number_of(&registrar, "service", "reports_requests"), 0);
    expect_requests(&registrar, 0, 0, 0);
    assert_int_equal(ask(&service, "end 0"), 0);
    expect_requests(&registrar, 0, 1, 0);
    tell(&registrar, "target-us 50000000");
    expect_requests(&registrar, 0, 1, 0);
    assert_int_equal(ask(&service, "begin 0"), 1);
    assert_int_equal(number_of(&registrar, "service", "reports_requests"), 1);
    assert_int_equal(finish(&service, "end"), 0);
    finish(&registrar, "quit");
}

static void forked_child_gets_pages_of_its_own(void **state)
{
    struct talker registrar, service;
    (void)state;
    start_registrar(&registrar, "--target-us", "50000000", "--gate-us", "0");
    start_launcher(&service, "service");
    assert_int_equal(ask(&service, "begin 0"), 1);
    assert_int_equal(ask(&service, "child"), 0);
    expect_requests(&registrar, 0, 1, 0); /* the child's, shown last */
    assert_int_equal(ask(&service, "end 0"), 0);
    assert_int_equal(finish(&service, "end"), 0);
    finish(&registrar, "quit");
}

static void expect_used(const struct talker *registrar, unsigned sequence, unsigned batch)
{
    assert_int_equal(number_of(registrar, "task", "advice_used"), sequence);
    assert_int_equal(number_of(registrar, "task", "batch_used"), batch);
}

static void advice_is_followed_and_acknowledged(void **state)
{
    struct talker registrar, task;
    (void)state;
    start_registrar(&registrar, "--gate-us", "0", "--linger-us", "0");
    start_launcher(&task, "task");
    assert_int_equal(ask(&task, "batch"), 64);
    assert_int_equal(ask(&task, "use 64"), 0);
    expect_used(&registrar, 0, 64);
    tell(&registrar, "batch 48");
    expect_used(&registrar, 0, 64);
    assert_int_equal(ask(&task, "use 64"), 0); /* the program has not read the advice yet */
    expect_used(&registrar, 0, 64);
    assert_int_equal(ask(&task, "batch"), 48);
    assert_int_equal(ask(&task, "use 48"), 0);
    expect_used(&registrar, 1, 48);
    assert_int_equal(ask(&task, "checkpoint"), 0);
    tell(&registrar, "checkpoint 1");
    expect_used(&registrar, 1, 48);
    assert_int_equal(ask(&task, "checkpoint"), 1);
    assert_int_equal(ask(&task, "checkpoint"), 0);
    expect_used(&registrar, 2, 48);
    tell(&registrar, "batch 0");
    expect_used(&registrar, 2, 48);
    assert_int_equal(ask(&task, "batch"), 64);
    assert_int_equal(ask(&task, "use 64"), 0);
    expect_used(&registrar, 3, 64);
    assert_int_equal(finish(&task, "end"), 0);
    finish(&registrar, "quit");
}

/* A supervisor that answers every packet without a look at it. */
static void *supervise(void *data)
{
    enum { PEERS = 32, PACKET = 4096 };
    struct pollfd at[1 + PEERS] = {{.fd = *(int *)data, .events = POLLIN}};
    static char packet[PACKET];
    for (int i = 1; i <= PEERS; i++)
        at[i] = (struct pollfd){.fd = -1, .events = POLLIN};
    while (poll(at, 1 + PEERS, -1) > 0 && !(at[0].revents & (POLLHUP | POLLERR | POLLNVAL))) {
        for (int i = 1; i <= PEERS; i++) {
            if (at[i].fd >= 0 && at[i].revents && recv(at[i].fd, packet, PACKET, 0) == 0) {
                close(at[i].fd);
                at[i].fd = -1;
            } else if (at[i].fd >= 0 && at[i].revents) {
                (void)send(at[i].fd, "ok", 2, MSG_NOSIGNAL);
            } else if (at[i].fd < 0 && at[0].revents & POLLIN) {
                at[i].fd = accept4(at[0].fd, NULL, NULL, SOCK_CLOEXEC);
                at[0].revents = 0;
            }
        }
    }
    return NULL;
}

static int listen_at(struct sockaddr_un *address)
{
    enum { BACKLOG = 128 };
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    snprintf(address->sun_path, sizeof address->sun_path, "/tmp/gpumux-channel-%d", (int)getpid());
    unlink(address->sun_path);
    if (fd < 0 || bind(fd, (struct sockaddr *)address, sizeof *address) != 0 ||
        listen(fd, BACKLOG) != 0)
        return -1;
    return fd;
}

int main(int argc, char **argv)
{
    struct sockaddr_un supervisor;
#define TEST(test) cmocka_unit_test_setup_teardown(test, set_up_devices, tear_down_devices)
    const struct CMUnitTest tests[] = {
        TEST(requests_before_cuda_have_no_place),  TEST(deadline_is_arrival_plus_target),
        TEST(places_run_out_and_return),           TEST(stale_request_gives_up_place),
        TEST(without_target_nothing_is_due),       TEST(forked_child_gets_pages_of_its_own),
        TEST(advice_is_followed_and_acknowledged),
    };
    if (!launch_fixture_begin(argc, argv))
        return 2;
    setenv("GPUMUX_WORKLOAD_ID", "7", 1);
    setenv("GPUMUX_ATTEMPT", "1", 1);
    int supervisor_fd = listen_at(&supervisor);
    pthread_t thread;
    if (supervisor_fd < 0 || pthread_create(&thread, NULL, supervise, &supervisor_fd) != 0)
        return 2;
    setenv("GPUMUX_CONTROL", supervisor.sun_path, 1);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    shutdown(supervisor_fd, SHUT_RDWR);
    pthread_join(thread, NULL);
    close(supervisor_fd);
    unlink(supervisor.sun_path);
    launch_fixture_end();
    return failed;
}
