/*
 * Validation of a spec from any source. One function per topic; each names the invalid field as
 * users write it in a description.
 */
#include <ctype.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "model/workload.h"

enum { DEFAULT_DEVICES = 1, DEFAULT_GRACE_MS = 10000, SHARE_MAX_PERCENT = 100, PORT_MAX = 65535 };
#define SLO_LATENCY_MS_MIN 1e-3
#define DEFAULT_PERCENTILE 99.0 /* of slo.first and slo.between alone */

/* ---- names ---- */

static bool is_name_char(char c)
{
    return isalnum((unsigned char)c) || c == '.' || c == '_' || c == '-';
}

static bool is_digits(const char *text)
{
    return text[0] && text[strspn(text, "0123456789")] == '\0';
}

bool workload_name_is_valid(const char *name)
{
    size_t length = strlen(name), base = 0;
    if (length >= WORKLOAD_NAME_MAX || is_digits(name) || name[0] == '-' || name[0] == '.')
        return false;
    while (is_name_char(name[base]))
        base++;
    if (base == 0 || name[base] == '\0')
        return base > 0;
    size_t digits = strspn(name + base + 1, "0123456789");
    return name[base] == '[' && digits > 0 && str_equal(name + base + 1 + digits, "]");
}

static bool is_among(const char *word, const char *const names[], size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (str_equal(word, names[i]))
            return true;
    return false;
}
#define IS_AMONG(word, names) is_among(word, names, sizeof(names) / sizeof(names)[0])

static bool is_shell(const char *base)
{
    static const char *const names[] = {"sh", "bash", "dash", "zsh"};
    return IS_AMONG(base, names);
}

static bool is_interpreter(const char *base)
{
    static const char *const names[] = {"env",  "perl",  "node",    "ruby",   "lua", "R",
                                        "exec", "julia", "Rscript", "python", "pypy"};
    if (is_shell(base) || IS_AMONG(base, names))
        return true;
    return str_starts_with(base, "python") && base[6 + strspn(base + 6, "0123456789.")] == '\0';
}

/* Returns whether the word after this option of the interpreter is program text, not a file
 * name. */
static bool takes_program(const char *interpreter, const char *option)
{
    if (!is_shell(interpreter))
        return str_equal(option, "-c") || str_equal(option, "-e");
    return option[0] == '-' && option[1] != '-' && option[strlen(option) - 1] == 'c'; /* "-ec" */
}

/* Returns the last component of a path of `length` bytes. */
static void base_of(const char *path, size_t length, char base[WORKLOAD_NAME_MAX])
{
    size_t start = length;
    while (start > 0 && path[start - 1] != '/')
        start--;
    snprintf(base, WORKLOAD_NAME_MAX, "%.*s", (int)(length - start), path + start);
}

/*
 * Finds the program that a shell line runs: the first word or, if that is an interpreter, its first
 * word that is not an option. base: initially the shell, and unchanged if the line is a script.
 */
static void describe_line(const char *line, char base[WORKLOAD_NAME_MAX])
{
    static const char blanks[] = " \t\n";
    static const char *const skipped[] = {"!", "{", "(", "time"};
    static const char *const programs[] = {"for",    "while",    "until", "if", "case",
                                           "select", "function", "[",     "[[", "(("};
    bool in_options = false;
    for (size_t length; *(line += strspn(line, blanks)); line += length) {
        char word[WORKLOAD_NAME_MAX];
        length = strcspn(line, blanks);
        snprintf(word, sizeof word, "%.*s", (int)length, line);
        if (IS_AMONG(word, programs) || (in_options && takes_program(base, word)))
            return;
        if (IS_AMONG(word, skipped) || (in_options && word[0] == '-'))
            continue;
        base_of(line, length, base);
        if (!is_interpreter(base))
            return;
        in_options = true;
    }
}

/* Finds the program that a command runs, like describe_line(). */
static void describe_words(const struct words *command, char base[WORKLOAD_NAME_MAX])
{
    base_of(command->items[0], strlen(command->items[0]), base);
    if (!is_interpreter(base))
        return;
    for (size_t i = 1; i < command->count; i++) {
        const char *word = command->items[i];
        if (takes_program(base, word)) {
            if (is_shell(base) && i + 1 < command->count)
                describe_line(command->items[i + 1], base);
            return;
        }
        if (word[0] != '-') {
            base_of(word, strlen(word), base);
            return;
        }
    }
}

static int name_from_command(struct arena *arena, struct workload_spec *spec)
{
    enum { MADE_NAME_MAX = 48 };
    char base[WORKLOAD_NAME_MAX], name[MADE_NAME_MAX];
    describe_words(&spec->command, base);
    size_t length = 0;
    for (const char *p = base; *p && length < sizeof name - 1; p++)
        if (*p == ' ' && length > 0)
            name[length++] = '_';
        else if (is_name_char(*p) && (length > 0 || (*p != '-' && *p != '.')))
            name[length++] = *p;
    name[length] = '\0';
    const char *kind = workload_kind_name(spec->needs.kind);
    spec->name = length == 0       ? arena_strdup(arena, kind)
                 : is_digits(name) ? arena_printf(arena, "%s-%s", kind, name)
                                   : arena_strdup(arena, name);
    return spec->name ? 0 : -ERR_NO_MEMORY;
}

static int validate_name(struct error *e, struct arena *arena, struct workload_spec *spec)
{
    if (!spec->name)
        return name_from_command(arena, spec);
    if (is_digits(spec->name))
        return error_set_field(e, ERR_INVALID, "name",
                               "must not be all digits, since numbers are ids");
    if (!workload_name_is_valid(spec->name) || strchr(spec->name, '['))
        return error_set_field(
            e, ERR_INVALID, "name",
            "must be 1 to %d letters, digits, '.', '_' or '-', and must not begin with '.' or '-'",
            WORKLOAD_NAME_MAX - 1);
    char element[WORKLOAD_NAME_MAX];
    if (spec->array_count > 0 && snprintf(element, sizeof element, "%s[%d]", spec->name,
                                          WORKLOAD_ARRAY_MAX) >= (int)sizeof element)
        return error_set_field(e, ERR_INVALID, "name",
                               "is too long for an array, whose elements add [INDEX]");
    return 0;
}

/* ---- texts ---- */

static int validate_text(struct error *e, const char *field, const char *text, size_t bytes_max)
{
    size_t length = strlen(text);
    if (length >= bytes_max)
        return error_set_field(e, ERR_INVALID, field, "must be at most %zu bytes long",
                               bytes_max - 1);
    if (!str_is_utf8(text, length))
        return error_set_field(e, ERR_INVALID, field, "must be valid UTF-8");
    return 0;
}

/* `required`: at least one word. The first word of a command is never empty. */
static int validate_words(struct error *e, const char *field, const struct words *words,
                          bool required)
{
    if (words->count == 0 && !required)
        return 0;
    if (words->count == 0 || words->items[0][0] == '\0')
        return error_set_field(e, ERR_INVALID, field, "must name a command to run");
    if (words->count > WORKLOAD_COMMAND_MAX)
        return error_set_field(e, ERR_INVALID, field, "must have at most %d words",
                               WORKLOAD_COMMAND_MAX);
    for (size_t i = 0; i < words->count; i++) {
        int r = validate_text(e, "", words->items[i], WORKLOAD_WORD_MAX);
        if (r < 0) {
            error_prefix_element(e, field, i);
            return r;
        }
    }
    return 0;
}

static int validate_environment(struct error *e, const struct pairs *environment)
{
    if (environment->count > WORKLOAD_ENVIRONMENT_MAX)
        return error_set_field(e, ERR_INVALID, "environment", "must have at most %d variables",
                               WORKLOAD_ENVIRONMENT_MAX);
    for (size_t i = 0; i < environment->count; i++) {
        const struct pair *pair = &environment->items[i];
        size_t key_length = strlen(pair->key);
        if (key_length == 0 || strchr(pair->key, '='))
            return error_set_field(e, ERR_INVALID, "environment",
                                   "'%.40s' is not a valid name of a variable", pair->key);
        if (!str_is_utf8(pair->key, key_length))
            return error_set_field(e, ERR_INVALID, "environment", "a name is not valid UTF-8");
        char path[ERROR_FIELD_MAX];
        snprintf(path, sizeof path, "environment.%s", pair->key);
        if (key_length >= WORKLOAD_WORD_MAX - 1)
            return error_set_field(e, ERR_INVALID, "environment", "a name is too long");
        int r = validate_text(e, path, pair->value, WORKLOAD_WORD_MAX - key_length - 1);
        if (r < 0)
            return r;
    }
    return 0;
}

static int validate_labels(struct error *e, const char *field, const struct pairs *labels)
{
    if (labels->count > WORKLOAD_LABELS_MAX)
        return error_set_field(e, ERR_INVALID, field, "must have at most %d labels",
                               WORKLOAD_LABELS_MAX);
    for (size_t i = 0; i < labels->count; i++) {
        const struct pair *pair = &labels->items[i];
        if (pair->key[0] == '\0' || strchr(pair->key, '='))
            return error_set_field(e, ERR_INVALID, field, "'%.40s' is not a valid name of a label",
                                   pair->key);
        int r = validate_text(e, field, pair->key, WORKLOAD_LABEL_MAX);
        if (r == 0) {
            char path[ERROR_FIELD_MAX];
            snprintf(path, sizeof path, "%s.%.100s", field, pair->key);
            r = validate_text(e, path, pair->value, WORKLOAD_LABEL_MAX);
        }
        if (r < 0)
            return r;
    }
    return 0;
}

static int validate_texts(struct error *e, const struct workload_spec *spec)
{
    int r = validate_words(e, "command", &spec->command, true);
    if (r == 0)
        r = validate_words(e, "resume", &spec->resume, false);
    if (r == 0)
        r = validate_environment(e, &spec->environment);
    if (r == 0)
        r = validate_labels(e, "labels", &spec->labels);
    if (r == 0)
        r = validate_labels(e, "node_labels", &spec->node_labels);
    if (r == 0 && (!spec->directory || spec->directory[0] != '/'))
        r = error_set_field(e, ERR_INVALID, "directory", "must be an absolute path");
    if (r == 0)
        r = validate_text(e, "directory", spec->directory, 4096);
    if (r == 0 && spec->user && (spec->user[0] == '\0' || strpbrk(spec->user, ":/ \t\n")))
        r = error_set_field(e, ERR_INVALID, "user", "'%.60s' is not a valid name of a user",
                            spec->user);
    if (r == 0 && spec->user)
        r = validate_text(e, "user", spec->user, USER_NAME_MAX);
    if (r == 0)
        r = validate_text(e, "model", spec->needs.model, DEVICE_MODEL_MAX);
    return r;
}

/* ---- numbers ---- */

static int validate_range(struct error *e, const char *field, int64_t value, int64_t least,
                          int64_t most)
{
    if (value < least || value > most)
        return error_set_field(e, ERR_INVALID, field, "%lld is not between %lld and %lld",
                               (long long)value, (long long)least, (long long)most);
    return 0;
}

static int validate_time(struct error *e, const char *field, int64_t ms)
{
    if (ms < 0)
        return error_set_field(e, ERR_INVALID, field, "must not be negative");
    if (ms > WORKLOAD_TIME_MS_MAX)
        return error_set_field(e, ERR_INVALID, field, "must not be longer than ten years");
    return 0;
}

static int validate_needs(struct error *e, struct workload_needs *needs)
{
    if (needs->devices == WORKLOAD_UNSET)
        needs->devices = DEFAULT_DEVICES;
    if (needs->grace_ms == WORKLOAD_UNSET)
        needs->grace_ms = DEFAULT_GRACE_MS;
    if (needs->share_max_percent == 0)
        needs->share_max_percent = SHARE_MAX_PERCENT;
    if (needs->kind >= WORKLOAD_KIND_END)
        return error_set_field(e, ERR_INVALID, "kind", "must be task or service");
    if (needs->on_node_lost >= ON_NODE_LOST_END)
        return error_set_field(e, ERR_INVALID, "on_node_lost", "must be requeue or wait");
    if (needs->swappable && needs->kind != WORKLOAD_TASK)
        return error_set_field(e, ERR_INVALID, "swappable",
                               "must not be true for a service, for which tasks give way");
    if (needs->swappable && (needs->devices != 1 || needs->quota_bytes == 0))
        return error_set_field(e, ERR_INVALID, "swappable",
                               "needs a quota and exactly one device, which the task shares");
    int r = validate_range(e, "devices", needs->devices, 0, WORKLOAD_DEVICES_MAX);
    if (r == 0 && needs->quota_bytes > WORKLOAD_QUOTA_BYTES_MAX)
        r = error_set_field(e, ERR_INVALID, "quota", "is more memory than any device has");
    if (r == 0)
        r = validate_range(e, "share.max", needs->share_max_percent, 1, SHARE_MAX_PERCENT);
    if (r == 0)
        r = validate_range(e, "share.min", needs->share_min_percent, 0, SHARE_MAX_PERCENT);
    if (r == 0 && needs->share_min_percent > needs->share_max_percent)
        r = error_set_field(e, ERR_INVALID, "share.min", "%d is more than share.max (%d)",
                            needs->share_min_percent, needs->share_max_percent);
    if (r == 0)
        r = validate_range(e, "priority", needs->priority, -WORKLOAD_PRIORITY_MAX,
                           WORKLOAD_PRIORITY_MAX);
    if (r == 0)
        r = validate_range(e, "retries", needs->retries, 0, WORKLOAD_RETRIES_MAX);
    if (r == 0)
        r = validate_time(e, "grace", needs->grace_ms);
    if (r == 0)
        r = validate_time(e, "time_limit", needs->time_limit_ms);
    return r;
}

static int validate_batch(struct error *e, const struct workload_spec *spec)
{
    int r = validate_range(e, "batch.reference", spec->batch_reference, 0, WORKLOAD_BATCH_MAX);
    if (r == 0)
        r = validate_range(e, "batch.min", spec->batch_min, 0, WORKLOAD_BATCH_MAX);
    if (r == 0)
        r = validate_range(e, "batch.max", spec->batch_max, 0, WORKLOAD_BATCH_MAX);
    if (r == 0)
        r = validate_range(e, "batch.step", spec->batch_step, 0, WORKLOAD_BATCH_MAX);
    if (r < 0)
        return r;
    int64_t most = spec->batch_max ? spec->batch_max : WORKLOAD_BATCH_MAX;
    if (spec->batch_min > most)
        return error_set_field(e, ERR_INVALID, "batch.min", "must not be more than batch.max");
    if (spec->batch_reference &&
        (spec->batch_reference < spec->batch_min || spec->batch_reference > most))
        return error_set_field(e, ERR_INVALID, "batch.reference",
                               "must be between batch.min and batch.max");
    return 0;
}

static int validate_target(struct error *e, const char *field, double ms)
{
    if (ms >= SLO_LATENCY_MS_MIN && ms <= (double)WORKLOAD_TIME_MS_MAX)
        return 0;
    return error_set_field(e, ERR_INVALID, field, "must be at least a microsecond");
}

static int validate_slo(struct error *e, struct workload_spec *spec)
{
    bool streams = spec->slo_first_ms != 0 || spec->slo_between_ms != 0;
    if (!streams && spec->slo_percentile == 0 && spec->slo_latency_ms == 0)
        return 0;
    if (spec->needs.kind != WORKLOAD_SERVICE)
        return error_set_field(e, ERR_INVALID, "slo", "only a service can have an SLO");
    if (streams && spec->slo_percentile == 0 && spec->slo_latency_ms == 0)
        spec->slo_percentile = DEFAULT_PERCENTILE;
    if (!(spec->slo_percentile > 0 && spec->slo_percentile < 100))
        return error_set_field(e, ERR_INVALID, "slo.percentile", "must be above 0 and below 100");
    int r = 0;
    if (!streams || spec->slo_latency_ms != 0)
        r = validate_target(e, "slo.latency", spec->slo_latency_ms);
    if (r == 0 && spec->slo_first_ms != 0)
        r = validate_target(e, "slo.first", spec->slo_first_ms);
    if (r == 0 && spec->slo_between_ms != 0)
        r = validate_target(e, "slo.between", spec->slo_between_ms);
    return r;
}

static int validate_expectations(struct error *e, struct workload_spec *spec)
{
    int r = validate_slo(e, spec);
    if (r < 0)
        return r;
    if (!isfinite(spec->expected_samples) || spec->expected_samples < 0)
        return error_set_field(e, ERR_INVALID, "expected.samples", "must not be negative");
    return validate_time(e, "expected.duration", spec->expected_duration_ms);
}

static int validate_ready(struct error *e, const struct workload_spec *spec)
{
    if (spec->ready == READY_STARTED)
        return 0;
    if (spec->ready >= READY_END)
        return error_set_field(e, ERR_INVALID, "ready",
                               "must be started, client, {command: ...} or {port: ...}");
    if (spec->needs.kind != WORKLOAD_SERVICE)
        return error_set_field(e, ERR_INVALID, "ready", "only a service can have this key");
    if (spec->ready == READY_COMMAND)
        return validate_words(e, "ready.command", &spec->ready_command, true);
    if (spec->ready == READY_PORT)
        return validate_range(e, "ready.port", spec->ready_port, 1, PORT_MAX);
    return 0;
}

static int validate_proxy(struct error *e, struct workload_spec *spec)
{
    if (spec->port == 0 && spec->backend_port == 0 && spec->proxy == PROXY_OFF)
        return 0;
    if (spec->proxy >= PROXY_END)
        return error_set_field(e, ERR_INVALID, "proxy", "must be http or off");
    if (spec->needs.kind != WORKLOAD_SERVICE)
        return error_set_field(e, ERR_INVALID, spec->proxy ? "proxy" : "port",
                               "only a service can have this key");
    if (spec->proxy == PROXY_OFF && spec->backend_port)
        return error_set_field(e, ERR_INVALID, "backend_port", "needs proxy: http");
    if (spec->proxy && spec->port == 0)
        return error_set_field(e, ERR_INVALID, "port",
                               "must be given: the proxy listens on this port");
    int r = validate_range(e, "port", spec->port, 1, PORT_MAX);
    if (r == 0)
        r = validate_range(e, "backend_port", spec->backend_port, 0, PORT_MAX);
    if (r == 0 && spec->backend_port == spec->port)
        r = error_set_field(e, ERR_INVALID, "backend_port",
                            "must differ from port, on which the proxy listens");
    if (r == 0 && spec->proxy && spec->ready == READY_STARTED) {
        spec->ready = READY_PORT; /* the supervisor asks the program, not the proxy */
        spec->ready_port = spec->port;
    }
    return r;
}

/* A metric's name, as Prometheus allows it. */
static bool is_metric(const char *name)
{
    size_t length =
        strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_:");
    return length > 0 && length < WORKLOAD_METRIC_MAX && name[length] == '\0' &&
           !isdigit((unsigned char)name[0]);
}

static int validate_source(struct error *e, struct workload_spec *spec)
{
    if (spec->latency_from == LATENCY_SOURCE_NONE && spec->port && !spec->proxy)
        spec->latency_from = LATENCY_SOURCE_AUTO;
    if (spec->latency_from == LATENCY_SOURCE_NONE) {
        if (spec->latency_port || spec->latency_metric)
            return error_set_field(e, ERR_INVALID, "latency.from",
                                   "must be given: auto, vllm, sglang, triton or prometheus");
        return 0;
    }
    bool named = spec->latency_from == LATENCY_SOURCE_PROMETHEUS;
    if (spec->latency_from >= LATENCY_SOURCE_END)
        return error_set_field(e, ERR_INVALID, "latency.from",
                               "must be auto, vllm, sglang, triton or prometheus");
    if (spec->needs.kind != WORKLOAD_SERVICE)
        return error_set_field(e, ERR_INVALID, "latency", "only a service can have this key");
    if (spec->proxy)
        return error_set_field(e, ERR_INVALID, "latency.from",
                               "must not be given with proxy, which measures itself");
    if (!spec->latency_port && !spec->port)
        return error_set_field(e, ERR_INVALID, "latency.port",
                               "must be given: the port with the metrics page");
    if (named && !spec->latency_metric)
        return error_set_field(e, ERR_INVALID, "latency.metric",
                               "must name a histogram of the metrics page");
    if (spec->latency_metric && (!named || !is_metric(spec->latency_metric)))
        return error_set_field(e, ERR_INVALID, "latency.metric", "%s",
                               named ? "is not a valid name of a metric"
                                     : "needs latency.from: prometheus");
    return spec->latency_port ? validate_range(e, "latency.port", spec->latency_port, 1, PORT_MAX)
                              : 0;
}

static int validate_after(struct error *e, const struct workload_spec *spec)
{
    if (spec->after_count > WORKLOAD_AFTER_MAX)
        return error_set_field(e, ERR_INVALID, "after", "must name at most %d workloads",
                               WORKLOAD_AFTER_MAX);
    for (size_t i = 0; i < spec->after_count; i++) {
        const char *name = spec->after[i].name;
        bool is_id = is_digits(name) && strlen(name) < 20;
        if (is_id || workload_name_is_valid(name))
            continue;
        int r =
            error_set(e, ERR_INVALID, "'%.60s' is neither a name nor an id of a workload", name);
        error_prefix_element(e, "after", i);
        return r;
    }
    return 0;
}

int workload_spec_validate(struct error *e, struct arena *arena, struct workload_spec *spec)
{
    int r = validate_needs(e, &spec->needs);
    if (r == 0)
        r = validate_texts(e, spec);
    if (r == 0)
        r = validate_range(e, "array", spec->array_count, 0, WORKLOAD_ARRAY_MAX);
    if (r == 0)
        r = validate_batch(e, spec);
    if (r == 0)
        r = validate_expectations(e, spec);
    if (r == 0)
        r = validate_proxy(e, spec);
    if (r == 0)
        r = validate_source(e, spec);
    if (r == 0)
        r = validate_ready(e, spec);
    if (r == 0 && spec->protection >= PROTECTION_END)
        r = error_set_field(e, ERR_INVALID, "protection", "must be on or off");
    if (r == 0)
        r = validate_after(e, spec);
    if (r == 0)
        r = validate_name(e, arena, spec);
    if (r == -ERR_NO_MEMORY)
        return error_set(e, ERR_NO_MEMORY, "out of memory");
    return r;
}

/* Counts as execve does: each string with its NUL, and a pointer to the string. */
static size_t start_bytes_of_words(const struct words *words)
{
    size_t bytes = 0;
    for (size_t i = 0; i < words->count; i++)
        bytes += strlen(words->items[i]) + 1 + sizeof(char *);
    return bytes;
}

static size_t start_bytes_of_environment(const struct pairs *environment)
{
    size_t bytes = 0;
    for (size_t i = 0; i < environment->count; i++)
        bytes += strlen(environment->items[i].key) + strlen(environment->items[i].value) + 2 +
                 sizeof(char *);
    return bytes;
}

static int check_start(struct error *e, const char *field, const struct words *words,
                       size_t environment_bytes)
{
    size_t bytes = start_bytes_of_words(words);
    if (bytes + environment_bytes <= WORKLOAD_START_MAX)
        return 0;
    return error_set_field(
        e, ERR_INVALID, bytes > environment_bytes ? field : "environment",
        "%s and environment have %zu bytes together; a program can be started with at most %d",
        field, bytes + environment_bytes, WORKLOAD_START_MAX);
}

int workload_spec_check_new(struct error *e, const struct workload_spec *spec)
{
    const struct workload_needs *needs = &spec->needs;
    uint64_t quota = needs->quota_bytes;
    bool has_share = needs->share_min_percent > 0 || needs->share_max_percent < SHARE_MAX_PERCENT;
    if (needs->devices == 0 && (quota > 0 || has_share))
        return error_set_field(
            e, ERR_INVALID, "devices",
            "must not be 0 with a %s, which is part of a device: leave one of the two out",
            quota > 0 ? "quota" : "share");
    if (quota > 0 && quota < WORKLOAD_QUOTA_BYTES_MIN)
        return error_set_field(e, ERR_INVALID, "quota",
                               "must be at least 1 MiB, not %llu bytes; write 8 GiB as 8g",
                               (unsigned long long)quota);
    size_t environment_bytes = start_bytes_of_environment(&spec->environment);
    int r = check_start(e, "command", &spec->command, environment_bytes);
    if (r == 0)
        r = check_start(e, "resume", &spec->resume, environment_bytes);
    if (r == 0)
        r = check_start(e, "ready.command", &spec->ready_command, environment_bytes);
    return r;
}
