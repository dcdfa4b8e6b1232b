/*
 * The shim's side of abi/register.h and abi/page.h, against an agent that is this test: older and
 * newer agents, agents that refuse, and agents that do not answer.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "abi/page.h"
#include "abi/register.h"
#include "tests/shim/test_agent.h"

static struct program serve;
static struct driver_api api;

static void shim_registers_and_obeys_limits(void **state)
{
    struct agent agent;
    struct talker host;
    struct peer peer;
    (void)state;
    start_agent(&agent, &api);
    start_host(&agent, &serve, &host);
    tell(&host, "open");
    accept_peer(&agent, &peer);
    assert_int_equal(peer.pid, host.pid);
    assert_int_equal(peer.hello.header.kind, REGISTER_HELLO);
    assert_int_equal(peer.hello.header.size_bytes, sizeof(peer.hello));
    assert_int_equal(peer.hello.page_version, PAGE_VERSION);
    assert_string_equal(peer.hello.mark, "here/7.1");
    assert_int_equal(peer.status->header.magic, PAGE_STATUS);
    assert_true(peer.status->header.features & STATUS_HAS_MARKS);
    assert_int_equal(peer.status->header.size_bytes, sizeof(struct status_page));
    assert_int_equal(peer.status->pid, host.pid);
    welcome(&agent, &peer, 2);
    assert_int_equal(hear(&host), 0);
    assert_int_equal(peer.status->slot, 2);
    assert_int_equal(ask(&host, "alloc 41943040"), 0);
    assert_int_equal(agent.ledger->held_bytes[1][2], 40 * MIB);
    assert_int_equal(ask(&host, "alloc 41943040"), 2);
    assert_int_equal(ask(&host, "left"), 24);
    assert_int_equal(peer.status->counters[STATUS_allocations], 1);
    assert_int_equal(peer.status->counters[STATUS_out_of_memory], 1);
    assert_int_equal(peer.status->held_bytes[1], 40 * MIB);
    agent.limits->devices[1].quota_bytes = 128 * MIB + CONTEXT;
    assert_int_equal(ask(&host, "alloc 41943040"), 0);
    agent.limits->overhead_bytes[1][2] = 40 * MIB;
    assert_int_equal(ask(&host, "left"), 8);
    assert_int_equal(ask(&host, "free"), 0);
    assert_int_equal(agent.ledger->held_bytes[1][2], 40 * MIB);
    end_host(&host);
    leave(&peer);
    stop_agent(&agent);
}

static void processes_share_quota(void **state)
{
    struct agent agent;
    struct talker hosts[2];
    struct peer peers[2];
    (void)state;
    start_agent(&agent, &api);
    for (uint32_t i = 0; i < 2; i++) {
        start_host(&agent, &serve, &hosts[i]);
        tell(&hosts[i], "open");
        accept_peer(&agent, &peers[i]);
        welcome(&agent, &peers[i], i);
        assert_int_equal(hear(&hosts[i]), 0);
    }
    assert_int_equal(ask(&hosts[0], "alloc 41943040"), 0);
    assert_int_equal(ask(&hosts[1], "alloc 41943040"), 2);
    assert_int_equal(ask(&hosts[1], "left"), 24);
    assert_int_equal(ask(&hosts[0], "free"), 0);
    assert_int_equal(ask(&hosts[1], "alloc 41943040"), 0);
    /* A killed process: its slot stays until the agent clears it. */
    kill(hosts[1].pid, SIGKILL);
    assert_int_equal(waitpid(hosts[1].pid, NULL, 0), hosts[1].pid);
    assert_int_equal(ask(&hosts[0], "alloc 41943040"), 2);
    agent.ledger->held_bytes[1][1] = 0;
    assert_int_equal(ask(&hosts[0], "alloc 41943040"), 0);
    fclose(hosts[1].to);
    fclose(hosts[1].from);
    end_host(&hosts[0]);
    leave(&peers[0]);
    leave(&peers[1]);
    stop_agent(&agent);
}

/* The parent has registered but not started the driver: its child can use CUDA, and is a process of
 * its own. */
static void forked_child_registers_anew(void **state)
{
    struct agent agent;
    struct talker host;
    struct peer parent, child;
    (void)state;
    start_agent(&agent, &api);
    start_host(&agent, &serve, &host);
    tell(&host, "left");
    accept_peer(&agent, &parent);
    welcome(&agent, &parent, 0);
    assert_int_equal(hear(&host), -1);
    assert_int_equal(ask(&host, "close"), 0);
    pid_t child_pid = ask(&host, "fork");
    tell(&host, "open");
    accept_peer(&agent, &child);
    assert_int_equal(child.pid, child_pid);
    assert_int_equal(child.status->pid, child_pid);
    welcome(&agent, &child, 3);
    assert_int_equal(hear(&host), 0);
    assert_int_equal(ask(&host, "alloc 2097152"), 0);
    assert_int_equal(agent.ledger->held_bytes[1][3], 2 * MIB);
    assert_int_equal(agent.ledger->held_bytes[1][0], 0);
    tell(&host, "end");
    assert_int_equal(hear(&host), 0); /* the parent, after its fork */
    assert_int_equal(ask(&host, "open"), 0);
    assert_int_equal(ask(&host, "alloc 2097152"), 0);
    assert_int_equal(agent.ledger->held_bytes[1][0], 2 * MIB);
    end_host(&host);
    leave(&parent);
    leave(&child);
    stop_agent(&agent);
}

/* The assumed size of a context counts until the agent has measured the context. */
static void measured_context_replaces_assumed_size(void **state)
{
    struct agent agent;
    struct talker host;
    struct peer peer;
    (void)state;
    start_agent(&agent, &api);
    agent.limits->devices[1].context_bytes = 0; /* the limits give no size */
    start_host(&agent, &serve, &host);
    tell(&host, "open");
    accept_peer(&agent, &peer);
    welcome(&agent, &peer, 2);
    assert_int_equal(hear(&host), 2);
    agent.limits->devices[1].quota_bytes = UINT64_C(664) * MIB;
    assert_int_equal(ask(&host, "open"), 0);
    assert_int_equal(agent.ledger->context_bytes[1][2], UINT64_C(600) * MIB);
    assert_int_equal(ask(&host, "left"), 64);
    agent.limits->overhead_bytes[1][2] = 264 * MIB;
    agent.limits->measured_ms[1][2] = agent.ledger->context_ms[1][2] + 1;
    assert_int_equal(ask(&host, "left"), 400);
    assert_int_equal(agent.ledger->held_bytes[1][2], 0);
    end_host(&host);
    leave(&peer);
    stop_agent(&agent);
}

/* An older agent's pages are shorter; missing fields read as if they did not exist. */
static void pages_of_older_agent_are_read(void **state)
{
    struct agent agent;
    struct talker host;
    struct peer peer;
    const size_t known = offsetof(struct limits_page, overhead_bytes);
    (void)state;
    start_agent(&agent, &api);
    agent.limits->header.size_bytes = (uint32_t)known;
    assert_int_equal(ftruncate(agent.limits_fd, (off_t)known), 0);
    start_host(&agent, &serve, &host);
    tell(&host, "open");
    accept_peer(&agent, &peer);
    welcome(&agent, &peer, 0);
    assert_int_equal(hear(&host), 0);
    assert_int_equal(ask(&host, "alloc 67108865"), 2);
    assert_int_equal(ask(&host, "alloc 67108864"), 0);
    end_host(&host);
    leave(&peer);
    stop_agent(&agent);
}

/* A newer agent's pages are longer, and it sends messages that this shim does not know. */
static void pages_of_newer_agent_are_read(void **state)
{
    struct agent agent;
    struct talker host;
    struct peer peer;
    struct {
        struct register_welcome welcome;
        char more[200];
    } packet = {.welcome = {.header = header_of(REGISTER_WELCOME, sizeof(packet)),
                            .page_version = PAGE_VERSION,
                            .slot = 1}};
    const struct register_header unknown = header_of(99, sizeof(unknown));
    (void)state;
    start_agent(&agent, &api);
    agent.limits->header.size_bytes += 8192;
    agent.limits->header.features = UINT64_MAX;
    assert_int_equal(ftruncate(agent.limits_fd, sizeof(*agent.limits) + 8192), 0);
    const int fds[] = {agent.limits_fd, agent.ledger_fd};
    start_host(&agent, &serve, &host);
    tell(&host, "open");
    accept_peer(&agent, &peer);
    send_packet(&peer, &unknown, sizeof(unknown), 1, fds);
    send_packet(&peer, &packet, sizeof(packet), 2, fds);
    assert_int_equal(hear(&host), 0);
    assert_int_equal(ask(&host, "alloc 67108865"), 2);
    assert_int_equal(ask(&host, "alloc 67108864"), 0);
    assert_int_equal(agent.ledger->held_bytes[1][1], 64 * MIB);
    end_host(&host);
    leave(&peer);
    stop_agent(&agent);
}

/* Any answer but WELCOME leaves a process without the device if limits were promised. */
static void check_refusal(void (*answer)(struct agent *, const struct peer *))
{
    struct agent agent;
    struct talker host;
    struct peer peer;
    start_agent(&agent, &api);
    start_host(&agent, &serve, &host);
    tell(&host, "open");
    accept_peer(&agent, &peer);
    answer(&agent, &peer);
    assert_int_equal(hear(&host), 802);
    assert_int_equal(ask(&host, "alloc 1"), 802);
    end_host(&host);
    leave(&peer);
    stop_agent(&agent);
}

static void answer_refused(struct agent *agent, const struct peer *peer)
{
    const struct register_refused packet = {.header = header_of(REGISTER_REFUSED, sizeof(packet)),
                                            .reason = REGISTER_STRANGER};
    (void)agent;
    send_packet(peer, &packet, sizeof(packet), 0, NULL);
}

static void answer_other_version(struct agent *agent, const struct peer *peer)
{
    struct register_header packet = header_of(REGISTER_WELCOME, sizeof(packet));
    const int fds[] = {agent->limits_fd, agent->ledger_fd};
    packet.version++;
    send_packet(peer, &packet, sizeof(packet), 2, fds);
}

static void answer_other_page_version(struct agent *agent, const struct peer *peer)
{
    agent->limits->header.version++;
    welcome(agent, peer, 0);
}

static void answer_slot_beyond(struct agent *agent, const struct peer *peer)
{
    welcome(agent, peer, PAGE_PROCESSES_MAX);
}

static void answer_without_pages(struct agent *agent, const struct peer *peer)
{
    struct register_welcome packet = {.header = header_of(REGISTER_WELCOME, sizeof(packet))};
    (void)agent;
    send_packet(peer, &packet, sizeof(packet), 0, NULL);
}

static void answer_end(struct agent *agent, const struct peer *peer)
{
    (void)agent;
    shutdown(peer->socket, SHUT_RDWR);
}

static void answer_nothing(struct agent *agent, const struct peer *peer)
{
    (void)agent;
    (void)peer;
}

static void refused_process_gets_no_device(void **state)
{
    (void)state;
    check_refusal(answer_refused);
    /* Nor does the process fall back to a quota of its own. */
    setenv("GPUMUX_QUOTA_BYTES", "1073741824", 1);
    check_refusal(answer_refused);
    check_refusal(answer_nothing);
    unsetenv("GPUMUX_QUOTA_BYTES");
    check_refusal(answer_other_version);
    check_refusal(answer_other_page_version);
    check_refusal(answer_slot_beyond);
    check_refusal(answer_without_pages);
    check_refusal(answer_end); /* the process tries again, and gets no answer */
}

/* The process tries again until there is room. */
static void full_agent_is_retried(void **state)
{
    struct agent agent;
    struct talker host;
    struct peer peer;
    const struct register_refused packet = {.header = header_of(REGISTER_REFUSED, sizeof(packet)),
                                            .reason = REGISTER_FULL};
    (void)state;
    start_agent(&agent, &api);
    start_host(&agent, &serve, &host);
    tell(&host, "open");
    for (int i = 0; i < 3; i++) {
        accept_peer(&agent, &peer);
        send_packet(&peer, &packet, sizeof(packet), 0, NULL);
        leave(&peer);
    }
    accept_peer(&agent, &peer);
    welcome(&agent, &peer, 5);
    assert_int_equal(hear(&host), 0);
    assert_int_equal(ask(&host, "alloc 2097152"), 0);
    assert_int_equal(agent.ledger->held_bytes[1][5], 2 * MIB);
    end_host(&host);
    leave(&peer);
    stop_agent(&agent);
}

/* The agent's socket has no listener: the agent will be restarted, and has the limits. */
static void absent_agent_is_awaited(void **state)
{
    struct agent agent, next;
    struct talker host;
    struct peer peer;
    (void)state;
    setenv("GPUMUX_QUOTA_BYTES", "1073741824", 1);
    start_agent(&agent, &api);
    close(agent.listener);
    agent.listener = -1;
    start_host(&agent, &serve, &host);
    unsetenv("GPUMUX_QUOTA_BYTES");
    tell(&host, "open");
    usleep(2500000); /* longer than the wait for an agent that was never there */
    start_agent(&next, &api);
    assert_int_equal(rename(next.path, agent.path), 0);
    accept_peer(&next, &peer);
    usleep(2500000); /* and the agent is slow */
    welcome(&next, &peer, 1);
    assert_int_equal(hear(&host), 0);
    assert_int_equal(ask(&host, "alloc 67108865"), 2);
    end_host(&host);
    leave(&peer);
    unlink(agent.path);
    stop_agent(&agent);
    stop_agent(&next);
}

/* The process uses a device that the limits do not name. */
static void device_without_limits_is_refused(void **state)
{
    struct agent agent;
    struct talker host;
    struct peer peer;
    (void)state;
    start_agent(&agent, &api);
    agent.limits->devices[1].uuid[0] ^= 1;
    start_host(&agent, &serve, &host);
    tell(&host, "open");
    accept_peer(&agent, &peer);
    welcome(&agent, &peer, 0);
    assert_int_equal(hear(&host), 2); /* a context needs memory too */
    assert_int_equal(ask(&host, "alloc 1"), 201);
    end_host(&host);
    leave(&peer);
    stop_agent(&agent);
}

/* Pages of neighbours come, go, and come again under the same number. */
static void neighbours_come_and_go_by_number(void **state)
{
    struct agent agent;
    struct talker host;
    struct peer peer;
    int page_fd;
    struct register_neighbour here = {
        .header = header_of(REGISTER_NEIGHBOUR, sizeof(here)), .number = 5, .device = 1};
    const struct register_gone gone = {.header = header_of(REGISTER_GONE, sizeof(gone)),
                                       .number = 5};
    (void)state;
    start_agent(&agent, &api);
    void *page = make_page("status", PAGE_STATUS, sizeof(struct status_page),
                           sizeof(struct status_page), &page_fd);
    start_host(&agent, &serve, &host);
    tell(&host, "open");
    accept_peer(&agent, &peer);
    welcome(&agent, &peer, 0);
    assert_int_equal(hear(&host), 0);
    assert_int_equal(ask(&host, "launch 10"), 0);
    assert_int_equal(peer.status->counters[STATUS_neighbours], 0);
    send_packet(&peer, &here, sizeof(here), 1, &page_fd);
    send_packet(&peer, &gone, sizeof(gone), 0, NULL);
    send_packet(&peer, &here, sizeof(here), 1, &page_fd);
    here.number = UINT32_MAX; /* an invalid number does no harm */
    send_packet(&peer, &here, sizeof(here), 1, &page_fd);
    agent.limits->messages += 4;
    assert_int_equal(ask(&host, "launch 1"), 0);
    assert_int_equal(peer.status->counters[STATUS_neighbours], 3);
    assert_int_equal(peer.status->counters[STATUS_launches_kernel], 11);
    end_host(&host);
    leave(&peer);
    close(page_fd);
    munmap(page, sizeof(struct status_page));
    stop_agent(&agent);
}

/* The agent goes, and its limits stay. Another agent comes: the process keeps its pages and slot,
 * and gets new limits. */
static void process_rejoins_new_agent_with_slot(void **state)
{
    struct agent first, second;
    struct talker host;
    struct peer peer, again = {.socket = -1};
    struct stat kept, brought;
    (void)state;
    start_agent(&first, &api);
    start_host(&first, &serve, &host);
    tell(&host, "open");
    accept_peer(&first, &peer);
    welcome(&first, &peer, 2);
    assert_int_equal(hear(&host), 0);
    assert_int_equal(ask(&host, "alloc 41943040"), 0);
    close(peer.socket);
    peer.socket = -1;
    close(first.listener);
    unlink(first.path);
    assert_int_equal(ask(&host, "launch 5000"), 0);
    assert_int_equal(ask(&host, "alloc 41943040"), 2);

    start_agent(&second, &api);
    second.limits->devices[1].quota_bytes = 128 * MIB + CONTEXT;
    assert_int_equal(rename(second.path, first.path), 0);
    /* The process looks for an agent at most once per second, only when it launches, and waits for
     * the answer no longer than a launch may: on a busy machine this takes several attempts. */
    struct pollfd comes = {.fd = second.listener, .events = POLLIN};
    for (int i = 0; i < 600 && peer.status->counters[STATUS_rejoins] == 0; i++) {
        tell(&host, "launch 2000");
        if (poll(&comes, 1, 100) == 1) {
            accept_peer(&second, &again);
            const struct register_welcome packet = {
                .header = header_of(REGISTER_WELCOME, sizeof(packet)), .slot = 2};
            const int fds[] = {second.limits_fd, second.ledger_fd};
            (void)try_to_send(&again, &packet, sizeof(packet), 2, fds);
        }
        assert_int_equal(hear(&host), 0);
        if (again.socket >= 0 && peer.status->counters[STATUS_rejoins] == 0)
            leave(&again);
    }
    assert_int_equal(again.hello.again, 1);
    assert_int_equal(again.hello.slot, 2);
    assert_int_equal(again.pid, host.pid);
    assert_int_equal(again.status->held_bytes[1], 40 * MIB);
    assert_int_equal(fstat(first.ledger_fd, &kept), 0);
    assert_int_equal(fstat(again.ledger_fd, &brought), 0);
    assert_int_equal(kept.st_ino, brought.st_ino);
    assert_int_equal(again.status->counters[STATUS_rejoins], 1);
    assert_int_equal(ask(&host, "alloc 41943040"), 0);
    assert_int_equal(first.ledger->held_bytes[1][2], 80 * MIB);
    assert_int_equal(ask(&host, "alloc 67108864"), 2);
    end_host(&host);
    leave(&peer);
    leave(&again);
    unlink(first.path);
    first.listener = -1;
    stop_agent(&first);
    stop_agent(&second);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shim_registers_and_obeys_limits),
        cmocka_unit_test(processes_share_quota),
        cmocka_unit_test(forked_child_registers_anew),
        cmocka_unit_test(measured_context_replaces_assumed_size),
        cmocka_unit_test(pages_of_older_agent_are_read),
        cmocka_unit_test(pages_of_newer_agent_are_read),
        cmocka_unit_test(full_agent_is_retried),
        cmocka_unit_test(absent_agent_is_awaited),
        cmocka_unit_test(refused_process_gets_no_device),
        cmocka_unit_test(device_without_limits_is_refused),
        cmocka_unit_test(neighbours_come_and_go_by_number),
        cmocka_unit_test(process_rejoins_new_agent_with_slot),
    };
    if (argc != 3)
        return 2;
    init_program(&serve, argv[1], "serve", argv[2]);
    signal(SIGPIPE, SIG_IGN);
    driver_api_load(&api);
    driver_api_make_devices("H200:24g", 1, 0);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    driver_api_remove_devices();
    return failed;
}
