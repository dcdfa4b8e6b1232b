/*
 * Notes of devices that control has not acknowledged. The agent sends the notes with a beat, and
 * keeps the notes until control answers that beat. After a lost connection the agent sends the
 * notes again.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "wire/nodemsg.h"

struct notes {
    size_t count;
    size_t on_way; /* number of notes at the start of the list that are in flight with a beat */
    struct device_note items[NODEMSG_NOTES_MAX];
};

/* Adds a note. Returns false if the list is full. */
bool notes_add(struct notes *notes, const char *uuid, bool alarm, const char *text);
/* Lists the notes for the next beat; none while notes are in flight. Valid until the next call. */
size_t notes_send(struct notes *notes, const struct device_note **ret);
/* Handle the answer to the beat, and the loss of the connection. */
void notes_heard(struct notes *notes);
void notes_lost(struct notes *notes);
