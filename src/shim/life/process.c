#include <linux/futex.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

#include "shim/life/process.h"
#include "shim/sys/sys.h"
#include "shim/sys/text.h"

enum { REFUSED_RETRY_NS = 1000000000, WAIT_NS = 50000000 };

#define INTERCEPTED(how, symbol, ...) .symbol = (void *)calls_missing,
#define USED(symbol, ...)             .symbol = (void *)calls_missing,
struct process the_process = {
    .calls.real =
        {
#include "shim/hook/calls.def"
        },
};

/* The C library's part of pthread_atfork, in libc.so.6 of every glibc; musl has none. */
extern int __register_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void),
                             void *library) __attribute__((weak, visibility("default")));

/* The state while starting, in one word with the process and thread that start: a child forked at
 * that moment does not wait for a thread that it does not have. */
static uint64_t starting_word(void)
{
    return (uint64_t)sys_getpid() << 32 | (uint64_t)sys_gettid() << 8 | PROCESS_STARTING;
}

static uint32_t state_of(uint64_t word)
{
    return (uint32_t)(word & 0xff);
}

static uint32_t process_of(uint64_t word)
{
    return (uint32_t)(word >> 32);
}

static void say(const char *line)
{
    size_t length = 0;
    while (line[length])
        length++;
    if (getenv("GPUMUX_SHIM_DEBUG"))
        (void)sys_write(2, line, length);
}

bool process_is_disabled(void)
{
    if (atomic_load_explicit(&the_process.state, memory_order_relaxed) == PROCESS_READY)
        return false;
    const char *value = getenv("GPUMUX_DISABLE");
    return value && text_equals(value, "1");
}

static uint64_t now_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* A child holds no device memory, and its parent's pages stay the parent's. */
static void become_child(void)
{
    struct process *p = &the_process;
    uint32_t state = state_of(atomic_load(&p->state));
    libraries_after_fork(true);
    if (state == PROCESS_PASSIVE)
        return;
    if (state == PROCESS_READY)
        client_leave(&p->client);
    allocations_reset(&p->allocations);
    mappings_reset(&p->mappings);
    pools_reset(&p->pools);
    chunks_reset(&p->chunks);
    swap_reset(&p->swap);
    atomic_store(&p->is_swappable, 0);
    graphs_reset(&p->graphs);
    p->contexts = (struct contexts){0};
    p->devices = (struct devices){0};
    if (p->launch)
        launch_reset(p->launch);
    (void)busy_forget(&p->busy, NULL);
    exit_reset(&p->exit);
    signals_reset(&p->signals);
    atomic_store(&p->state, PROCESS_NEW);
}

static void stay_parent(void)
{
    libraries_after_fork(false);
}

static void watch_forks(struct process *p)
{
    uint32_t no = 0;
    if (&__register_atfork && atomic_compare_exchange_strong(&p->has_fork_handler, &no, 1))
        (void)__register_atfork(libraries_before_fork, stay_parent, become_child, NULL);
}

/* Starts the shim, in one thread. Returns the next state. */
static uint32_t start(struct process *p, int wait_ms)
{
    bool is_disabled = process_is_disabled();
    watch_forks(p);
    if (!calls_load(&p->calls))
        return PROCESS_NEW;
    if (is_disabled) {
        say("gpumux: disabled by GPUMUX_DISABLE\n");
        return PROCESS_PASSIVE;
    }
    if (!p->launch)
        p->launch =
            sys_mmap(sizeof(*p->launch), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
    if (!p->launch || !client_start(&p->client, wait_ms)) {
        say("gpumux: the agent at GPUMUX_REGISTER gave no limits: refusing the device\n");
        atomic_store(&p->refused_ns, now_ns());
        return PROCESS_REFUSED;
    }
    p->pages = (struct gpumux_pages){sizeof(p->pages), p->client.limits, p->client.status};
    atomic_store(&p->is_swappable, atomic_load(&p->client.limits->is_swappable));
    say(p->client.is_registered ? "gpumux: registered with the agent\n"
                                : "gpumux: limits from the environment, no agent\n");
    return PROCESS_READY;
}

/* Moves from `word` to the state after starting. Returns false if another thread was faster. */
static bool try_start(struct process *p, uint64_t word)
{
    int wait_ms = state_of(word) == PROCESS_REFUSED ? 0 : CLIENT_WAIT_MS;
    if (!atomic_compare_exchange_strong(&p->state, &word, starting_word()))
        return false;
    atomic_store_explicit(&p->state, start(p, wait_ms), memory_order_release);
    (void)sys_futex((_Atomic uint32_t *)&p->state, FUTEX_WAKE_PRIVATE, INT32_MAX, NULL);
    return true;
}

struct process *process_enter_slowly(void)
{
    struct process *p = &the_process;
    const struct timespec wait = {.tv_nsec = WAIT_NS};
    for (;;) {
        uint64_t word = atomic_load_explicit(&p->state, memory_order_acquire);
        switch (state_of(word)) {
        case PROCESS_NEW:
            if (try_start(p, word))
                return p;
            break;
        case PROCESS_REFUSED:
            if (now_ns() - atomic_load(&p->refused_ns) < REFUSED_RETRY_NS || try_start(p, word))
                return p;
            break;
        case PROCESS_STARTING:
            if (word == starting_word())
                return p; /* a signal handler interrupted the start */
            if (process_of(word) != (uint32_t)sys_getpid())
                atomic_compare_exchange_strong(&p->state, &word, PROCESS_NEW);
            else
                (void)sys_futex((_Atomic uint32_t *)&p->state, FUTEX_WAIT_PRIVATE, (uint32_t)word,
                                &wait);
            break;
        default:
            return p;
        }
    }
}

const struct gpumux_pages *gpumux_pages(void)
{
    return process_is_ready(&the_process) ? &the_process.pages : NULL;
}
