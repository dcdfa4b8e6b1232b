/* Memory and events between processes: a process makes them, its child opens them. The child is
 * forked before the driver is initialised, and the two never run assertions at the same time. */
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "conformance.h"

enum { MIB = 1 << 20, LAZY_PEER_ACCESS = 1, READ_WRITE = 3, READY = 1 };

struct message {
    CUipcMemHandle memory, event;
    size_t bytes;
};

union control {
    struct cmsghdr header;
    char bytes[CMSG_SPACE(sizeof(int))];
};

static bool send_message(int socket, const struct message *message, int fd)
{
    union control control = {.header = {.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS}};
    struct iovec part = {(void *)(uintptr_t)message, sizeof(*message)};
    struct msghdr whole = {.msg_iov = &part, .msg_iovlen = 1};
    if (fd >= 0) {
        control.header.cmsg_len = CMSG_LEN(sizeof(fd));
        memcpy(CMSG_DATA(&control.header), &fd, sizeof(fd));
        whole.msg_control = &control;
        whole.msg_controllen = sizeof(control);
    }
    return sendmsg(socket, &whole, 0) == (ssize_t)sizeof(*message);
}

static bool receive_message(int socket, struct message *ret_message, int *ret_fd)
{
    union control control = {.header = {0}};
    struct iovec part = {ret_message, sizeof(*ret_message)};
    struct msghdr whole = {.msg_iov = &part,
                           .msg_iovlen = 1,
                           .msg_control = &control,
                           .msg_controllen = sizeof(control)};
    if (recvmsg(socket, &whole, 0) != (ssize_t)sizeof(*ret_message))
        return false;
    *ret_fd = -1;
    if (CMSG_FIRSTHDR(&whole))
        memcpy(ret_fd, CMSG_DATA(CMSG_FIRSTHDR(&whole)), sizeof(*ret_fd));
    return true;
}

static bool say(int socket)
{
    return write(socket, &(char){READY}, 1) == 1;
}

static bool hear(int socket)
{
    char said = 0;
    return read(socket, &said, 1) == 1 && said == READY;
}

/* Forks; the child runs `other` and ends. Returns the socket to the child, or -1. */
static int start_other(struct conformance *t, void (*other)(struct conformance *, int))
{
    int sockets[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) < 0)
        return -1;
    pid_t pid = fork();
    if (pid == 0) {
        alarm(CONFORMANCE_CASE_SECONDS_MAX);
        close(sockets[0]);
        other(t, sockets[1]);
        _exit(0);
    }
    close(sockets[1]);
    return pid > 0 ? sockets[0] : -1;
}

static void open_handles(struct conformance *t, int socket)
{
    struct message message;
    unsigned char byte = 0;
    uint64_t memory = 0, again = 0;
    void *event = NULL, *stream = NULL;
    int fd = -1;
    if (!receive_message(socket, &message, &fd))
        return;
    conformance_open_device(t);
    EXPECT(t, cuStreamCreate, CUDA_SUCCESS, (&stream, CUDA_STREAM_NON_BLOCKING));
    EXPECT(t, cuIpcOpenMemHandle_v2, CUDA_ERROR_INVALID_VALUE,
           (NULL, message.memory, LAZY_PEER_ACCESS));
    EXPECT(t, cuIpcOpenMemHandle_v2, CUDA_SUCCESS, (&memory, message.memory, LAZY_PEER_ACCESS));
    EXPECT(t, cuIpcOpenMemHandle_v2, CUDA_SUCCESS, (&again, message.memory, LAZY_PEER_ACCESS));
    CHECK(t, cuIpcOpenMemHandle_v2, again == memory);
    EXPECT(t, cuIpcOpenEventHandle, CUDA_SUCCESS, (&event, message.event));
    EXPECT(t, cuIpcOpenEventHandle, CUDA_ERROR_INVALID_VALUE, (NULL, message.event));
    EXPECT(t, cuStreamWaitEvent, CUDA_SUCCESS, (stream, event, 0));
    EXPECT(t, cuMemcpyDtoHAsync_v2, CUDA_SUCCESS, (&byte, memory + MIB, 1, stream));
    EXPECT(t, cuStreamSynchronize, CUDA_SUCCESS, (stream));
    CHECK(t, cuIpcOpenMemHandle_v2, byte == 0x5a);
    EXPECT(t, cuEventSynchronize, CUDA_SUCCESS, (event));
    EXPECT(t, cuEventQuery, CUDA_SUCCESS, (event));
    EXPECT(t, cuMemsetD8Async, CUDA_SUCCESS, (memory, 0x77, 2 * MIB, stream));
    EXPECT(t, cuStreamSynchronize, CUDA_SUCCESS, (stream));
    EXPECT(t, cuIpcCloseMemHandle, CUDA_SUCCESS, (memory));
    EXPECT(t, cuIpcCloseMemHandle, CUDA_SUCCESS, (memory)); /* as often as it was opened */
    EXPECT(t, cuIpcOpenMemHandle, CUDA_SUCCESS, (&again, message.memory, LAZY_PEER_ACCESS));
    EXPECT(t, cuIpcOpenMemHandle, CUDA_ERROR_ALREADY_MAPPED,
           (&memory, message.memory, LAZY_PEER_ACCESS));
    EXPECT(t, cuIpcCloseMemHandle, CUDA_SUCCESS, (again));
    EXPECT(t, cuEventDestroy_v2, CUDA_SUCCESS, (event));
    (void)say(socket);
}

void case_ipc_handles_share_memory(struct conformance *t)
{
    struct message message;
    unsigned char byte = 0;
    uint64_t memory = 0, own = 0;
    void *event = NULL, *plain = NULL, *none = NULL;
    int socket = start_other(t, open_handles);
    memset(&message, 0, sizeof(message));
    conformance_open_device(t);
    EXPECT(t, cuMemAlloc_v2, CUDA_SUCCESS, (&memory, 2 * MIB));
    EXPECT(t, cuEventCreate, CUDA_ERROR_INVALID_VALUE, (&none, CUDA_EVENT_INTERPROCESS));
    EXPECT(t, cuEventCreate, CUDA_SUCCESS,
           (&event, CUDA_EVENT_INTERPROCESS | CUDA_EVENT_DISABLE_TIMING));
    EXPECT(t, cuEventCreate, CUDA_SUCCESS, (&plain, CUDA_EVENT_DISABLE_TIMING));
    EXPECT(t, cuIpcGetMemHandle, CUDA_SUCCESS, (&message.memory, memory));
    EXPECT(t, cuIpcGetMemHandle, CUDA_ERROR_INVALID_VALUE, (NULL, memory));
    EXPECT(t, cuIpcGetEventHandle, CUDA_SUCCESS, (&message.event, event));
    EXPECT(t, cuIpcGetEventHandle, CUDA_ERROR_INVALID_VALUE, (&message.event, NULL));
    EXPECT(t, cuIpcOpenMemHandle_v2, CUDA_ERROR_INVALID_CONTEXT,
           (&own, message.memory, LAZY_PEER_ACCESS));
    EXPECT(t, cuMemsetD8_v2, CUDA_SUCCESS, (memory, 0x5a, 2 * MIB));
    EXPECT(t, cuEventRecord, CUDA_SUCCESS, (event, NULL));
    EXPECT(t, cuCtxSynchronize, CUDA_SUCCESS, ());
    bool answered = send_message(socket, &message, -1) && hear(socket);
    CHECK(t, cuIpcGetMemHandle, answered);
    EXPECT(t, cuMemcpyDtoH_v2, CUDA_SUCCESS, (&byte, memory + MIB, 1));
    CHECK(t, cuIpcOpenMemHandle_v2, byte == 0x77);
    EXPECT(t, cuMemFree_v2, CUDA_SUCCESS, (memory));
    close(socket);
    (void)wait(NULL);
}

static const CUmemAllocationProp exported = {
    .type = CUDA_ALLOCATION_PINNED,
    .requestedHandleTypes = CUDA_HANDLE_POSIX_FD,
    .location = {CUDA_LOCATION_DEVICE, 0},
};

/* Maps the memory and returns its address. */
static uint64_t map(struct conformance *t, void *handle, size_t bytes)
{
    const CUmemAccessDesc access = {{CUDA_LOCATION_DEVICE, 0}, READ_WRITE};
    uint64_t at = 0;
    EXPECT(t, cuMemAddressReserve, CUDA_SUCCESS, (&at, bytes, 0, 0, 0));
    EXPECT(t, cuMemMap, CUDA_SUCCESS, (at, bytes, 0, handle, 0));
    EXPECT(t, cuMemSetAccess, CUDA_SUCCESS, (at, bytes, &access, 1));
    return at;
}

static void import_memory(struct conformance *t, int socket)
{
    struct message message;
    CUmemAllocationProp found = {0};
    void *handle = NULL;
    unsigned char byte = 0;
    int fd = -1;
    if (!receive_message(socket, &message, &fd))
        return;
    conformance_open_device(t);
    EXPECT(t, cuMemImportFromShareableHandle, CUDA_SUCCESS,
           (&handle, (void *)(intptr_t)fd, CUDA_HANDLE_POSIX_FD));
    EXPECT(t, cuMemImportFromShareableHandle, CUDA_ERROR_INVALID_VALUE,
           (NULL, (void *)(intptr_t)fd, CUDA_HANDLE_POSIX_FD));
    close(fd);
    EXPECT(t, cuMemGetAllocationPropertiesFromHandle, CUDA_SUCCESS, (&found, handle));
    CHECK(t, cuMemImportFromShareableHandle, found.requestedHandleTypes != CUDA_HANDLE_POSIX_FD);
    uint64_t at = map(t, handle, message.bytes);
    EXPECT(t, cuMemcpyDtoH_v2, CUDA_SUCCESS, (&byte, at, 1));
    CHECK(t, cuMemImportFromShareableHandle, byte == 0x11);
    EXPECT(t, cuMemsetD8_v2, CUDA_SUCCESS, (at, 0x22, message.bytes));
    EXPECT(t, cuCtxSynchronize, CUDA_SUCCESS, ());
    EXPECT(t, cuMemUnmap, CUDA_SUCCESS, (at, message.bytes));
    EXPECT(t, cuMemRelease, CUDA_SUCCESS, (handle));
    (void)say(socket);
}

void case_exported_memory_is_shared(struct conformance *t)
{
    struct message message;
    void *handle = NULL;
    unsigned char byte = 0;
    int fd = -1, socket = start_other(t, import_memory);
    memset(&message, 0, sizeof(message));
    conformance_open_device(t);
    EXPECT(t, cuMemGetAllocationGranularity, CUDA_SUCCESS, (&message.bytes, &exported, 0));
    EXPECT(t, cuMemCreate, CUDA_SUCCESS, (&handle, message.bytes, &exported, 0));
    EXPECT(t, cuMemExportToShareableHandle, CUDA_SUCCESS, (&fd, handle, CUDA_HANDLE_POSIX_FD, 0));
    CHECK(t, cuMemExportToShareableHandle, fd >= 0);
    EXPECT(t, cuMemExportToShareableHandle, CUDA_ERROR_INVALID_VALUE,
           (NULL, handle, CUDA_HANDLE_POSIX_FD, 0));
    uint64_t at = map(t, handle, message.bytes);
    EXPECT(t, cuMemsetD8_v2, CUDA_SUCCESS, (at, 0x11, message.bytes));
    EXPECT(t, cuCtxSynchronize, CUDA_SUCCESS, ());
    bool answered = send_message(socket, &message, fd) && hear(socket);
    CHECK(t, cuMemExportToShareableHandle, answered);
    EXPECT(t, cuMemcpyDtoH_v2, CUDA_SUCCESS, (&byte, at, 1));
    CHECK(t, cuMemImportFromShareableHandle, byte == 0x22);
    EXPECT(t, cuMemUnmap, CUDA_SUCCESS, (at, message.bytes));
    EXPECT(t, cuMemRelease, CUDA_SUCCESS, (handle));
    close(fd);
    close(socket);
    (void)wait(NULL);
}
