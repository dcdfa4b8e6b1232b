/* The loop of the load generator: arrivals, the queue, connections, timeouts. */
#include "load/load.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "load/load_internal.h"

enum {
    EVENTS_MAX = 64,   /* of one look at the sockets */
    ARRIVALS_MAX = 64, /* between two looks at the sockets */
};
static const int64_t sweep_ns = 10000000, progress_ns = 1000000000;
static const int64_t second_ns = 1000000000;

/* Tags of events that belong to no connection. */
enum { TAG_TIMER = LOAD_CONNECTIONS_MAX, TAG_STOP };

struct driver {
    struct run run;
    const struct load_config *config;
    struct arrivals *arrivals;
    bool has_next;
    int64_t next_due_ns;
    struct peer peer;

    /* Waiting requests: a ring of due times. A request that an idle connection refused goes back
     * to the front, so that the ring has room for one more per connection. */
    int64_t *queue;
    size_t queue_capacity, queue_head, queue_count;

    struct connection *connections; /* config->connections */
    int *idle, *closed;             /* stacks of indices */
    int idle_count, closed_count, opening_count, busy_count;

    int epoll, timer;
    int64_t timer_at_ns, sweep_at_ns, progress_at_ns;
    struct load_cost cost;
};

/* ---- the queue ---- */

static void queue_push(struct driver *d, int64_t due_ns)
{
    d->queue[(d->queue_head + d->queue_count++) % d->queue_capacity] = due_ns;
}

static void queue_push_front(struct driver *d, int64_t due_ns)
{
    d->queue_head = (d->queue_head + d->queue_capacity - 1) % d->queue_capacity;
    d->queue[d->queue_head] = due_ns;
    d->queue_count++;
}

static int64_t queue_pop(struct driver *d)
{
    int64_t due_ns = d->queue[d->queue_head];
    d->queue_head = (d->queue_head + 1) % d->queue_capacity;
    d->queue_count--;
    return due_ns;
}

static void fail_waiting(struct driver *d, enum tally_cause cause)
{
    tally_failed(d->run.tally, queue_pop(d), d->run.now_ns, cause, 0);
}

/* ---- connections ---- */

static int open_count(const struct driver *d)
{
    return d->config->connections - d->closed_count;
}

static void close_connection(struct driver *d, struct connection *c)
{
    if (c->state == CONNECTION_BUSY) {
        connection_finish(c);
        d->busy_count--;
    }
    d->opening_count -= c->state == CONNECTION_OPENING;
    if (c->state == CONNECTION_IDLE)
        for (int i = 0; i < d->idle_count; i++)
            if (&d->connections[d->idle[i]] == c) {
                d->idle[i] = d->idle[--d->idle_count];
                break;
            }
    close(c->fd);
    c->fd = -1;
    c->state = CONNECTION_CLOSED;
    d->closed[d->closed_count++] = (int)(c - d->connections);
}

static void make_idle(struct driver *d, struct connection *c)
{
    c->state = CONNECTION_IDLE;
    d->idle[d->idle_count++] = (int)(c - d->connections);
}

/* Takes over a socket. Returns 0, or -1 with errno; the socket is then closed. */
static int add_socket(struct driver *d, int fd)
{
    int index = d->closed[d->closed_count - 1];
    struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET,
                                .data.u32 = (uint32_t)index};
    if (epoll_ctl(d->epoll, EPOLL_CTL_ADD, fd, &event) < 0) {
        int failure = errno;
        close(fd);
        errno = failure;
        return -1;
    }
    d->closed_count--;
    d->connections[index] = (struct connection){
        .state = CONNECTION_OPENING, .fd = fd, .since_ns = d->run.now_ns, .run = &d->run};
    d->opening_count++;
    d->cost.connects++;
    if (open_count(d) > d->cost.connections_most)
        d->cost.connections_most = open_count(d);
    return 0;
}

/* Opens connections for the waiting requests. If a connection cannot be opened, the oldest waiting
 * request fails; if the server's backlog is full, the next sweep tries again. */
static void open_more(struct driver *d)
{
    while ((size_t)d->opening_count < d->queue_count && d->closed_count > 0) {
        int fd = peer_open(&d->peer);
        if (fd >= 0 && add_socket(d, fd) == 0)
            continue;
        if (errno == EAGAIN)
            return;
        fail_waiting(d, TALLY_CONNECT);
    }
}

static void handle_progress(struct driver *d, struct connection *c, enum progress progress);

/* Sends waiting requests on idle connections, and opens connections for the others. */
static void send_waiting(struct driver *d)
{
    while (d->queue_count > 0 && d->idle_count > 0) {
        struct connection *c = &d->connections[d->idle[--d->idle_count]];
        connection_begin(c, queue_pop(d));
        d->busy_count++;
        handle_progress(d, c, connection_write(c));
    }
    if (d->queue_count > 0)
        open_more(d);
}

static void handle_answer(struct driver *d, const struct connection *c)
{
    int status = http_parser_head(&c->parser)->status;
    if (status / 100 == 2)
        tally_answered(d->run.tally, c->due_ns, d->run.now_ns, status, c->body_bytes);
    else
        tally_failed(d->run.tally, c->due_ns, d->run.now_ns, TALLY_STATUS, status);
}

static void handle_progress(struct driver *d, struct connection *c, enum progress progress)
{
    switch (progress) {
    case PROGRESS_WAIT:
        return;
    case PROGRESS_ANSWERED:
        handle_answer(d, c);
        connection_finish(c);
        d->busy_count--;
        c->was_used = true;
        make_idle(d, c);
        return;
    case PROGRESS_LAST:
        handle_answer(d, c);
        break;
    case PROGRESS_UNSENT:
        queue_push_front(d, c->due_ns);
        break;
    case PROGRESS_BROKEN:
        tally_failed(d->run.tally, c->due_ns, d->run.now_ns, TALLY_BROKEN, 0);
        break;
    case PROGRESS_PROTOCOL:
        tally_failed(d->run.tally, c->due_ns, d->run.now_ns, TALLY_PROTOCOL, 0);
        break;
    }
    close_connection(d, c);
}

static void handle_opened(struct driver *d, struct connection *c, uint32_t events)
{
    int failure = 0;
    (void)getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &failure, &(socklen_t){sizeof failure});
    if (failure != 0) {
        close_connection(d, c);
        if (d->queue_count > 0)
            fail_waiting(d, TALLY_CONNECT);
    } else if (events & (EPOLLOUT | EPOLLHUP)) {
        d->opening_count--;
        make_idle(d, c);
    }
}

static void handle_event(struct driver *d, struct connection *c, uint32_t events)
{
    enum progress progress = PROGRESS_WAIT;
    char byte;
    switch (c->state) {
    case CONNECTION_CLOSED:
        return;
    case CONNECTION_OPENING:
        handle_opened(d, c, events);
        return;
    case CONNECTION_IDLE: /* the server closed the connection, or sent something unasked */
        if (recv(c->fd, &byte, 1, MSG_PEEK) >= 0 || errno != EAGAIN)
            close_connection(d, c);
        return;
    case CONNECTION_BUSY:
        if (events & EPOLLOUT)
            progress = connection_write(c);
        if (progress == PROGRESS_WAIT && (events & ~(uint32_t)EPOLLOUT))
            progress = connection_read(c);
        if (progress == PROGRESS_ANSWERED && (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)))
            progress = PROGRESS_LAST; /* no further event would report the end */
        handle_progress(d, c, progress);
        return;
    }
}

/* ---- time ---- */

/* Fails requests past their timeout, and gives up connections that do not open. */
static void sweep(struct driver *d)
{
    int64_t timeout_ns = d->config->timeout_ns, now_ns = d->run.now_ns;
    while (d->queue_count > 0 && now_ns - d->queue[d->queue_head] >= timeout_ns)
        fail_waiting(d, TALLY_TIMEOUT);
    for (int i = 0; i < d->config->connections; i++) {
        struct connection *c = &d->connections[i];
        bool is_late = c->state == CONNECTION_BUSY && now_ns - c->due_ns >= timeout_ns;
        if (is_late)
            tally_failed(d->run.tally, c->due_ns, now_ns, TALLY_TIMEOUT, 0);
        if (is_late || (c->state == CONNECTION_OPENING && now_ns - c->since_ns >= timeout_ns))
            close_connection(d, c);
    }
    send_waiting(d);
}

static void stop(struct driver *d)
{
    d->has_next = false;
    d->cost.was_stopped = true;
    while (d->queue_count > 0)
        fail_waiting(d, TALLY_INTERRUPTED);
    for (int i = 0; i < d->config->connections; i++)
        if (d->connections[i].state == CONNECTION_BUSY) {
            tally_failed(d->run.tally, d->connections[i].due_ns, d->run.now_ns, TALLY_INTERRUPTED,
                         0);
            close_connection(d, &d->connections[i]);
        }
}

static void take_arrivals(struct driver *d)
{
    for (int i = 0; i < ARRIVALS_MAX && d->has_next && d->next_due_ns <= run_now_ns(&d->run); i++) {
        int64_t due_ns = d->next_due_ns;
        tally_due(d->run.tally, due_ns, d->run.now_ns);
        if (d->queue_count < d->config->queue || d->idle_count > 0)
            queue_push(d, due_ns);
        else
            tally_failed(d->run.tally, due_ns, d->run.now_ns, TALLY_DROPPED, 0);
        send_waiting(d);
        d->has_next = arrivals_next(d->arrivals, &d->next_due_ns);
    }
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Sets the timer for the next thing to do. Returns the timeout of epoll_wait: 0 shortly before an
 * arrival. */
static int set_timer(struct driver *d)
{
    int64_t at_ns = d->progress_at_ns;
    if (d->queue_count > 0 || d->busy_count > 0)
        at_ns = least(at_ns, d->sweep_at_ns);
    if (d->has_next)
        at_ns = least(at_ns, d->next_due_ns - LOAD_SPIN_NS);
    if (at_ns <= run_now_ns(&d->run))
        return 0;
    if (at_ns != d->timer_at_ns) {
        int64_t clock_ns = at_ns + d->run.begin_ns;
        struct itimerspec when = {
            .it_value = {.tv_sec = clock_ns / second_ns, .tv_nsec = clock_ns % second_ns}};
        (void)timerfd_settime(d->timer, TFD_TIMER_ABSTIME, &when, NULL);
        d->timer_at_ns = at_ns;
    }
    return -1;
}

static void do_due_work(struct driver *d)
{
    if (run_now_ns(&d->run) >= d->sweep_at_ns) {
        sweep(d);
        d->sweep_at_ns = d->run.now_ns + sweep_ns;
    }
    if (d->run.now_ns >= d->progress_at_ns) {
        if (d->config->on_progress)
            d->config->on_progress(d->config->arg, d->run.now_ns, d->run.tally);
        d->progress_at_ns += progress_ns;
    }
}

static int loop(struct error *e, struct driver *d)
{
    struct epoll_event events[EVENTS_MAX];
    while (d->has_next || d->queue_count > 0 || d->busy_count > 0) {
        take_arrivals(d);
        int count = epoll_wait(d->epoll, events, EVENTS_MAX, set_timer(d));
        if (count < 0 && errno != EINTR)
            return error_set_errno(e, ERR_IO, errno, "cannot wait for the connections");
        (void)run_now_ns(&d->run);
        for (int i = 0; i < count; i++) {
            uint32_t tag = events[i].data.u32;
            if (tag == TAG_STOP && !d->cost.was_stopped)
                stop(d);
            else if (tag < (uint32_t)d->config->connections)
                handle_event(d, &d->connections[tag], events[i].events);
            send_waiting(d);
        }
        do_due_work(d);
    }
    return 0;
}

/* ---- setup ---- */

static int watch(struct error *e, struct driver *d, int fd, uint32_t tag)
{
    struct epoll_event event = {.events = EPOLLIN | EPOLLET, .data.u32 = tag};
    if (fd < 0 || epoll_ctl(d->epoll, EPOLL_CTL_ADD, fd, &event) < 0)
        return error_set_errno(e, ERR_IO, errno, "cannot watch a descriptor");
    return 0;
}

static int set_up(struct error *e, struct driver *d)
{
    size_t count = (size_t)d->config->connections;
    d->queue_capacity = d->config->queue + count + 1;
    d->queue = calloc(d->queue_capacity, sizeof *d->queue);
    d->connections = calloc(count, sizeof *d->connections);
    d->idle = calloc(count, sizeof *d->idle);
    d->closed = calloc(count, sizeof *d->closed);
    d->run.read_buffer = malloc(CONNECTION_READ_BYTES);
    if (!d->queue || !d->connections || !d->idle || !d->closed || !d->run.read_buffer)
        return error_set(e, ERR_NO_MEMORY, "out of memory");
    for (int i = d->config->connections - 1; i >= 0; i--)
        d->closed[d->closed_count++] = i;
    d->epoll = epoll_create1(EPOLL_CLOEXEC);
    d->timer = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
    int r = watch(e, d, d->timer, TAG_TIMER);
    if (r == 0 && d->config->stop_fd >= 0)
        r = watch(e, d, d->config->stop_fd, TAG_STOP);
    return r;
}

static void tear_down(struct driver *d)
{
    for (int i = 0; d->connections && i < d->config->connections; i++)
        if (d->connections[i].state != CONNECTION_CLOSED)
            close_connection(d, &d->connections[i]);
    if (d->epoll >= 0)
        close(d->epoll);
    if (d->timer >= 0)
        close(d->timer);
    free(d->queue);
    free(d->connections);
    free(d->idle);
    free(d->closed);
    free(d->run.read_buffer);
}

static double cpu_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static int start(struct error *e, struct driver *d)
{
    int64_t timeout_ms = d->config->timeout_ns / 1000000 + 1;
    int fd;
    int r = peer_connect(e, d->config->target, timeout_ms < INT_MAX ? (int)timeout_ms : INT_MAX,
                         &d->peer, &fd);
    if (r == 0 && add_socket(d, fd) < 0)
        r = error_set_errno(e, ERR_IO, errno, "cannot watch a connection");
    if (r < 0)
        return r;
    d->has_next = arrivals_next(d->arrivals, &d->next_due_ns);
    d->run.begin_ns = clock_boot_ns();
    d->timer_at_ns = -1;
    d->sweep_at_ns = sweep_ns;
    d->progress_at_ns = progress_ns;
    return 0;
}

int load_run(struct error *e, const struct load_config *config, struct arrivals *arrivals,
             struct tally *tally, struct load_cost *ret_cost)
{
    struct driver d = {.config = config, .arrivals = arrivals, .epoll = -1, .timer = -1};
    d.run.config = config;
    d.run.tally = tally;
    int r = set_up(e, &d);
    if (r == 0)
        r = start(e, &d);
    if (r == 0) {
        double cpu_s = cpu_seconds();
        r = loop(e, &d);
        d.cost.cpu_s = cpu_seconds() - cpu_s;
        d.cost.wall_s = (double)run_now_ns(&d.run) / 1e9;
    }
    tear_down(&d);
    if (r == 0)
        *ret_cost = d.cost;
    return r;
}
