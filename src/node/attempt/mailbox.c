#include <event2/event.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "node/agent_internal.h"

enum { INPUT_AGAIN_MS = 20, PATIENCE_MS = 5000 };

void mailbox_init(struct mailbox *m)
{
    *m = (struct mailbox){.fd = -1};
    list_init(&m->letters);
}

static struct letter *first_letter(struct mailbox *m)
{
    return list_empty(&m->letters) ? NULL : list_entry(m->letters.next, struct letter, link);
}

static void drop_letter(struct mailbox *m, struct letter *l)
{
    list_remove(&l->link);
    m->count--;
    free(l->data);
    free(l);
}

static bool is_end(enum control_kind kind)
{
    return kind == CONTROL_STOP || kind == CONTROL_KILL;
}

static void finish_letter(struct run *r, struct letter *l, int result, const char *text)
{
    bool ends = is_end(l->command.kind);
    if (l->request)
        link_done(r->agent, l->request, result, text);
    drop_letter(&r->mailbox, l);
    if (ends)
        run_tell_kind(r, ATTEMPT_HEARD);
}

/* Closes the connection; all commands but CONTROL_WATCH stay. */
void mailbox_close(struct run *r)
{
    struct mailbox *m = &r->mailbox;
    list_for_each_safe (it, &m->letters) {
        struct letter *l = list_entry(it, struct letter, link);
        if (l->command.kind == CONTROL_WATCH)
            drop_letter(m, l);
    }
    if (m->readable)
        event_free(m->readable);
    if (m->again)
        event_free(m->again);
    if (m->fd >= 0)
        close(m->fd);
    m->readable = m->again = NULL;
    m->fd = -1;
    m->waiting = m->heard = false;
}

void mailbox_done(struct run *r)
{
    mailbox_close(r);
    for (struct letter *l; (l = first_letter(&r->mailbox)); drop_letter(&r->mailbox, l))
        if (l->request)
            link_done(r->agent, l->request, -ERR_CONFLICT, "it has ended");
}

/* Sends the next packet of a command; input is sent in pieces. Returns false if the socket is
 * full. */
static bool send_letter(struct mailbox *m, const struct letter *l)
{
    struct control_command command = l->command;
    if (command.kind == CONTROL_INPUT) {
        size_t done = (size_t)(l->taken - l->command.offset);
        command.offset = l->taken;
        command.data = l->data + done;
        command.length = l->command.length - done;
        if (command.length > CONTROL_DATA_MAX) {
            command.length = CONTROL_DATA_MAX;
            command.end = false;
        }
    }
    char *packet = malloc(CONTROL_PACKET_MAX);
    if (!packet)
        return false;
    size_t length = control_command_write(&command, packet);
    ssize_t n = send(m->fd, packet, length, MSG_NOSIGNAL | MSG_DONTWAIT);
    free(packet);
    return n == (ssize_t)length;
}

static void send_next(struct run *r)
{
    struct mailbox *m = &r->mailbox;
    struct letter *l = first_letter(m);
    if (m->fd < 0 || m->waiting || !l)
        return;
    m->waiting = send_letter(m, l);
    if (!m->waiting && m->again) {
        const struct timeval wait = {.tv_usec = INPUT_AGAIN_MS * 1000};
        event_add(m->again, &wait);
    }
}

/* Handles input taken up to `taken`, possibly not all of it. */
static void input_taken(struct run *r, struct letter *l, uint64_t taken)
{
    uint64_t end = l->command.offset + l->command.length;
    bool progress = taken > l->taken;
    int64_t now_ms = clock_boot_ms();
    if (taken >= end) {
        finish_letter(r, l, 0, "");
        send_next(r);
        return;
    }
    if (progress) {
        l->taken = taken < l->command.offset ? l->command.offset : taken;
        l->give_up_ms = now_ms + PATIENCE_MS;
        send_next(r);
        return;
    }
    if (now_ms >= l->give_up_ms) {
        finish_letter(r, l, -ERR_UNAVAILABLE, "it does not read its input now: send it again");
        send_next(r);
        return;
    }
    const struct timeval wait = {.tv_usec = INPUT_AGAIN_MS * 1000};
    event_add(r->mailbox.again, &wait);
}

static void take_reply(struct run *r, const char *reply)
{
    struct letter *l = first_letter(&r->mailbox);
    if (!r->mailbox.waiting || !l)
        return;
    r->mailbox.waiting = false;
    uint64_t taken;
    if (l->command.kind == CONTROL_INPUT && control_reply_parse_taken(reply, &taken)) {
        input_taken(r, l, taken);
        return;
    }
    bool is_refused = str_starts_with(reply, "error ");
    if (is_refused && l->command.kind == CONTROL_WATCH && l->command.endings)
        l->command.endings = false; /* an older supervisor without endings */
    else if (is_refused)
        finish_letter(r, l, -ERR_CONFLICT, reply + strlen("error "));
    else
        finish_letter(r, l, 0, "");
    send_next(r);
}

static void on_again(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    send_next(arg);
}

/* Handles "ending": its time limit, its lease, or the end of its main process. */
static void end_by_its_word(struct run *r, int64_t grace_ms)
{
    const struct attempt_stop stop = {.reason = STOP_REASON_SUPERVISOR, .grace_ms = grace_ms};
    run_stop(r, &stop);
}

static void on_readable(evutil_socket_t fd, short what, void *arg)
{
    (void)what;
    struct run *r = arg;
    char reply[CONTROL_REPLY_MAX];
    ssize_t n = 0;
    bool only_numbers = true;
    while (r->mailbox.fd >= 0 && (n = recv(fd, reply, sizeof reply - 1, MSG_DONTWAIT)) > 0) {
        reply[n] = '\0';
        r->mailbox.heard = true;
        if (control_notice_parse_speed(reply, &r->samples_per_s)) {
            /* The speed covers at most the time since the previous notice. */
            r->speed_since_ms = r->speed_at_ms;
            r->speed_at_ms = clock_boot_ms();
            continue;
        }
        enum control_time time;
        struct control_latency latency;
        if (control_notice_parse_latency(reply, &time, &latency)) {
            r->latency[time] = latency;
            r->latency_at_ms[time] = clock_boot_ms();
            continue;
        }
        if (control_notice_parse_followed(reply, &r->followed))
            continue;
        only_numbers = false;
        int64_t grace_ms;
        if (control_notice_parse_ending(reply, &grace_ms))
            end_by_its_word(r, grace_ms);
        else if (!str_equal(reply, CONTROL_CHANGED))
            take_reply(r, reply);
    }
    if (r->mailbox.fd >= 0 && (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))) {
        r->mailbox.was_cut = true;
        mailbox_close(r);
    }
    if (!only_numbers || r->mailbox.fd < 0)
        run_look(r);
}

bool mailbox_connect(struct run *r)
{
    struct mailbox *m = &r->mailbox;
    bool waits = m->was_cut;
    m->was_cut = false;
    if (waits || control_socket_connect(NULL, r->directory_fd, r->uid, &m->fd) < 0)
        return false;
    struct event_base *base = r->agent->base;
    m->readable = event_new(base, m->fd, EV_READ | EV_PERSIST, on_readable, r);
    m->again = evtimer_new(base, on_again, r);
    if (!m->readable || !m->again || event_add(m->readable, NULL) < 0) {
        mailbox_close(r);
        return false;
    }
    /* The watch is the first command: notices report later changes, and run_look() finds earlier
     * ones. */
    struct letter *watch = calloc(1, sizeof *watch);
    if (!watch) {
        mailbox_close(r);
        return false;
    }
    watch->command = (struct control_command){.kind = CONTROL_WATCH, .endings = true};
    list_prepend(&m->letters, &watch->link);
    m->count++;
    send_next(r);
    return true;
}

/* Replaces an earlier stop, kill or advice that was not sent yet. */
static bool replace_unsent(struct mailbox *m, const struct control_command *command)
{
    list_for_each (it, &m->letters) {
        struct letter *l = list_entry(it, struct letter, link);
        if (l->command.kind != command->kind || (m->waiting && l == first_letter(m)))
            continue;
        l->command.grace_ms = command->grace_ms;
        l->command.advice = command->advice;
        return true;
    }
    return false;
}

int mailbox_post(struct run *r, uint64_t request, const struct control_command *command)
{
    struct mailbox *m = &r->mailbox;
    bool ends = is_end(command->kind);
    if ((ends || command->kind == CONTROL_ADVISE) && replace_unsent(m, command))
        return 0;
    struct letter *l = ends || m->count < MAILBOX_LETTERS_MAX ? calloc(1, sizeof *l) : NULL;
    if (!l)
        return -ERR_BUSY;
    l->request = request;
    l->command = *command;
    l->command.data = NULL;
    l->taken = command->offset;
    l->give_up_ms = clock_boot_ms() + PATIENCE_MS;
    if (command->length) {
        l->data = malloc(command->length);
        if (!l->data) {
            free(l);
            return -ERR_BUSY;
        }
        memcpy(l->data, command->data, command->length);
    }
    /* A stop or kill does not wait behind input that the task may never read. */
    struct letter *first = first_letter(m);
    if (command->kind != CONTROL_INPUT && first && !m->waiting)
        list_prepend(&m->letters, &l->link);
    else if (command->kind != CONTROL_INPUT && first)
        list_insert_before(first->link.next, &l->link);
    else
        list_append(&m->letters, &l->link);
    m->count++;
    send_next(r);
    return 0;
}
