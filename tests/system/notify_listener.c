/*
 * notify_listener SOCKET FILE: a service manager that only listens. Appends every datagram to the
 * socket (a path, or @NAME in the abstract namespace) to FILE, followed by an empty line. Creates
 * FILE when it starts to listen. Runs until it is killed.
 */
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t length = argc == 3 ? strlen(argv[1]) : 0;
    if (length == 0 || length >= sizeof address.sun_path) {
        fprintf(stderr, "usage: notify_listener SOCKET FILE\n");
        return 2;
    }
    memcpy(address.sun_path, argv[1], length);
    if (argv[1][0] == '@')
        address.sun_path[0] = '\0';
    socklen_t address_length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length);
    int socket_fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (socket_fd < 0 || bind(socket_fd, (struct sockaddr *)&address, address_length) < 0) {
        perror(argv[1]);
        return 1;
    }
    int file_fd = open(argv[2], O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    char text[4096];
    ssize_t n;
    while (file_fd >= 0 && (n = recv(socket_fd, text, sizeof text - 2, 0)) >= 0) {
        memcpy(text + n, "\n\n", 2);
        if (write(file_fd, text, (size_t)n + 2) < 0)
            break;
    }
    perror(argv[2]);
    return 1;
}
