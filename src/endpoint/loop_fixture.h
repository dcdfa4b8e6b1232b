/* A thread that runs a server's loop, for tests that are its clients. */
#pragma once
#include <event2/event.h>
#include <pthread.h>

struct loop_thread {
    struct event_base *base; /* the caller's */
    struct event *stop_event;
    int stop[2];
    pthread_t thread;
};

void loop_thread_start(struct loop_thread *loop, struct event_base *base);
/* Nobody runs the loop afterwards. */
void loop_thread_end(struct loop_thread *loop);
