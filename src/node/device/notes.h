/*
 * What devices told that control has not heard yet. Notes go with a beat, and are kept until that is answered: what a
 * connection loses is said again by the next.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "wire/nodemsg.h"

struct notes {
    size_t count;
    size_t on_way; /* the first of them: with a beat that is not answered yet */
    struct device_note items[NODEMSG_NOTES_MAX];
};

/* False: there are too many. */
bool notes_add(struct notes *notes, const char *uuid, bool alarm, const char *text);
/* Those for the next beat: none while some are on their way. Valid until the next call. */
size_t notes_send(struct notes *notes, const struct device_note **ret);
/* That beat was answered, or never will be. */
void notes_heard(struct notes *notes);
void notes_lost(struct notes *notes);
