#include "node/device/watch.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "device/device.h"

struct watch {
    struct gpu *gpu;
    int device_count, full_percent;
    int event_fd;
    pthread_t thread;
    bool running; /* the thread was started */
    pthread_mutex_t mutex;
    bool stop; /* under the mutex, as is `news` */
    struct watch_news news;
    struct watch_news look; /* the thread's own news */
};

static void wake(const struct watch *w)
{
    const uint64_t one = 1;
    ssize_t n = write(w->event_fd, &one, sizeof one);
    (void)n; /* a full counter will wake the reader anyway */
}

/* Looks at the devices once. Returns false when the thread must stop. */
static bool look(struct watch *w)
{
    struct watch_news *l = &w->look;
    pthread_mutex_lock(&w->mutex);
    bool stop = w->stop;
    pthread_mutex_unlock(&w->mutex);
    if (stop)
        return false;
    l->has_processes = false;
    for (int i = 0; i < w->device_count; i++) {
        const struct gpu_reading *r = &l->readings[i];
        gpu_read(w->gpu, i, &l->readings[i]);
        l->has_processes |=
            r->memory_used_bytes > r->memory_bytes / 100 * (uint64_t)w->full_percent;
    }
    if (l->has_processes)
        gpu_sample_processes(w->gpu, &l->processes);
    pthread_mutex_lock(&w->mutex);
    for (int i = 0; i < w->device_count; i++)
        w->news.readings[i] = l->readings[i];
    w->news.looked = true;
    w->news.has_processes = l->has_processes;
    if (l->has_processes)
        w->news.processes = l->processes;
    pthread_mutex_unlock(&w->mutex);
    wake(w);
    return true;
}

void watch_news_add_xid(struct watch_news *news, int device, int xid)
{
    struct watch_xid *least = NULL; /* the last of the least grave */
    for (size_t i = 0; i < news->xid_count; i++) {
        struct watch_xid *told = &news->xids[i];
        if (told->device == device && told->xid == xid)
            return;
        if (!least || device_xid_kind(told->xid) <= device_xid_kind(least->xid))
            least = told;
    }
    const struct watch_xid added = {.device = device, .xid = xid};
    if (news->xid_count < WATCH_XIDS_MAX)
        news->xids[news->xid_count++] = added;
    else if (device_xid_kind(least->xid) < device_xid_kind(xid))
        *least = added;
}

static void tell(struct watch *w, int device, int xid)
{
    pthread_mutex_lock(&w->mutex);
    watch_news_add_xid(&w->news, device, xid);
    pthread_mutex_unlock(&w->mutex);
    wake(w);
}

static void *watch_loop(void *arg)
{
    struct watch *w = arg;
    int64_t next_ms = clock_boot_ms();
    while (look(w)) {
        next_ms += WATCH_EVERY_MS;
        int64_t left_ms;
        /* Xids from before this look are read before the next look. */
        while ((left_ms = next_ms - clock_boot_ms()) > 0) {
            int device, xid;
            if (gpu_wait_xid(w->gpu, (int)left_ms, &device, &xid))
                tell(w, device, xid);
        }
        if (left_ms < -WATCH_EVERY_MS)
            next_ms = clock_boot_ms(); /* after a standstill of the machine: no burst of looks */
    }
    return NULL;
}

int watch_new(struct error *e, struct gpu *gpu, int device_count, int full_percent,
              struct watch **ret)
{
    struct watch *w = calloc(1, sizeof *w);
    if (!w)
        return error_set(e, ERR_NO_MEMORY, "out of memory");
    w->gpu = gpu;
    w->device_count = device_count;
    w->full_percent = full_percent;
    pthread_mutex_init(&w->mutex, NULL);
    w->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    int failed = w->event_fd < 0 ? errno : pthread_create(&w->thread, NULL, watch_loop, w);
    if (failed) {
        watch_free(w);
        return error_set_errno(e, ERR_NO_MEMORY, failed, "no thread to watch the devices");
    }
    w->running = true;
    *ret = w;
    return 0;
}

void watch_free(struct watch *w)
{
    if (!w)
        return;
    pthread_mutex_lock(&w->mutex);
    w->stop = true;
    pthread_mutex_unlock(&w->mutex);
    if (w->running)
        pthread_join(w->thread, NULL);
    if (w->event_fd >= 0)
        close(w->event_fd);
    pthread_mutex_destroy(&w->mutex);
    free(w);
}

int watch_fd(const struct watch *w)
{
    return w->event_fd;
}

void watch_read(struct watch *w, struct watch_news *ret)
{
    uint64_t count;
    ssize_t n = read(w->event_fd, &count, sizeof count);
    (void)n; /* nothing to read: no news */
    pthread_mutex_lock(&w->mutex);
    *ret = w->news;
    w->news.looked = w->news.has_processes = false;
    w->news.xid_count = 0;
    pthread_mutex_unlock(&w->mutex);
}
