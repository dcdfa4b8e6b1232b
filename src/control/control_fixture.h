/* Control without nodes in a directory of its own, stepped by the test, and three clients
 * that ask it. */
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

/* For cmocka: *state is the fixture. */
int open_fixture(void **state);
int close_fixture(void **state);
/* Ends control and starts it again on what it has stored; the clients are new ones. */
void restart_control(struct fixture *f);
/* The same, one by one. A start that fails leaves it ended. */
void stop_control(struct fixture *f);
int start_control(struct error *e, struct fixture *f);
void get(struct http_client *client, const char *path);
void post(struct http_client *client, const char *path, const char *body);
/* The same, of a body that is more than a socket holds: control reads while it is sent. */
void post_large(struct fixture *f, struct http_client *client, const char *path, const char *body);
/* Steps control until the client has its answer, which must have this status, and text in
 * its body. */
void expect(struct fixture *f, struct http_client *client, int status, const char *text);
bool log_says(const struct fixture *f, const char *text);
