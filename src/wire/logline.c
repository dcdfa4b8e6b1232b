#include "wire/logline.h"

#include <string.h>

bool logline_parse(const char *line, size_t length, struct logline *ret)
{
    enum { TAG_LENGTH = sizeof " stdout F " - 1, TIME_MIN = 20, TIME_MAX = 35 };
    const char *space = memchr(line, ' ', length);
    size_t time_length = space ? (size_t)(space - line) : 0;
    /* An empty line may have lost the space that ends its tag. */
    if (time_length < TIME_MIN || time_length > TIME_MAX || length < time_length + TAG_LENGTH - 1)
        return false;
    bool is_stdout = memcmp(space, " stdout ", 8) == 0;
    bool is_stderr = memcmp(space, " stderr ", 8) == 0;
    char tag = space[8];
    if ((!is_stdout && !is_stderr) || (tag != 'F' && tag != 'P'))
        return false;
    size_t start = time_length + TAG_LENGTH;
    if (length >= start && line[start - 1] != ' ')
        return false;
    *ret = (struct logline){.time = line,
                            .time_length = time_length,
                            .is_stderr = is_stderr,
                            .is_full = tag == 'F',
                            .text = line + (length < start ? length : start),
                            .length = length < start ? 0 : length - start};
    return true;
}
