/* The one mutable state of the library, its creation by cuInit, and the effect of fork. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/str.h"
#include "emu/device/uuid.h"
#include "emu/device/visible.h"
#include "emu/driver/driver.h"
#include "emu/mps/mps_join.h"

enum process_state { PROCESS_NEW, PROCESS_READY, PROCESS_FORKED };

static struct library {
    struct process process;
    _Atomic int state; /* enum process_state */
    pthread_once_t handlers_once;
    pthread_key_t thread_key; /* its destructor notices the end of threads */
} library = {
    .process = {.lock = PTHREAD_MUTEX_INITIALIZER},
    .state = PROCESS_NEW,
    .handlers_once = PTHREAD_ONCE_INIT,
};
static __thread struct thread_state thread_state = {.capture_mode = 0};

/* A child must not keep the parent's slots alive, and gets no device of its own: the real driver
 * does not work after fork either. */
static void after_fork_in_child(void)
{
    if (atomic_load(&library.state) != PROCESS_READY)
        return;
    atomic_store(&library.state, PROCESS_FORKED);
    close(library.process.mapping.fd);
    library.process.mapping.fd = -1;
    thread_state.stack.depth = 0;
}

static void at_thread_end(void *thread)
{
    if (atomic_load(&library.state) == PROCESS_READY)
        stream_discard_thread(thread);
}

static void install_handlers(void)
{
    pthread_atfork(NULL, NULL, after_fork_in_child);
    pthread_key_create(&library.thread_key, at_thread_end);
}

/* A process that another process has locked for a checkpoint waits in its next call. */
static void wait_unlocked(struct process *process)
{
    enum { LOOK_AGAIN_NS = 1000 * 1000 };
    uint64_t held = atomic_load_explicit(&process->held_devices, memory_order_acquire);
    for (; held != 0; held &= held - 1) {
        const struct device *device = &process->devices[__builtin_ctzll(held)].device;
        const struct emu_client *client = &device->state->clients[device->own_slot];
        while (atomic_load_explicit(&client->checkpoint_state, memory_order_acquire) != 0)
            nanosleep(&(struct timespec){.tv_nsec = LOOK_AGAIN_NS}, NULL);
    }
}

int process_ready(struct process **ret_process)
{
    if (atomic_load_explicit(&library.state, memory_order_acquire) != PROCESS_READY)
        return CUDA_ERROR_NOT_INITIALIZED;
    wait_unlocked(&library.process);
    *ret_process = &library.process;
    return CUDA_SUCCESS;
}

int process_device(int ordinal, struct process **ret_process, struct visible_device **ret_visible)
{
    int r = process_ready(ret_process);
    if (r != CUDA_SUCCESS)
        return r;
    if (ordinal < 0 || (unsigned)ordinal >= (*ret_process)->device_count)
        return CUDA_ERROR_INVALID_DEVICE;
    *ret_visible = &(*ret_process)->devices[ordinal];
    return CUDA_SUCCESS;
}

struct thread_state *process_thread(void)
{
    return &thread_state;
}

struct context_stack *process_context_stack(void)
{
    return &thread_state.stack;
}

void process_watch_thread(void)
{
    if (!thread_state.is_watched)
        thread_state.is_watched = pthread_setspecific(library.thread_key, &thread_state) == 0;
}

uint64_t process_next_id(struct process *process)
{
    return atomic_fetch_add(&process->last_id, 1) + 1;
}

struct seeing {
    struct process *process;
    struct mps_welcome welcome;
};

static void see_device(void *argument, unsigned index)
{
    struct seeing *seeing = argument;
    struct process *p = seeing->process;
    struct visible_device *visible = &p->devices[p->device_count];
    device_init(&visible->device, &p->mapping, index);
    visible->terms = mps_terms(&seeing->welcome, &visible->device, p->device_count);
    p->device_count++;
}

static int initialise(struct process *p)
{
    struct error error = {0};
    int r = mapping_open_from_environment(&error, &p->mapping);
    if (r < 0) {
        /* The result code cannot explain the cause or a remedy. */
        fprintf(stderr, "libcuda (emulated): %s\n", error.text);
        return CUDA_ERROR_NO_DEVICE;
    }
    struct seeing seeing = {.process = p};
    r = mps_join(&p->mapping, &seeing.welcome);
    if (r != CUDA_SUCCESS) {
        mapping_close(&p->mapping);
        return r;
    }
    list_init(&p->contexts);
    list_init(&p->pools);
    list_init(&p->captures);
    list_init(&p->orphan_graphs);
    list_init(&p->host_queue.works);
    pthread_mutex_init(&p->host_queue.lock, NULL);
    pthread_cond_init(&p->host_queue.changed, NULL);
    list_init(&p->reservations);
    list_init(&p->physicals);
    list_init(&p->mapped_ranges);
    visible_for_each(getenv("CUDA_VISIBLE_DEVICES"), &p->mapping, &seeing.welcome.served,
                     see_device, &seeing);
    if (p->device_count == 0) {
        mapping_close(&p->mapping);
        return CUDA_ERROR_NO_DEVICE;
    }
    return CUDA_SUCCESS;
}

CUDA_API int cuInit(unsigned flags)
{
    if (flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (atomic_load(&library.state) == PROCESS_FORKED)
        return CUDA_ERROR_NOT_INITIALIZED;
    pthread_once(&library.handlers_once, install_handlers);
    int r = CUDA_SUCCESS;
    pthread_mutex_lock(&library.process.lock);
    if (atomic_load(&library.state) == PROCESS_NEW) {
        r = initialise(&library.process);
        if (r == CUDA_SUCCESS)
            atomic_store_explicit(&library.state, PROCESS_READY, memory_order_release);
    }
    pthread_mutex_unlock(&library.process.lock);
    return r;
}

CUDA_API int cuDriverGetVersion(int *ret_version)
{
    if (!ret_version)
        return CUDA_ERROR_INVALID_VALUE;
    *ret_version = CUDA_DRIVER_VERSION;
    return CUDA_SUCCESS;
}
