#include "cli/submit/draft.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "wire/spec.h"

static int no_memory(struct error *e)
{
    return error_set(e, ERR_NO_MEMORY, "out of memory");
}

/* ---- environment ---- */

static bool is_listed(const char *list, const char *name, size_t length)
{
    for (const char *at = list; *at;) {
        size_t item = strcspn(at, ",");
        if (item == length && strncmp(at, name, length) == 0)
            return true;
        at += item + (at[item] == ',');
    }
    return false;
}

static bool is_exported(const char *wanted, const char *name, size_t length)
{
    static const char never[] = "PWD,OLDPWD,SHLVL,_,CUDA_VISIBLE_DEVICES";
    static const char always[] = "PATH,HOME,USER,LOGNAME,SHELL,LANG";
    if (strcmp(wanted, "all") != 0)
        return is_listed(always, name, length) ||
               (strcmp(wanted, "none") != 0 && is_listed(wanted, name, length));
    if (strncmp(name, "GPUMUX_", strlen("GPUMUX_")) == 0)
        return is_listed("GPUMUX_SOCKET", name, length);
    return !is_listed(never, name, length);
}

/* `--export FOO=1` would silently export no variable. */
static int check_exported(struct error *e, const char *wanted)
{
    for (const char *at = wanted;;) {
        size_t item = strcspn(at, ",");
        if (item == 0 || memchr(at, '=', item) || memchr(at, ' ', item))
            return error_set_field(e, ERR_INVALID, "export",
                                   "'%.*s' is not the name of a variable: give all, none or "
                                   "NAME,NAME; --env NAME=VALUE sets a variable",
                                   (int)(item < 40 ? item : 40), at);
        if (!at[item])
            return 0;
        at += item + 1;
    }
}

/* Returns the submitter's variables, sorted and shared by all workloads of a draft. */
static int exported_environment(struct error *e, struct arena *arena, const char *wanted,
                                struct pairs *ret)
{
    int r = check_exported(e, wanted);
    if (r < 0)
        return r;
    size_t count = 0;
    while (environ[count])
        count++;
    struct pairs pairs = {.items = arena_array(arena, count + 1, sizeof *pairs.items)};
    if (!pairs.items)
        return no_memory(e);
    for (size_t i = 0; i < count; i++) {
        const char *entry = environ[i];
        size_t name = strcspn(entry, "=");
        bool usable = name > 0 && entry[name] == '=' && str_is_utf8(entry, strlen(entry));
        if (!usable || !is_exported(wanted, entry, name))
            continue;
        char *key = arena_strndup(arena, entry, name);
        if (!key)
            return no_memory(e);
        pairs.items[pairs.count++] = (struct pair){.key = key, .value = entry + name + 1};
    }
    r = pairs_sort(e, &pairs);
    if (r == 0)
        *ret = pairs;
    return r;
}

/* Merges sorted variables; `own` takes precedence over `exported`. */
static int merge_environment(struct error *e, struct arena *arena, const struct pairs *exported,
                             struct pairs *own)
{
    struct pairs merged = {
        .items = arena_array(arena, exported->count + own->count + 1, sizeof *merged.items)};
    if (!merged.items)
        return no_memory(e);
    size_t i = 0, j = 0;
    while (i < exported->count || j < own->count) {
        int order = i == exported->count ? 1
                    : j == own->count    ? -1
                                         : strcmp(exported->items[i].key, own->items[j].key);
        merged.items[merged.count++] = order < 0 ? exported->items[i] : own->items[j];
        i += order <= 0;
        j += order >= 0;
    }
    *own = merged;
    return 0;
}

/* ---- flags ---- */

/* Parses "99:50ms". */
static int set_slo(struct error *e, struct arena *arena, const char *text,
                   struct workload_spec *spec)
{
    const char *colon = strchr(text, ':');
    if (!colon)
        return error_set(e, ERR_INVALID, "--slo must be PERCENTILE:TIME, such as 99:50ms, not '%s'",
                         text);
    const char *percentile = arena_strndup(arena, text, (size_t)(colon - text));
    if (!percentile)
        return no_memory(e);
    int r = spec_set(e, arena, spec, "slo.percentile", percentile);
    return r < 0 ? r : spec_set(e, arena, spec, "slo.latency", colon + 1);
}

/* Parses started, client, port:N or command:TEXT. */
static int set_ready(struct error *e, struct arena *arena, const char *text,
                     struct workload_spec *spec)
{
    if (str_starts_with(text, "port:"))
        return spec_set(e, arena, spec, "ready.port", text + strlen("port:"));
    if (str_starts_with(text, "command:"))
        return spec_set(e, arena, spec, "ready.command", text + strlen("command:"));
    return spec_set(e, arena, spec, "ready", text);
}

/* Parses PORT or PORT:BACKEND. */
static int set_port(struct error *e, struct arena *arena, const char *text,
                    struct workload_spec *spec)
{
    const char *colon = strchr(text, ':');
    if (!colon)
        return spec_set(e, arena, spec, "port", text);
    const char *port = arena_strndup(arena, text, (size_t)(colon - text));
    if (!port)
        return no_memory(e);
    int r = spec_set(e, arena, spec, "port", port);
    return r < 0 ? r : spec_set(e, arena, spec, "backend_port", colon + 1);
}

static int set_directory(struct error *e, struct arena *arena, const char *given,
                         struct workload_spec *spec)
{
    char here[4096];
    if (given && given[0] == '/') {
        spec->directory = given;
        return 0;
    }
    if (!getcwd(here, sizeof here))
        return error_set_errno(e, ERR_IO, errno, "cannot determine the current directory");
    spec->directory = given ? arena_printf(arena, "%s/%s", here, given) : arena_strdup(arena, here);
    return spec->directory ? 0 : no_memory(e);
}

/* Returns whether an option changes the description, and not only how it is made. */
static bool sets_spec(const struct option *o)
{
    return o->spec_key && strcmp(o->name, "export") != 0;
}

static int set_flag(struct error *e, struct arena *arena, const struct option_given *given,
                    struct workload_spec *spec)
{
    const char *name = given->option->name, *value = given->value;
    if (strcmp(name, "slo") == 0)
        return set_slo(e, arena, value, spec);
    if (strcmp(name, "ready") == 0)
        return set_ready(e, arena, value, spec);
    if (strcmp(name, "port") == 0)
        return set_port(e, arena, value, spec);
    if (strcmp(name, "directory") == 0)
        return set_directory(e, arena, value, spec);
    /* An option without an argument sets its key to true. */
    int r = spec_set(e, arena, spec, given->option->spec_key, value ? value : "true");
    if (r < 0 && e)
        (void)str_copy(e->field, sizeof e->field,
                       arena_printf(arena, "--%s", name)); /* the user wrote an option, not a key */
    return r;
}

static int apply_flags(struct error *e, struct arena *arena, const struct invocation *in,
                       struct draft *draft)
{
    for (size_t i = 0; i < in->given_count; i++) {
        const struct option *o = in->given[i].option;
        if (!sets_spec(o))
            continue;
        if (draft->count != 1)
            return error_set(e, ERR_INVALID,
                             "--%s applies to one workload, but the file describes %zu", o->name,
                             draft->count);
        int r = set_flag(e, arena, &in->given[i], draft->specs);
        if (r < 0)
            return r;
    }
    if (in->rest_count == 0)
        return 0;
    if (draft->count != 1)
        return error_set(e, ERR_INVALID,
                         "a command applies to one workload, but the file describes %zu",
                         draft->count);
    draft->specs[0].command =
        (struct words){.count = in->rest_count, .items = (const char **)in->rest};
    return 0;
}

int draft_make(struct error *e, struct arena *arena, const struct invocation *in, const char *file,
               size_t length, struct draft *ret)
{
    struct draft draft = {0};
    if (file) {
        struct spec_list list;
        int r = spec_parse_partial(e, arena, file, length, &list);
        if (r < 0)
            return r;
        draft = (struct draft){.count = list.count, .specs = list.items};
    } else {
        draft.count = 1;
        draft.specs = arena_alloc(arena, sizeof *draft.specs);
        if (!draft.specs)
            return no_memory(e);
        workload_spec_init(draft.specs);
    }
    const char *wanted = option_value(in, "export");
    struct pairs exported = {0};
    int r = exported_environment(e, arena, wanted ? wanted : "all", &exported);
    if (r == 0)
        r = apply_flags(e, arena, in, &draft);
    for (size_t i = 0; r == 0 && i < draft.count; i++) {
        struct workload_spec *spec = &draft.specs[i];
        r = merge_environment(e, arena, &exported, &spec->environment);
        if (r == 0 && !spec->directory)
            r = set_directory(e, arena, NULL, spec);
        if (r < 0)
            break;
        r = workload_spec_validate(e, arena, spec);
        if (r == 0)
            r = workload_spec_check_new(e, spec);
        if (r < 0 && draft.count > 1) {
            char prefix[32];
            snprintf(prefix, sizeof prefix, "workloads[%zu]", i);
            error_prefix_field(e, prefix);
        }
    }
    if (r == 0)
        *ret = draft;
    return r;
}

int draft_write(struct error *e, const struct draft *draft, struct str *out)
{
    str_append(out, "{\"version\": 1, \"workloads\": [");
    for (size_t i = 0; i < draft->count; i++) {
        if (i > 0)
            str_append(out, ",\n");
        int r = spec_write(&draft->specs[i], out);
        if (r < 0)
            break;
    }
    str_append(out, "]}");
    if (str_failed(out))
        return error_set(e, ERR_TOO_LARGE,
                         "the description with its environment is larger than %d bytes: give "
                         "--export none, or send fewer workloads at a time",
                         (int)out->max);
    return 0;
}

int draft_read_file(struct error *e, const char *path, struct str *out)
{
    bool is_stdin = strcmp(path, "-") == 0;
    int fd = is_stdin ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT)
        return error_set(e, ERR_NOT_FOUND, "there is no file %s", path);
    if (fd < 0)
        return error_set_errno(e, ERR_IO, errno, "cannot open %s", path);
    char piece[64 << 10];
    ssize_t n;
    while ((n = read(fd, piece, sizeof piece)) > 0 || (n < 0 && errno == EINTR))
        if (n > 0)
            str_append_bytes(out, piece, (size_t)n);
    int failure = errno;
    if (!is_stdin)
        close(fd);
    if (n < 0)
        return error_set_errno(e, ERR_IO, failure, "cannot read %s", path);
    if (str_failed(out))
        return error_set(e, ERR_TOO_LARGE, "%s is larger than %zu bytes", path, out->max);
    return 0;
}
