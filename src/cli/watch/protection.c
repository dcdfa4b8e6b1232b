#include "cli/watch/protection.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "cli/frame/answer.h"
#include "cli/frame/show.h"

enum { LINE_MAX_BYTES = 1 << 16 };

static void write_line(struct str *out, const char *label, struct str *line)
{
    if (line->length)
        str_printf(out, "%-12s %s\n", label, str_text(line));
    str_done(line);
}

static double count_of(const json_t *counters, const char *name)
{
    return json_fraction(counters, name, 0);
}

/* Writes "850 us", "12.3 ms" or "4.2 s". */
static char *show_ns(double ns, char text[SHOW_TEXT_MAX])
{
    static const struct {
        double ns;
        const char *unit;
    } units[] = {{1e9, "s"}, {1e6, "ms"}, {1e3, "us"}};
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        if (ns < units[i].ns)
            continue;
        snprintf(text, SHOW_TEXT_MAX, "%.3g %s", ns / units[i].ns, units[i].unit);
        return text;
    }
    snprintf(text, SHOW_TEXT_MAX, "%.0f ns", ns);
    return text;
}

/* Starts the next part of a line. */
static struct str *part(struct str *line)
{
    if (line->length)
        str_append(line, ", ");
    return line;
}

/* Writes "1 launch" or "2 launches"; `ending` is the ending of the plural. */
static void write_count(struct str *line, double count, const char *noun, const char *ending)
{
    str_printf(line, "%.0f %s%s", count, noun, count == 1 ? "" : ending);
}

/* ---- limits ---- */

static char *show_limit(const char *unit, double value, char text[SHOW_TEXT_MAX])
{
    if (value == 0)
        snprintf(text, SHOW_TEXT_MAX, "none");
    else if (strcmp(unit, "bytes") == 0)
        show_bytes(value, text);
    else if (strcmp(unit, "percent") == 0)
        snprintf(text, SHOW_TEXT_MAX, "%.0f%%", value);
    else if (strcmp(unit, "permille") == 0)
        snprintf(text, SHOW_TEXT_MAX, "%.1f%%", value / 10);
    else if (strcmp(unit, "us") == 0)
        show_ns(value * 1e3, text);
    else if (strcmp(unit, "ms") == 0)
        show_ns(value * 1e6, text);
    else
        snprintf(text, SHOW_TEXT_MAX, "%.0f %s", value, unit);
    return text;
}

/* Writes "window 250 us: a service shares the device" from window_us. */
static void write_limits(const json_t *limits, struct str *out)
{
    for (size_t i = 0; i < json_array_size(limits); i++) {
        const json_t *limit = json_array_get(limits, i);
        const char *name = json_text(limit, "name", ""), *end = strrchr(name, '_');
        char text[SHOW_TEXT_MAX];
        int length = end ? (int)(end - name) : (int)strlen(name);
        show_limit(end ? end + 1 : "", json_fraction(limit, "value", 0), text);
        str_printf(out, "%-12s %.*s %s: %s\n", i ? "" : "Limits", length, name, text,
                   json_text(limit, "reason", ""));
    }
}

/* ---- counters ---- */

static void write_launches(const json_t *c, struct str *out)
{
    struct str line;
    char text[SHOW_TEXT_MAX];
    double kernels = count_of(c, "launches_kernel"), graphs = count_of(c, "launches_graph");
    double kernels_ns = count_of(c, "gpu_time_kernel_ns"),
           graphs_ns = count_of(c, "gpu_time_graph_ns");
    double charged = kernels - count_of(c, "launches_uncharged");
    str_init(&line, LINE_MAX_BYTES);
    if (kernels > 0)
        write_count(part(&line), kernels, "kernel", "s");
    if (kernels_ns > 0 && charged > 0)
        str_printf(&line, " of %s on average", show_ns(kernels_ns / charged, text));
    if (graphs > 0)
        write_count(part(&line), graphs, "graph", "s");
    if (graphs > 0 && graphs_ns > 0)
        str_printf(&line, " of %s", show_ns(graphs_ns / graphs, text));
    if (count_of(c, "launches_collective") > 0)
        str_printf(part(&line), "%.0f for collectives", count_of(c, "launches_collective"));
    if (count_of(c, "launches_coarse") > 0)
        str_printf(part(&line), "%.0f coarse", count_of(c, "launches_coarse"));
    write_line(out, "Launches", &line);
    str_init(&line, LINE_MAX_BYTES);
    if (kernels_ns + graphs_ns > 0)
        str_printf(&line, "%s (estimate)", show_ns(kernels_ns + graphs_ns, text));
    write_line(out, "GPU time", &line);
}

/* Passes include streams that waited without a delayed launch, so holds may be 0. */
static void write_holds(struct str *line, double holds, double passes)
{
    if (holds + passes == 0)
        return;
    str_append(line, " (");
    if (holds > 0)
        write_count(line, holds, "launch", "es");
    if (passes > 0) {
        str_append(line, holds > 0 ? ", passed " : "passed ");
        write_count(line, passes, "time", "s");
        str_append(line, " after the longest wait");
    }
    str_append(line, ")");
}

static void write_held(const json_t *c, struct str *out)
{
    static const struct {
        const char *time, *holds, *passes, *why;
    } reasons[] = {
        {"held_gate_ns", "holds_gate", "passes_gate", "for a busy service"},
        {"held_window_ns", "holds_window", "passes_window", "because the window was full"},
        {"held_rate_ns", NULL, NULL, "to keep the rate"},
        {"held_lease_ns", NULL, NULL, "after the lease expired"},
    };
    struct str line;
    char text[SHOW_TEXT_MAX];
    str_init(&line, LINE_MAX_BYTES);
    for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++) {
        double held_ns = count_of(c, reasons[i].time);
        if (held_ns == 0)
            continue;
        str_printf(part(&line), "%s %s", show_ns(held_ns, text), reasons[i].why);
        if (reasons[i].holds)
            write_holds(&line, count_of(c, reasons[i].holds), count_of(c, reasons[i].passes));
    }
    write_line(out, "Delayed", &line);
}

static void write_memory(const json_t *c, struct str *out)
{
    struct str line;
    char text[SHOW_TEXT_MAX];
    str_init(&line, LINE_MAX_BYTES);
    if (count_of(c, "allocations") > 0) {
        write_count(&line, count_of(c, "allocations"), "allocation", "s");
        str_printf(&line, ", at most %s in one process",
                   show_bytes(count_of(c, "held_peak"), text));
    }
    if (count_of(c, "out_of_memory") > 0)
        write_count(part(&line), count_of(c, "out_of_memory"), "refused allocation", "s");
    if (count_of(c, "uncounted_bytes") > 0)
        str_printf(part(&line), "%s allocated but not accounted",
                   show_bytes(count_of(c, "uncounted_bytes"), text));
    write_line(out, "Memory", &line);
}

static void write_copies(const json_t *c, struct str *out)
{
    static const struct {
        const char *copies, *bytes, *where;
    } directions[] = {
        {"copies_to_device", "copied_to_device_bytes", "to the device"},
        {"copies_to_host", "copied_to_host_bytes", "to the host"},
        {"copies_on_device", "copied_on_device_bytes", "on the device"},
        {"copies_other", "copied_other_bytes", "elsewhere"},
    };
    struct str line;
    char text[SHOW_TEXT_MAX];
    str_init(&line, LINE_MAX_BYTES);
    for (size_t i = 0; i < sizeof directions / sizeof *directions; i++)
        if (count_of(c, directions[i].copies) > 0)
            str_printf(part(&line), "%.0f %s (%s)", count_of(c, directions[i].copies),
                       directions[i].where, show_bytes(count_of(c, directions[i].bytes), text));
    write_line(out, "Copies", &line);
}

static void write_rate(const json_t *c, struct str *out)
{
    struct str line;
    double periods = count_of(c, "rate_periods");
    str_init(&line, LINE_MAX_BYTES);
    if (periods > 0)
        str_printf(&line, "average deviation %.1f%% of the device's time",
                   count_of(c, "rate_error_permille") / periods / 10);
    write_line(out, "Rate", &line);
}

/* Returns whether one of the functions above shows the counter. */
static bool is_told(const char *name)
{
    static const char *const told[] = {
        "launches_kernel",     "launches_graph",     "launches_collective", "launches_coarse",
        "launches_uncharged",  "gpu_time_kernel_ns", "gpu_time_graph_ns",   "allocations",
        "held_peak",           "out_of_memory",      "uncounted_bytes",     "rate_periods",
        "rate_error_permille", "sms_peak",
    };
    static const char *const families[] = {"held_", "holds_", "passes_", "copies_", "copied_"};
    for (size_t i = 0; i < sizeof told / sizeof *told; i++)
        if (strcmp(name, told[i]) == 0)
            return true;
    for (size_t i = 0; i < sizeof families / sizeof *families; i++)
        if (str_starts_with(name, families[i]))
            return true;
    return false;
}

/* Writes the remaining counters by name. */
static void write_others(const json_t *counters, struct str *out)
{
    const char *name;
    json_t *value;
    struct str line;
    str_init(&line, LINE_MAX_BYTES);
    json_object_foreach((json_t *)(uintptr_t)counters, name, value)
    {
        if (json_integer_value(value) != 0 && !is_told(name))
            str_printf(part(&line), "%s %" JSON_INTEGER_FORMAT, name, json_integer_value(value));
    }
    write_line(out, "Counts", &line);
}

static void write_account(const json_t *protection, struct str *out)
{
    char counted[SHOW_TEXT_MAX], peak[SHOW_TEXT_MAX], beyond[SHOW_TEXT_MAX];
    char overhead[SHOW_TEXT_MAX];
    str_printf(out, "%-12s %s (peak %s), %s unaccounted, of which %s count against the quota\n",
               "Allocated", show_bytes(json_fraction(protection, "counted_bytes", 0), counted),
               show_bytes(json_fraction(protection, "peak_bytes", 0), peak),
               show_bytes(json_fraction(protection, "uncounted_bytes", 0), beyond),
               show_bytes(json_fraction(protection, "overhead_bytes", 0), overhead));
}

void protection_write(const json_t *protection, struct str *out)
{
    if (!json_is_object(protection))
        return;
    const json_t *counters = json_object_get(protection, "counters");
    write_limits(json_object_get(protection, "limits"), out);
    write_account(protection, out);
    write_memory(counters, out);
    write_launches(counters, out);
    write_held(counters, out);
    write_rate(counters, out);
    write_copies(counters, out);
    write_others(counters, out);
}
