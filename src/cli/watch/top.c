/* gpumux top: requests nodes and workloads periodically and draws them on the whole screen. */
#include <curses.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/connect/client.h"
#include "cli/frame/output.h"
#include "cli/watch/top_frame.h"
#include "cli/watch/watching.h"
#include "wire/spec.h"

enum { WORKLOADS_SHOWN = 500, INTERVAL_MIN_MS = 100, SCROLL_PAGE = 10 };

/* The last responses. */
struct news {
    json_t *nodes, *workloads, *version;
};

static void news_done(struct news *n)
{
    json_decref(n->nodes);
    json_decref(n->workloads);
    json_decref(n->version);
    *n = (struct news){0};
}

/* Replaces *n if all requests succeed. */
static int fetch(struct error *e, struct client *c, int64_t retry_ms, struct news *n)
{
    struct news fresh = {0};
    char target[160];
    snprintf(target, sizeof target,
             "/v1/workloads?limit=%d&state=queued,placed,starting,running,"
             "suspending,suspended,resuming,stopping",
             WORKLOADS_SHOWN);
    int r = client_get_pages(e, c, "/v1/nodes", "nodes", retry_ms, &fresh.nodes);
    if (r == 0)
        r = client_request(e, c, "GET", target, NULL, retry_ms, &fresh.workloads);
    if (r == 0)
        r = client_request(e, c, "GET", "/v1/version", NULL, retry_ms, &fresh.version);
    if (r < 0) {
        news_done(&fresh);
        return r;
    }
    news_done(n);
    *n = fresh;
    return 0;
}

static struct top_view view_of(const struct news *n)
{
    return (struct top_view){.nodes = n->nodes,
                             .workloads = json_object_get(n->workloads, "workloads"),
                             .policy = json_text(n->version, "policy", "?"),
                             .now_wall_ms = clock_wall_ms()};
}

/* ---- --once ---- */

static void print_text(void *arg, enum output_colour colour, const char *text)
{
    bool colours = *(const bool *)arg && colour != OUTPUT_PLAIN;
    printf("%s%s%s", colours ? output_colour_code(colour) : "", text, colours ? "\033[0m" : "");
}

static void print_end(void *arg)
{
    (void)arg;
    putchar('\n');
}

static int show_once(struct client *c)
{
    struct error e = {0};
    struct news news = {0};
    if (fetch(&e, c, CLIENT_RETRY_MS, &news) < 0)
        return client_fail(c, &e);
    struct top_view view = view_of(&news);
    size_t columns = output_terminal_width();
    view.width = columns ? columns : SIZE_MAX; /* a pipe gets complete lines */
    view.utf8 = output_has_utf8();
    bool colours = output_has_colour(stdout);
    struct top_sink sink = {.arg = &colours, .put = print_text, .end_line = print_end};
    top_draw(&view, &sink);
    news_done(&news);
    return COMMAND_OK;
}

/* ---- full screen ---- */

static int attribute(enum output_colour colour)
{
    switch (colour) {
    case OUTPUT_BOLD:
        return (int)A_BOLD;
    case OUTPUT_FAINT:
        return (int)A_DIM;
    case OUTPUT_PLAIN:
        return (int)A_NORMAL;
    default:
        return has_colors() ? (int)COLOR_PAIR(colour) : (int)A_NORMAL;
    }
}

static void screen_text(void *arg, enum output_colour colour, const char *text)
{
    (void)arg;
    attrset(attribute(colour));
    addstr(text);
}

static void screen_end(void *arg)
{
    size_t *line = arg;
    ++*line;
    move((int)*line, 0);
}

static void start_colours(void)
{
    static const short colours[OUTPUT_COLOUR_END] = {[OUTPUT_RED] = COLOR_RED,
                                                     [OUTPUT_GREEN] = COLOR_GREEN,
                                                     [OUTPUT_YELLOW] = COLOR_YELLOW,
                                                     [OUTPUT_BLUE] = COLOR_BLUE};
    const char *no = getenv("NO_COLOR");
    if (!has_colors() || (no && *no))
        return;
    start_color();
    use_default_colors();
    for (short i = OUTPUT_RED; i < OUTPUT_COLOUR_END; i++)
        init_pair(i, colours[i], -1);
}

static void draw_screen(const struct news *news, const struct error *trouble, enum top_sort sort,
                        size_t scroll)
{
    struct top_view view = view_of(news);
    int height, width;
    getmaxyx(stdscr, height, width);
    view.width = width > 1 ? (size_t)width - 1 : 1;
    view.height = height > 2 ? (size_t)height - 1 : 1;
    view.scroll = scroll;
    view.sort = sort;
    view.utf8 = output_has_utf8();
    view.trouble = trouble->code ? trouble->text : NULL;
    size_t line = 0;
    struct top_sink sink = {.arg = &line, .put = screen_text, .end_line = screen_end};
    erase();
    move(0, 0);
    top_draw(&view, &sink);
    attrset((int)A_DIM);
    mvaddnstr(height - 1, 0, "q quit   s by state   m by memory   c by CPU   arrows scroll",
              width - 1);
    refresh();
}

/* Returns false to quit. */
static bool take_key(int key, enum top_sort *sort, size_t *scroll)
{
    switch (key) {
    case 'q':
    case 'Q':
    case 3: /* Ctrl-C: the terminal is in raw mode */
        return false;
    case 's':
        *sort = TOP_BY_STATE;
        break;
    case 'm':
        *sort = TOP_BY_MEMORY;
        break;
    case 'c':
        *sort = TOP_BY_CPU;
        break;
    case 'j':
    case KEY_DOWN:
        ++*scroll;
        break;
    case 'k':
    case KEY_UP:
        *scroll -= *scroll > 0;
        break;
    case KEY_NPAGE:
        *scroll += SCROLL_PAGE;
        break;
    case KEY_PPAGE:
        *scroll -= *scroll > SCROLL_PAGE ? SCROLL_PAGE : *scroll;
        break;
    default:
        break;
    }
    return true;
}

static int show_screen(struct client *c, int64_t interval_ms)
{
    struct error e = {0};
    struct news news = {0};
    if (fetch(&e, c, CLIENT_RETRY_MS, &news) < 0)
        return client_fail(c, &e);
    setlocale(LC_ALL, "");
    SCREEN *screen = newterm(NULL, stdout, stdin);
    if (!screen) {
        news_done(&news);
        fprintf(stderr, "gpumux: top: cannot draw on this terminal; try 'gpumux top --once'\n");
        return COMMAND_FAILED;
    }
    c->quiet = true; /* the screen itself shows that gpumux is silent */
    raw();
    noecho();
    curs_set(0);
    keypad(stdscr, TRUE);
    start_colours();
    enum top_sort sort = TOP_BY_STATE;
    size_t scroll = 0;
    int64_t next_boot_ms = clock_boot_ms() + interval_ms;
    for (bool goes_on = true; goes_on;) {
        size_t count = json_array_size(json_object_get(news.workloads, "workloads"));
        if (scroll >= count)
            scroll = count ? count - 1 : 0;
        draw_screen(&news, &e, sort, scroll);
        int64_t left = next_boot_ms - clock_boot_ms();
        timeout(left > 0 ? (int)left : 0);
        goes_on = take_key(getch(), &sort, &scroll);
        if (clock_boot_ms() < next_boot_ms)
            continue;
        e = (struct error){0};
        (void)fetch(&e, c, 0, &news);
        next_boot_ms = clock_boot_ms() + interval_ms;
    }
    endwin();
    delscreen(screen);
    news_done(&news);
    return COMMAND_OK;
}

int top_command(const struct invocation *in)
{
    int64_t interval_ms = 1000;
    struct error e = {0};
    const char *interval = option_value(in, "interval");
    if (interval && spec_parse_duration(&e, interval, &interval_ms) < 0) {
        fprintf(stderr, "gpumux: top: --interval: %s\n", e.text);
        return COMMAND_USAGE;
    }
    if (interval_ms < INTERVAL_MIN_MS)
        interval_ms = INTERVAL_MIN_MS;
    struct client c;
    int status = client_init(&c, in);
    if (status != COMMAND_OK)
        return status;
    bool once = option_given(in, "once") || !isatty(STDOUT_FILENO) || !isatty(STDIN_FILENO);
    status = once ? show_once(&c) : show_screen(&c, interval_ms);
    client_done(&c);
    return status;
}
