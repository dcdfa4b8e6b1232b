/*
 * Time. Two clocks, never mixed: `wall` for people and records; `boot` (CLOCK_BOOTTIME, which
 * counts during system suspend and never jumps) for leases, timeouts and durations. State machines
 * read neither clock: the caller passes a struct clock_now.
 */
#pragma once
#include <stdint.h>

struct clock_now {
    int64_t wall_ms; /* since 1970, UTC; may jump */
    int64_t boot_ms; /* since boot; never goes back */
};

struct clock_now clock_read(void);
int64_t clock_boot_ms(void);
int64_t clock_boot_us(void);
int64_t clock_boot_ns(void);
int64_t clock_wall_ms(void);

enum { CLOCK_TEXT_MAX = 32 };
/* Writes the time as "2026-11-15T05:46:15.123Z"; returns text. */
char *clock_format(int64_t wall_ms, char text[CLOCK_TEXT_MAX]);
