#include "cli/submit/submit.h"

#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "abi/page.h"
#include "cli/submit/draft.h"
#include "cli/frame/output.h"
#include "cli/frame/show.h"
#include "wire/spec.h"

enum { KEY_BYTES = 16, DEVICES_TEXT_MAX = 4096 };

static void make_key(char text[KEY_BYTES * 2 + 1])
{
    unsigned char bytes[KEY_BYTES];
    /* Blocks only before the system's first randomness at boot. */
    while (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes)
        ;
    for (size_t i = 0; i < KEY_BYTES; i++)
        snprintf(text + i * 2, 3, "%02x", bytes[i]);
}

/* Errors of a file begin with its name, errors of an option do not. */
static void name_file(struct error *e, const char *file)
{
    if (e->code == ERR_NOT_FOUND)
        error_set(e, ERR_NOT_FOUND, "there is no file %s; a command goes after '--'", file);
    else if ((e->code == ERR_INVALID || e->code == ERR_SYNTAX) && strcmp(file, "-") != 0 &&
             !str_starts_with(*e->field ? e->field : e->text, "--")) {
        struct error told = *e;
        error_set(e, (enum error_code)told.code, "%.300s: %s%s%s", file, told.field,
                  *told.field ? ": " : "", told.text);
    }
}

/* Warns about valid settings that are seldom intended; only once for the same value. */
static void warn(const struct draft *draft)
{
    int share_told = 0;
    uint64_t quota_told = 0;
    for (size_t i = 0; i < draft->count; i++) {
        const struct workload_needs *needs = &draft->specs[i].needs;
        bool is_capped = needs->share_max_percent < 100;
        int share = is_capped ? needs->share_max_percent : needs->share_min_percent;
        uint64_t quota = needs->quota_bytes;
        if (needs->devices > 0 && quota == 0 && share > 0 && share != share_told) {
            fprintf(stderr,
                    "gpumux: share %d without a quota: the workload gets a device of its own; give "
                    "--quota to share a device\n",
                    share);
            share_told = share;
        }
        if (quota > 0 && quota < LIMITS_CONTEXT_BYTES && quota != quota_told &&
            draft->specs[i].protection == PROTECTION_ON) {
            char text[2][SHOW_TEXT_MAX];
            fprintf(stderr,
                    "gpumux: quota %s: a CUDA context alone takes %s of a real device, so a "
                    "program can allocate no memory\n",
                    show_bytes((double)quota, text[0]),
                    show_bytes((double)LIMITS_CONTEXT_BYTES, text[1]));
            quota_told = quota;
        }
    }
}

static int make_document(struct error *e, struct client *c, const char *file, bool wants_stdin,
                         struct str *document)
{
    struct str text;
    str_init(&text, SPEC_TEXT_MAX);
    int r = file ? draft_read_file(e, file, &text) : 0;
    struct draft draft;
    if (r == 0)
        r = draft_make(e, &c->arena, c->in, file ? str_text(&text) : NULL, text.length, &draft);
    if (r == 0) {
        for (size_t i = 0; i < draft.count; i++)
            draft.specs[i].wants_stdin = draft.specs[i].wants_stdin || wants_stdin;
        r = draft_write(e, &draft, document);
    }
    if (r == 0 && !option_given(c->in, "quiet"))
        warn(&draft);
    str_done(&text);
    if (r < 0 && file)
        name_file(e, file);
    return r;
}

int submit_send(struct client *c, const struct submit_request *request, json_t **ret)
{
    struct error e = {0};
    struct str document;
    str_init(&document, SPEC_TEXT_MAX);
    int r = make_document(&e, c, request->file, request->wants_stdin, &document);
    if (r < 0) {
        str_done(&document);
        command_fail(c->in, &e);
        return r == -ERR_INVALID || r == -ERR_SYNTAX ? COMMAND_USAGE : COMMAND_FAILED;
    }
    char made[KEY_BYTES * 2 + 1];
    const char *key = request->key;
    if (!key) {
        make_key(made);
        key = made;
    }
    struct http_call call = {.method = "POST",
                             .target =
                                 request->dry_run ? "/v1/workloads?dry_run=1" : "/v1/workloads",
                             .accept = "application/json",
                             .content_type = "application/json",
                             .idempotency_key = key,
                             .body = str_text(&document),
                             .body_length = document.length,
                             .timeout_ms = CLIENT_TIMEOUT_MS};
    r = client_call(&e, c, &call, CLIENT_RETRY_MS, ret);
    str_done(&document);
    return r < 0 ? client_fail(c, &e) : COMMAND_OK;
}

static bool is_never(const json_t *workload)
{
    return json_is_true(json_object_get(workload, "never"));
}

static void show_unreachable(const json_t *workload)
{
    const json_t *figures = json_object_get(workload, "unreachable");
    if (json_is_object(figures))
        printf("%s would miss its SLO: the SLO is %.4g ms, and this program alone on a device "
               "reached %.4g ms\n",
               json_text(workload, "name", "?"), json_fraction(figures, "slo_ms", 0),
               json_fraction(figures, "alone_ms", 0));
}

static void show_dry_run(const json_t *workloads)
{
    for (size_t i = 0; i < json_array_size(workloads); i++) {
        const json_t *w = json_array_get(workloads, i);
        show_unreachable(w);
        const json_t *placement = json_object_get(w, "placement");
        const char *text = json_text(w, "text", "");
        if (!json_is_object(placement)) {
            printf("%s would %s: %s\n", json_text(w, "name", "?"),
                   is_never(w) ? "never start here" : "not start now", text);
            continue;
        }
        struct str devices;
        str_init(&devices, DEVICES_TEXT_MAX);
        show_devices(placement, &devices);
        bool has_device = json_array_size(json_object_get(placement, "devices")) > 0;
        printf("%s would run on %s%s%s\n", json_text(w, "name", "?"),
               has_device ? str_text(&devices) : json_text(placement, "node", "?"),
               *text ? ": " : "", text);
        str_done(&devices);
    }
}

static int show_table(const json_t *workloads)
{
    static const char *const titles[] = {"ID", "NAME", "STATE", NULL};
    struct output_table t;
    output_table_init(&t, titles);
    for (size_t i = 0; i < json_array_size(workloads); i++) {
        const json_t *w = json_array_get(workloads, i);
        output_cell(&t, OUTPUT_PLAIN, "%lld", (long long)json_number(w, "id", 0));
        output_cell(&t, OUTPUT_PLAIN, "%s", json_text(w, "name", ""));
        output_cell(&t, OUTPUT_PLAIN, "%s", json_text(w, "state", ""));
    }
    return output_table_print(&t);
}

/* Prints workloads that no present node can hold; only once for an array. This is no error, because
 * another node may join. */
static void tell_never(const json_t *workloads)
{
    const char *told = "";
    for (size_t i = 0; i < json_array_size(workloads); i++) {
        const json_t *w = json_array_get(workloads, i);
        const char *text = json_text(w, "text", "");
        if (!is_never(w) || strcmp(text, told) == 0)
            continue;
        fprintf(stderr, "gpumux: %lld waits: %s\n", (long long)json_number(w, "id", 0), text);
        told = text;
    }
}

static int show_answer(const struct invocation *in, const json_t *answer)
{
    const json_t *workloads = json_object_get(answer, "workloads");
    enum output_format format = output_format(in);
    bool is_data = format == OUTPUT_JSON || format == OUTPUT_YAML;
    int status = is_data ? output_value(format, answer) : COMMAND_OK;
    if (option_given(in, "dry-run")) {
        if (!is_data)
            show_dry_run(workloads);
        for (size_t i = 0; status == COMMAND_OK && i < json_array_size(workloads); i++)
            status = is_never(json_array_get(workloads, i)) ? COMMAND_NEVER : COMMAND_OK;
        return status;
    }
    if (is_data)
        return status;
    if (!option_given(in, "quiet")) {
        if (option_given(in, "key") && json_is_true(json_object_get(answer, "repeated")))
            fprintf(stderr,
                    "gpumux: --key %s was used before: these are the ids of the first submission\n",
                    option_value(in, "key"));
        tell_never(workloads);
    }
    if (option_given(in, "output") && !option_given(in, "quiet"))
        return show_table(workloads);
    for (size_t i = 0; i < json_array_size(workloads); i++)
        printf("%lld\n", (long long)json_number(json_array_get(workloads, i), "id", 0));
    return COMMAND_OK;
}

int submit_command(const struct invocation *in)
{
    if (in->operand_count == 0 && in->rest_count == 0) {
        fprintf(stderr,
                "gpumux: submit: give a FILE ('-' for standard input), or a command after '--'\n"
                "See 'gpumux submit --help'.\n");
        return COMMAND_USAGE;
    }
    struct client c;
    int status = client_init(&c, in);
    if (status != COMMAND_OK)
        return status;
    json_t *answer = NULL;
    struct submit_request request = {.file = in->operand_count ? in->operands[0] : NULL,
                                     .key = option_value(in, "key"),
                                     .dry_run = option_given(in, "dry-run")};
    status = submit_send(&c, &request, &answer);
    if (status == COMMAND_OK)
        status = show_answer(in, answer);
    json_decref(answer);
    client_done(&c);
    return status;
}
