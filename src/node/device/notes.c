#include "node/device/notes.h"

#include <string.h>

#include "base/str.h"

bool notes_add(struct notes *notes, const char *uuid, bool alarm, const char *text)
{
    if (notes->count == NODEMSG_NOTES_MAX)
        return false;
    struct device_note *note = &notes->items[notes->count++];
    *note = (struct device_note){.alarm = alarm};
    str_copy(note->uuid, sizeof note->uuid, uuid);
    str_copy(note->text, sizeof note->text, text);
    return true;
}

size_t notes_send(struct notes *notes, const struct device_note **ret)
{
    *ret = notes->items;
    if (notes->on_way > 0)
        return 0;
    notes->on_way = notes->count;
    return notes->count;
}

void notes_heard(struct notes *notes)
{
    notes->count -= notes->on_way;
    memmove(notes->items, notes->items + notes->on_way, notes->count * sizeof notes->items[0]);
    notes->on_way = 0;
}

void notes_lost(struct notes *notes)
{
    notes->on_way = 0;
}
