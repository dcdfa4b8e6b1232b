/* Tests the facts, reports and errors of the library against a socket of the test's own. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "client/gpumux.h"

enum { WAIT_MS = 60000, PACKET_MAX = 256, THREADS = 4, REPORTS = 2000, FD_LIMIT = 256 };

static const char *const variables[] = {
    "GPUMUX_WORKLOAD_ID",    "GPUMUX_WORKLOAD_NAME",  "GPUMUX_ATTEMPT",
    "GPUMUX_NODE",           "GPUMUX_CONTROL",        "GPUMUX_SHARE_MIN",
    "GPUMUX_SHARE_MAX",      "GPUMUX_QUOTA_BYTES",    "GPUMUX_ARRAY_INDEX",
    "GPUMUX_BATCH_SIZE",     "GPUMUX_BATCH_SIZE_MIN", "GPUMUX_BATCH_SIZE_MAX",
    "GPUMUX_BATCH_SIZE_STEP"};

struct fixture {
    char top[64];
    char directory[512]; /* of the socket */
    char path[600];
    int listen_fd;
    atomic_bool stop;
};

static void bind_socket(struct fixture *f, int backlog)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int directory_fd = open(f->directory, O_PATH | O_DIRECTORY | O_CLOEXEC);
    assert_true(directory_fd >= 0);
    snprintf(address.sun_path, sizeof address.sun_path, "/proc/self/fd/%d/control.sock",
             directory_fd);
    f->listen_fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(f->listen_fd, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(f->listen_fd, backlog), 0);
    close(directory_fd);
    snprintf(f->path, sizeof f->path, "%s/control.sock", f->directory);
    setenv("GPUMUX_CONTROL", f->path, 1);
}

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    for (size_t i = 0; i < sizeof variables / sizeof variables[0]; i++)
        unsetenv(variables[i]);
    snprintf(f->top, sizeof f->top, "/tmp/gmc.XXXXXX");
    assert_non_null(mkdtemp(f->top));
    snprintf(f->directory, sizeof f->directory, "%s", f->top);
    f->listen_fd = -1;
    setenv("GPUMUX_WORKLOAD_ID", "17", 1);
    setenv("GPUMUX_ATTEMPT", "2", 1);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    if (f->listen_fd >= 0)
        close(f->listen_fd);
    unlink(f->path);
    while (strcmp(f->directory, f->top) != 0) {
        rmdir(f->directory);
        *strrchr(f->directory, '/') = '\0';
    }
    rmdir(f->top);
    free(f);
    return 0;
}

/* Does anybody knock within wait_ms? */
static bool is_waited_for(const struct fixture *f, int wait_ms)
{
    struct pollfd at = {.fd = f->listen_fd, .events = POLLIN};
    return poll(&at, 1, wait_ms) == 1;
}

/* The next connection's packet. */
static void expect_packet(const struct fixture *f, const char *wanted)
{
    char packet[PACKET_MAX + 1] = "";
    assert_true(is_waited_for(f, WAIT_MS));
    int fd = accept4(f->listen_fd, NULL, NULL, SOCK_CLOEXEC);
    ssize_t n = recv(fd, packet, PACKET_MAX, 0);
    close(fd);
    assert_true(n >= 0);
    assert_string_equal(packet, wanted);
}

static int count_open_files(void)
{
    int count = 0;
    for (int fd = 0; fd < FD_LIMIT; fd++)
        count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

/* ---- outside of gpumux ---- */

static void calls_outside_gpumux_return_defaults(void **state)
{
    (void)state;
    unsetenv("GPUMUX_WORKLOAD_ID");
    assert_null(gpumux_open());
    errno = ENOTTY;
    assert_int_equal(gpumux_report_progress(NULL, 5), 0);
    assert_int_equal(gpumux_report_latency(NULL, 5), 0);
    assert_int_equal(gpumux_tell_ready(NULL, 1000), 0);
    assert_int_equal(gpumux_request_begin(NULL, 5), 0);
    assert_int_equal(gpumux_request_end(NULL, 5), 0);
    gpumux_request_drop(NULL, 5);
    gpumux_use_batch(NULL, 5);
    assert_int_equal(gpumux_checkpoint_wanted(NULL), 0);
    assert_int_equal(gpumux_batch_size(NULL, 64), 64);
    assert_int_equal(gpumux_batch_size_min(NULL), 0);
    assert_int_equal(gpumux_batch_size_max(NULL), 0);
    assert_int_equal(gpumux_batch_size_step(NULL), 0);
    assert_int_equal(gpumux_workload_id(NULL), 0);
    assert_string_equal(gpumux_workload_name(NULL), "");
    assert_int_equal(gpumux_attempt(NULL), 0);
    assert_int_equal(gpumux_array_index(NULL), -1);
    assert_string_equal(gpumux_node_name(NULL), "");
    assert_int_equal(gpumux_quota_bytes(NULL), 0);
    assert_int_equal(gpumux_share_min_percent(NULL), 0);
    assert_int_equal(gpumux_share_max_percent(NULL), 100);
    gpumux_close(NULL);
    assert_int_equal(errno, ENOTTY);
    assert_true(strlen(gpumux_library_version()) >= strlen("0.0.0"));
}

static void open_in_foreign_environment_returns_null(void **state)
{
    (void)state;
    assert_null(gpumux_open()); /* no socket */
    setenv("GPUMUX_CONTROL", "", 1);
    assert_null(gpumux_open());
    setenv("GPUMUX_CONTROL", "/nowhere/control.sock", 1);
    const char *const no_numbers[] = {"",   "0",  "-1",  " 1",
                                      "1 ", "1x", "0x1", "99999999999999999999"};
    for (size_t i = 0; i < sizeof no_numbers / sizeof no_numbers[0]; i++) {
        setenv("GPUMUX_WORKLOAD_ID", no_numbers[i], 1);
        assert_null(gpumux_open());
    }
    setenv("GPUMUX_WORKLOAD_ID", "1", 1);
    setenv("GPUMUX_ATTEMPT", "4294967297", 1);
    assert_null(gpumux_open());
}

/* ---- facts ---- */

static void facts_come_from_environment(void **state)
{
    (void)state;
    setenv("GPUMUX_CONTROL", "/nowhere/control.sock", 1);
    setenv("GPUMUX_WORKLOAD_ID", "18446744073709551615", 1);
    setenv("GPUMUX_WORKLOAD_NAME", "resnet-a", 1);
    setenv("GPUMUX_NODE", "box", 1);
    setenv("GPUMUX_SHARE_MIN", "20", 1);
    setenv("GPUMUX_SHARE_MAX", "55", 1);
    setenv("GPUMUX_QUOTA_BYTES", "8589934592", 1);
    setenv("GPUMUX_ARRAY_INDEX", "0", 1);
    setenv("GPUMUX_BATCH_SIZE", "128", 1);
    setenv("GPUMUX_BATCH_SIZE_MIN", "32", 1);
    setenv("GPUMUX_BATCH_SIZE_MAX", "512", 1);
    setenv("GPUMUX_BATCH_SIZE_STEP", "16", 1);
    struct gpumux *g = gpumux_open();
    assert_non_null(g);
    for (size_t i = 0; i < sizeof variables / sizeof variables[0]; i++)
        unsetenv(variables[i]); /* gpumux_open() has read the variables */
    assert_true(gpumux_workload_id(g) == UINT64_MAX);
    assert_string_equal(gpumux_workload_name(g), "resnet-a");
    assert_int_equal(gpumux_attempt(g), 2);
    assert_string_equal(gpumux_node_name(g), "box");
    assert_int_equal(gpumux_array_index(g), 0);
    assert_int_equal(gpumux_share_min_percent(g), 20);
    assert_int_equal(gpumux_share_max_percent(g), 55);
    assert_true(gpumux_quota_bytes(g) == UINT64_C(8589934592));
    assert_int_equal(gpumux_batch_size(g, 64), 128);
    assert_int_equal(gpumux_batch_size_min(g), 32);
    assert_int_equal(gpumux_batch_size_max(g), 512);
    assert_int_equal(gpumux_batch_size_step(g), 16);
    gpumux_close(g);
}

static void invalid_facts_become_defaults(void **state)
{
    (void)state;
    setenv("GPUMUX_CONTROL", "/nowhere/control.sock", 1);
    setenv("GPUMUX_SHARE_MAX", "101", 1);
    setenv("GPUMUX_ARRAY_INDEX", "-3", 1);
    setenv("GPUMUX_QUOTA_BYTES", "8g", 1);
    struct gpumux *g = gpumux_open();
    assert_non_null(g);
    assert_string_equal(gpumux_workload_name(g), "");
    assert_string_equal(gpumux_node_name(g), "");
    assert_int_equal(gpumux_array_index(g), -1);
    assert_int_equal(gpumux_share_min_percent(g), 0);
    assert_int_equal(gpumux_share_max_percent(g), 100);
    assert_int_equal(gpumux_quota_bytes(g), 0);
    assert_int_equal(gpumux_batch_size(g, 64), 64);
    gpumux_close(g);
}

/* ---- progress ---- */

static void progress_is_sent_or_delayed(void **state)
{
    struct fixture *f = *state;
    bind_socket(f, 16);
    int open_files = count_open_files();
    struct gpumux *g = gpumux_open();
    assert_int_equal(gpumux_report_progress(g, 0), 0);
    expect_packet(f, "progress 0");
    /* Most of these reports come too soon and are sent later, on a machine of any speed. */
    for (uint64_t done = 1; done <= REPORTS; done++)
        assert_int_equal(gpumux_report_progress(g, done), 0);
    int connections = 0;
    while (is_waited_for(f, 0)) {
        close(accept4(f->listen_fd, NULL, NULL, SOCK_CLOEXEC));
        connections++;
    }
    assert_true(connections < REPORTS / 10);
    /* A return to a checkpoint is reported at once. */
    assert_int_equal(gpumux_report_progress(g, 7), 0);
    expect_packet(f, "progress 7");
    assert_int_equal(gpumux_report_progress(g, GPUMUX_PROGRESS_MAX + 1), -EINVAL);
    assert_int_equal(gpumux_report_progress(g, 6), 0);
    expect_packet(f, "progress 6");
    gpumux_close(g);
    assert_false(is_waited_for(f, 0)); /* every count was sent before */
    assert_int_equal(count_open_files(), open_files);
}

static void close_sends_last_count(void **state)
{
    struct fixture *f = *state;
    bind_socket(f, 16);
    struct gpumux *g = gpumux_open();
    assert_int_equal(gpumux_report_progress(g, GPUMUX_PROGRESS_MAX - 1), 0);
    assert_int_equal(gpumux_report_progress(g, GPUMUX_PROGRESS_MAX), 0);
    expect_packet(f, "progress 999999999999999");
    gpumux_close(g);
    expect_packet(f, "progress 1000000000000000");
}

static void long_socket_path_is_reached(void **state)
{
    struct fixture *f = *state;
    for (int i = 0; i < 4; i++) {
        size_t length = strlen(f->directory);
        snprintf(f->directory + length, sizeof f->directory - length, "/%0100d", i);
        assert_int_equal(mkdir(f->directory, 0700), 0);
    }
    bind_socket(f, 16);
    assert_true(strlen(f->path) > sizeof((struct sockaddr_un *)0)->sun_path);
    int open_files = count_open_files();
    struct gpumux *g = gpumux_open();
    assert_int_equal(gpumux_report_progress(g, 5), 0);
    expect_packet(f, "progress 5");
    assert_int_equal(gpumux_tell_ready(g, 0), 0);
    expect_packet(f, "ready");
    gpumux_close(g);
    assert_int_equal(count_open_files(), open_files);
}

/* ---- latency ---- */

static void latency_counts_each_request_once(void **state)
{
    struct fixture *f = *state;
    bind_socket(f, 16);
    int open_files = count_open_files();
    struct gpumux *g = gpumux_open();
    assert_int_equal(gpumux_report_latency(g, 5), 0);
    expect_packet(f, "latency\n5 1\n");
    /* Each latency is counted once, whether its report is sent at once or later. */
    for (int i = 0; i < REPORTS; i++)
        assert_int_equal(gpumux_report_latency(g, i % 2 ? 1000 : 300000000), 0);
    gpumux_close(g);
    unsigned fast = 0, slow = 0;
    while (is_waited_for(f, 0)) {
        char packet[PACKET_MAX + 1] = "";
        int fd = accept4(f->listen_fd, NULL, NULL, SOCK_CLOEXEC);
        while (recv(fd, packet, PACKET_MAX, 0) > 0) {
            unsigned counts[2] = {0};
            if (strncmp(packet, "advice", 6) != 0 &&
                sscanf(packet, "latency\n992 %u\n192937984 %u\n", &counts[0], &counts[1]) == 0)
                assert_int_equal(sscanf(packet, "latency\n192937984 %u\n", &counts[1]), 1);
            fast += counts[0];
            slow += counts[1];
            memset(packet, 0, sizeof packet);
        }
        close(fd);
    }
    assert_int_equal(fast, REPORTS / 2);
    assert_int_equal(slow, REPORTS / 2);
    assert_int_equal(count_open_files(), open_files);
}

static void failed_latency_report_is_resent(void **state)
{
    struct fixture *f = *state;
    setenv("GPUMUX_CONTROL", "/nowhere/control.sock", 1);
    bind_socket(f, 16);
    struct gpumux *g = gpumux_open();
    char hidden[sizeof f->path + 4];
    snprintf(hidden, sizeof hidden, "%s.x", f->path);
    assert_int_equal(rename(f->path, hidden), 0);
    errno = ENOTTY;
    assert_int_equal(gpumux_report_latency(g, 7), -ENOENT);
    assert_int_equal(errno, ENOTTY);
    assert_int_equal(rename(hidden, f->path), 0);
    gpumux_close(g);
    expect_packet(f, "latency\n7 1\n");
}

/* ---- unreachable supervisors ---- */

static void unreachable_supervisor_gives_error(void **state)
{
    struct fixture *f = *state;
    bind_socket(f, 16);
    close(f->listen_fd);
    f->listen_fd = -1;
    int open_files = count_open_files();
    struct gpumux *g = gpumux_open();
    errno = ENOTTY;
    assert_int_equal(gpumux_report_progress(g, 5), -ECONNREFUSED);
    assert_int_equal(gpumux_tell_ready(g, WAIT_MS), -ECONNREFUSED);
    assert_int_equal(gpumux_tell_ready(g, -1), -EINVAL);
    unlink(f->path);
    assert_int_equal(gpumux_tell_ready(g, 0), -ENOENT);
    assert_int_equal(gpumux_report_progress(g, 4), -ENOENT);
    gpumux_close(g);
    assert_int_equal(errno, ENOTTY);

    char path[400];
    snprintf(path, sizeof path, "%s/%0300d/control.sock", f->top, 0);
    setenv("GPUMUX_CONTROL", path, 1);
    g = gpumux_open();
    assert_int_equal(gpumux_tell_ready(g, 0), -ENAMETOOLONG);
    gpumux_close(g);
    snprintf(path, sizeof path, "%0300d", 0);
    setenv("GPUMUX_CONTROL", path, 1);
    g = gpumux_open();
    assert_int_equal(gpumux_tell_ready(g, 0), -ENAMETOOLONG);
    gpumux_close(g);
    assert_int_equal(count_open_files(), open_files);
}

/* When the queue of a hanging supervisor is full, calls fail instead of waiting. */
static void full_queue_gives_eagain(void **state)
{
    struct fixture *f = *state;
    bind_socket(f, 2);
    struct gpumux *g = gpumux_open();
    int r = 0;
    for (int i = 0; i < 16 && r == 0; i++)
        r = gpumux_tell_ready(g, 0);
    assert_int_equal(r, -EAGAIN);
    gpumux_close(g);
}

static void *slam_doors(void *data)
{
    struct fixture *f = data;
    while (!atomic_load(&f->stop))
        if (is_waited_for(f, 1))
            close(accept4(f->listen_fd, NULL, NULL, SOCK_CLOEXEC));
    return NULL;
}

/* A SIGPIPE would end the test program. */
static void broken_connections_raise_no_signal(void **state)
{
    struct fixture *f = *state;
    pthread_t thread;
    bind_socket(f, 16);
    assert_int_equal(pthread_create(&thread, NULL, slam_doors, f), 0);
    struct gpumux *g = gpumux_open();
    for (int i = 0; i < REPORTS; i++) {
        int r = gpumux_tell_ready(g, i % 2 ? WAIT_MS : 0);
        assert_true(r == 0 || r == -EPIPE || r == -ECONNRESET || r == -EPROTO || r == -EAGAIN);
    }
    gpumux_close(g);
    atomic_store(&f->stop, true);
    pthread_join(thread, NULL);
}

/* ---- ready ---- */

struct answerer {
    const struct fixture *fixture;
    const char *answer; /* NULL: none, until the peer has closed */
};

static void *answer_one(void *data)
{
    const struct answerer *a = data;
    char packet[PACKET_MAX];
    if (!is_waited_for(a->fixture, WAIT_MS))
        return NULL;
    int fd = accept4(a->fixture->listen_fd, NULL, NULL, SOCK_CLOEXEC);
    ssize_t n = recv(fd, packet, sizeof packet, 0);
    if (n > 0 && a->answer)
        n = send(fd, a->answer, strlen(a->answer), MSG_NOSIGNAL);
    if (n > 0)
        n = recv(fd, packet, sizeof packet, 0);
    close(fd);
    return NULL;
}

static int tell_ready_and_get(struct fixture *f, const char *answer, int wait_ms)
{
    struct answerer answerer = {.fixture = f, .answer = answer};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, answer_one, &answerer), 0);
    struct gpumux *g = gpumux_open();
    int r = gpumux_tell_ready(g, wait_ms);
    gpumux_close(g);
    pthread_join(thread, NULL);
    return r;
}

static void ready_waits_for_answer(void **state)
{
    struct fixture *f = *state;
    bind_socket(f, 16);
    assert_int_equal(tell_ready_and_get(f, "ok", WAIT_MS), 0);
    assert_int_equal(tell_ready_and_get(f, "error this is no command", WAIT_MS), -EPROTO);
    assert_int_equal(tell_ready_and_get(f, "okay", WAIT_MS), -EPROTO);
    assert_int_equal(tell_ready_and_get(f, NULL, 20), -ETIMEDOUT);
    assert_int_equal(tell_ready_and_get(f, NULL, 0), 0);
}

/* ---- the connection, and advice ---- */

/* Takes the connection of the library. */
static int take_connection(const struct fixture *f)
{
    assert_true(is_waited_for(f, WAIT_MS));
    int fd = accept4(f->listen_fd, NULL, NULL, SOCK_CLOEXEC);
    assert_true(fd >= 0);
    return fd;
}

static void expect_command(int fd, const char *wanted)
{
    char packet[PACKET_MAX + 1] = "";
    struct pollfd at = {.fd = fd, .events = POLLIN};
    assert_int_equal(poll(&at, 1, WAIT_MS), 1);
    assert_true(recv(fd, packet, PACKET_MAX, 0) >= 0);
    assert_string_equal(packet, wanted);
}

static void reply(int fd, const char *text)
{
    assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), strlen(text));
}

/* A count below the last one is sent at once. */
static void reports_share_one_connection(void **state)
{
    struct fixture *f = *state;
    bind_socket(f, 16);
    int open_files = count_open_files();
    struct gpumux *g = gpumux_open();
    assert_int_equal(gpumux_report_progress(g, 100), 0);
    int fd = take_connection(f);
    expect_command(fd, "progress 100");
    expect_command(fd, "advice 0 0");
    reply(fd, "ok");
    reply(fd, "ok 0 0 0");
    for (int i = 99; i > 0; i--) {
        char wanted[32];
        snprintf(wanted, sizeof wanted, "progress %d", i);
        assert_int_equal(gpumux_report_progress(g, (uint64_t)i), 0);
        expect_command(fd, wanted);
        expect_command(fd, "advice 0 0");
        reply(fd, "ok");
        reply(fd, "ok 0 0 0");
    }
    assert_false(is_waited_for(f, 0));
    assert_int_equal(fcntl(fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
    gpumux_close(g);
    close(fd);
    assert_int_equal(count_open_files(), open_files);
}

static void advice_reaches_program_without_pages(void **state)
{
    struct fixture *f = *state;
    setenv("GPUMUX_BATCH_SIZE", "128", 1);
    setenv("GPUMUX_BATCH_SIZE_MIN", "32", 1);
    setenv("GPUMUX_BATCH_SIZE_MAX", "512", 1);
    setenv("GPUMUX_BATCH_SIZE_STEP", "16", 1);
    bind_socket(f, 16);
    struct gpumux *g = gpumux_open();
    assert_int_equal(gpumux_report_progress(g, 9), 0);
    int fd = take_connection(f);
    expect_command(fd, "progress 9");
    expect_command(fd, "advice 0 0");
    reply(fd, "ok");
    reply(fd, "ok 3 200 1");
    assert_int_equal(gpumux_batch_size(g, 64), 128);
    assert_int_equal(gpumux_checkpoint_wanted(g), 0);
    assert_int_equal(gpumux_report_progress(g, 8), 0); /* reads the replies */
    expect_command(fd, "progress 8");
    expect_command(fd, "advice 0 0");
    reply(fd, "ok");
    reply(fd, "ok 3 200 1");
    assert_int_equal(gpumux_batch_size(g, 64), 192); /* a multiple of the step */
    assert_int_equal(gpumux_checkpoint_wanted(g), 1);
    assert_int_equal(gpumux_checkpoint_wanted(g), 0);
    assert_int_equal(gpumux_report_progress(g, 7), 0); /* not followed without a step */
    expect_command(fd, "progress 7");
    expect_command(fd, "advice 0 0");
    reply(fd, "ok");
    reply(fd, "ok 3 200 1");
    gpumux_use_batch(g, 192);
    assert_int_equal(gpumux_report_progress(g, 6), 0);
    expect_command(fd, "progress 6");
    expect_command(fd, "advice 3 192");
    reply(fd, "ok");
    reply(fd, "ok 4 10000 1");
    assert_int_equal(gpumux_report_progress(g, 5), 0);
    expect_command(fd, "progress 5");
    expect_command(fd, "advice 3 192");
    assert_int_equal(gpumux_batch_size(g, 64), 512);
    assert_int_equal(gpumux_checkpoint_wanted(g), 0);
    gpumux_use_batch(g, 512);
    reply(fd, "ok");
    reply(fd, "ok 5 0 1");
    assert_int_equal(gpumux_report_progress(g, 4), 0);
    expect_command(fd, "progress 4");
    expect_command(fd, "advice 4 512");
    assert_int_equal(gpumux_batch_size(g, 64), 128); /* the advice was withdrawn */
    gpumux_close(g);
    close(fd);
}

/* A supervisor of an earlier version. */
static void old_supervisor_is_asked_once(void **state)
{
    struct fixture *f = *state;
    bind_socket(f, 16);
    struct gpumux *g = gpumux_open();
    assert_int_equal(gpumux_report_progress(g, 9), 0);
    int fd = take_connection(f);
    expect_command(fd, "progress 9");
    expect_command(fd, "advice 0 0");
    reply(fd, "ok");
    reply(fd, "error this is no command");
    for (int i = 8; i > 0; i--) {
        char wanted[32];
        snprintf(wanted, sizeof wanted, "progress %d", i);
        assert_int_equal(gpumux_report_progress(g, (uint64_t)i), 0);
        expect_command(fd, wanted);
        reply(fd, "ok");
    }
    struct pollfd at = {.fd = fd, .events = POLLIN};
    assert_int_equal(poll(&at, 1, 0), 0);
    assert_int_equal(gpumux_batch_size(g, 64), 64);
    gpumux_close(g);
    close(fd);
}

/* A supervisor without room ends the connection; then each report has a connection of its own. */
static void refused_connection_is_not_kept(void **state)
{
    struct fixture *f = *state;
    bind_socket(f, 16);
    int open_files = count_open_files();
    struct gpumux *g = gpumux_open();
    assert_int_equal(gpumux_report_progress(g, 9), 0);
    close(take_connection(f));
    for (int i = 8; i > 0; i--) {
        char wanted[32];
        snprintf(wanted, sizeof wanted, "progress %d", i);
        assert_int_equal(gpumux_report_progress(g, (uint64_t)i), 0);
        assert_int_equal(count_open_files(), open_files);
        expect_packet(f, wanted);
    }
    gpumux_close(g);
}

/* A program that becomes a daemon closes all files; their numbers belong to other files then. */
static void closed_connection_is_opened_again(void **state)
{
    struct fixture *f = *state;
    bind_socket(f, 16);
    int before = open("/dev/null", O_RDONLY | O_CLOEXEC);
    close(before); /* the number of the next file */
    struct gpumux *g = gpumux_open();
    assert_int_equal(gpumux_report_progress(g, 9), 0);
    assert_int_equal(close(before), 0); /* the library's connection */
    int other = open("/dev/null", O_RDONLY | O_CLOEXEC);
    assert_int_equal(other, before);
    expect_packet(f, "progress 9");
    assert_int_equal(gpumux_report_progress(g, 8), 0);
    expect_packet(f, "progress 8");
    gpumux_close(g);
    assert_true(fcntl(other, F_GETFD) >= 0);
    close(other);
}

static void forked_child_opens_connection_of_its_own(void **state)
{
    struct fixture *f = *state;
    int status;
    bind_socket(f, 16);
    struct gpumux *g = gpumux_open();
    assert_int_equal(gpumux_report_progress(g, 9), 0);
    int fd = take_connection(f);
    expect_command(fd, "progress 9");
    expect_command(fd, "advice 0 0");
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        _exit(gpumux_report_progress(g, 5) == 0 ? 0 : 1);
    int child_fd = take_connection(f);
    expect_command(child_fd, "progress 5");
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    close(child_fd);
    assert_int_equal(gpumux_report_progress(g, 8), 0);
    expect_command(fd, "progress 8");
    gpumux_close(g);
    close(fd);
}

/* ---- requests ---- */

static void requests_without_pages_count_latency(void **state)
{
    struct fixture *f = *state;
    bind_socket(f, 16);
    struct gpumux *g = gpumux_open();
    assert_int_equal(gpumux_request_end(g, 0), 0);
    uint64_t dropped = gpumux_request_begin(g, 0), token = gpumux_request_begin(g, 2000000);
    assert_true(dropped > 0 && token > 0);
    gpumux_request_drop(g, dropped);
    assert_int_equal(gpumux_request_end(g, token), 0);
    unsigned count = 0, us = 0;
    char packet[PACKET_MAX + 1] = "";
    int fd = take_connection(f);
    assert_true(recv(fd, packet, PACKET_MAX, 0) > 0);
    assert_int_equal(sscanf(packet, "latency\n%u %u\n", &us, &count), 2);
    assert_int_equal(count, 1);
    assert_in_range(us, 1900000, 60000000);
    gpumux_close(g);
    close(fd);
}

/* ---- threads and processes ---- */

static void *report_often(void *data)
{
    for (uint64_t done = 0; done < REPORTS; done++)
        (void)gpumux_report_progress(data, done);
    return NULL;
}

static void threads_report_concurrently(void **state)
{
    struct fixture *f = *state;
    pthread_t server, reporters[THREADS];
    bind_socket(f, 16);
    struct gpumux *g = gpumux_open();
    assert_int_equal(pthread_create(&server, NULL, slam_doors, f), 0);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&reporters[i], NULL, report_often, g), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(reporters[i], NULL);
    gpumux_close(g);
    atomic_store(&f->stop, true);
    pthread_join(server, NULL);
}

static void forked_child_sends_no_count(void **state)
{
    struct fixture *f = *state;
    bind_socket(f, 16);
    struct gpumux *g = gpumux_open();
    assert_int_equal(gpumux_report_progress(g, 1), 0);
    expect_packet(f, "progress 1");
    assert_int_equal(gpumux_report_progress(g, 2),
                     0); /* not sent yet, unless the machine is slow */
    bool was_held = !is_waited_for(f, 0);
    if (!was_held)
        expect_packet(f, "progress 2");
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        int r = gpumux_tell_ready(g, 0);
        gpumux_close(g);
        _exit(r == 0 ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    expect_packet(f, "ready");
    assert_false(is_waited_for(f, 0)); /* the child did not send the count of its parent */
    gpumux_close(g);
    if (was_held)
        expect_packet(f, "progress 2");
    assert_false(is_waited_for(f, 0));
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        CASE(calls_outside_gpumux_return_defaults),
        CASE(open_in_foreign_environment_returns_null),
        CASE(facts_come_from_environment),
        CASE(invalid_facts_become_defaults),
        CASE(progress_is_sent_or_delayed),
        CASE(close_sends_last_count),
        CASE(latency_counts_each_request_once),
        CASE(failed_latency_report_is_resent),
        CASE(long_socket_path_is_reached),
        CASE(unreachable_supervisor_gives_error),
        CASE(full_queue_gives_eagain),
        CASE(broken_connections_raise_no_signal),
        CASE(ready_waits_for_answer),
        CASE(reports_share_one_connection),
        CASE(advice_reaches_program_without_pages),
        CASE(old_supervisor_is_asked_once),
        CASE(refused_connection_is_not_kept),
        CASE(closed_connection_is_opened_again),
        CASE(forked_child_opens_connection_of_its_own),
        CASE(requests_without_pages_count_latency),
        CASE(threads_report_concurrently),
        CASE(forked_child_sends_no_count),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
