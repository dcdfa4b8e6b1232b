#include "emu/visible.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>
#include <strings.h>

#include "emu/uuid.h"

enum { NO_DEVICE = -1 };

static int by_index(const char *entry, size_t length, unsigned count)
{
    unsigned index = 0;
    if (length == 0 || length > 4)
        return NO_DEVICE;
    for (size_t i = 0; i < length; i++) {
        if (!isdigit((unsigned char)entry[i]))
            return NO_DEVICE;
        index = index * 10 + (unsigned)(entry[i] - '0');
    }
    return index < count ? (int)index : NO_DEVICE;
}

static int by_uuid(const char *entry, size_t length, const struct mapping *mapping)
{
    int found = NO_DEVICE;
    for (unsigned i = 0; i < mapping->file->device_count; i++) {
        char text[UUID_TEXT_MAX];
        uuid_format(mapping_device(mapping, i)->uuid, text);
        if (length > strlen(text) || strncasecmp(entry, text, length) != 0)
            continue;
        if (found != NO_DEVICE)
            return NO_DEVICE;
        found = (int)i;
    }
    return found;
}

void visible_for_each(const char *list, const struct mapping *mapping,
                      void (*see)(void *argument, unsigned index), void *argument)
{
    unsigned count = mapping->file->device_count;
    if (!list) {
        for (unsigned i = 0; i < count; i++)
            see(argument, i);
        return;
    }
    uint64_t seen = 0;
    static_assert(EMU_DEVICES_MAX <= 64, "one bit a device");
    while (*list != '\0') {
        while (*list == ' ')
            list++;
        size_t length = strcspn(list, ", ");
        bool is_uuid = length > 4 && strncasecmp(list, "GPU-", 4) == 0;
        int index = is_uuid ? by_uuid(list, length, mapping) : by_index(list, length, count);
        if (index == NO_DEVICE || (seen & UINT64_C(1) << index))
            return;
        seen |= UINT64_C(1) << index;
        see(argument, (unsigned)index);
        list += length;
        list += strspn(list, " ");
        if (*list == ',')
            list++;
    }
}
