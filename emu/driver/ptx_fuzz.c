/* For any text, parsing ends, stays in bounds, and yields complete entries. */
#include <stdlib.h>
#include <string.h>

#include "emu/driver/ptx.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int check_entry(void *argument, const struct ptx_entry *entry)
{
    unsigned *entries = argument;
    uint32_t end = 0;
    ++*entries;
    if (entry->name[0] == '\0' || !memchr(entry->name, '\0', PTX_NAME_MAX))
        abort();
    for (unsigned i = 0; i < entry->parameter_count; i++) {
        const struct ptx_parameter *parameter = &entry->parameters[i];
        if (parameter->offset < end || parameter->bytes == 0)
            abort();
        end = parameter->offset + parameter->bytes;
    }
    if (end != entry->buffer_bytes)
        abort();
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    unsigned entries = 0;
    (void)ptx_parse((const char *)data, size, check_entry, &entries);
    if (entries > PTX_ENTRIES_MAX)
        abort();
    return 0;
}
