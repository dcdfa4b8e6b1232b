#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "abi/control.h"
#include "client/client_internal.h"

enum { DIRECTORY_MAX = 4096 };

/* A path that is too long for a socket's address is reached through its directory, which is opened
 * into *directory_fd. Returns -ENAMETOOLONG, or the reason why the directory cannot be opened. */
static int make_address(const char *path, struct sockaddr_un *address, int *directory_fd)
{
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    size_t length = strlen(path);
    if (length < sizeof address->sun_path) {
        memcpy(address->sun_path, path, length);
        return 0;
    }
    char directory[DIRECTORY_MAX];
    const char *slash = strrchr(path, '/');
    size_t directory_length = slash ? (size_t)(slash - path) : 0;
    if (directory_length == 0 || directory_length >= sizeof directory)
        return -ENAMETOOLONG;
    memcpy(directory, path, directory_length);
    directory[directory_length] = '\0';
    int fd = open(directory, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    int written =
        snprintf(address->sun_path, sizeof address->sun_path, "/proc/self/fd/%d%s", fd, slash);
    if (written < 0 || (size_t)written >= sizeof address->sun_path) {
        close(fd);
        return -ENAMETOOLONG;
    }
    *directory_fd = fd;
    return 0;
}

int gpumux_client_connect(const char *path, int *ret_fd)
{
    struct sockaddr_un address;
    int directory_fd = -1;
    int r = make_address(path, &address, &directory_fd);
    if (r < 0)
        return r;
    /* Not blocking: when the queue of the supervisor is full, the result is -EAGAIN. */
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof address) < 0)
        r = -errno;
    if (directory_fd >= 0)
        close(directory_fd);
    if (r < 0) {
        if (fd >= 0)
            close(fd);
        return r;
    }
    *ret_fd = fd;
    return 0;
}

uint64_t gpumux_client_clock_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 * GPUMUX_CLIENT_MS_NS + (uint64_t)now.tv_nsec;
}

int64_t gpumux_client_clock_ms(void)
{
    return (int64_t)(gpumux_client_clock_ns() / GPUMUX_CLIENT_MS_NS);
}

static int wait_for_ok(int fd, int wait_ms)
{
    int64_t until_ms = gpumux_client_clock_ms() + wait_ms;
    struct pollfd answer = {.fd = fd, .events = POLLIN};
    int ready;
    do {
        int64_t left_ms = until_ms - gpumux_client_clock_ms();
        ready = poll(&answer, 1, left_ms > 0 ? (int)left_ms : 0);
    } while (ready < 0 && errno == EINTR);
    if (ready <= 0)
        return ready < 0 ? -errno : -ETIMEDOUT;
    char reply[CONTROL_REPLY_MAX];
    ssize_t length = recv(fd, reply, sizeof reply, 0);
    if (length < 0)
        return -errno;
    bool ok =
        length == (ssize_t)strlen(CONTROL_OK) && memcmp(reply, CONTROL_OK, (size_t)length) == 0;
    return ok ? 0 : -EPROTO;
}

int gpumux_client_send(const char *path, const char *command, int wait_ms)
{
    int fd;
    int r = gpumux_client_connect(path, &fd);
    if (r < 0)
        return r;
    if (send(fd, command, strlen(command), MSG_NOSIGNAL) < 0)
        r = -errno;
    else if (wait_ms > 0)
        r = wait_for_ok(fd, wait_ms);
    close(fd);
    return r;
}
