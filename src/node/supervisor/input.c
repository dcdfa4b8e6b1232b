#include "node/supervisor/input.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

void input_init(struct input *in, int fd)
{
    in->fd = fd;
    in->taken = 0;
    in->ended = false;
    in->length = 0;
}

bool input_take(struct input *in, uint64_t offset, const char *bytes, size_t length, bool end)
{
    if (offset > in->taken)
        return false;
    uint64_t known = in->taken - offset;
    if (known < length) {
        size_t fresh = length - (size_t)known, room = INPUT_BUFFER_MAX - in->length;
        bool whole = fresh <= room || in->fd < 0;
        if (!whole)
            fresh = room;
        if (in->fd >= 0 && fresh) {
            memcpy(in->bytes + in->length, bytes + known, fresh);
            in->length += fresh;
        }
        in->taken += fresh;
        end = end && whole;
    }
    in->ended = in->ended || (end && offset + length <= in->taken);
    input_write(in);
    return true;
}

void input_write(struct input *in)
{
    while (in->fd >= 0 && in->length) {
        ssize_t n = write(in->fd, in->bytes, in->length);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            return;
        if (n <= 0) {
            input_done(in);
            return;
        }
        in->length -= (size_t)n;
        memmove(in->bytes, in->bytes + n, in->length);
    }
    if (in->ended)
        input_done(in);
}

void input_done(struct input *in)
{
    if (in->fd >= 0)
        close(in->fd);
    in->fd = -1;
    in->length = 0;
}
