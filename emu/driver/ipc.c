/*
 * Memory and events between processes, by handles of 64 bytes that one process makes and another
 * opens. A handle names a file descriptor of the process that made it, which is opened through
 * /proc: the handle is valid while that process lives, for processes of the same user.
 */
#include "emu/driver/ipc.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "emu/device/client.h"
#include "emu/memory/memory.h"

enum handle_kind { HANDLE_MEMORY = 0x4d43504d, HANDLE_EVENT = 0x4543504d };

struct handle {
    uint32_t kind; /* enum handle_kind */
    int32_t pid;
    int32_t fd;
    uint32_t device; /* index in the device file */
    uint64_t inode;  /* inode of the descriptor, in case its number was reused for another file */
    uint64_t bytes, span_bytes;
};

static_assert(sizeof(struct handle) <= sizeof(CUipcMemHandle), "a handle's size is given");

static int make_handle(const struct handle *wanted, CUipcMemHandle *ret_handle)
{
    struct handle handle = *wanted;
    struct stat status;
    if (fstat(handle.fd, &status) < 0)
        return CUDA_ERROR_OPERATING_SYSTEM;
    handle.pid = (int32_t)getpid();
    handle.inode = status.st_ino;
    memset(ret_handle, 0, sizeof(*ret_handle));
    memcpy(ret_handle, &handle, sizeof(handle));
    return CUDA_SUCCESS;
}

/* Opens the handle's file as a descriptor of this process. */
static int open_handle(const CUipcMemHandle *given, enum handle_kind kind,
                       struct handle *ret_handle, int *ret_fd)
{
    char path[64];
    struct stat status;
    struct handle handle;
    memcpy(&handle, given, sizeof(handle));
    if (handle.kind != (uint32_t)kind)
        return CUDA_ERROR_INVALID_VALUE;
    if (handle.pid == (int32_t)getpid())
        return CUDA_ERROR_INVALID_CONTEXT; /* a process cannot open its own handle */
    snprintf(path, sizeof(path), "/proc/%d/fd/%d", handle.pid, handle.fd);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (fstat(fd, &status) < 0 || status.st_ino != handle.inode ||
        (uint64_t)status.st_size < handle.span_bytes) {
        close(fd);
        return CUDA_ERROR_INVALID_VALUE;
    }
    *ret_handle = handle;
    *ret_fd = fd;
    return CUDA_SUCCESS;
}

CUDA_API int cuIpcGetMemHandle(CUipcMemHandle *ret_handle, uint64_t address)
{
    struct context *context;
    int r = context_current(&context);
    if (r != CUDA_SUCCESS)
        return r;
    if (!ret_handle)
        return CUDA_ERROR_INVALID_VALUE;
    struct process *process = context->process;
    struct handle handle = {.kind = HANDLE_MEMORY, .device = context->visible->device.index};
    pthread_mutex_lock(&process->lock);
    struct allocation *found = allocations_find(&process->allocations, address, 1);
    if (!found || found->kind != ALLOCATION_DEVICE || found->pool || found->graph_memory ||
        found->import_count > 0) {
        r = CUDA_ERROR_INVALID_VALUE;
    } else if (allocations_share(&process->allocations, found) < 0) {
        r = CUDA_ERROR_OUT_OF_MEMORY;
    } else {
        handle.fd = found->share_fd;
        handle.bytes = found->bytes;
        handle.span_bytes = found->span_bytes;
        handle.device = found->context->visible->device.index;
        r = make_handle(&handle, ret_handle);
    }
    pthread_mutex_unlock(&process->lock);
    if (r == CUDA_SUCCESS)
        client_pin_down(&context->visible->device);
    return r;
}

/* Takes ownership of the descriptor. */
static int import_memory(struct context *context, const struct handle *handle, int fd,
                         uint64_t *ret_address)
{
    const struct allocation imported = {
        .kind = ALLOCATION_DEVICE,
        .bytes = handle->bytes,
        .span_bytes = handle->span_bytes,
        .context = context,
        .share_fd = fd,
        .import_count = 1,
        .import_inode = handle->inode,
    };
    if (allocations_import(&context->process->allocations, &imported, ret_address) == 0)
        return CUDA_SUCCESS;
    close(fd);
    return CUDA_ERROR_OUT_OF_MEMORY;
}

/* Memory that is opened again keeps its address and must be closed as often; or the call is
 * refused. */
static int open_memory(const CUipcMemHandle *given, unsigned flags, bool may_be_open,
                       uint64_t *ret_address)
{
    enum { LAZY_ENABLE_PEER_ACCESS = 1 };
    struct context *context;
    struct handle handle;
    int fd;
    int r = context_current(&context);
    if (r != CUDA_SUCCESS)
        return r;
    if (!ret_address || !(flags & LAZY_ENABLE_PEER_ACCESS))
        return CUDA_ERROR_INVALID_VALUE;
    r = open_handle(given, HANDLE_MEMORY, &handle, &fd);
    if (r != CUDA_SUCCESS)
        return r;
    if (handle.device != context->visible->device.index) {
        close(fd);
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    struct process *process = context->process;
    pthread_mutex_lock(&process->lock);
    struct allocation *found =
        allocations_find_import(&process->allocations, handle.inode, context);
    if (!found) {
        r = import_memory(context, &handle, fd, ret_address);
    } else {
        close(fd);
        if (may_be_open) {
            found->import_count++;
            *ret_address = found->address;
        } else {
            r = CUDA_ERROR_ALREADY_MAPPED;
        }
    }
    pthread_mutex_unlock(&process->lock);
    if (r == CUDA_SUCCESS)
        client_pin_down(&context->visible->device);
    return r;
}

CUDA_API int cuIpcOpenMemHandle_v2(uint64_t *ret_address, CUipcMemHandle given, unsigned flags)
{
    return open_memory(&given, flags, true, ret_address);
}

CUDA_API int cuIpcOpenMemHandle(uint64_t *ret_address, CUipcMemHandle given, unsigned flags)
{
    return open_memory(&given, flags, false, ret_address);
}

CUDA_API int cuIpcCloseMemHandle(uint64_t address)
{
    struct context *context;
    int r = context_current(&context);
    if (r != CUDA_SUCCESS)
        return r;
    struct process *process = context->process;
    pthread_mutex_lock(&process->lock);
    struct allocation *found = allocations_find(&process->allocations, address, 0);
    if (!found || found->address != address || found->import_count == 0)
        r = CUDA_ERROR_INVALID_VALUE;
    else if (--found->import_count == 0)
        allocations_remove(&process->allocations, found);
    pthread_mutex_unlock(&process->lock);
    return r;
}

struct event_page {
    _Atomic uint64_t asked; /* number of records asked for */
    _Atomic uint64_t done;
};

struct event_share {
    struct event_page *page;
    int fd;
};

static struct event_share *map_share(int fd)
{
    struct event_share *share = malloc(sizeof(*share));
    void *at = mmap(NULL, sizeof(struct event_page), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (!share || at == MAP_FAILED) {
        if (at != MAP_FAILED)
            munmap(at, sizeof(struct event_page));
        free(share);
        return NULL;
    }
    *share = (struct event_share){.page = at, .fd = fd};
    return share;
}

void event_share_free(struct event_share *share)
{
    munmap(share->page, sizeof(*share->page));
    close(share->fd);
    free(share);
}

/* Takes ownership of the descriptor. */
static int make_event(struct context *context, unsigned flags, int fd, struct event **ret_event)
{
    struct event_share *share = map_share(fd);
    if (!share) {
        close(fd);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    struct event *event;
    int r = event_make(context, flags, &event);
    if (r != CUDA_SUCCESS) {
        event_share_free(share);
        return r;
    }
    event->share = share;
    *ret_event = event;
    return CUDA_SUCCESS;
}

int event_share_make(struct context *context, unsigned flags, struct event **ret_event)
{
    int fd = memfd_create("gpumux-event", MFD_CLOEXEC);
    if (fd < 0)
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (ftruncate(fd, (off_t)sizeof(struct event_page)) < 0) {
        close(fd);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    return make_event(context, flags, fd, ret_event);
}

bool event_share_is_reached(const struct event_share *share)
{
    return atomic_load(&share->page->done) >= atomic_load(&share->page->asked);
}

int event_share_record(struct event *event, struct stream *stream)
{
    struct event_page *page = event->share->page;
    uint64_t number = atomic_fetch_add(&page->asked, 1) + 1;
    return host_work_flag(stream, event, &page->done, number, false);
}

int event_share_wait_in(struct stream *stream, struct event *event)
{
    struct event_page *page = event->share->page;
    uint64_t number = atomic_load(&page->asked);
    return atomic_load(&page->done) >= number
               ? CUDA_SUCCESS
               : host_work_flag(stream, event, &page->done, number, true);
}

int event_share_wait(struct event *event)
{
    enum { LOOK_AGAIN_NS = 100 * 1000 };
    struct event_page *page = event->share->page;
    uint64_t number = atomic_load(&page->asked);
    while (atomic_load(&page->done) < number)
        nanosleep(&(struct timespec){.tv_nsec = LOOK_AGAIN_NS}, NULL);
    return CUDA_SUCCESS;
}

CUDA_API int cuIpcGetEventHandle(CUipcMemHandle *ret_handle, struct event *event)
{
    if (!ret_handle || !event)
        return CUDA_ERROR_INVALID_VALUE;
    int r = event_resolve(event);
    if (r != CUDA_SUCCESS)
        return r;
    if (!event->share)
        return CUDA_ERROR_INVALID_HANDLE;
    const struct handle handle = {
        .kind = HANDLE_EVENT,
        .fd = event->share->fd,
        .bytes = sizeof(struct event_page),
        .span_bytes = sizeof(struct event_page),
        .device = event->context->visible->device.index,
    };
    return make_handle(&handle, ret_handle);
}

CUDA_API int cuIpcOpenEventHandle(struct event **ret_event, CUipcMemHandle given)
{
    struct context *context;
    struct handle handle;
    int fd;
    int r = context_current(&context);
    if (r == CUDA_SUCCESS && !ret_event)
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS)
        r = open_handle(&given, HANDLE_EVENT, &handle, &fd);
    if (r != CUDA_SUCCESS)
        return r;
    return make_event(context, CUDA_EVENT_DISABLE_TIMING | CUDA_EVENT_INTERPROCESS, fd, ret_event);
}
