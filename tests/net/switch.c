/*
 * switch DIRECTORY SEED NAME...: a network for a test, which ends with this process.
 *
 * Every NAME becomes a network namespace with an interface eth0, 10.77.0.1, .2, … in this order,
 * and DIRECTORY/NAME refers to it: nsenter --net=DIRECTORY/NAME COMMAND. All frames pass through
 * this process, a switch with faulty cables: frames can be lost, delayed or doubled.
 *
 * Commands are lines written to the fifo DIRECTORY/cables:
 *
 *     cut NAME            drop all frames from and to NAME
 *     mute NAME           drop frames from NAME; deaf NAME: drop frames to NAME
 *     heal NAME           pass all frames again, without delay and once
 *     delay NAME MS       delay frames from and to NAME
 *     loss NAME PERCENT   lose some frames
 *     double NAME PERCENT deliver some frames twice
 *
 * The switch is ready when DIRECTORY/ready exists. It exits with 77 if namespaces or tap devices
 * are unavailable.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/list.h"
#include "base/rng.h"

enum {
    PORTS_MAX = 16,
    NAME_MAX_BYTES = 16,
    PATH_BYTES = 256,
    FRAME_BYTES = 1600,
    FRAMES_MAX = 4096, /* in flight; further frames are lost, as in any switch */
    SKIPPED = 77,
};

struct port {
    char name[NAME_MAX_BYTES];
    int tap_fd, namespace_fd;
    bool mute, deaf;
    long delay_ms, loss_percent, double_percent;
};

struct frame {
    struct list link; /* in the order of due_us */
    int64_t due_us;
    size_t to, length;
    char bytes[FRAME_BYTES];
};

struct net_switch {
    const char *directory;
    size_t port_count;
    struct port ports[PORTS_MAX];
    int commands_fd;
    char command[256]; /* start of an incomplete line */
    size_t command_length;
    struct rng rng;
    struct list frames;
    size_t frame_count;
};

static void die(int status, const char *what)
{
    /* A single line, because a skipped test is counted with its reason. */
    printf("switch: %s: %s\n", what, strerror(errno));
    exit(status);
}

/* ---- creating the network ---- */

/* Opens the tap driver; creates a device node if /dev has none. */
static int open_tun(const char *directory)
{
    char path[PATH_BYTES];
    int fd = open("/dev/net/tun", O_RDWR | O_CLOEXEC | O_NONBLOCK);
    if (fd >= 0 || errno != ENOENT)
        return fd;
    snprintf(path, sizeof path, "%s/tun", directory);
    if (mknod(path, S_IFCHR | 0600, makedev(10, 200)) < 0 && errno != EEXIST)
        return -1;
    return open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK);
}

static void set_up(int socket_fd, const char *interface)
{
    struct ifreq request = {.ifr_flags = IFF_UP | IFF_RUNNING};
    snprintf(request.ifr_name, sizeof request.ifr_name, "%s", interface);
    if (ioctl(socket_fd, SIOCSIFFLAGS, &request) < 0)
        die(SKIPPED, interface);
}

static void set_address(int socket_fd, unsigned long what, uint32_t address)
{
    struct ifreq request = {.ifr_name = "eth0"};
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(address)};
    memcpy(&request.ifr_addr, &in, sizeof in);
    if (ioctl(socket_fd, what, &request) < 0)
        die(SKIPPED, "an address for eth0");
}

/* Afterwards this process is in the new namespace. */
static void make_port(struct net_switch *s, const char *name)
{
    struct port *p = &s->ports[s->port_count];
    struct ifreq request = {.ifr_name = "eth0", .ifr_flags = IFF_TAP | IFF_NO_PI};
    char target[PATH_BYTES], path[PATH_BYTES];
    snprintf(p->name, sizeof p->name, "%s", name);
    if (unshare(CLONE_NEWNET) < 0)
        die(SKIPPED, "a network namespace");
    p->namespace_fd = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    p->tap_fd = open_tun(s->directory);
    if (p->namespace_fd < 0 || p->tap_fd < 0 || ioctl(p->tap_fd, TUNSETIFF, &request) < 0)
        die(SKIPPED, "a tap device");
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    set_up(fd, "lo");
    set_address(fd, SIOCSIFADDR, (uint32_t)(0x0a4d0001 + s->port_count));
    set_address(fd, SIOCSIFNETMASK, 0xffffff00);
    set_up(fd, "eth0");
    close(fd);
    snprintf(target, sizeof target, "/proc/%d/fd/%d", (int)getpid(), p->namespace_fd);
    snprintf(path, sizeof path, "%s/%s", s->directory, p->name);
    if (symlink(target, path) < 0)
        die(1, path);
    s->port_count++;
}

/* ---- frames ---- */

static bool happens(struct net_switch *s, long percent)
{
    return percent > 0 && (long)rng_below(&s->rng, 100) < percent;
}

static void deliver(const struct net_switch *s, size_t to, const char *bytes, size_t length)
{
    /* A full or closed interface loses the frame, like a real cable. */
    if (write(s->ports[to].tap_fd, bytes, length) < 0)
        return;
}

static void send_later(struct net_switch *s, size_t to, int64_t due_us, const char *bytes,
                       size_t length)
{
    struct frame *f = s->frame_count < FRAMES_MAX ? malloc(sizeof *f) : NULL;
    if (!f)
        return;
    f->due_us = due_us;
    f->to = to;
    f->length = length;
    memcpy(f->bytes, bytes, length);
    struct list *before = &s->frames;
    while (before->prev != &s->frames &&
           list_entry(before->prev, struct frame, link)->due_us > due_us)
        before = before->prev;
    list_insert_before(before, &f->link);
    s->frame_count++;
}

static void forward(struct net_switch *s, size_t from, size_t to, const char *bytes, size_t length)
{
    const struct port *a = &s->ports[from], *b = &s->ports[to];
    if (a->mute || b->deaf || happens(s, a->loss_percent) || happens(s, b->loss_percent))
        return;
    int copies = happens(s, a->double_percent) || happens(s, b->double_percent) ? 2 : 1;
    long delay_ms = a->delay_ms + b->delay_ms;
    for (int i = 0; i < copies; i++)
        if (delay_ms > 0)
            send_later(s, to, clock_boot_us() + delay_ms * 1000, bytes, length);
        else
            deliver(s, to, bytes, length);
}

/* Every port receives every frame; hosts drop frames for others. */
static void on_frame(struct net_switch *s, size_t from)
{
    char bytes[FRAME_BYTES];
    ssize_t length;
    while ((length = read(s->ports[from].tap_fd, bytes, sizeof bytes)) > 0)
        for (size_t to = 0; to < s->port_count; to++)
            if (to != from)
                forward(s, from, to, bytes, (size_t)length);
}

/* Returns the time until the next frame is due; -1: none is waiting. */
static int send_due(struct net_switch *s)
{
    while (!list_empty(&s->frames)) {
        struct frame *f = list_entry(s->frames.next, struct frame, link);
        int64_t wait_us = f->due_us - clock_boot_us();
        if (wait_us > 0)
            return (int)(wait_us / 1000) + 1;
        deliver(s, f->to, f->bytes, f->length);
        list_remove(&f->link);
        s->frame_count--;
        free(f);
    }
    return -1;
}

/* ---- commands ---- */

static void obey(struct net_switch *s, const char *line)
{
    char what[16] = "", name[NAME_MAX_BYTES] = "";
    long number = 0;
    struct port *p = NULL;
    int words = sscanf(line, "%15s %15s %ld", what, name, &number);
    for (size_t i = 0; i < s->port_count; i++)
        if (strcmp(s->ports[i].name, name) == 0)
            p = &s->ports[i];
    if (!p)
        fprintf(stderr, "switch: nobody of that name: %s\n", line);
    else if (strcmp(what, "heal") == 0)
        p->mute = p->deaf = false, p->delay_ms = p->loss_percent = p->double_percent = 0;
    else if (strcmp(what, "cut") == 0)
        p->mute = p->deaf = true;
    else if (strcmp(what, "mute") == 0)
        p->mute = true;
    else if (strcmp(what, "deaf") == 0)
        p->deaf = true;
    else if (strcmp(what, "delay") == 0 && words == 3)
        p->delay_ms = number;
    else if (strcmp(what, "loss") == 0 && words == 3)
        p->loss_percent = number;
    else if (strcmp(what, "double") == 0 && words == 3)
        p->double_percent = number;
    else
        fprintf(stderr, "switch: not a command: %s\n", line);
}

static void on_command(struct net_switch *s)
{
    ssize_t got = read(s->commands_fd, s->command + s->command_length,
                       sizeof s->command - 1 - s->command_length);
    if (got <= 0)
        return;
    s->command_length += (size_t)got;
    s->command[s->command_length] = '\0';
    char *line = s->command, *newline;
    while ((newline = strchr(line, '\n'))) {
        *newline = '\0';
        obey(s, line);
        line = newline + 1;
    }
    s->command_length -= (size_t)(line - s->command);
    memmove(s->command, line, s->command_length + 1);
    if (s->command_length == sizeof s->command - 1)
        s->command_length = 0; /* discard a line that is too long */
}

static void open_commands(struct net_switch *s)
{
    char path[PATH_BYTES];
    snprintf(path, sizeof path, "%s/cables", s->directory);
    /* Open for reading and writing, so that the end of a writer does not close the fifo. */
    if (mkfifo(path, 0600) < 0 ||
        (s->commands_fd = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK)) < 0)
        die(1, path);
    snprintf(path, sizeof path, "%s/ready", s->directory);
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0)
        die(1, path);
    close(fd);
}

int main(int argc, char **argv)
{
    static struct net_switch s;
    if (argc < 4 || argc - 3 > PORTS_MAX) {
        fprintf(stderr, "usage: switch DIRECTORY SEED NAME...\n");
        return 2;
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    signal(SIGPIPE, SIG_IGN);
    s.directory = argv[1];
    rng_seed(&s.rng, strtoull(argv[2], NULL, 10));
    list_init(&s.frames);
    for (int i = 3; i < argc; i++)
        make_port(&s, argv[i]);
    open_commands(&s);
    struct pollfd polled[PORTS_MAX + 1];
    for (;;) {
        int wait_ms = send_due(&s);
        for (size_t i = 0; i < s.port_count; i++)
            polled[i] = (struct pollfd){.fd = s.ports[i].tap_fd, .events = POLLIN};
        polled[s.port_count] = (struct pollfd){.fd = s.commands_fd, .events = POLLIN};
        if (poll(polled, s.port_count + 1, wait_ms) < 0 && errno != EINTR)
            die(1, "poll");
        if (polled[s.port_count].revents)
            on_command(&s);
        for (size_t i = 0; i < s.port_count; i++)
            if (polled[i].revents)
                on_frame(&s, i);
    }
}
