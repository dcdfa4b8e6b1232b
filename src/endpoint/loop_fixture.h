/* A thread that runs the loop of a server, for tests that act as clients. */
#pragma once
#include <event2/event.h>
#include <pthread.h>

struct loop_thread {
    struct event_base *base; /* borrowed from the caller */
    struct event *stop_event;
    int stop[2];
    pthread_t thread;
};

void loop_thread_start(struct loop_thread *loop, struct event_base *base);
/* Stops the loop and joins the thread. */
void loop_thread_end(struct loop_thread *loop);
