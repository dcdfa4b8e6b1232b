#include "node/attempt/retention.h"

#include <dirent.h>
#include <event2/event.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "node/supervisor/attempt_file.h"
#include "base/durable.h"
#include "node/supervisor/output.h"

/* A sweep examines all kept attempts. A sweep for new attempts waits until they are a part of the
 * kept ones, so that each costs little, and starts at most once in FULL_SWEEP_S. */
enum {
    FIRST_SWEEP_S = 60,
    SWEEP_EVERY_S = 600,
    FULL_SWEEP_S = 1,
    EXCESS_DIVISOR = 8,
    FINISHED_MAX = 16 << 20
};

struct finished {
    char name[ATTEMPT_NAME_MAX];
    int64_t settled_ms;
    uint64_t bytes;
};

struct retention {
    int finished_fd;
    struct retention_limits limits;
    struct event *timer;
    size_t settled; /* attempts since the last sweep began */
    pthread_t thread;
    bool started;         /* a thread must be joined */
    atomic_bool sweeping; /* the thread is sweeping */
    atomic_bool stop;
};

/* Sorts by age, newest first. */
static int compare_finished(const void *a, const void *b)
{
    const struct finished *left = a, *right = b;
    return (left->settled_ms < right->settled_ms) - (left->settled_ms > right->settled_ms);
}

/* Reads the time of settling and the size of the output. The time is the change time, which the
 * user cannot set. */
static bool measure(int finished_fd, const char *name, struct finished *ret)
{
    uint64_t workload;
    int attempt;
    struct stat st;
    if (!attempt_name_parse(name, &workload, &attempt))
        return false;
    int fd = openat(finished_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0) {
        if (fd >= 0)
            close(fd);
        return false;
    }
    str_copy(ret->name, sizeof ret->name, name);
    ret->settled_ms = (int64_t)st.st_ctim.tv_sec * 1000 + st.st_ctim.tv_nsec / 1000000;
    ret->bytes = output_disk_bytes(fd);
    close(fd);
    return true;
}

static bool is_stopped(const atomic_bool *stop)
{
    return stop && atomic_load(stop);
}

static size_t list_finished(int finished_fd, const atomic_bool *stop, struct finished **ret)
{
    int fd = openat(finished_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *directory = fd < 0 ? NULL : fdopendir(fd);
    struct finished *items = NULL;
    size_t count = 0, capacity = 0;
    for (struct dirent *entry;
         directory && count < FINISHED_MAX && !is_stopped(stop) && (entry = readdir(directory));) {
        if (count == capacity) {
            capacity = capacity ? 2 * capacity : 256;
            struct finished *grown = realloc(items, capacity * sizeof *grown);
            if (!grown)
                break;
            items = grown;
        }
        if (measure(finished_fd, entry->d_name, &items[count]))
            count++;
    }
    if (directory)
        closedir(directory);
    else if (fd >= 0)
        close(fd);
    *ret = items;
    return count;
}

size_t retention_sweep(int finished_fd, const struct retention_limits *limits,
                       const atomic_bool *stop)
{
    struct finished *items;
    size_t count = list_finished(finished_fd, stop, &items), forgotten = 0;
    if (count)
        qsort(items, count, sizeof *items, compare_finished);
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    int64_t oldest_ms = (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000 - limits->age_ms;
    uint64_t bytes = 0;
    for (size_t i = 0; i < count && !is_stopped(stop); i++) {
        bytes += items[i].bytes;
        bool kept = i < limits->count && bytes <= limits->bytes && items[i].settled_ms >= oldest_ms;
        if (!kept && durable_remove_tree(NULL, finished_fd, items[i].name) == 0) {
            bytes -= items[i].bytes;
            forgotten++;
        }
    }
    free(items);
    return forgotten;
}

static void *sweep(void *arg)
{
    struct retention *r = arg;
    retention_sweep(r->finished_fd, &r->limits, &r->stop);
    atomic_store(&r->sweeping, false);
    return NULL;
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    struct retention *r = arg;
    bool busy = atomic_load(&r->sweeping);
    const struct timeval later = {.tv_sec = busy ? FULL_SWEEP_S : SWEEP_EVERY_S};
    event_add(r->timer, &later);
    if (busy)
        return;
    r->settled = 0;
    if (r->started)
        pthread_join(r->thread, NULL);
    atomic_store(&r->sweeping, true);
    r->started = pthread_create(&r->thread, NULL, sweep, r) == 0;
    if (!r->started)
        atomic_store(&r->sweeping, false);
}

int retention_new(struct error *e, struct event_base *base, int finished_fd,
                  const struct retention_limits *limits, struct retention **ret)
{
    struct retention *r = calloc(1, sizeof *r);
    const struct timeval soon = {.tv_sec = FIRST_SWEEP_S};
    if (r)
        r->timer = evtimer_new(base, on_timer, r);
    if (!r || !r->timer || event_add(r->timer, &soon) < 0) {
        retention_free(r);
        return error_set(e, ERR_NO_MEMORY, "out of memory");
    }
    r->finished_fd = finished_fd;
    r->limits = *limits;
    *ret = r;
    return 0;
}

void retention_settled(struct retention *r)
{
    size_t excess = r->limits.count / EXCESS_DIVISOR;
    const struct timeval soon = {.tv_sec = FULL_SWEEP_S};
    if (++r->settled == (excess ? excess : 1))
        event_add(r->timer, &soon);
}

void retention_free(struct retention *r)
{
    if (!r)
        return;
    atomic_store(&r->stop, true);
    if (r->started)
        pthread_join(r->thread, NULL);
    if (r->timer)
        event_free(r->timer);
    free(r);
}
