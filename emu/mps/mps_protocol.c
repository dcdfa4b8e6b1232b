#include "emu/mps/mps_protocol.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

bool mps_parse_percentage(const char *text, uint32_t *ret_percentage)
{
    char *end;
    double percentage = strtod(text, &end);
    if (end == text || *end != '\0' || !(percentage > 0 && percentage <= 100))
        return false;
    long thousandths = lround(percentage * MPS_PERCENTAGE_ONE);
    *ret_percentage = thousandths > 0 ? (uint32_t)thousandths : 1;
    return true;
}

bool mps_parse_bytes(const char *text, uint64_t *ret_bytes)
{
    char *end;
    unsigned long long number = strtoull(text, &end, 10);
    if (end == text || text[0] == '-' || number == 0 || number > UINT32_MAX)
        return false;
    unsigned shift = *end == 'G' || *end == 'g' ? 30 : *end == 'M' || *end == 'm' ? 20 : 0;
    if (shift == 0 || end[1] != '\0')
        return false;
    *ret_bytes = (uint64_t)number << shift;
    return true;
}

const char *mps_pipe_directory(void)
{
    const char *directory = getenv(MPS_PIPE_DIRECTORY);
    return directory && directory[0] != '\0' ? directory : MPS_PIPE_DIRECTORY_DEFAULT;
}

bool mps_pipe_path(const char *name, char *path, size_t size)
{
    int length = snprintf(path, size, "%s/%s", mps_pipe_directory(), name);
    return length > 0 && (size_t)length < size;
}
