#include "cli/frame/show.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "cli/frame/answer.h"

int64_t show_parse_time(const char *text)
{
    struct tm tm = {0};
    const char *rest = strptime(text, "%Y-%m-%dT%H:%M:%S", &tm);
    if (!rest)
        return -1;
    int64_t ms = 0;
    if (*rest == '.') {
        int64_t unit = 100;
        for (rest++; *rest >= '0' && *rest <= '9'; rest++, unit /= 10)
            ms += (*rest - '0') * unit;
    }
    return strcmp(rest, "Z") == 0 ? (int64_t)timegm(&tm) * 1000 + ms : -1;
}

int64_t show_time_member(const json_t *object, const char *key)
{
    return show_parse_time(json_text(object, key, ""));
}

char *show_duration(int64_t ms, char text[SHOW_TEXT_MAX])
{
    enum { SECOND = 1000, MINUTE = 60 * SECOND, HOUR = 60 * MINUTE, DAY = 24 * HOUR };
    if (ms < 0)
        snprintf(text, SHOW_TEXT_MAX, "-");
    else if (ms < SECOND)
        snprintf(text, SHOW_TEXT_MAX, "%dms", (int)ms);
    else if (ms < MINUTE)
        snprintf(text, SHOW_TEXT_MAX, "%ds", (int)(ms / SECOND));
    else if (ms < HOUR)
        snprintf(text, SHOW_TEXT_MAX, "%dm%02ds", (int)(ms / MINUTE), (int)(ms % MINUTE / SECOND));
    else if (ms < DAY)
        snprintf(text, SHOW_TEXT_MAX, "%dh%02dm", (int)(ms / HOUR), (int)(ms % HOUR / MINUTE));
    else
        snprintf(text, SHOW_TEXT_MAX, "%lldd%02dh", (long long)(ms / DAY), (int)(ms % DAY / HOUR));
    return text;
}

char *show_bytes(double bytes, char text[SHOW_TEXT_MAX])
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
    size_t unit = 0;
    while (bytes >= 1024 && unit + 1 < sizeof units / sizeof units[0]) {
        bytes /= 1024;
        unit++;
    }
    bool whole = unit == 0 || bytes >= 100 || bytes == (double)(int64_t)bytes;
    snprintf(text, SHOW_TEXT_MAX, "%.*f %s", whole ? 0 : 1, bytes, units[unit]);
    return text;
}

char *show_speed(double samples_per_s, char text[SHOW_TEXT_MAX])
{
    static const char *const units[] = {"", "k", "M", "G", "T"};
    size_t unit = 0;
    while (samples_per_s >= 999.5 && unit + 1 < sizeof units / sizeof units[0]) {
        samples_per_s /= 1000;
        unit++;
    }
    int decimals = samples_per_s >= 9.95 || samples_per_s <= 0 ? 0 : samples_per_s >= 0.995 ? 1 : 2;
    if (samples_per_s >= 0)
        snprintf(text, SHOW_TEXT_MAX, "%.*f%s/s", decimals, samples_per_s, units[unit]);
    else
        snprintf(text, SHOW_TEXT_MAX, "-");
    return text;
}

double show_samples_per_s(const json_t *workload)
{
    bool is_running = strcmp(json_text(workload, "state", ""), "running") == 0;
    return is_running ? json_fraction(json_object_get(workload, "usage"), "samples_per_s", -1) : -1;
}

char *show_share(const json_t *share, char text[SHOW_TEXT_MAX])
{
    int least = (int)json_number(share, "min", 0), most = (int)json_number(share, "max", 100);
    if (least == most)
        snprintf(text, SHOW_TEXT_MAX, "%d%%", least);
    else
        snprintf(text, SHOW_TEXT_MAX, "%d-%d%%", least, most);
    return text;
}

char *show_quota(const json_t *workload, char text[SHOW_TEXT_MAX])
{
    double quota = json_fraction(workload, "quota_bytes", 0);
    if (json_number(workload, "devices_wanted", 1) == 0)
        snprintf(text, SHOW_TEXT_MAX, "-");
    else if (quota > 0)
        (void)show_bytes(quota, text);
    else
        snprintf(text, SHOW_TEXT_MAX, "whole");
    return text;
}

char *show_slo(const json_t *slo, char text[SHOW_TEXT_MAX])
{
    text[0] = '\0';
    static const struct {
        const char *key, *text;
    } targets[] = {{"latency", ""}, {"first", "first byte "}, {"between", "between pieces "}};
    if (json_object_size(slo) == 0)
        return text;
    int length = snprintf(text, SHOW_TEXT_MAX, "p%g", json_fraction(slo, "percentile", 0));
    const char *separator = " ";
    for (size_t i = 0; i < sizeof targets / sizeof *targets && length < SHOW_TEXT_MAX; i++) {
        const char *time = json_text(slo, targets[i].key, NULL); /* milliseconds: "50ms" */
        if (!time)
            continue;
        length += snprintf(text + length, SHOW_TEXT_MAX - (size_t)length, "%s%sbelow %.6g ms",
                           separator, targets[i].text, strtod(time, NULL));
        separator = ", ";
    }
    return text;
}

char *show_run_time(const json_t *workload, int64_t now_wall_ms, char text[SHOW_TEXT_MAX])
{
    int64_t started = show_time_member(workload, "started");
    /* A workload between attempts does not run, and neither does one that was cancelled there. */
    int64_t ended = show_time_member(workload, "stopped");
    if (ended < 0)
        ended = show_time_member(workload, "ended");
    int64_t until = ended >= 0 ? ended : now_wall_ms;
    return show_duration(started < 0 ? -1 : until > started ? until - started : 0, text);
}

char *show_state(const json_t *workload, char text[SHOW_TEXT_MAX])
{
    const char *state = json_text(workload, "state", "?");
    const char *failure = json_text(workload, "failure", "");
    if (strcmp(state, "failed") != 0)
        snprintf(text, SHOW_TEXT_MAX, "%s", state);
    else if (strcmp(failure, "exit") == 0)
        snprintf(text, SHOW_TEXT_MAX, "failed (exit %d)",
                 (int)json_number(workload, "exit_code", -1));
    else if (strcmp(failure, "signal") == 0)
        snprintf(text, SHOW_TEXT_MAX, "failed (signal %d)",
                 (int)json_number(workload, "signal", 0));
    else
        snprintf(text, SHOW_TEXT_MAX, "failed (%s)", *failure ? failure : "?");
    return text;
}

enum output_colour show_state_colour(const char *state)
{
    static const struct {
        const char *state;
        enum output_colour colour;
    } colours[] = {
        {"queued", OUTPUT_YELLOW},    {"placed", OUTPUT_BLUE},     {"starting", OUTPUT_BLUE},
        {"running", OUTPUT_GREEN},    {"stopping", OUTPUT_YELLOW}, {"failed", OUTPUT_RED},
        {"succeeded", OUTPUT_FAINT},  {"cancelled", OUTPUT_FAINT}, {"suspending", OUTPUT_BLUE},
        {"suspended", OUTPUT_YELLOW}, {"resuming", OUTPUT_BLUE},
    };
    for (size_t i = 0; i < sizeof colours / sizeof colours[0]; i++)
        if (strcmp(colours[i].state, state) == 0)
            return colours[i].colour;
    return OUTPUT_PLAIN;
}

static void append_devices(const json_t *of, const char *key, struct str *out)
{
    const json_t *list = json_object_get(of, key);
    bool is_queued = strcmp(json_text(of, "state", ""), "queued") == 0;
    size_t count = is_queued ? 0 : json_array_size(list);
    if (count == 0)
        str_append_char(out, '-');
    for (size_t i = 0; i < count; i++) {
        const char *name = json_string_value(json_array_get(list, i));
        str_printf(out, "%s%s", i ? " " : "", name ? name : "?");
    }
}

void show_devices(const json_t *of, struct str *out)
{
    append_devices(of, json_object_get(of, "device_names") ? "device_names" : "devices", out);
}

void show_uuids(const json_t *of, struct str *out)
{
    append_devices(of, "devices", out);
}
