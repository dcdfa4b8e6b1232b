/* Registration as the shim sees it: admission, the pages received, and the state after the end. */
#include "node/protect/registrar_fixture.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/str.h"

static void registered_client_gets_sealed_current_pages(void **state)
{
    struct fixture *f = *state;
    struct terms terms = terms_of(WORKLOAD_TASK, 64 * MIB);
    terms.share_max_percent = 30;
    registrar_extend_lease(f->registrar, 12345, 0);
    struct session *w = make_session(f, "7.1", &terms, -1);
    struct client c;
    char path[64];
    join(f, "7.1", &c);
    static const uint8_t uuid[16] = {0x00, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77,
                                     0x88, 0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff};
    assert_int_equal(c.limits->header.magic, PAGE_LIMITS);
    assert_int_equal(c.limits->device_count, 1);
    assert_memory_equal(c.limits->devices[0].uuid, uuid, sizeof uuid);
    assert_int_equal(c.limits->devices[0].quota_bytes, 64 * MIB);
    assert_int_equal(c.limits->devices[0].rate_permille, 300); /* enforced by rate, without MPS */
    assert_int_equal(c.limits->devices[0].share_percent, 0);   /* without MPS no part of the SMs */
    assert_int_equal(c.limits->devices[0].mode, LIMITS_ALONE);
    assert_int_equal(c.limits->lease_deadline_ms, 12345);
    assert_int_equal(c.limits->slot_count, 1);
    assert_int_equal(fcntl(c.limits_fd, F_GET_SEALS), SEALS);
    assert_int_equal(fcntl(c.ledger_fd, F_GET_SEALS), SEALS_OF_SIZE);
    assert_int_equal(fcntl(c.status_fd, F_GET_SEALS), SEALS);
    snprintf(path, sizeof path, "/proc/self/fd/%d", c.limits_fd);
    int again = open(path, O_RDWR | O_CLOEXEC);
    assert_ptr_equal(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, again, 0), MAP_FAILED);
    close(again);
    assert_int_equal((pid_t)(c.ledger->owners[0] >> 32), getpid());
    registrar_extend_lease(f->registrar, 23456, 7000);
    assert_int_equal(c.limits->lease_deadline_ms, 23456);
    assert_int_equal(c.limits->fence_ms, 7000);
    uint64_t before = c.limits->sequence;
    registrar_throttle(f->registrar, UUID, 100);
    assert_int_equal(c.limits->devices[0].rate_permille, 100);
    assert_int_equal(c.limits->devices[0].window_us, WINDOW_US);
    assert_true(c.limits->sequence > before);
    registrar_throttle(f->registrar, UUID, 0);
    assert_int_equal(c.limits->devices[0].rate_permille, 300);
    session_free(w);
    leave(&c);
}

/* Sends a hello and expects this refusal. */
static void expect_refusal(struct fixture *f, const struct register_hello *hello, size_t count,
                           int status_fd, enum register_refusal reason)
{
    union packet packet;
    int fds[2];
    int fd = connect_to(f, "7.1");
    send_with(fd, hello, sizeof *hello, count, &status_fd);
    assert_true(receive(f, fd, &packet, fds));
    assert_int_equal(packet.header.kind, REGISTER_REFUSED);
    assert_int_equal(packet.refused.reason, reason);
    assert_false(receive(f, fd, &packet, fds));
    close(fd);
}

static void invalid_hello_is_refused_with_reason(void **state)
{
    struct fixture *f = *state;
    struct terms terms = terms_of(WORKLOAD_TASK, MIB);
    struct session *w = make_session(f, "7.1", &terms, -1);
    struct client c = {0};
    struct register_hello hello = hello_of(false, 0);
    make_status(&c);
    expect_refusal(f, &hello, 0, -1, REGISTER_BROKEN);
    int small = memfd_create("small", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    assert_int_equal(ftruncate(small, 4096), 0);
    expect_refusal(f, &hello, 1, small, REGISTER_BROKEN);
    close(small);
    int unsealable = memfd_create("unsealable", MFD_CLOEXEC);
    assert_int_equal(ftruncate(unsealable, sizeof(struct status_page)), 0);
    expect_refusal(f, &hello, 1, unsealable, REGISTER_BROKEN);
    close(unsealable);
    hello.header.version = REGISTER_VERSION + 1;
    expect_refusal(f, &hello, 1, c.status_fd, REGISTER_UNKNOWN_VERSION);
    hello = hello_of(true, 3); /* without a ledger */
    expect_refusal(f, &hello, 1, c.status_fd, REGISTER_BROKEN);
    hello = hello_of(false, 0);
    f->stranger = getpid();
    expect_refusal(f, &hello, 1, c.status_fd, REGISTER_STRANGER);
    f->stranger = -1;
    c.status->header.magic = 0; /* through the client's own mapping */
    expect_refusal(f, &hello, 1, c.status_fd, REGISTER_BROKEN);
    munmap(c.status, sizeof *c.status);
    close(c.status_fd);
    session_free(w);
}

static void on_rest_over(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    *(bool *)arg = true;
}

/* Checks that the loop is idle for a while. */
static void expect_rest(struct fixture *f)
{
    enum { REST_MS = 100, TURNS_MAX = 100 };
    const struct timeval rest = {.tv_usec = REST_MS * 1000};
    bool is_over = false;
    int turns = 0;
    struct event *over = evtimer_new(f->base, on_rest_over, &is_over);
    event_add(over, &rest);
    while (!is_over) {
        event_base_loop(f->base, EVLOOP_ONCE);
        turns++;
    }
    event_free(over);
    assert_true(turns < TURNS_MAX);
}

static void silent_connections_leave_agent_idle(void **state)
{
    enum { SILENT = 150 };
    struct fixture *f = *state;
    struct terms terms = terms_of(WORKLOAD_TASK, MIB);
    struct session *w = make_session(f, "7.1", &terms, -1);
    int silent[SILENT];
    for (int i = 0; i < SILENT; i++)
        silent[i] = connect_to(f, "7.1");
    expect_rest(f);
    struct client c;
    join(f, "7.1", &c); /* after all of them */
    for (int i = 0; i < SILENT; i++)
        close(silent[i]);
    leave(&c);
    session_free(w);
}

static void agent_without_descriptors_stays_idle(void **state)
{
    struct fixture *f = *state;
    struct terms terms = terms_of(WORKLOAD_TASK, MIB);
    struct session *w = make_session(f, "7.1", &terms, -1);
    struct client c = {0};
    const struct register_hello hello = hello_of(false, 0);
    struct rlimit before;
    union packet packet;
    int fds[2];
    make_status(&c);
    c.fd = connect_to(f, "7.1");
    send_with(c.fd, &hello, sizeof hello, 1, &c.status_fd);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    const struct rlimit none = {.rlim_cur = 0, .rlim_max = before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    expect_rest(f);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_true(receive(f, c.fd, &packet, fds));
    assert_int_equal(packet.header.kind, REGISTER_WELCOME);
    map_welcome(&c, packet.welcome.slot, fds);
    leave(&c);
    session_free(w);
}

/* Makes a page of a shim with fewer or more members. */
static void make_status_of(struct client *c, size_t bytes)
{
    make_status(c);
    c->status->header.size_bytes = (uint32_t)bytes;
    c->status->header.features = bytes > sizeof *c->status ? UINT64_MAX : 0;
    c->status->counters[STATUS_launches_kernel] = 11;
    assert_int_equal(ftruncate(c->status_fd, (off_t)bytes), 0);
}

static void join_as(struct fixture *f, struct client *c, const void *hello, size_t bytes)
{
    union packet packet;
    int fds[2];
    c->fd = connect_to(f, "7.1");
    send_with(c->fd, hello, bytes, 1, &c->status_fd);
    assert_true(receive(f, c->fd, &packet, fds));
    assert_int_equal(packet.header.kind, REGISTER_WELCOME);
    c->limits_fd = fds[0];
    c->ledger_fd = fds[1];
    c->limits = mmap(NULL, sizeof *c->limits, PROT_READ, MAP_SHARED, fds[0], 0);
    c->ledger = mmap(NULL, sizeof *c->ledger, PROT_READ | PROT_WRITE, MAP_SHARED, fds[1], 0);
    assert_ptr_not_equal(c->limits, MAP_FAILED);
    assert_ptr_not_equal(c->ledger, MAP_FAILED);
}

static uint64_t launches_of(struct session *w)
{
    struct session_usage usage;
    session_measure(w, &usage);
    return usage.counters[STATUS_launches_kernel];
}

/* The members missing in a shorter page are zero, and further members are ignored: older and newer
 * shims are admitted and counted. */
static void older_and_newer_shims_register(void **state)
{
    struct fixture *f = *state;
    struct terms terms = terms_of(WORKLOAD_TASK, MIB);
    struct session *w = make_session(f, "7.1", &terms, -1);
    struct client older = {0}, newer = {0};
    struct register_hello hello = hello_of(false, 0);
    struct {
        struct register_hello hello;
        char more[500];
    } longer = {.hello = hello};
    hello.header.size_bytes = offsetof(struct register_hello, slot);
    longer.hello.header.size_bytes = sizeof longer;
    longer.hello.features = UINT64_MAX;
    make_status_of(&older, offsetof(struct status_page, open_streams));
    join_as(f, &older, &hello, offsetof(struct register_hello, slot));
    assert_int_equal(launches_of(w), 11);
    make_status_of(&newer, sizeof(struct status_page) + 8192);
    join_as(f, &newer, &longer, sizeof longer); /* the same process, after an exec */
    assert_int_equal(launches_of(w), 22);
    assert_int_equal(newer.limits->header.size_bytes, sizeof *newer.limits);
    assert_true(newer.limits->header.features & LIMITS_HAS_QUOTA);
    leave(&older);
    leave(&newer);
    session_free(w);
}

/* A page with a wrong size, or of an unknown version. */
static void invalid_status_pages_are_refused(void **state)
{
    struct fixture *f = *state;
    struct terms terms = terms_of(WORKLOAD_TASK, MIB);
    struct session *w = make_session(f, "7.1", &terms, -1);
    struct register_hello hello = hello_of(false, 0);
    struct client c = {0}, d = {0};
    make_status(&c);
    c.status->header.size_bytes += 1;
    expect_refusal(f, &hello, 1, c.status_fd, REGISTER_BROKEN);
    make_status(&d);
    d.status->header.version = PAGE_VERSION + 1;
    expect_refusal(f, &hello, 1, d.status_fd, REGISTER_BROKEN);
    hello.page_version = PAGE_VERSION + 1;
    expect_refusal(f, &hello, 1, d.status_fd, REGISTER_UNKNOWN_VERSION);
    munmap(c.status, sizeof *c.status);
    munmap(d.status, sizeof *d.status);
    close(c.status_fd);
    close(d.status_fd);
    session_free(w);
}

/* A ledger of an agent without owners and contexts. */
static void ledger_of_older_agent_is_read(void **state)
{
    struct fixture *f = *state;
    const size_t known = offsetof(struct ledger_page, context_bytes);
    struct terms terms = terms_of(WORKLOAD_TASK, MIB);
    struct client c;
    struct session_usage usage;
    int fd = memfd_create("gpumux-ledger", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    assert_int_equal(ftruncate(fd, (off_t)known), 0);
    struct ledger_page *page = mmap(NULL, known, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    assert_ptr_not_equal(page, MAP_FAILED);
    page->header = (struct page_header){
        .magic = PAGE_LEDGER, .version = PAGE_VERSION, .size_bytes = (uint32_t)known};
    assert_int_equal(fcntl(fd, F_ADD_SEALS, SEALS_OF_SIZE), 0);
    struct session *w = make_session(f, "7.1", &terms, fd);
    join(f, "7.1", &c);
    page->held_bytes[0][c.slot] = MIB;
    session_measure(w, &usage);
    assert_int_equal(usage.counted_bytes, MIB);
    leave(&c);
    session_free(w);
    munmap(page, known);
}

static void turn_until_left(struct fixture *f, struct session *w)
{
    struct session_usage usage;
    int64_t until_ms = clock_boot_ms() + PATIENCE_MS;
    do {
        turn(f);
        session_measure(w, &usage);
        assert_true(clock_boot_ms() < until_ms);
    } while (usage.members > 0);
}

static void dead_process_is_charged_until_freed(void **state)
{
    struct fixture *f = *state;
    struct terms terms = terms_of(WORKLOAD_TASK, 64 * MIB);
    struct session *w = make_session(f, "7.1", &terms, -1);
    struct client with, without;
    struct gpu_sample *sample = calloc(1, sizeof *sample);
    pid_t holds = start_holder(f, "7.1", 8 * MIB, &with);
    pid_t holds_none = start_holder(f, "7.1", 0, &without);
    assert_int_equal(without.slot, 1);
    with.status->counters[STATUS_launches_kernel] = 5;
    with.status->open_streams = 1;
    with.status->started[0] = 3;
    end_process(holds);
    end_process(holds_none);
    struct session_usage usage;
    turn_until_left(f, w);
    session_measure(w, &usage);
    assert_int_equal(f->deaths, 1);
    assert_true(registrar_waits(f->registrar));
    assert_int_equal(usage.counters[STATUS_launches_kernel], 5);
    assert_int_equal(with.status->open_streams, 0);
    assert_int_equal(with.status->started[0], 0);
    assert_int_equal(with.limits->slot_count, 1); /* the other slot is free at once */
    assert_int_equal(with.ledger->held_bytes[0][0], 8 * MIB);
    /* Samples from before the death do not count, nor do samples that still show the memory. */
    *sample = (struct gpu_sample){.taken_ms = 1, .device_count = 1};
    str_copy(sample->devices[0].uuid, sizeof sample->devices[0].uuid, UUID);
    registrar_measure(f->registrar, sample);
    assert_int_equal(with.ledger->held_bytes[0][0], 8 * MIB);
    sample->taken_ms = clock_boot_ms() + 1000;
    sample->process_count = 1;
    sample->processes[0] = (struct gpu_process){.pid = holds, .memory_used_bytes = 8 * MIB};
    registrar_measure(f->registrar, sample);
    assert_int_equal(with.ledger->held_bytes[0][0], 8 * MIB);
    sample->taken_ms += 1000;
    sample->process_count = 0;
    registrar_measure(f->registrar, sample);
    assert_int_equal(with.ledger->held_bytes[0][0], 0);
    assert_int_equal(with.ledger->owners[0], 0);
    assert_int_equal(with.limits->slot_count, 0);
    assert_false(registrar_waits(f->registrar));
    session_measure(w, &usage);
    assert_int_equal(usage.peak_bytes, 8 * MIB);
    session_free(w);
    leave(&with);
    leave(&without);
    free(sample);
}

/* If the driver does not list the memory of processes, nothing is measured, and the memory of an
 * ended process is not free at once. */
static void unlisted_memory_is_freed_after_delay(void **state)
{
    struct fixture *f = *state;
    struct terms terms = terms_of(WORKLOAD_TASK, 64 * MIB);
    struct session *w = make_session(f, "7.1", &terms, -1);
    struct client c;
    struct gpu_sample *sample = calloc(1, sizeof *sample);
    pid_t pid = start_holder(f, "7.1", 8 * MIB, &c);
    *sample = (struct gpu_sample){.device_count = 1, .is_unlisted = {true}};
    str_copy(sample->devices[0].uuid, sizeof sample->devices[0].uuid, UUID);
    assert_false(session_is_listed(w, sample));
    for (int i = 1; i <= 4; i++) {
        sample->taken_ms = clock_boot_ms() + 1000 * i;
        registrar_measure(f->registrar, sample);
    }
    assert_int_equal(c.limits->measured_ms[0][c.slot], 0);
    end_process(pid);
    turn_until_left(f, w);
    sample->taken_ms = clock_boot_ms() + 5000;
    registrar_measure(f->registrar, sample);
    assert_int_equal(c.ledger->held_bytes[0][0], 8 * MIB);
    sample->taken_ms += 10000;
    registrar_measure(f->registrar, sample);
    assert_int_equal(c.ledger->held_bytes[0][0], 0);
    session_free(w);
    leave(&c);
    free(sample);
}

static void show_memory(struct fixture *f, struct gpu_sample *sample, pid_t pid, uint64_t bytes)
{
    sample->taken_ms = (sample->taken_ms ? sample->taken_ms : clock_boot_ms()) + 1000;
    sample->process_count = bytes > 0;
    sample->processes[0] = (struct gpu_process){.pid = pid, .memory_used_bytes = bytes};
    registrar_measure(f->registrar, sample);
}

static void zombie_memory_is_freed_by_sample(void **state)
{
    struct fixture *f = *state;
    struct terms terms = terms_of(WORKLOAD_TASK, 64 * MIB);
    struct session *w = make_session(f, "7.1", &terms, -1);
    struct client c;
    struct gpu_sample *sample = calloc(1, sizeof *sample);
    sample->device_count = 1;
    str_copy(sample->devices[0].uuid, sizeof sample->devices[0].uuid, UUID);
    pid_t pid = start_holder(f, "7.1", 8 * MIB, &c);
    kill(pid, SIGKILL);
    int64_t until_ms = clock_boot_ms() + PATIENCE_MS;
    while (!registrar_waits(f->registrar)) {
        turn(f);
        assert_true(clock_boot_ms() < until_ms);
    }
    show_memory(f, sample, pid, 8 * MIB); /* its parent has not reaped it */
    assert_int_equal(c.ledger->held_bytes[0][0], 8 * MIB);
    show_memory(f, sample, pid, 0);
    assert_int_equal(c.ledger->held_bytes[0][0], 0);
    end_process(pid);
    leave(&c);
    session_free(w);
    free(sample);
}

static void exec_frees_memory_of_earlier_program(void **state)
{
    struct fixture *f = *state;
    struct terms terms = terms_of(WORKLOAD_TASK, 64 * MIB);
    struct session *w = make_session(f, "7.1", &terms, -1);
    struct client before, after;
    struct gpu_sample *sample = calloc(1, sizeof *sample);
    sample->device_count = 1;
    str_copy(sample->devices[0].uuid, sizeof sample->devices[0].uuid, UUID);
    join(f, "7.1", &before);
    before.ledger->held_bytes[0][before.slot] = 8 * MIB;
    join(f, "7.1", &after); /* as after an exec */
    assert_int_equal(after.slot, 1);
    assert_true(registrar_waits(f->registrar));
    after.ledger->held_bytes[0][after.slot] = MIB;
    show_memory(f, sample, getpid(), MIB);
    assert_int_equal(after.ledger->held_bytes[0][before.slot], 0);
    assert_int_equal(after.ledger->held_bytes[0][after.slot], MIB);
    leave(&before);
    leave(&after);
    session_free(w);
    free(sample);
}

static void stuck_process_is_reported_once(void **state)
{
    struct fixture *f = *state;
    struct terms terms = terms_of(WORKLOAD_TASK, MIB);
    struct session *w = make_session(f, "7.1", &terms, -1);
    struct client c;
    pid_t pid = 0;
    join(f, "7.1", &c);
    c.status->state = STATUS_RUNNING;
    assert_int_equal(session_take_stuck(w, 0, &pid, 1), 0);
    c.status->state = STATUS_DRAINING;
    assert_int_equal(session_take_stuck(w, PATIENCE_MS, &pid, 1), 0);
    c.status->state = STATUS_CLOSING; /* done in time */
    assert_int_equal(session_take_stuck(w, 0, &pid, 1), 0);
    c.status->state = STATUS_DRAINING;
    assert_int_equal(session_take_stuck(w, 0, &pid, 0), 0);
    usleep(2000);
    c.status->completed[0]++; /* the work completes one by one */
    assert_int_equal(session_take_stuck(w, 2, &pid, 1), 0);
    assert_int_equal(session_take_stuck(w, 0, &pid, 1), 1);
    assert_int_equal(pid, getpid());
    assert_int_equal(session_take_stuck(w, 0, &pid, 1), 0);
    leave(&c);
    session_free(w);
}

/* Makes a file that stands for a device's. Its lock lasts until the last descriptor of this open
 * file is closed. */
static int open_file(const struct fixture *f, char path[96])
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    snprintf(path, 96, "%s/device", f->directory);
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(fcntl(fd, F_OFD_SETLK, &lock), 0);
    return fd;
}

static bool is_open(const char *path)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    int fd = open(path, O_RDWR | O_CLOEXEC);
    assert_int_equal(fcntl(fd, F_OFD_GETLK, &lock), 0);
    close(fd);
    return lock.l_type != F_UNLCK;
}

static void show_file(const struct fixture *f, const struct client *c, char path[96])
{
    const struct register_header packet = {.magic = REGISTER_MAGIC,
                                           .version = REGISTER_VERSION,
                                           .kind = REGISTER_FILES,
                                           .size_bytes = sizeof packet};
    int fd = open_file(f, path);
    send_with(c->fd, &packet, sizeof packet, 1, &fd);
    close(fd);
}

static void turn_until_closed(struct fixture *f, const char *path)
{
    int64_t until_ms = clock_boot_ms() + PATIENCE_MS;
    while (is_open(path)) {
        turn(f);
        assert_true(clock_boot_ms() < until_ms);
    }
}

/* A process of a task, and the device file that it has sent. */
struct holder {
    struct terms terms; /* borrowed by the session */
    struct session *session;
    struct client client;
    pid_t pid;
    char path[96];
};

static void start_holder_of_file(struct fixture *f, bool has_mps, struct holder *ret)
{
    ret->terms = terms_of(WORKLOAD_TASK, 64 * MIB);
    ret->terms.has_mps = has_mps;
    ret->session = make_session(f, "7.1", &ret->terms, -1);
    ret->pid = start_holder(f, "7.1", 0, &ret->client);
    show_file(f, &ret->client, ret->path);
    turn(f);
}

static void done_holder(struct holder *h)
{
    session_free(h->session);
    leave(&h->client);
    unlink(h->path);
}

static void device_files_outlive_process_until_drained(void **state)
{
    struct fixture *f = *state;
    struct holder h;
    start_holder_of_file(f, true, &h);
    h.client.status->started[0] = UINT64_C(60000000000);
    end_process(h.pid);
    turn_until_left(f, h.session);
    assert_true(is_open(h.path));
    assert_int_equal(h.client.status->started[0], 0); /* no task waits for the process */
    h.client.status->completed[0] = UINT64_C(60000000000);
    turn_until_closed(f, h.path);
    done_holder(&h);
}

/* Without MPS the end of the process harms no other process, and the driver may want to close the
 * files. */
static void device_files_close_without_mps(void **state)
{
    struct fixture *f = *state;
    struct holder h;
    start_holder_of_file(f, false, &h);
    turn_until_closed(f, h.path);
    end_process(h.pid);
    done_holder(&h);
}

static void task_is_shown_service_neighbours(void **state)
{
    struct fixture *f = *state;
    struct terms task = terms_of(WORKLOAD_TASK, MIB), service = terms_of(WORKLOAD_SERVICE, MIB);
    struct session *w = make_session(f, "7.1", &task, -1);
    struct client c, shown;
    union packet packet;
    int fds[2];
    join(f, "7.1", &c);
    assert_int_equal(c.limits->devices[0].mode, LIMITS_ALONE);
    struct session *s = make_session(f, "8.1", &service, -1);
    assert_int_equal(c.limits->devices[0].mode, LIMITS_TIME);
    assert_int_equal(c.limits->devices[0].window_us, WINDOW_US);
    pid_t pid = start_holder(f, "8.1", 0, &shown);
    assert_true(receive(f, c.fd, &packet, fds));
    assert_int_equal(packet.header.kind, REGISTER_NEIGHBOUR);
    assert_int_equal(packet.neighbour.device, 0);
    assert_int_equal(c.limits->messages, 1);
    assert_int_equal(c.limits->devices[0].neighbour_count, 1);
    struct stat a, b;
    assert_int_equal(fstat(fds[0], &a), 0);
    assert_int_equal(fstat(shown.status_fd, &b), 0);
    assert_int_equal(a.st_ino, b.st_ino);
    assert_int_equal(fcntl(fds[0], F_GET_SEALS), SEALS);
    close(fds[0]);
    uint32_t number = packet.neighbour.number;
    end_process(pid);
    assert_true(receive(f, c.fd, &packet, fds));
    assert_int_equal(packet.header.kind, REGISTER_GONE);
    assert_int_equal(packet.gone.number, number);
    assert_int_equal(c.limits->messages, 2);
    assert_int_equal(c.limits->devices[0].neighbour_count, 0);
    session_free(s);
    assert_int_equal(c.limits->devices[0].mode, LIMITS_ALONE);
    session_free(w);
    leave(&c);
    leave(&shown);
}

/* A new agent knows the members from the ledger, and readmits them when they register. */
static void new_agent_readmits_members(void **state)
{
    struct fixture *f = *state;
    struct terms terms = terms_of(WORKLOAD_TASK, 64 * MIB);
    struct session *w = make_session(f, "7.1", &terms, -1);
    struct client c, dead;
    union packet packet;
    int fds[2];
    pid_t pid = start_holder(f, "7.1", 4 * MIB, &dead);
    join(f, "7.1", &c);
    assert_int_equal(c.slot, 1);
    c.ledger->held_bytes[0][1] = 2 * MIB;
    int ledger_fd = fcntl(c.ledger_fd, F_DUPFD_CLOEXEC, 0);
    registrar_leave(f->registrar);
    session_free(w);
    registrar_free(f->registrar);
    assert_int_equal(c.ledger->held_bytes[0][1], 2 * MIB);
    assert_false(receive(f, c.fd, &packet, fds)); /* the client detects the loss */
    end_process(pid);                             /* without an agent */
    open_registrar(f);
    w = make_session(f, "7.1", &terms, ledger_fd);
    struct session_usage usage;
    session_measure(w, &usage);
    assert_int_equal(usage.members, 1);
    /* the memory of the dead process is not known to be free */
    assert_int_equal(usage.counted_bytes, 6 * MIB);
    assert_true(registrar_waits(f->registrar));
    close(c.fd);
    const struct register_hello hello = hello_of(true, 1);
    /* A process that gives up before a slow agent answers keeps its slot and its memory. */
    int impatient = connect_to(f, "7.1");
    send_with(impatient, &hello, sizeof hello, 2, (const int[]){c.status_fd, c.ledger_fd});
    close(impatient);
    expect_rest(f);
    session_measure(w, &usage);
    assert_int_equal(usage.members, 1);
    assert_int_equal(usage.counted_bytes, 6 * MIB);
    c.fd = connect_to(f, "7.1");
    send_with(c.fd, &hello, sizeof hello, 2, (const int[]){c.status_fd, c.ledger_fd});
    assert_true(receive(f, c.fd, &packet, fds));
    assert_int_equal(packet.header.kind, REGISTER_WELCOME);
    assert_int_equal(packet.welcome.slot, 1);
    close(fds[0]);
    close(fds[1]);
    /* The earlier agent's neighbours are withdrawn, number by number. */
    for (uint32_t i = 0; i < REGISTER_NEIGHBOURS_MAX; i++) {
        assert_true(receive(f, c.fd, &packet, fds));
        assert_int_equal(packet.header.kind, REGISTER_GONE);
        assert_int_equal(packet.gone.number, i);
    }
    session_measure(w, &usage);
    assert_int_equal(usage.members, 1);
    session_free(w);
    leave(&c);
    leave(&dead);
}

/* Memory beyond the account is charged after two readings with a constant account. */
static void overhead_is_charged_after_constant_account(void **state)
{
    struct fixture *f = *state;
    struct terms terms = terms_of(WORKLOAD_TASK, 64 * MIB);
    struct session *w = make_session(f, "7.1", &terms, -1);
    struct client c;
    struct gpu_sample *sample = calloc(1, sizeof *sample);
    join(f, "7.1", &c);
    *sample = (struct gpu_sample){.device_count = 1, .process_count = 1};
    str_copy(sample->devices[0].uuid, sizeof sample->devices[0].uuid, UUID);
    sample->processes[0] = (struct gpu_process){.pid = getpid(), .memory_used_bytes = 9 * MIB};
    int64_t first_ms = clock_boot_ms() + 1000;
    const uint64_t held[] = {4 * MIB, 1 * MIB, 1 * MIB, 1 * MIB};
    const uint64_t expected[] = {0, 0, 0, 8 * MIB};
    for (int i = 0; i < 4; i++) {
        c.ledger->held_bytes[0][c.slot] = held[i];
        sample->taken_ms = first_ms + 1000 * i;
        registrar_measure(f->registrar, sample);
        assert_int_equal(c.limits->overhead_bytes[0][c.slot], expected[i]);
    }
    assert_int_equal(c.limits->measured_ms[0][c.slot], first_ms + 2000);
    session_free(w);
    leave(&c);
    free(sample);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        CASE(older_and_newer_shims_register),
        CASE(invalid_status_pages_are_refused),
        CASE(ledger_of_older_agent_is_read),
        CASE(registered_client_gets_sealed_current_pages),
        CASE(invalid_hello_is_refused_with_reason),
        CASE(silent_connections_leave_agent_idle),
        CASE(agent_without_descriptors_stays_idle),
        CASE(dead_process_is_charged_until_freed),
        CASE(unlisted_memory_is_freed_after_delay),
        CASE(zombie_memory_is_freed_by_sample),
        CASE(exec_frees_memory_of_earlier_program),
        CASE(stuck_process_is_reported_once),
        CASE(device_files_outlive_process_until_drained),
        CASE(device_files_close_without_mps),
        CASE(task_is_shown_service_neighbours),
        CASE(new_agent_readmits_members),
        CASE(overhead_is_charged_after_constant_account),
    };
    signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
