#include "endpoint/loop_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <unistd.h>

static void on_stop(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    event_base_loopbreak(((struct loop_thread *)arg)->base);
}

static void *run_loop(void *arg)
{
    event_base_loop(((struct loop_thread *)arg)->base, EVLOOP_NO_EXIT_ON_EMPTY);
    return NULL;
}

void loop_thread_start(struct loop_thread *loop, struct event_base *base)
{
    loop->base = base;
    assert_int_equal(pipe(loop->stop), 0);
    loop->stop_event = event_new(base, loop->stop[0], EV_READ, on_stop, loop);
    assert_int_equal(event_add(loop->stop_event, NULL), 0);
    assert_int_equal(pthread_create(&loop->thread, NULL, run_loop, loop), 0);
}

void loop_thread_end(struct loop_thread *loop)
{
    assert_int_equal(write(loop->stop[1], "x", 1), 1);
    pthread_join(loop->thread, NULL);
    event_free(loop->stop_event);
    close(loop->stop[0]);
    close(loop->stop[1]);
}
