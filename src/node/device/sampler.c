#include "node/device/sampler.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>

enum { SAMPLE_EVERY_S = 1 };

struct sampler {
    struct gpu *gpu;
    pthread_t thread;
    bool running; /* the thread was started */
    pthread_mutex_t mutex;
    pthread_cond_t stopped;   /* signalled for stop and hurry */
    bool stop, hurry;         /* under the mutex, as all members below */
    struct gpu_sample newest; /* sample for readers */
    struct gpu_sample next;   /* the thread's own sample */
};

enum next { NEXT_SAMPLE, NEXT_PROCESSES, NEXT_STOP };

static bool is_over(const struct timespec *until)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec > until->tv_sec ||
           (now.tv_sec == until->tv_sec && now.tv_nsec >= until->tv_nsec);
}

static enum next wait_for_next(struct sampler *s, const struct timespec *until)
{
    pthread_mutex_lock(&s->mutex);
    while (!s->stop && !s->hurry && pthread_cond_timedwait(&s->stopped, &s->mutex, until) == 0)
        ;
    enum next next = s->stop ? NEXT_STOP : is_over(until) ? NEXT_SAMPLE : NEXT_PROCESSES;
    s->hurry = false;
    pthread_mutex_unlock(&s->mutex);
    return next;
}

static void *sample_loop(void *arg)
{
    struct sampler *s = arg;
    struct timespec until;
    for (enum next next = NEXT_SAMPLE; next != NEXT_STOP; next = wait_for_next(s, &until)) {
        if (next == NEXT_SAMPLE) {
            clock_gettime(CLOCK_MONOTONIC, &until);
            until.tv_sec += SAMPLE_EVERY_S;
            gpu_sample(s->gpu, &s->next);
        } else {
            gpu_sample_processes(s->gpu, &s->next);
        }
        pthread_mutex_lock(&s->mutex);
        s->newest = s->next;
        pthread_mutex_unlock(&s->mutex);
    }
    return NULL;
}

int sampler_new(struct error *e, struct gpu *gpu, struct sampler **ret)
{
    struct sampler *s = calloc(1, sizeof *s);
    if (!s)
        return error_set(e, ERR_NO_MEMORY, "out of memory");
    s->gpu = gpu;
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&s->mutex, NULL);
    pthread_cond_init(&s->stopped, &monotonic);
    pthread_condattr_destroy(&monotonic);
    int failed = gpu ? pthread_create(&s->thread, NULL, sample_loop, s) : 0;
    if (failed) {
        s->gpu = NULL; /* still the caller's */
        sampler_free(s);
        return error_set_errno(e, ERR_NO_MEMORY, failed, "no thread to watch the devices");
    }
    s->running = gpu != NULL;
    *ret = s;
    return 0;
}

void sampler_free(struct sampler *s)
{
    if (!s)
        return;
    pthread_mutex_lock(&s->mutex);
    s->stop = true;
    pthread_cond_signal(&s->stopped);
    pthread_mutex_unlock(&s->mutex);
    if (s->running)
        pthread_join(s->thread, NULL);
    pthread_cond_destroy(&s->stopped);
    pthread_mutex_destroy(&s->mutex);
    free(s);
}

void sampler_read(struct sampler *s, struct gpu_sample *ret)
{
    pthread_mutex_lock(&s->mutex);
    *ret = s->newest;
    pthread_mutex_unlock(&s->mutex);
}

void sampler_hurry(struct sampler *s)
{
    pthread_mutex_lock(&s->mutex);
    s->hurry = true;
    pthread_cond_signal(&s->stopped);
    pthread_mutex_unlock(&s->mutex);
}
