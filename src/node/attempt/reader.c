#include <event2/event.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "node/agent_internal.h"
#include "node/supervisor/output.h"

enum { LOOK_EVERY_MS = 20, WAIT_MAX_MS = 60000 };

/* Opens the attempt's directory, before or after settling. Returns -1 on failure. */
static int open_directory(const struct agent *a, uint64_t workload, int attempt)
{
    char name[ATTEMPT_NAME_MAX];
    attempt_name(workload, attempt, name);
    int flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
    int fd = openat(a->attempts_fd, name, flags);
    return fd >= 0 ? fd : openat(a->finished_fd, name, flags);
}

static void answer(struct agent *a, const struct reader *reader, struct nodemsg *msg)
{
    msg->type = NODEMSG_LOG;
    msg->request = reader->request;
    msg->workload = reader->workload;
    msg->attempt = reader->attempt;
    link_send(a, msg);
}

static void refuse(struct agent *a, const struct reader *reader, int code, const char *text)
{
    struct nodemsg msg = {.result = code, .text = text, .offset = reader->offset};
    answer(a, reader, &msg);
}

/* Answers a reader if there is output, or with `now` in any case. Returns whether it answered. */
static bool serve(struct agent *a, const struct reader *reader, bool now)
{
    /* Checked first: if the attempt is over now, its output is complete before the read below. */
    const struct run *r = run_find(a, reader->workload, reader->attempt);
    bool over = !r || !run_is_alive(r);
    struct error e = {0};
    struct stat st;
    int fd = open_directory(a, reader->workload, reader->attempt);
    if (fd < 0 || fstat(fd, &st) < 0) {
        if (fd >= 0)
            close(fd);
        refuse(a, reader, -ERR_GONE, "its output is not, or no longer, kept");
        return true;
    }
    char *bytes = malloc(reader->max);
    struct output_slice slice = {.offset = reader->offset};
    int result = bytes ? output_read(&e, fd, st.st_uid, reader->offset, bytes, reader->max, &slice)
                       : error_set(&e, ERR_NO_MEMORY, "out of memory");
    close(fd);
    bool answered = true;
    if (result < 0) {
        refuse(a, reader, result, e.text);
    } else if (slice.length || over || now) {
        struct nodemsg msg = {.offset = slice.offset,
                              .data = bytes,
                              .length = slice.length,
                              .end = over && slice.length == 0};
        answer(a, reader, &msg);
    } else {
        answered = false;
    }
    free(bytes);
    return answered;
}

static void look_soon(struct agent *a)
{
    const struct timeval wait = {.tv_usec = LOOK_EVERY_MS * 1000};
    if (!list_empty(&a->readers) && a->reader_timer)
        event_add(a->reader_timer, &wait);
}

static void drop(struct agent *a, struct reader *reader)
{
    list_remove(&reader->link);
    a->reader_count--;
    free(reader);
}

void reader_wake(struct agent *a)
{
    int64_t now_ms = clock_boot_ms();
    list_for_each_safe (it, &a->readers) {
        struct reader *reader = list_entry(it, struct reader, link);
        if (serve(a, reader, now_ms >= reader->until_ms))
            drop(a, reader);
    }
    look_soon(a);
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    reader_wake(arg);
}

void reader_ask(struct agent *a, const struct nodemsg *msg)
{
    struct reader wanted = {.request = msg->request,
                            .workload = msg->workload,
                            .attempt = msg->attempt,
                            .offset = msg->offset,
                            .max = msg->max && msg->max < NODEMSG_DATA_MAX ? msg->max
                                                                           : NODEMSG_DATA_MAX};
    if (serve(a, &wanted, msg->wait_ms <= 0))
        return;
    if (!a->reader_timer)
        a->reader_timer = evtimer_new(a->base, on_timer, a);
    struct reader *reader =
        a->reader_count < AGENT_READERS_MAX && a->reader_timer ? malloc(sizeof *reader) : NULL;
    if (!reader) { /* no memory to wait: an empty answer makes control ask again */
        serve(a, &wanted, true);
        return;
    }
    *reader = wanted;
    int64_t wait_ms = msg->wait_ms < WAIT_MAX_MS ? msg->wait_ms : WAIT_MAX_MS;
    reader->until_ms = clock_boot_ms() + wait_ms;
    list_append(&a->readers, &reader->link);
    a->reader_count++;
    look_soon(a);
}

void reader_done(struct agent *a)
{
    list_for_each_safe (it, &a->readers)
        drop(a, list_entry(it, struct reader, link));
    if (a->reader_timer)
        event_free(a->reader_timer);
    a->reader_timer = NULL;
}
