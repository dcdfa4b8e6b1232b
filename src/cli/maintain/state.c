/* gpumux state check | export | backup: reads a state directory, also while gpumux runs. */
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/connect/client.h"
#include "cli/connect/paths.h"
#include "cli/frame/show.h"
#include "cli/maintain/maintenance.h"
#include "store/store.h"

enum { PROGRESS_BYTES = 32 << 20 }; /* a smaller state is copied too fast for progress to help */

struct export
{
    size_t workloads, events;
    uint64_t before; /* last id seen */
    uint64_t revision;
    size_t in_page;
};

/* Prints a JSON object on one line and frees it. */
static int print_line(json_t *object)
{
    bool ok = object && json_dumpf(object, stdout, JSON_COMPACT) == 0 && putchar('\n') != EOF;
    json_decref(object);
    return ok ? 0 : -ERR_IO;
}

/* Returns the value of a stored text. A damaged text is returned as a string. */
static json_t *value_of(const char *text)
{
    json_t *value = text ? json_loads(text, JSON_DECODE_ANY, NULL) : NULL;
    return value ? value : text ? json_string(text) : json_null();
}

static int export_workload(void *arg, const struct store_workload *row)
{
    struct export *x = arg;
    char submitted[CLOCK_TEXT_MAX];
    x->before = row->id;
    x->in_page++;
    x->workloads++;
    return print_line(json_pack(
        "{s:s, s:I, s:I, s:s, s:s?, s:I, s:s, s:s, s:s, s:o, s:o, s:o}", "record", "workload", "id",
        (json_int_t)row->id, "group", (json_int_t)row->group, "name", row->name, "user", row->user,
        "uid", (json_int_t)row->uid, "kind", workload_kind_name(row->kind), "state",
        workload_state_name(row->state), "submitted",
        clock_format(row->submitted_wall_ms, submitted), "after", value_of(row->after), "status",
        value_of(row->status), "spec", value_of(row->spec)));
}

static int export_event(void *arg, const struct store_event *event)
{
    struct export *x = arg;
    char time[CLOCK_TEXT_MAX];
    x->revision = event->revision;
    x->in_page++;
    x->events++;
    return print_line(json_pack("{s:s, s:I, s:s, s:s, s:I, s:i, s:s, s:s}", "record", "event",
                                "revision", (json_int_t)event->revision, "time",
                                clock_format(event->wall_ms, time), "what", event->what, "workload",
                                (json_int_t)event->workload, "attempt", event->attempt, "node",
                                event->node, "text", event->text));
}

static int ignore_event(void *arg, const struct store_event *event)
{
    (void)arg, (void)event;
    return 0;
}

/* Returns the least revision from which all events are kept, by binary search. */
static uint64_t oldest_kept(struct store *store)
{
    uint64_t gone = 0, kept = store_revision(store);
    while (gone < kept) {
        uint64_t middle = gone + (kept - gone) / 2;
        if (store_events(NULL, store, middle, 0, 1, ignore_event, NULL) == -ERR_GONE)
            gone = middle + 1;
        else
            kept = middle;
    }
    return kept;
}

static int export_all(struct error *e, struct store *store)
{
    struct export x = {0};
    int r;
    do {
        struct store_filter filter = {.kind = -1, .before = x.before, .limit = STORE_PAGE_MAX};
        x.in_page = 0;
        r = store_list(e, store, &filter, export_workload, &x);
    } while (r == 0 && x.in_page == STORE_PAGE_MAX);
    x.revision = oldest_kept(store);
    do {
        x.in_page = 0;
        r = r < 0 ? r : store_events(e, store, x.revision, 0, STORE_PAGE_MAX, export_event, &x);
    } while (r == 0 && x.in_page == STORE_PAGE_MAX);
    return r;
}

static int check_state(struct error *e, struct store *store, const char *directory)
{
    int r = store_check(e, store);
    if (r == 0)
        printf("%s is sound, revision %llu\n", directory,
               (unsigned long long)store_revision(store));
    return r;
}

struct progress {
    bool is_shown, line_is_open;
};

/* Returns other than 0 after a signal that ends this process once the copy is removed. */
static int show_progress(void *arg, uint64_t done, uint64_t all)
{
    struct progress *p = arg;
    char text[SHOW_TEXT_MAX];
    sigset_t pending;
    if (p->is_shown && all >= PROGRESS_BYTES) {
        fprintf(stderr, "\rgpumux: state: %3d %% of %s copied%s", (int)(done * 100 / all),
                show_bytes((double)all, text), done == all ? ", verifying" : "");
        p->line_is_open = true;
    }
    (void)sigpending(&pending);
    return sigismember(&pending, SIGINT) || sigismember(&pending, SIGTERM) ||
           sigismember(&pending, SIGHUP);
}

static int back_up(struct error *e, const char *directory, const char *file, bool overwrites)
{
    struct progress progress = {.is_shown = isatty(STDERR_FILENO)};
    struct store_backup backup = {
        .file = file, .overwrites = overwrites, .progress = show_progress, .arg = &progress};
    struct store_copy copy;
    sigset_t signals, before;
    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGHUP);
    (void)sigprocmask(SIG_BLOCK, &signals, &before);
    int r = store_back_up_sqlite(e, directory, &backup, &copy);
    if (progress.line_is_open)
        fputc('\n', stderr);
    (void)sigprocmask(SIG_SETMASK, &before, NULL); /* a pending signal ends the process here */
    char text[SHOW_TEXT_MAX];
    if (r > 0)
        return error_set(e, ERR_IO, "a signal interrupted the backup; %s is unchanged", file);
    if (r == 0)
        printf("%s is sound: %lld workloads, revision %lld, layout %lld, %s\n", file,
               (long long)copy.workloads, (long long)copy.revision, (long long)copy.version,
               show_bytes((double)copy.bytes, text));
    return r;
}

static int read_state(struct error *e, const char *directory, bool exports)
{
    struct store *store = NULL;
    int r = store_open_sqlite_readonly(e, directory, &store);
    if (r == 0)
        r = exports ? export_all(e, store) : check_state(e, store, directory);
    store_close(store);
    return r;
}

int state_command(const struct invocation *in)
{
    const char *what = in->operands[0], *file = in->operand_count > 1 ? in->operands[1] : NULL;
    bool exports = strcmp(what, "export") == 0, backs_up = strcmp(what, "backup") == 0;
    bool overwrites = option_given(in, "overwrite");
    if ((!exports && !backs_up && strcmp(what, "check") != 0) || backs_up != (file != NULL) ||
        (overwrites && !backs_up)) {
        fprintf(stderr, "gpumux: state: use 'gpumux state check', 'gpumux state export' or 'gpumux "
                        "state backup [--overwrite] FILE'\n");
        return COMMAND_USAGE;
    }
    struct arena arena;
    arena_init(&arena, 64 << 10);
    struct error e = {0};
    const char *given = option_value(in, "state");
    const char *directory = given ? given : paths_state_default(&arena);
    int r = !directory ? error_set(&e, ERR_INVALID, "no home directory: give --state DIR")
            : backs_up ? back_up(&e, directory, file, overwrites)
                       : read_state(&e, directory, exports);
    arena_done(&arena);
    return r == 0 ? COMMAND_OK : command_fail(in, &e);
}
