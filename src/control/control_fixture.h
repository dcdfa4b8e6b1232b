/* Control without nodes in a temporary directory, stepped by the test, and three clients. */
#pragma once
#include <event2/event.h>

#include "control/control_internal.h"
#include "wire/http/http_client.h"

struct fixture {
    char directory[32], api_socket[64], node_socket[64];
    struct arena arena;
    struct config config;
    struct log log;
    struct event_base *base;
    struct control *control;
    struct http_client *first, *second, *third;
};

/* Setup and teardown for cmocka; *state is the fixture. */
int open_fixture(void **state);
int close_fixture(void **state);
/* Stops control and starts it again on the stored state, with new clients. */
void restart_control(struct fixture *f);
/* The two halves of restart_control(). After a failed start control stays stopped. */
void stop_control(struct fixture *f);
int start_control(struct error *e, struct fixture *f);
void get(struct http_client *client, const char *path);
void post(struct http_client *client, const char *path, const char *body);
/* Sends a body larger than a socket's buffer, while control reads. */
void post_large(struct fixture *f, struct http_client *client, const char *path, const char *body);
/* Steps control until the client has its response, which must have this status and contain
 * `text`. */
void expect(struct fixture *f, struct http_client *client, int status, const char *text);
bool log_says(const struct fixture *f, const char *text);
