#include "cli/watch/attainment.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cli/frame/answer.h"

enum { LEVELS = 8, LINE_MAX_BYTES = 4096 };

static bool has_target(const json_t *control)
{
    return json_fraction(control, "target_us", 0) > 0;
}

static double count_of(const json_t *control, const char *what, const char *period)
{
    char key[SHOW_TEXT_MAX];
    (void)snprintf(key, sizeof key, "%s%s%s", what, *period ? "_" : "", period);
    return json_fraction(control, key, 0);
}

/* A percentage near 100 is rounded down. */
static char *show_percent(double fraction, char text[SHOW_TEXT_MAX])
{
    if (fraction >= 1)
        (void)snprintf(text, SHOW_TEXT_MAX, "100%%");
    else
        (void)snprintf(text, SHOW_TEXT_MAX, "%.2f%%", floor(fraction * 10000) / 100);
    return text;
}

char *attainment_show(const json_t *control, const char *period, char text[SHOW_TEXT_MAX])
{
    double answered = count_of(control, "answered", period);
    if (answered > 0 && has_target(control))
        return show_percent(1 - count_of(control, "late", period) / answered, text);
    (void)snprintf(text, SHOW_TEXT_MAX, "-");
    return text;
}

char *attainment_show_target(const json_t *control, char text[SHOW_TEXT_MAX])
{
    double target_ms = json_fraction(control, "target_us", 0) / 1000;
    double allowed = json_fraction(control, "allowed_fraction", 0);
    if (target_ms > 0 && allowed > 0)
        (void)snprintf(text, SHOW_TEXT_MAX, "p%.5g %.4g ms", 100 * (1 - allowed), target_ms);
    else if (target_ms > 0)
        (void)snprintf(text, SHOW_TEXT_MAX, "%.4g ms", target_ms);
    else
        (void)snprintf(text, SHOW_TEXT_MAX, "1.10x alone");
    return text;
}

char *attainment_show_tasks(const json_t *control, char text[SHOW_TEXT_MAX])
{
    double speed = json_fraction(control, "task_speed", -1);
    if (speed >= 0)
        (void)snprintf(text, SHOW_TEXT_MAX, "%.0f%%", 100 * speed);
    else
        (void)snprintf(text, SHOW_TEXT_MAX, "-");
    return text;
}

bool attainment_is_missed(const json_t *control)
{
    double allowed = json_fraction(control, "allowed_fraction", 0);
    return allowed > 0 &&
           count_of(control, "late", "10m") > allowed * count_of(control, "answered", "10m");
}

/* ---- lines ---- */

static void write_attainment(const json_t *control, struct str *out)
{
    static const struct {
        const char *period, *name;
    } periods[] = {{"1m", "1 min"}, {"10m", "10 min"}, {"1h", "1 h"}, {"", "all"}};
    char text[SHOW_TEXT_MAX];
    double answered = count_of(control, "answered", "");
    if (answered == 0)
        return;
    str_printf(out, "%-12s ", "In time");
    for (size_t i = 0; has_target(control) && i < sizeof periods / sizeof *periods; i++)
        str_printf(out, "%s %s, ", periods[i].name,
                   attainment_show(control, periods[i].period, text));
    if (has_target(control))
        str_printf(out, "%.0f of %.0f requests late\n", count_of(control, "late", ""), answered);
    else
        str_printf(out, "unknown without an SLO; %.0f requests\n", answered);
}

static void write_target(const json_t *control, struct str *out)
{
    char text[SHOW_TEXT_MAX];
    double held_ms = json_fraction(control, "held_latency_us", -1) / 1000;
    str_printf(out, "%-12s %s", "Target", attainment_show_target(control, text));
    if (json_is_true(json_object_get(control, "is_unreachable")))
        str_append(out, ", unreachable: the service misses the target while tasks are held");
    if (held_ms > 0)
        str_printf(out, "; %.4g ms with tasks held", held_ms);
    str_append(out, "\n");
}

static void write_cost(const json_t *control, struct str *out)
{
    char text[SHOW_TEXT_MAX];
    double stretch = json_fraction(control, "stretch", -1);
    double allowed = json_fraction(control, "allowed_stretch", -1);
    if (json_fraction(control, "task_speed", -1) >= 0)
        str_printf(out, "%-12s %s of their speed under the fastest setting measured\n", "Tasks",
                   attainment_show_tasks(control, text));
    if (stretch > 0)
        str_printf(out, "%-12s bursts last %.2f times as long as alone", "Stretch", stretch);
    if (stretch > 0 && allowed > 0)
        str_printf(out, ", %.2f allowed", allowed);
    if (stretch > 0)
        str_append(out, "\n");
}

/* Returns the reason without the name of the setting, with which most reasons begin. */
static const char *reason(const json_t *control)
{
    const char *why = json_text(control, "why", ""), *setting = json_text(control, "setting", "");
    size_t length = strlen(setting);
    bool repeats = strncmp(why, setting, length) == 0 && strncmp(why + length, ": ", 2) == 0;
    return repeats ? why + length + 2 : why;
}

void attainment_write(const json_t *control, struct str *out)
{
    if (!json_is_object(control))
        return;
    bool is_trial = json_is_true(json_object_get(control, "is_trial"));
    write_target(control, out);
    write_attainment(control, out);
    str_printf(out, "%-12s %s%s\n", "Setting", json_text(control, "setting", "?"),
               is_trial ? ", on trial" : "");
    str_printf(out, "%-12s %s\n", "", reason(control));
    write_cost(control, out);
}

/* ---- history ---- */

static double number_at(const json_t *control, const char *list, size_t i)
{
    return json_number_value(json_array_get(json_object_get(control, list), i));
}

/* Returns the attainment of a minute; -1: no requests. */
static double minute_at(const json_t *control, size_t i)
{
    double answered = number_at(control, "minutes_answered", i);
    return answered > 0 ? 1 - number_at(control, "minutes_late", i) / answered : -1;
}

void attainment_write_history(const json_t *control, bool utf8, struct str *out)
{
    size_t count = json_array_size(json_object_get(control, "minutes_answered"));
    char least[SHOW_TEXT_MAX], most[SHOW_TEXT_MAX];
    double lowest = 2, highest = -1;
    for (size_t i = 0; i < count; i++) {
        double minute = minute_at(control, i);
        lowest = minute >= 0 ? fmin(lowest, minute) : lowest;
        highest = fmax(highest, minute);
    }
    if (highest < 0 || !has_target(control))
        return;
    str_printf(out, "%-12s ", "History");
    for (size_t i = 0; i < count; i++) {
        double minute = minute_at(control, i);
        double part = lowest < 1 ? (minute - lowest) / (1 - lowest) : 1;
        int level = minute < 0 ? 0 : 1 + (int)(part * (LEVELS - 1));
        if (level == 0)
            str_append(out, " ");
        else if (utf8) /* U+2581 to U+2588 */
            str_printf(out, "\xe2\x96%c", 0x80 + level);
        else
            str_printf(out, "%d", level);
    }
    str_printf(out, "\n%-12s %zu minute%s, lowest %s, highest %s\n", "", count,
               count == 1 ? "" : "s", show_percent(lowest, least), show_percent(highest, most));
}
