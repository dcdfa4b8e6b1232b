/*
 * notify: reports a daemon's state to its service manager by the protocol of systemd's Type=notify:
 * one datagram of NAME=VALUE lines to the unix socket in $NOTIFY_SOCKET, a path or "@NAME" in the
 * abstract namespace.
 *
 * Without a service manager, a notifier drops all messages, so callers need no check.
 */
#pragma once
#include "base/error.h"

enum { NOTIFY_TEXT_MAX = 1024 };

struct notifier {
    int fd; /* -1: no service manager, messages are dropped */
};

/* socket: the value of NOTIFY_SOCKET; NULL or "" means no service manager. After a failure *n is
 * still usable and drops all messages. */
int notify_init(struct error *e, struct notifier *n, const char *socket);
void notify_done(struct notifier *n);
/* Sends lines such as "READY=1\nSTATUS=4 devices", at most NOTIFY_TEXT_MAX bytes. Waits a few
 * seconds at most for a service manager that is slow to read. */
int notify_send(struct error *e, const struct notifier *n, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
