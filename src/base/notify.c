#include "base/notify.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* A service manager that reads nothing for this time is given up, because the daemon has other
 * work. */
enum { SEND_TIMEOUT_S = 5 };

static int make_address(struct error *e, const char *socket, struct sockaddr_un *ret,
                        socklen_t *ret_length)
{
    size_t length = strlen(socket);
    if ((socket[0] != '/' && socket[0] != '@') || length < 2)
        return error_set(e, ERR_INVALID, "NOTIFY_SOCKET must be a path or @NAME, not '%s'", socket);
    if (length >= sizeof ret->sun_path)
        return error_set(e, ERR_INVALID,
                         "NOTIFY_SOCKET is longer than the path of a socket may be");
    *ret = (struct sockaddr_un){.sun_family = AF_UNIX};
    memcpy(ret->sun_path, socket, length);
    if (socket[0] == '@')
        ret->sun_path[0] = '\0';
    /* An abstract address has no terminating NUL, a path has one. */
    *ret_length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length + (socket[0] == '/'));
    return 0;
}

int notify_init(struct error *e, struct notifier *n, const char *socket_name)
{
    n->fd = -1;
    if (!socket_name || !*socket_name)
        return 0;
    struct sockaddr_un address;
    socklen_t length = 0;
    int r = make_address(e, socket_name, &address, &length);
    if (r < 0)
        return r;
    const struct timeval timeout = {.tv_sec = SEND_TIMEOUT_S};
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof timeout) < 0 ||
        connect(fd, (struct sockaddr *)&address, length) < 0) {
        r = error_set_errno(e, ERR_IO, errno, "cannot reach the service manager at %s",
                            socket_name);
        if (fd >= 0)
            close(fd);
        return r;
    }
    n->fd = fd;
    return 0;
}

void notify_done(struct notifier *n)
{
    if (n->fd >= 0)
        close(n->fd);
    n->fd = -1;
}

int notify_send(struct error *e, const struct notifier *n, const char *format, ...)
{
    if (n->fd < 0)
        return 0;
    char text[NOTIFY_TEXT_MAX + 1];
    va_list args;
    va_start(args, format);
    int length = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (length < 0 || length > NOTIFY_TEXT_MAX)
        return error_set(e, ERR_TOO_LARGE, "a notification is longer than %d bytes",
                         NOTIFY_TEXT_MAX);
    ssize_t sent;
    do
        sent = send(n->fd, text, (size_t)length, MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    if (sent < 0)
        return error_set_errno(e, ERR_IO, errno, "cannot notify the service manager");
    return 0;
}
