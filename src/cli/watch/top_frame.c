#include "cli/watch/top_frame.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/version.h"
#include "cli/frame/answer.h"
#include "cli/frame/show.h"
#include "model/node.h"

enum {
    CELL_MAX = 1024,
    BAR_MIN = 6,
    BAR_MAX = 24,
    FIXED_COLUMNS = 76, /* of the table of devices, besides their names and the bars */
    NAMES_MIN = 10,     /* least width of a column of devices' names */
    NAMES_PART = 4,     /* a list of names takes at most this part of the screen */
    WIDE_FROM = 150,    /* least width for wide names and states */
};

/* The drawing position. */
struct pen {
    const struct top_view *view;
    const struct top_sink *sink;
    size_t column, line;
    size_t device_width, devices_width; /* of the columns DEVICE and DEVICES */
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

/* Writes NODE:INDEX. Returns its length. */
static size_t name_device(const json_t *node, const json_t *device, char ret[DEVICE_NAME_MAX])
{
    device_write_name(json_text(node, "name", "?"), (int)json_number(device, "index", 0), ret);
    return strlen(ret);
}

static size_t bar_width(const struct pen *p)
{
    size_t fixed = FIXED_COLUMNS + p->device_width;
    size_t spare = p->view->width > fixed ? (p->view->width - fixed) / 3 : 0;
    return spare < BAR_MIN ? BAR_MIN : spare > BAR_MAX ? BAR_MAX : spare;
}

/* Returns whether power and temperature have room. */
static bool has_power(const struct pen *p)
{
    return p->view->width >= FIXED_COLUMNS + p->device_width + 3 * BAR_MIN;
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
    size_t width = bar_width(p);
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
        put(p, OUTPUT_YELLOW, " not connected");
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
    char name[DEVICE_NAME_MAX];
    (void)name_device(node, device, name);
    put_cell(p, OUTPUT_BOLD, p->device_width, name);
    const char *model = json_text(device, "model", "?");
    put_cell(p, OUTPUT_PLAIN, 10, str_starts_with(model, "NVIDIA ") ? model + 7 : model);
    put_sm(p, usage);
    put_memory(p, device, usage);
    if (has_power(p)) {
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

/* Returns the number of devices, and makes the column of their names wide enough. */
static size_t measure_devices(struct pen *p, const json_t *nodes)
{
    char name[DEVICE_NAME_MAX];
    size_t count = 0;
    p->device_width = NAMES_MIN;
    for (size_t i = 0; i < json_array_size(nodes); i++) {
        const json_t *node = json_array_get(nodes, i);
        const json_t *devices = json_object_get(node, "devices");
        for (size_t d = 0; d < json_array_size(devices); d++, count++) {
            size_t length = name_device(node, json_array_get(devices, d), name);
            p->device_width = length > p->device_width ? length : p->device_width;
        }
    }
    return count;
}

static void draw_devices(struct pen *p)
{
    const json_t *nodes = json_object_get(p->view->nodes, "nodes");
    size_t count = measure_devices(p, nodes), bar = bar_width(p);
    put_cell(p, OUTPUT_FAINT, p->device_width, "DEVICE");
    put_cell(p, OUTPUT_FAINT, 10, "MODEL");
    put_cell(p, OUTPUT_FAINT, bar + 6, "SM");
    put_cell(p, OUTPUT_FAINT, bar + 21, "MEMORY");
    if (has_power(p)) {
        put_cell(p, OUTPUT_FAINT, bar + 14, "POWER");
        put_cell(p, OUTPUT_FAINT, 5, "TEMP");
    }
    put(p, OUTPUT_FAINT, "LOAD");
    end_line(p);
    size_t lines = device_lines(p, count), drawn = 0;
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
    [COLUMN_DEVICES] = {"DEVICES", 0, 0, 0}, /* measured */
    [COLUMN_USER] = {"USER", 8, 8, 110},
    [COLUMN_NOTE] = {"NOTE", 4, 4, 0},
};

static void put_column(struct pen *p, enum column column, enum output_colour colour,
                       const char *text)
{
    size_t width = p->view->width;
    size_t cell = column == COLUMN_DEVICES ? p->devices_width
                  : width >= WIDE_FROM     ? columns[column].width
                                           : columns[column].narrow_width;
    if (width >= columns[column].from)
        put_cell(p, colour, cell, text);
}

/* Appends as many whole names as fit, and the number of the others: "box:0 box:1 +6". */
static void append_devices(const struct pen *p, const json_t *w, struct str *out)
{
    enum { MORE_MAX = sizeof " +16" };
    size_t most = p->view->width / NAMES_PART;
    show_devices(w, out);
    const char *text = str_text(out);
    size_t names = 1, shown = 0, end = 0;
    for (const char *c = strchr(text, ' '); c; c = strchr(c + 1, ' '), names++)
        if (shown == 0 || (size_t)(c - text) + MORE_MAX <= most) {
            shown = names;
            end = (size_t)(c - text);
        }
    if (out->length > most && shown > 0) {
        str_truncate(out, end);
        str_printf(out, " +%zu", names - shown);
    }
}

static void put_devices(struct pen *p, const json_t *w)
{
    struct str text;
    str_init(&text, CELL_MAX);
    append_devices(p, w, &text);
    put_column(p, COLUMN_DEVICES, OUTPUT_PLAIN, str_text(&text));
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

static void measure_lists(struct pen *p)
{
    struct str text;
    str_init(&text, CELL_MAX);
    p->devices_width = NAMES_MIN;
    for (size_t i = 0; i < json_array_size(p->view->workloads); i++) {
        str_clear(&text);
        append_devices(p, json_array_get(p->view->workloads, i), &text);
        p->devices_width = text.length > p->devices_width ? text.length : p->devices_width;
    }
    str_done(&text);
}

static void draw_workloads(struct pen *p)
{
    measure_lists(p);
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
