/*
 * nvidia-cuda-mps-server, emulated: a process that is the MPS server of the devices it sees. The
 * control daemon starts the server with the number of a socket as its only argument, and sends
 * requests over that socket: one line each, answered by text that ends with a NUL.
 *
 *   (at the start)   "ready 0 2 ", the devices by their index in the file
 *   admit PID        a new client: a CUDA result
 *   status           ACTIVE or FAULT
 *   count            contexts of clients
 *   clients, devices, ps, terminate PID      texts for the commands of the same meaning
 *
 * The server watches its clients: it notices the death of a client at once, since the client's
 * neighbours may have to fail with it. The server ends when the socket does.
 */
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/str.h"
#include "emu/abi/cuda_abi.h"
#include "emu/device/client.h"
#include "emu/device/fault.h"
#include "emu/device/mps.h"
#include "emu/device/uuid.h"
#include "emu/mps/mps_log.h"
#include "emu/mps/mps_protocol.h"

enum {
    WATCHED_MAX = 1024, /* watched processes; the death of others is noticed at the next check */
    LOOK_MS = 100,
    REPLY_BYTES_MAX = 256 * 1024,
};

struct server {
    int fd; /* socket of the daemon */
    FILE *log;
    struct mapping mapping;
    struct device devices[EMU_DEVICES_MAX];
    unsigned device_count;
    unsigned watched_count;
    struct pollfd polled[1 + WATCHED_MAX]; /* the daemon, then a pidfd for each process */
    char line[MPS_LINE_BYTES_MAX];
    size_t line_length;
};

static void see_device(void *argument, unsigned index)
{
    struct server *server = argument;
    device_init(&server->devices[server->device_count++], &server->mapping, index);
}

static bool answer(struct server *server, const char *text)
{
    size_t bytes = strlen(text) + 1;
    return send(server->fd, text, bytes, MSG_NOSIGNAL) == (ssize_t)bytes;
}

static void look_after(struct server *server)
{
    for (unsigned i = 0; i < server->device_count; i++) {
        device_lock_now(&server->devices[i]);
        client_reap(&server->devices[i]);
        device_unlock(&server->devices[i]);
    }
}

static bool is_faulted(struct server *server)
{
    bool faulted = false;
    for (unsigned i = 0; i < server->device_count; i++) {
        device_lock(&server->devices[i]);
        faulted = faulted || server->devices[i].state->mps.state == EMU_MPS_FAULTED;
        device_unlock(&server->devices[i]);
    }
    return faulted;
}

static void admit(struct server *server, pid_t pid, struct str *reply)
{
    if (is_faulted(server)) {
        str_printf(reply, "%d", CUDA_ERROR_MPS_SERVER_NOT_READY);
        return;
    }
    if (server->watched_count < WATCHED_MAX) {
        int fd = (int)syscall(SYS_pidfd_open, pid, 0);
        if (fd >= 0)
            server->polled[1 + server->watched_count++] =
                (struct pollfd){.fd = fd, .events = POLLIN};
    }
    mps_log(server->log, "Server", "Client %d connected", (int)pid);
    str_printf(reply, "%d", CUDA_SUCCESS);
}

/* Returns the number of the process's PID namespace; 0: unknown. */
static unsigned long pid_namespace(int32_t pid)
{
    char path[64];
    struct stat status;
    snprintf(path, sizeof(path), "/proc/%d/ns/pid", pid);
    return stat(path, &status) == 0 ? (unsigned long)status.st_ino : 0;
}

static void read_command(int32_t pid, char *command, size_t size)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/%d/cmdline", pid);
    FILE *file = fopen(path, "re");
    size_t length = file ? fread(command, 1, size - 1, file) : 0;
    command[length] = '\0';
    if (file)
        fclose(file);
}

enum listing { LIST_PIDS, LIST_DEVICES, LIST_TABLE };

static void list_client(struct server *server, const struct device *device, int32_t pid,
                        enum listing listing, struct str *reply)
{
    (void)server;
    if (listing == LIST_PIDS) {
        str_printf(reply, "%d\n", pid);
    } else if (listing == LIST_DEVICES) {
        str_printf(reply, "%d.1\n", pid);
    } else {
        char uuid[UUID_TEXT_MAX], command[64];
        read_command(pid, command, sizeof(command));
        str_printf(reply, "%-10d%-10d%-15d%-26.22s%-15lu%-15s\n", pid, 1, (int)getpid(),
                   uuid_format(device->state->uuid, uuid), pid_namespace(pid), command);
    }
}

static void list_clients(struct server *server, enum listing listing, struct str *reply)
{
    look_after(server);
    for (unsigned d = 0; d < server->device_count; d++) {
        struct device *device = &server->devices[d];
        int32_t pids[EMU_CLIENTS_MAX];
        unsigned count = 0;
        device_lock(device);
        for (unsigned i = 0; i < device->state->clients_high; i++) {
            if (mps_is_client(device, &device->state->clients[i]))
                pids[count++] = device->state->clients[i].pid;
        }
        device_unlock(device);
        if (count > 0 && listing == LIST_DEVICES)
            str_printf(reply, "[%u] %02x:00.0, %s\n", d, device->index + 1,
                       device->state->model.name);
        if (count > 0 && listing == LIST_TABLE && reply->length == 0)
            str_printf(reply, "%-10s%-10s%-15s%-26s%-15s%-15s\n", "PID", "ID", "SERVER", "DEVICE",
                       "NAMESPACE", "COMMAND");
        for (unsigned i = 0; i < count; i++)
            list_client(server, device, pids[i], listing, reply);
    }
}

static void terminate(struct server *server, int32_t pid, struct str *reply)
{
    bool found = false;
    for (unsigned i = 0; i < server->device_count; i++) {
        struct device *device = &server->devices[i];
        device_lock_now(device);
        int slot = mps_find_client(device, pid);
        if (slot != DEVICE_NO_SLOT)
            fault_end_client(device, (unsigned)slot, CUDA_ERROR_MPS_CLIENT_TERMINATED);
        found = found || slot != DEVICE_NO_SLOT;
        device_unlock(device);
    }
    mps_log(server->log, "Server", "Termination of client %d: %s", pid,
            found ? "done" : "no such client");
    str_printf(reply, "%d\n", found ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT);
}

static unsigned count_contexts(struct server *server)
{
    unsigned count = 0;
    look_after(server);
    for (unsigned i = 0; i < server->device_count; i++) {
        device_lock(&server->devices[i]);
        count += mps_client_count(&server->devices[i]);
        device_unlock(&server->devices[i]);
    }
    return count;
}

static bool handle_line(struct server *server, const char *line)
{
    struct str reply;
    int pid = 0;
    str_init(&reply, REPLY_BYTES_MAX);
    if (sscanf(line, "admit %d", &pid) == 1)
        admit(server, pid, &reply);
    else if (sscanf(line, "terminate %d", &pid) == 1)
        terminate(server, pid, &reply);
    else if (str_equal(line, "clients"))
        list_clients(server, LIST_PIDS, &reply);
    else if (str_equal(line, "devices"))
        list_clients(server, LIST_DEVICES, &reply);
    else if (str_equal(line, "ps"))
        list_clients(server, LIST_TABLE, &reply);
    else if (str_equal(line, "count"))
        str_printf(&reply, "%u", count_contexts(server));
    else if (str_equal(line, "status"))
        str_printf(&reply, "%s\n", is_faulted(server) ? "FAULT" : "ACTIVE");
    bool sent = answer(server, str_text(&reply));
    str_done(&reply);
    return sent;
}

/* Returns false if the daemon has gone. */
static bool read_lines(struct server *server)
{
    ssize_t n = read(server->fd, server->line + server->line_length,
                     sizeof(server->line) - 1 - server->line_length);
    if (n <= 0)
        return n < 0 && errno == EINTR;
    server->line_length += (size_t)n;
    server->line[server->line_length] = '\0';
    char *end;
    while ((end = strchr(server->line, '\n')) != NULL) {
        *end = '\0';
        if (!handle_line(server, server->line))
            return false;
        server->line_length -= (size_t)(end + 1 - server->line);
        memmove(server->line, end + 1, server->line_length + 1);
    }
    return server->line_length < sizeof(server->line) - 1;
}

/* Forgets processes that have ended. Returns true if there were any. */
static bool drop_ended(struct server *server)
{
    unsigned kept = 0;
    for (unsigned i = 0; i < server->watched_count; i++) {
        struct pollfd *watched = &server->polled[1 + i];
        if (watched->revents != 0)
            close(watched->fd);
        else
            server->polled[1 + kept++] = *watched;
    }
    bool any = kept < server->watched_count;
    server->watched_count = kept;
    return any;
}

static void serve(struct server *server)
{
    for (;;) {
        server->polled[0] = (struct pollfd){.fd = server->fd, .events = POLLIN};
        int ready = poll(server->polled, 1 + server->watched_count, LOOK_MS);
        if (ready < 0 && errno != EINTR)
            return;
        bool asked = ready > 0 && server->polled[0].revents != 0;
        if (ready == 0 || (ready > 0 && drop_ended(server)))
            look_after(server);
        if (asked && !read_lines(server))
            return;
    }
}

static bool begin(struct server *server)
{
    struct error error = {0};
    struct visible_among all;
    if (mapping_open_from_environment(&error, &server->mapping) < 0) {
        mps_log(server->log, "Server", "%s", error.text);
        return false;
    }
    visible_among_all(&server->mapping, &all);
    visible_for_each(getenv("CUDA_VISIBLE_DEVICES"), &server->mapping, &all, see_device, server);
    unsigned begun = 0;
    while (begun < server->device_count && mps_server_begin(&server->devices[begun]) == 0)
        begun++;
    if (begun > 0 && begun == server->device_count)
        return true;
    mps_log(server->log, "Server", "Device %u is lost or has another server", begun);
    while (begun > 0)
        mps_server_end(&server->devices[--begun]);
    mapping_close(&server->mapping);
    return false;
}

static bool greet(struct server *server)
{
    struct str text;
    str_init(&text, MPS_LINE_BYTES_MAX);
    str_append(&text, "ready ");
    for (unsigned i = 0; i < server->device_count; i++)
        str_printf(&text, "%u ", server->devices[i].index);
    bool sent = answer(server, str_text(&text));
    str_done(&text);
    return sent;
}

int main(int argc, char **argv)
{
    if (argc != 2 || strspn(argv[1], "0123456789") != strlen(argv[1])) {
        fprintf(stderr, "nvidia-cuda-mps-server is started by nvidia-cuda-mps-control\n");
        return 1;
    }
    struct server *server = calloc(1, sizeof(*server));
    if (!server)
        return 1;
    server->fd = (int)strtol(argv[1], NULL, 10);
    server->log = mps_log_open("server.log");
    bool begun = begin(server);
    if (begun) {
        mps_log(server->log, "Server", "Server has started");
        if (greet(server))
            serve(server);
        for (unsigned i = 0; i < server->device_count; i++)
            mps_server_end(&server->devices[i]);
        mapping_close(&server->mapping);
        mps_log(server->log, "Server", "Exiting");
    }
    if (server->log)
        fclose(server->log);
    free(server);
    return begun ? 0 : 1;
}
