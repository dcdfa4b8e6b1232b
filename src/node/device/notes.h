/*
 * Notes of devices that control has not acknowledged. Notes travel with a beat and are kept until
 * control answers that beat; after a lost connection they are sent again.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "wire/nodemsg.h"

struct notes {
    size_t count;
    size_t on_way; /* the first notes, in a beat that is not answered yet */
    struct device_note items[NODEMSG_NOTES_MAX];
};

/* false: the list is full. */
bool notes_add(struct notes *notes, const char *uuid, bool alarm, const char *text);
/* Notes for the next beat; none while some are in flight. Valid until the next call. */
size_t notes_send(struct notes *notes, const struct device_note **ret);
/* The beat was answered; the connection was lost. */
void notes_heard(struct notes *notes);
void notes_lost(struct notes *notes);
