/*
 * notify: tells the service manager that started this process how it is doing, in the protocol of
 * systemd's Type=notify: one datagram of NAME=VALUE lines to the unix socket that $NOTIFY_SOCKET
 * names, a path or "@NAME" in the abstract namespace.
 *
 * Without a service manager a notifier drops everything, so that callers need not ask.
 */
#pragma once
#include "base/error.h"

enum { NOTIFY_TEXT_MAX = 1024 };

struct notifier {
    int fd; /* -1: nobody wants to know */
};

/* socket: the value of NOTIFY_SOCKET; NULL or "": nobody wants to know. On failure too *n can be
 * used, and drops everything. */
int notify_init(struct error *e, struct notifier *n, const char *socket);
void notify_done(struct notifier *n);
/* Sends lines such as "READY=1\nSTATUS=4 devices", NOTIFY_TEXT_MAX bytes at most. Waits for a
 * manager that is slow to read, but not for long. */
int notify_send(struct error *e, const struct notifier *n, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
