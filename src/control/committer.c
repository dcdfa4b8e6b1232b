#include "control/committer.h"

#include <event2/event.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { TRIM_EVERY_COMMITS = 1000 };

struct committer {
    struct store *store;
    committer_done done;
    void *arg;
    struct event *notified;
    int event_fd;
    uint64_t keep_events;
    bool busy; /* the loop thread's view: a batch is in flight */

    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t wake;
    /* under the mutex: */
    struct store_batch *batch; /* batch to commit; NULL: none */
    bool stop;
    int result;
    struct error error;
};

static void commit_one(struct committer *c, struct store_batch *batch, uint64_t *commits)
{
    struct error error = {0};
    int result = store_commit(&error, c->store, batch);
    store_batch_free(batch);
    pthread_mutex_lock(&c->mutex);
    c->result = result;
    c->error = error;
    pthread_mutex_unlock(&c->mutex);
    eventfd_write(c->event_fd, 1);
    /* Trimming must not delay a reply, and a failure is harmless. */
    if (result == 0 && ++*commits % TRIM_EVERY_COMMITS == 0)
        (void)store_trim(NULL, c->store, c->keep_events);
}

static void *committer_run(void *arg)
{
    struct committer *c = arg;
    uint64_t commits = 0;
    pthread_mutex_lock(&c->mutex);
    for (;;) {
        while (!c->batch && !c->stop)
            pthread_cond_wait(&c->wake, &c->mutex);
        struct store_batch *batch = c->batch;
        c->batch = NULL;
        if (!batch)
            break;
        pthread_mutex_unlock(&c->mutex);
        commit_one(c, batch, &commits);
        pthread_mutex_lock(&c->mutex);
    }
    pthread_mutex_unlock(&c->mutex);
    return NULL;
}

static void on_notified(evutil_socket_t fd, short what, void *arg)
{
    (void)what;
    struct committer *c = arg;
    eventfd_t count;
    if (eventfd_read(fd, &count) < 0)
        return;
    pthread_mutex_lock(&c->mutex);
    int result = c->result;
    struct error error = c->error;
    pthread_mutex_unlock(&c->mutex);
    c->busy = false;
    c->done(c->arg, result, &error);
}

int committer_new(struct error *e, struct event_base *base, struct store *store,
                  uint64_t keep_events, committer_done done, void *arg, struct committer **ret)
{
    struct committer *c = calloc(1, sizeof *c);
    if (!c)
        return error_set(e, ERR_NO_MEMORY, "out of memory");
    *c = (struct committer){.store = store,
                            .done = done,
                            .arg = arg,
                            .keep_events = keep_events,
                            .event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
    pthread_mutex_init(&c->mutex, NULL);
    pthread_cond_init(&c->wake, NULL);
    c->notified = event_new(base, c->event_fd, EV_READ | EV_PERSIST, on_notified, c);
    int failed = c->event_fd < 0 || !c->notified || event_add(c->notified, NULL) < 0
                     ? ENOMEM
                     : pthread_create(&c->thread, NULL, committer_run, c);
    if (failed) {
        if (c->notified)
            event_free(c->notified);
        if (c->event_fd >= 0)
            close(c->event_fd);
        free(c);
        return error_set_errno(e, ERR_NO_MEMORY, failed, "the store thread could not be started");
    }
    *ret = c;
    return 0;
}

void committer_free(struct committer *c)
{
    if (!c)
        return;
    pthread_mutex_lock(&c->mutex);
    c->stop = true;
    pthread_cond_signal(&c->wake);
    pthread_mutex_unlock(&c->mutex);
    pthread_join(c->thread, NULL);
    event_free(c->notified);
    close(c->event_fd);
    pthread_cond_destroy(&c->wake);
    pthread_mutex_destroy(&c->mutex);
    free(c);
}

bool committer_busy(const struct committer *c)
{
    return c->busy;
}

void committer_start(struct committer *c, struct store_batch *batch)
{
    c->busy = true;
    pthread_mutex_lock(&c->mutex);
    c->batch = batch;
    pthread_cond_signal(&c->wake);
    pthread_mutex_unlock(&c->mutex);
}
