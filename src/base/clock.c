#include "base/clock.h"

#include <stdio.h>
#include <time.h>

static int64_t read_ns(clockid_t id)
{
    struct timespec t;
    clock_gettime(id, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static int64_t read_us(clockid_t id)
{
    return read_ns(id) / 1000;
}

int64_t clock_boot_ns(void)
{
    return read_ns(CLOCK_BOOTTIME);
}

int64_t clock_boot_us(void)
{
    return read_us(CLOCK_BOOTTIME);
}

int64_t clock_boot_ms(void)
{
    return clock_boot_us() / 1000;
}

int64_t clock_wall_ms(void)
{
    return read_us(CLOCK_REALTIME) / 1000;
}

struct clock_now clock_read(void)
{
    return (struct clock_now){.wall_ms = clock_wall_ms(), .boot_ms = clock_boot_ms()};
}

char *clock_format(int64_t wall_ms, char text[CLOCK_TEXT_MAX])
{
    time_t seconds = (time_t)(wall_ms / 1000);
    struct tm tm;
    char date[24];
    if (wall_ms < 0 || !gmtime_r(&seconds, &tm) ||
        strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%S", &tm) == 0) {
        snprintf(text, CLOCK_TEXT_MAX, "-");
        return text;
    }
    snprintf(text, CLOCK_TEXT_MAX, "%s.%03dZ", date, (int)(wall_ms % 1000));
    return text;
}
