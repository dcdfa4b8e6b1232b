#include "node/link/resolve.h"

#include <event2/event.h>
#include <fcntl.h>
#include <netdb.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Shared by the loop and the thread; the last user frees the struct. */
struct lookup {
    atomic_int users;
    char *host, *port;
    int finished_fd;      /* closed by the thread at its end */
    atomic_bool answered; /* the members below are set, and belong to the loop */
    int failed;
    struct addrinfo *addresses;
};

struct resolve {
    struct lookup *lookup;
    int finished_fd;
    struct event *finished;
    resolve_done done;
    void *arg;
};

static void lookup_leave(struct lookup *l)
{
    if (atomic_fetch_sub(&l->users, 1) != 1)
        return;
    if (l->addresses)
        freeaddrinfo(l->addresses);
    free(l->host);
    free(l->port);
    free(l);
}

static void *look_up(void *arg)
{
    struct lookup *l = arg;
    const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    int finished_fd = l->finished_fd;
    l->failed = getaddrinfo(l->host, l->port, &hints, &l->addresses);
    if (l->failed)
        l->addresses = NULL;
    atomic_store(&l->answered, true);
    lookup_leave(l);
    close(finished_fd);
    return NULL;
}

void resolve_cancel(struct resolve *r)
{
    if (!r)
        return;
    if (r->finished)
        event_free(r->finished);
    if (r->finished_fd >= 0)
        close(r->finished_fd);
    lookup_leave(r->lookup);
    free(r);
}

static void on_finished(evutil_socket_t fd, short what, void *arg)
{
    (void)fd, (void)what;
    struct resolve *r = arg;
    resolve_done done = r->done;
    void *done_arg = r->arg;
    int failed = EAI_SYSTEM;
    struct addrinfo *addresses = NULL;
    if (atomic_load(&r->lookup->answered)) {
        failed = r->lookup->failed;
        addresses = r->lookup->addresses;
        r->lookup->addresses = NULL;
    }
    resolve_cancel(r);
    done(done_arg, failed, addresses);
}

/* Starts the thread with all signals blocked, because the loop handles signals. */
static int start_thread(struct lookup *l)
{
    sigset_t all, before;
    pthread_t thread;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = pthread_create(&thread, NULL, look_up, l);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (failed == 0)
        pthread_detach(thread);
    return failed;
}

int resolve_start(struct error *e, struct event_base *base, const char *host, const char *port,
                  resolve_done done, void *arg, struct resolve **ret)
{
    struct resolve *r = calloc(1, sizeof *r);
    struct lookup *l = calloc(1, sizeof *l);
    int ends[2] = {-1, -1};
    if (r && l && pipe2(ends, O_CLOEXEC) == 0) {
        l->host = strdup(host);
        l->port = strdup(port);
        l->finished_fd = ends[1];
        *r = (struct resolve){.lookup = l, .finished_fd = ends[0], .done = done, .arg = arg};
        r->finished = event_new(base, ends[0], EV_READ, on_finished, r);
        atomic_init(&l->users, 2);
        if (l->host && l->port && r->finished && event_add(r->finished, NULL) == 0 &&
            start_thread(l) == 0) {
            *ret = r;
            return 0;
        }
        close(ends[1]);
        atomic_store(&l->users, 1);
        resolve_cancel(r);
        return error_set(e, ERR_NO_MEMORY, "no memory or thread to look up %s", host);
    }
    free(r);
    free(l);
    return error_set(e, ERR_NO_MEMORY, "no memory or descriptor to look up %s", host);
}
