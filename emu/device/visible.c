#include "emu/device/visible.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>
#include <strings.h>

#include "emu/device/uuid.h"

enum { NO_DEVICE = -1 };

static int by_index(const char *entry, size_t length, const struct visible_among *among)
{
    unsigned index = 0;
    if (length == 0 || length > 4)
        return NO_DEVICE;
    for (size_t i = 0; i < length; i++) {
        if (!isdigit((unsigned char)entry[i]))
            return NO_DEVICE;
        index = index * 10 + (unsigned)(entry[i] - '0');
    }
    return index < among->count ? among->devices[index] : NO_DEVICE;
}

static int by_uuid(const char *entry, size_t length, const struct mapping *mapping,
                   const struct visible_among *among)
{
    int found = NO_DEVICE;
    for (unsigned i = 0; i < among->count; i++) {
        char text[UUID_TEXT_MAX];
        uuid_format(mapping_device(mapping, among->devices[i])->uuid, text);
        if (length > strlen(text) || strncasecmp(entry, text, length) != 0)
            continue;
        if (found != NO_DEVICE)
            return NO_DEVICE;
        found = among->devices[i];
    }
    return found;
}

void visible_among_all(const struct mapping *mapping, struct visible_among *ret_among)
{
    ret_among->count = mapping->file->device_count;
    for (unsigned i = 0; i < ret_among->count; i++)
        ret_among->devices[i] = (uint8_t)i;
}

void visible_for_each(const char *list, const struct mapping *mapping,
                      const struct visible_among *among,
                      void (*see)(void *argument, unsigned index), void *argument)
{
    if (!list) {
        for (unsigned i = 0; i < among->count; i++)
            see(argument, among->devices[i]);
        return;
    }
    uint64_t seen = 0;
    static_assert(EMU_DEVICES_MAX <= 64, "one bit a device");
    while (*list != '\0') {
        while (*list == ' ')
            list++;
        size_t length = strcspn(list, ", ");
        bool is_uuid = length > 4 && strncasecmp(list, "GPU-", 4) == 0;
        int index = is_uuid ? by_uuid(list, length, mapping, among) : by_index(list, length, among);
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
