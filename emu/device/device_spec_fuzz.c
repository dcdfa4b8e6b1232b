/* Any specification is either refused with a reason or means a number of devices. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "emu/device/device_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *spec = malloc(size + 1);
    if (!spec)
        return 0;
    if (size > 0)
        memcpy(spec, data, size);
    spec[size] = '\0';
    struct error error = {0};
    unsigned count = 0;
    int r = emu_device_spec_check(&error, spec, &count);
    if (r == 0 ? count == 0 || count > EMU_DEVICES_MAX : error.text[0] == '\0')
        abort();
    free(spec);
    return 0;
}
