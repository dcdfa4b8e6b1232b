#include "cli/watch/top_frame.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/version.h"
#include "cli/frame/answer.h"
#include "cli/frame/show.h"

enum {
    CELL_MAX = 1024,
    BAR_MIN = 6,
    BAR_MAX = 24,
    FIXED_COLUMNS = 86,
    POWER_FROM = FIXED_COLUMNS + 3 * BAR_MIN, /* least width for power and temperature */
    WIDE_FROM = 150,                          /* least width for wide names and states */
};

/* The drawing position. */
struct pen {
    const struct top_view *view;
    const struct top_sink *sink;
    size_t column, line;
};

static bool has_room(const struct pen *p)
{
    return p->view->height == 0 || p->line < p->view->height;
}

/* Writes text, cut between characters at the right margin. */
static void put(struct pen *p, enum output_colour colour, const char *text)
{
    char cut[CELL_MAX];
    size_t length = 0;
    for (size_t i = 0; text[i] && length + 1 < sizeof cut; i++) {
        bool begins = ((unsigned char)text[i] & 0xc0) != 0x80;
        if (begins && p->column == p->view->width)
            break;
        p->column += begins;
        bool is_control = (unsigned char)text[i] < 0x20 || text[i] == 0x7f;
        cut[length++] = is_control ? '?' : text[i];
    }
    cut[length] = '\0';
    if (length)
        p->sink->put(p->sink->arg, colour, cut);
}

__attribute__((format(printf, 3, 4))) static void put_text(struct pen *p, enum output_colour colour,
                                                           const char *format, ...)
{
    char text[CELL_MAX];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    put(p, colour, text);
}

/* Writes text in a column of the given width, followed by a space. */
static void put_cell(struct pen *p, enum output_colour colour, size_t width, const char *text)
{
    size_t shown = 0, length = 0;
    char cell[CELL_MAX];
    for (; text[length] && length + width + 2 < sizeof cell; length++) {
        shown += ((unsigned char)text[length] & 0xc0) != 0x80;
        if (shown > width)
            break;
        cell[length] = text[length];
    }
    if (shown > width)
        shown = width;
    for (; shown <= width; shown++)
        cell[length++] = ' ';
    cell[length] = '\0';
    put(p, colour, cell);
}

static void end_line(struct pen *p)
{
    p->sink->end_line(p->sink->arg);
    p->line++;
    p->column = 0;
}

/* ---- devices ---- */

static size_t bar_width(const struct top_view *view)
{
    size_t spare = view->width > FIXED_COLUMNS ? (view->width - FIXED_COLUMNS) / 3 : 0;
    return spare < BAR_MIN ? BAR_MIN : spare > BAR_MAX ? BAR_MAX : spare;
}

static enum output_colour load_colour(double fraction)
{
    return fraction > 0.9 ? OUTPUT_RED : fraction > 0.6 ? OUTPUT_YELLOW : OUTPUT_GREEN;
}

/* fraction < 0: unknown. */
static void put_bar(struct pen *p, double fraction, enum output_colour colour)
{
    struct str bar;
    str_init(&bar, CELL_MAX);
    size_t width = bar_width(p->view);
    if (fraction < 0)
        for (size_t i = 0; i < width; i++)
            str_append_char(&bar, ' ');
    else
        output_bar(&bar, fraction, width, p->view->utf8);
    put(p, colour, str_text(&bar));
    put(p, OUTPUT_PLAIN, " ");
    str_done(&bar);
}

static void put_sm(struct pen *p, const json_t *usage)
{
    double percent = json_fraction(usage, "sm_percent", -1);
    put_bar(p, percent / 100, load_colour(percent / 100));
    if (percent < 0)
        put_cell(p, OUTPUT_FAINT, 5, "   -");
    else
        put_text(p, OUTPUT_PLAIN, "%3.0f%%  ", percent);
}

static void put_memory(struct pen *p, const json_t *device, const json_t *usage)
{
    char used[SHOW_TEXT_MAX], all[SHOW_TEXT_MAX], text[SHOW_TEXT_MAX * 2 + 8];
    double total = json_fraction(device, "memory_bytes", 0);
    double bytes = json_fraction(usage, "memory_used_bytes", -1);
    double fraction = total > 0 && bytes >= 0 ? bytes / total : -1;
    put_bar(p, fraction, load_colour(fraction));
    snprintf(text, sizeof text, "%s / %s", bytes < 0 ? "-" : show_bytes(bytes, used),
             show_bytes(total, all));
    put_cell(p, OUTPUT_PLAIN, 20, text);
}

static void put_power(struct pen *p, const json_t *usage)
{
    char text[SHOW_TEXT_MAX];
    double watts = json_fraction(usage, "power_watts", -1);
    double limit = json_fraction(usage, "power_limit_watts", -1);
    bool known = watts >= 0 && limit > 0;
    put_bar(p, known ? watts / limit : -1, OUTPUT_BLUE);
    if (known)
        snprintf(text, sizeof text, "%.0f / %.0f W", watts, limit);
    else
        snprintf(text, sizeof text, "-");
    put_cell(p, known ? OUTPUT_PLAIN : OUTPUT_FAINT, 13, text);
}

static void put_temperature(struct pen *p, const json_t *usage)
{
    double celsius = json_fraction(usage, "temperature_celsius", -1);
    if (celsius > 0)
        put_text(p, OUTPUT_PLAIN, "%3.0f%s", celsius, p->view->utf8 ? "°C " : "C  ");
    else
        put(p, OUTPUT_FAINT, "  -   ");
}

/* Writes why no workload, or only some, can start on the device. */
static void put_trouble(struct pen *p, const json_t *node, const json_t *device)
{
    const char *state = json_text(device, "state", "healthy");
    bool is_lost = strcmp(state, "disabled") == 0 || strcmp(state, "overlimit") == 0;
    if (!json_is_true(json_object_get(node, "connected")))
        put(p, OUTPUT_YELLOW, " away");
    else if (strcmp(state, "healthy") != 0)
        put_text(p, is_lost ? OUTPUT_RED : OUTPUT_YELLOW, " %s", state);
    else if (json_is_true(json_object_get(node, "drained")))
        put(p, OUTPUT_YELLOW, " drained");
    else if (json_is_true(json_object_get(node, "held")))
        put(p, OUTPUT_YELLOW, " held");
}

static void draw_device(struct pen *p, const json_t *node, const json_t *device)
{
    const json_t *usage = json_object_get(device, "usage");
    const json_t *booked = json_object_get(device, "booked");
    char text[SHOW_TEXT_MAX];
    snprintf(text, sizeof text, "%.20s:%lld", json_text(node, "name", "?"),
             (long long)json_number(device, "index", 0));
    put_cell(p, OUTPUT_BOLD, 10, text);
    const char *model = json_text(device, "model", "?");
    put_cell(p, OUTPUT_PLAIN, 10, str_starts_with(model, "NVIDIA ") ? model + 7 : model);
    put_sm(p, usage);
    put_memory(p, device, usage);
    if (p->view->width >= POWER_FROM) {
        put_power(p, usage);
        put_temperature(p, usage);
    }
    put_text(p, OUTPUT_PLAIN, "%2lld", (long long)json_number(booked, "workloads", 0));
    put_trouble(p, node, device);
    end_line(p);
}

/* Returns the lines for devices: half of the screen, and the lines that workloads do not need. */
static size_t device_lines(const struct pen *p, size_t device_count)
{
    if (p->view->height == 0)
        return device_count;
    size_t left = p->view->height > p->line ? p->view->height - p->line : 0;
    size_t needed = 2 + json_array_size(p->view->workloads); /* including a gap and a header */
    size_t lines = left > needed && left - needed > left / 2 ? left - needed : left / 2;
    return lines < device_count ? lines : device_count;
}

static size_t count_devices(const json_t *nodes)
{
    size_t count = 0;
    for (size_t i = 0; i < json_array_size(nodes); i++)
        count += json_array_size(json_object_get(json_array_get(nodes, i), "devices"));
    return count;
}

static void draw_devices(struct pen *p)
{
    size_t bar = bar_width(p->view);
    put_cell(p, OUTPUT_FAINT, 10, "DEVICE");
    put_cell(p, OUTPUT_FAINT, 10, "MODEL");
    put_cell(p, OUTPUT_FAINT, bar + 6, "SM");
    put_cell(p, OUTPUT_FAINT, bar + 21, "MEMORY");
    if (p->view->width >= POWER_FROM) {
        put_cell(p, OUTPUT_FAINT, bar + 14, "POWER");
        put_cell(p, OUTPUT_FAINT, 5, "TEMP");
    }
    put(p, OUTPUT_FAINT, "LOAD");
    end_line(p);
    const json_t *nodes = json_object_get(p->view->nodes, "nodes");
    size_t count = count_devices(nodes), lines = device_lines(p, count), drawn = 0;
    size_t most = lines < count && lines > 0 ? lines - 1 : lines; /* one line counts the rest */
    for (size_t i = 0; i < json_array_size(nodes); i++) {
        const json_t *node = json_array_get(nodes, i);
        const json_t *devices = json_object_get(node, "devices");
        for (size_t d = 0; d < json_array_size(devices) && drawn < most; d++, drawn++)
            draw_device(p, node, json_array_get(devices, d));
    }
    if (most < lines) {
        put_text(p, OUTPUT_FAINT, "%s and %zu more (gpumux nodes)", p->view->utf8 ? "…" : "...",
                 count - drawn);
        end_line(p);
    }
}

/* ---- workloads ---- */

static int state_rank(const json_t *w)
{
    static const char *const order[] = {"running",  "resuming",  "suspending", "starting",
                                        "stopping", "suspended", "placed",     "queued",
                                        "failed",   "cancelled", "succeeded"};
    const char *state = json_text(w, "state", "");
    size_t i = 0;
    while (i < sizeof order / sizeof order[0] && strcmp(order[i], state) != 0)
        i++;
    return (int)i;
}

static double used(const json_t *w, const char *key)
{
    return json_fraction(json_object_get(w, "usage"), key, -1);
}

static int compare(const void *left, const void *right, void *arg)
{
    const json_t *a = *(json_t *const *)left, *b = *(json_t *const *)right;
    enum top_sort sort = *(const enum top_sort *)arg;
    if (sort != TOP_BY_STATE) {
        const char *key = sort == TOP_BY_MEMORY ? "memory_used_bytes" : "cpu_percent";
        double x = used(a, key), y = used(b, key);
        if (x < y || x > y)
            return x < y ? 1 : -1;
    }
    int ranks = state_rank(a) - state_rank(b);
    if (ranks)
        return ranks;
    json_int_t x = json_number(a, "id", 0), y = json_number(b, "id", 0);
    return x < y ? -1 : x > y;
}

/* Returns the device's number on its node, as in the table of devices; -1 if unknown. */
static json_int_t device_index(const struct pen *p, const char *node, const char *uuid)
{
    const json_t *nodes = json_object_get(p->view->nodes, "nodes");
    for (size_t i = 0; i < json_array_size(nodes); i++) {
        const json_t *n = json_array_get(nodes, i);
        const json_t *devices = json_object_get(n, "devices");
        if (strcmp(json_text(n, "name", ""), node) != 0)
            continue;
        for (size_t d = 0; d < json_array_size(devices); d++)
            if (strcmp(json_text(json_array_get(devices, d), "uuid", ""), uuid) == 0)
                return json_number(json_array_get(devices, d), "index", -1);
    }
    return -1;
}

enum column {
    COLUMN_ID,
    COLUMN_NAME,
    COLUMN_KIND,
    COLUMN_STATE,
    COLUMN_RAN,
    COLUMN_SPEED,
    COLUMN_SHARE,
    COLUMN_MEMORY,
    COLUMN_QUOTA,
    COLUMN_CPU,
    COLUMN_DEVICES,
    COLUMN_USER,
    COLUMN_NOTE,
    COLUMN_END
};

/* from: least width of the screen for the column, so that the note always has room. */
static const struct {
    const char *title;
    size_t width, narrow_width, from;
} columns[COLUMN_END] = {
    [COLUMN_ID] = {"ID", 7, 7, 0},
    [COLUMN_NAME] = {"NAME", 18, 14, 0},
    [COLUMN_KIND] = {"KIND", 7, 7, WIDE_FROM},
    [COLUMN_STATE] = {"STATE", 17, 10, 0},
    [COLUMN_RAN] = {"RAN", 7, 6, 0},
    [COLUMN_SPEED] = {"SPEED", 8, 7, 0},
    [COLUMN_SHARE] = {"SHARE", 8, 8, 130},
    [COLUMN_MEMORY] = {"MEMORY", 9, 9, 100},
    [COLUMN_QUOTA] = {"QUOTA", 9, 9, 130},
    [COLUMN_CPU] = {"CPU", 5, 5, 100},
    [COLUMN_DEVICES] = {"DEVICES", 10, 10, 0},
    [COLUMN_USER] = {"USER", 8, 8, 110},
    [COLUMN_NOTE] = {"NOTE", 4, 4, 0},
};

static void put_column(struct pen *p, enum column column, enum output_colour colour,
                       const char *text)
{
    size_t width = p->view->width;
    if (width >= columns[column].from)
        put_cell(p, colour,
                 width >= WIDE_FROM ? columns[column].width : columns[column].narrow_width, text);
}

/* Writes "box:0,1"; all devices of a workload are on one node. */
static void put_devices(struct pen *p, const json_t *w)
{
    struct str text;
    str_init(&text, CELL_MAX);
    const char *node = json_text(w, "node", "");
    const json_t *devices = show_held_devices(w);
    for (size_t i = 0; i < json_array_size(devices); i++) {
        const char *uuid = json_string_value(json_array_get(devices, i));
        json_int_t index = uuid ? device_index(p, node, uuid) : -1;
        if (i == 0)
            str_printf(&text, "%.20s:", node);
        if (index >= 0)
            str_printf(&text, "%s%lld", i ? "," : "", (long long)index);
        else
            str_append(&text, i ? ",?" : "?");
    }
    put_column(p, COLUMN_DEVICES, OUTPUT_PLAIN, text.length ? str_text(&text) : "-");
    str_done(&text);
}

static void draw_workload(struct pen *p, const json_t *w)
{
    char text[SHOW_TEXT_MAX];
    snprintf(text, sizeof text, "%lld", (long long)json_number(w, "id", 0));
    put_column(p, COLUMN_ID, OUTPUT_BOLD, text);
    put_column(p, COLUMN_NAME, OUTPUT_PLAIN, json_text(w, "name", ""));
    put_column(p, COLUMN_KIND, OUTPUT_PLAIN, json_text(w, "kind", ""));
    const char *state = json_text(w, "state", "");
    put_column(p, COLUMN_STATE, show_state_colour(state), show_state(w, text));
    put_column(p, COLUMN_RAN, OUTPUT_PLAIN, show_run_time(w, p->view->now_wall_ms, text));
    put_column(p, COLUMN_SPEED, OUTPUT_PLAIN, show_speed(show_samples_per_s(w), text));
    put_column(p, COLUMN_SHARE, OUTPUT_PLAIN, show_share(json_object_get(w, "share"), text));
    double memory = used(w, "memory_used_bytes");
    put_column(p, COLUMN_MEMORY, OUTPUT_PLAIN, memory >= 0 ? show_bytes(memory, text) : "-");
    put_column(p, COLUMN_QUOTA, OUTPUT_PLAIN, show_quota(w, text));
    double cpu = used(w, "cpu_percent");
    snprintf(text, sizeof text, "%.0f%%", cpu);
    put_column(p, COLUMN_CPU, OUTPUT_PLAIN, cpu >= 0 ? text : "-");
    put_devices(p, w);
    put_column(p, COLUMN_USER, OUTPUT_PLAIN, json_text(w, "user", ""));
    put(p, OUTPUT_FAINT, json_text(w, "text", ""));
    end_line(p);
}

static void draw_workloads(struct pen *p)
{
    for (size_t i = 0; i < COLUMN_END; i++)
        put_column(p, (enum column)i, OUTPUT_FAINT, columns[i].title);
    end_line(p);
    size_t count = json_array_size(p->view->workloads);
    json_t **sorted = calloc(count + 1, sizeof *sorted);
    if (!sorted)
        return;
    for (size_t i = 0; i < count; i++)
        sorted[i] = json_array_get(p->view->workloads, i);
    enum top_sort sort = p->view->sort;
    qsort_r(sorted, count, sizeof *sorted, compare, &sort);
    for (size_t i = p->view->scroll; i < count && has_room(p); i++)
        draw_workload(p, sorted[i]);
    free(sorted);
}

/* ---- frame ---- */

static size_t count_state(const json_t *workloads, const char *state)
{
    size_t count = 0;
    for (size_t i = 0; i < json_array_size(workloads); i++)
        count += strcmp(json_text(json_array_get(workloads, i), "state", ""), state) == 0;
    return count;
}

static void draw_head(struct pen *p)
{
    const struct top_view *v = p->view;
    const char *dot = v->utf8 ? "·" : "-";
    time_t now = (time_t)(v->now_wall_ms / 1000);
    struct tm tm;
    char clock[16] = "";
    if (localtime_r(&now, &tm))
        (void)strftime(clock, sizeof clock, "%H:%M:%S", &tm);
    put_text(p, OUTPUT_BOLD, "gpumux %s", GPUMUX_VERSION);
    put_text(p, OUTPUT_PLAIN, " %s %s %s %zu running, %zu queued", dot, v->policy, dot,
             count_state(v->workloads, "running"), count_state(v->workloads, "queued"));
    size_t suspended = count_state(v->workloads, "suspended");
    if (suspended)
        put_text(p, OUTPUT_PLAIN, ", %zu suspended", suspended);
    put_text(p, OUTPUT_PLAIN, " %s %s", dot, clock);
    if (v->trouble)
        put_text(p, OUTPUT_RED, "  %s", v->trouble);
    end_line(p);
    end_line(p);
}

size_t top_draw(const struct top_view *view, const struct top_sink *sink)
{
    struct pen p = {.view = view, .sink = sink};
    draw_head(&p);
    if (has_room(&p))
        draw_devices(&p);
    if (has_room(&p))
        end_line(&p);
    if (has_room(&p))
        draw_workloads(&p);
    return p.line;
}
