#include "node/supervisor/control_socket.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/str.h"
#include "model/workload.h"
#include "node/supervisor/process.h"

enum { HEAD_MAX = 64, SIGNAL_MAX = 64 };

static bool has_data(enum control_kind kind)
{
    return kind == CONTROL_INPUT || kind == CONTROL_LATENCY || kind == CONTROL_NOTE;
}

static bool parse_time(const char *word, enum control_time *ret)
{
    for (int time = 0; time < CONTROL_TIMES; time++)
        if (strcmp(word, control_time_word((enum control_time)time)) == 0) {
            *ret = (enum control_time)time;
            return true;
        }
    return false;
}

/* Returns whether the head is exactly the text written for this command. */
static bool is_canonical(const struct control_command *command, const char *head,
                         size_t head_length)
{
    struct control_command bare = *command;
    char packet[HEAD_MAX];
    bare.length = 0;
    size_t length = control_command_write(&bare, packet);
    if (has_data(command->kind))
        length--; /* newline before the data */
    return length == head_length && memcmp(packet, head, length) == 0;
}

static bool parse_advice(const char *head, struct control_command *command)
{
    struct control_advice *advice = &command->advice;
    struct control_followed *followed = &command->followed;
    if (sscanf(head, "advise %20" SCNu64 " %20" SCNu64 " %20" SCNu64, &advice->sequence,
               &advice->batch, &advice->checkpoints) == 3)
        command->kind = CONTROL_ADVISE;
    else if (sscanf(head, CONTROL_WORD_ADVICE " %20" SCNu64 " %20" SCNu64, &followed->sequence,
                    &followed->batch) == 2)
        command->kind = CONTROL_ADVICE;
    else
        return false;
    return advice->sequence <= CONTROL_SAMPLES_MAX && advice->batch <= CONTROL_SAMPLES_MAX &&
           advice->checkpoints <= CONTROL_SAMPLES_MAX;
}

int control_command_parse(const char *packet, size_t length, struct control_command *ret)
{
    char head[HEAD_MAX];
    const char *newline = memchr(packet, '\n', length);
    size_t head_length = newline ? (size_t)(newline - packet) : length;
    if (head_length >= sizeof head)
        return -ERR_PROTOCOL;
    memcpy(head, packet, head_length);
    head[head_length] = '\0';
    struct control_command command = {0};
    int end = 0;
    if (sscanf(head, "stop %" SCNd64, &command.grace_ms) == 1 && command.grace_ms >= 0 &&
        command.grace_ms <= WORKLOAD_TIME_MS_MAX)
        command.kind = CONTROL_STOP;
    else if (strcmp(head, "kill") == 0)
        command.kind = CONTROL_KILL;
    else if (sscanf(head, "signal %d", &command.signal) == 1 && command.signal > 0 &&
             command.signal <= SIGNAL_MAX)
        command.kind = CONTROL_SIGNAL;
    else if (newline && sscanf(head, "input %" SCNu64 " %d", &command.offset, &end) == 2)
        command.kind = CONTROL_INPUT;
    else if (strcmp(head, CONTROL_WORD_READY) == 0)
        command.kind = CONTROL_READY;
    else if (sscanf(head, CONTROL_WORD_PROGRESS " %20" SCNu64, &command.samples) == 1 &&
             command.samples <= CONTROL_SAMPLES_MAX && length <= head_length + 1)
        command.kind = CONTROL_PROGRESS;
    else if (parse_advice(head, &command) && length <= head_length + 1)
        ;
    else if (newline && parse_time(head, &command.time))
        command.kind = CONTROL_LATENCY;
    else if (newline && strcmp(head, CONTROL_WORD_NOTE) == 0)
        command.kind = CONTROL_NOTE;
    else if (strcmp(head, "watch") == 0 || strcmp(head, "watch endings") == 0)
        command.kind = CONTROL_WATCH;
    else
        return -ERR_PROTOCOL;
    command.end = end == 1;
    command.endings = strcmp(head, "watch endings") == 0;
    if (!is_canonical(&command, head, head_length))
        return -ERR_PROTOCOL;
    if (newline) {
        command.data = newline + 1;
        command.length = length - head_length - 1;
    }
    *ret = command;
    return 0;
}

size_t control_command_write(const struct control_command *command, char *packet)
{
    int n = 0;
    switch (command->kind) {
    case CONTROL_STOP:
        n = snprintf(packet, HEAD_MAX, "stop %" PRId64, command->grace_ms);
        break;
    case CONTROL_KILL:
        n = snprintf(packet, HEAD_MAX, "kill");
        break;
    case CONTROL_SIGNAL:
        n = snprintf(packet, HEAD_MAX, "signal %d", command->signal);
        break;
    case CONTROL_INPUT:
        n = snprintf(packet, HEAD_MAX, "input %" PRIu64 " %d\n", command->offset, command->end);
        break;
    case CONTROL_READY:
        n = snprintf(packet, HEAD_MAX, CONTROL_WORD_READY);
        break;
    case CONTROL_PROGRESS:
        n = snprintf(packet, HEAD_MAX, CONTROL_WORD_PROGRESS " %" PRIu64, command->samples);
        break;
    case CONTROL_LATENCY:
        n = snprintf(packet, HEAD_MAX, "%s\n", control_time_word(command->time));
        break;
    case CONTROL_NOTE:
        n = snprintf(packet, HEAD_MAX, CONTROL_WORD_NOTE "\n");
        break;
    case CONTROL_ADVICE:
        n = snprintf(packet, HEAD_MAX, CONTROL_WORD_ADVICE " %" PRIu64 " %" PRIu64,
                     command->followed.sequence, command->followed.batch);
        break;
    case CONTROL_ADVISE:
        n = snprintf(packet, HEAD_MAX, "advise %" PRIu64 " %" PRIu64 " %" PRIu64,
                     command->advice.sequence, command->advice.batch, command->advice.checkpoints);
        break;
    case CONTROL_WATCH:
        n = snprintf(packet, HEAD_MAX, "watch%s", command->endings ? " endings" : "");
        break;
    }
    if (!has_data(command->kind) || !command->length)
        return (size_t)n;
    memcpy(packet + n, command->data, command->length);
    return (size_t)n + command->length;
}

bool control_reply_parse_taken(const char *reply, uint64_t *ret_offset)
{
    uint64_t offset;
    char canonical[CONTROL_REPLY_MAX];
    if (sscanf(reply, "ok %20" SCNu64, &offset) != 1)
        return false;
    control_reply_write_taken(offset, canonical);
    if (!str_equal(canonical, reply))
        return false;
    *ret_offset = offset;
    return true;
}

void control_reply_write_taken(uint64_t offset, char reply[CONTROL_REPLY_MAX])
{
    snprintf(reply, CONTROL_REPLY_MAX, "ok %" PRIu64, offset);
}

bool control_notice_parse_speed(const char *notice, double *ret_samples_per_s)
{
    double samples_per_s;
    char canonical[CONTROL_REPLY_MAX];
    if (sscanf(notice, "speed %30lf", &samples_per_s) != 1 ||
        !(samples_per_s >= 0 && samples_per_s <= (double)CONTROL_SAMPLES_MAX))
        return false;
    control_notice_write_speed(samples_per_s, canonical);
    if (!str_equal(canonical, notice))
        return false;
    *ret_samples_per_s = samples_per_s;
    return true;
}

void control_notice_write_speed(double samples_per_s, char notice[CONTROL_REPLY_MAX])
{
    snprintf(notice, CONTROL_REPLY_MAX, "speed %.6g", samples_per_s);
}

bool control_notice_parse_ending(const char *notice, int64_t *ret_grace_ms)
{
    int64_t grace_ms;
    char canonical[CONTROL_REPLY_MAX];
    if (sscanf(notice, "ending %20" SCNd64, &grace_ms) != 1 || grace_ms < 0 ||
        grace_ms > WORKLOAD_TIME_MS_MAX)
        return false;
    control_notice_write_ending(grace_ms, canonical);
    if (!str_equal(canonical, notice))
        return false;
    *ret_grace_ms = grace_ms;
    return true;
}

void control_notice_write_ending(int64_t grace_ms, char notice[CONTROL_REPLY_MAX])
{
    snprintf(notice, CONTROL_REPLY_MAX, "ending %" PRId64, grace_ms);
}

static void write_short_latency(enum control_time time, const struct control_latency *latency,
                                char notice[CONTROL_REPLY_MAX])
{
    snprintf(notice, CONTROL_REPLY_MAX, "%s %" PRIu64 " %" PRIu64 " %" PRIu64,
             control_time_word(time), latency->us_5s, latency->us_10s, latency->requests_10s);
}

bool control_notice_parse_latency(const char *notice, enum control_time *ret_time,
                                  struct control_latency *ret)
{
    struct control_latency latency = {0};
    enum control_time time;
    char word[16], canonical[CONTROL_REPLY_MAX];
    int count = sscanf(
        notice, "%15s %20" SCNu64 " %20" SCNu64 " %20" SCNu64 " %20" SCNu64 " %20" SCNu64, word,
        &latency.us_5s, &latency.us_10s, &latency.requests_10s, &latency.answered, &latency.late);
    if ((count != 4 && count != 6) || !parse_time(word, &time))
        return false;
    /* The supervisor of an earlier gpumux does not count answers. */
    if (count == 4)
        write_short_latency(time, &latency, canonical);
    else
        control_notice_write_latency(time, &latency, canonical);
    if (!str_equal(canonical, notice))
        return false;
    *ret_time = time;
    *ret = latency;
    return true;
}

void control_notice_write_latency(enum control_time time, const struct control_latency *latency,
                                  char notice[CONTROL_REPLY_MAX])
{
    char start[CONTROL_REPLY_MAX];
    write_short_latency(time, latency, start);
    snprintf(notice, CONTROL_REPLY_MAX, "%.160s %" PRIu64 " %" PRIu64, start, latency->answered,
             latency->late);
}

bool control_notice_parse_followed(const char *notice, struct control_followed *ret)
{
    struct control_followed followed;
    char canonical[CONTROL_REPLY_MAX];
    if (sscanf(notice, CONTROL_WORD_ADVICE " %20" SCNu64 " %20" SCNu64, &followed.sequence,
               &followed.batch) != 2)
        return false;
    control_notice_write_followed(&followed, canonical);
    if (!str_equal(canonical, notice))
        return false;
    *ret = followed;
    return true;
}

void control_notice_write_followed(const struct control_followed *followed,
                                   char notice[CONTROL_REPLY_MAX])
{
    snprintf(notice, CONTROL_REPLY_MAX, CONTROL_WORD_ADVICE " %" PRIu64 " %" PRIu64,
             followed->sequence, followed->batch);
}

void control_reply_write_advice(const struct control_advice *advice, char reply[CONTROL_REPLY_MAX])
{
    snprintf(reply, CONTROL_REPLY_MAX, CONTROL_OK " %" PRIu64 " %" PRIu64 " %" PRIu64,
             advice->sequence, advice->batch, advice->checkpoints);
}

/* Makes the address through /proc/self/fd, because an address has only 108 bytes and a state
 * directory may be deep. */
static void make_address(int directory_fd, struct sockaddr_un *address)
{
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    snprintf(address->sun_path, sizeof address->sun_path, "/proc/self/fd/%d/%s", directory_fd,
             CONTROL_SOCKET_NAME);
}

int control_socket_listen(struct error *e, int directory_fd, struct control_socket *ret)
{
    struct sockaddr_un address;
    make_address(directory_fd, &address);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof address) < 0 ||
        listen(fd, CONTROL_PEERS_MAX) < 0) {
        int failed = errno;
        if (fd >= 0)
            close(fd);
        return error_set_errno(e, ERR_IO, failed, "%s cannot be made", CONTROL_SOCKET_NAME);
    }
    *ret = (struct control_socket){.listen_fd = fd};
    for (int i = 0; i < CONTROL_PEERS_MAX; i++)
        ret->peers[i] = -1;
    return 0;
}

static void drop_peer(struct control_socket *c, int peer)
{
    if (c->peers[peer] >= 0)
        close(c->peers[peer]);
    c->peers[peer] = -1;
    c->watches[peer] = c->watches_endings[peer] = false;
}

/* Returns whether the peer is outside the task. A process that has ended counts as the task's;
 * otherwise the task could leave connections that nobody may replace. */
static bool comes_from_outside(int fd)
{
    struct ucred peer;
    socklen_t length = sizeof peer;
    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 &&
           process_start(peer.pid) != 0 && !process_descends(peer.pid, getpid());
}

/* Returns a free slot; -1: none. */
static int make_room(struct control_socket *c)
{
    int oldest = -1;
    for (int i = 0; i < CONTROL_PEERS_MAX; i++) {
        if (c->peers[i] < 0)
            return i;
        if (!c->is_outsider[i] && (oldest < 0 || c->arrivals[i] < c->arrivals[oldest]))
            oldest = i;
    }
    if (oldest >= 0)
        drop_peer(c, oldest);
    return oldest;
}

static void add_peer(struct control_socket *c, int peer, int fd, bool is_outsider)
{
    c->peers[peer] = fd;
    c->is_outsider[peer] = is_outsider;
    c->arrivals[peer] = ++c->arrival_last;
}

bool control_socket_adopt(struct control_socket *c, int fd)
{
    int peer = make_room(c);
    if (peer < 0)
        close(fd);
    else
        add_peer(c, peer, fd, true);
    return peer >= 0;
}

bool control_socket_accept(struct control_socket *c)
{
    int fd = accept4(c->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0)
        return errno == EAGAIN || errno == EINTR;
    bool is_outsider = comes_from_outside(fd);
    int peer = make_room(c);
    if (peer < 0) {
        close(fd);
        return true;
    }
    add_peer(c, peer, fd, is_outsider);
    return true;
}

int control_socket_receive(struct control_socket *c, int peer, char packet[CONTROL_PACKET_MAX + 1])
{
    ssize_t n = recv(c->peers[peer], packet, CONTROL_PACKET_MAX + 1, MSG_TRUNC);
    /* A peer that closed without reading a reply; its last packets follow this error. */
    if (n < 0 && errno == ECONNRESET)
        n = recv(c->peers[peer], packet, CONTROL_PACKET_MAX + 1, MSG_TRUNC);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return 0;
    if (n <= 0 || n > CONTROL_PACKET_MAX) {
        drop_peer(c, peer);
        return -1;
    }
    c->arrivals[peer] = ++c->arrival_last;
    return (int)n;
}

bool control_socket_reply(struct control_socket *c, int peer, const char *text)
{
    return c->peers[peer] >= 0 && send(c->peers[peer], text, strlen(text), MSG_NOSIGNAL) >= 0;
}

void control_socket_notify(struct control_socket *c, const char *text)
{
    for (int i = 0; i < CONTROL_PEERS_MAX; i++)
        if (c->watches[i])
            (void)control_socket_reply(c, i, text);
}

bool control_socket_notify_ending(struct control_socket *c, int64_t grace_ms)
{
    bool told = false;
    char notice[CONTROL_REPLY_MAX];
    control_notice_write_ending(grace_ms, notice);
    for (int i = 0; i < CONTROL_PEERS_MAX; i++)
        if (c->watches_endings[i] && control_socket_reply(c, i, notice))
            told = true;
    return told;
}

int control_socket_connect(struct error *e, int directory_fd, uint32_t owner, int *ret_fd)
{
    /* The user owns the directory: a link in it must not lead the agent to another socket. */
    struct stat st;
    if (fstatat(directory_fd, CONTROL_SOCKET_NAME, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
        !S_ISSOCK(st.st_mode))
        return error_set(e, ERR_UNAVAILABLE, "there is no %s", CONTROL_SOCKET_NAME);
    struct sockaddr_un address;
    make_address(directory_fd, &address);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    struct ucred peer;
    socklen_t length = sizeof peer;
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof address) < 0 ||
        getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) < 0) {
        int failed = errno;
        if (fd >= 0)
            close(fd);
        return error_set_errno(e, ERR_UNAVAILABLE, failed, "nobody answers at %s",
                               CONTROL_SOCKET_NAME);
    }
    if (peer.uid != owner) {
        close(fd);
        return error_set(e, ERR_DENIED, "%s belongs to uid %u", CONTROL_SOCKET_NAME, peer.uid);
    }
    *ret_fd = fd;
    return 0;
}
