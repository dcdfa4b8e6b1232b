/* A node as tests of control simulate it: one connection over control's unix socket. Every function
 * fails the test if it cannot do its task. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"
#include "wire/nodemsg.h"

enum { NODE_WAIT_MS = 60000, NODE_BYTES_MAX = 64 << 10 };

struct test_node {
    int fd;
    void (*wait)(void *arg); /* lets control work for a moment; NULL: control is a process */
    void *arg;
    char bytes[NODE_BYTES_MAX];
    size_t length;
    struct arena arena; /* owner of the last message's data */
    struct nodemsg msg; /* the last message */
};

/* Returns false if control does not listen yet. */
bool test_node_connect(struct test_node *n, const char *socket_path, void (*wait)(void *arg),
                       void *arg);
void test_node_hello(struct test_node *n, const char *name, const char *version, int protocol);
void test_node_send(struct test_node *n, const struct nodemsg *msg);
/* Receives the next message from control in n->msg. Returns false if control closed the
 * connection. */
bool test_node_hears(struct test_node *n);
void test_node_expect(struct test_node *n, enum nodemsg_type type);
void test_node_close(struct test_node *n);
