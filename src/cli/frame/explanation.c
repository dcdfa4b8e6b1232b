#include "cli/frame/explanation.h"

#include <stdio.h>

#include "cli/frame/answer.h"
#include "cli/frame/output.h"

enum { TEXT = -1 /* instead of a number's decimals */ };

/* The columns between DEVICE and WHY. A column with `subject` appears if a candidate has that
 * number; the candidate's own number is then "unknown" without a value. */
static const struct column {
    const char *title, *key;
    int decimals;
    const char *unit, *subject, *legend;
} columns[] = {
    {"MODEL", "model", TEXT, "", NULL, NULL},
    {"ALIKE", "alike", 0, "", NULL, "equivalent devices, which one line stands for"},
    {"NEIGHBOURS", "neighbours", 0, "", NULL, "workloads on the device"},
    {"RELATIVE", "speed", 2, "", "speed",
     "predicted speed of the workload on the device; 1: the speed alone"},
    {"PD", "pd", 2, "", "pd",
     "performance degradation: predicted time for the same progress; 1: the time alone"},
    {"GAIN", "gain", 2, "", "gain", "RELATIVE, minus the speed that the neighbours lose"},
    {"P99", "p99_ms", 1, " ms", "slo_ms",
     "predicted latency of the service closest to its SLO, at the percentile of the SLO"},
    {"MEASURED", "p99_measured_ms", 1, " ms", "p99_measured_ms",
     "latency of that service over the last 10 s"},
    {"SLO", "slo_ms", 1, " ms", "slo_ms", "largest latency that the SLO of that service permits"},
};
enum { COLUMNS = sizeof columns / sizeof columns[0] };

static bool has_number(const json_t *candidate, const char *key)
{
    return json_is_number(json_object_get(candidate, key));
}

static bool appears(const struct column *column, const json_t *candidates)
{
    bool found = !column->subject;
    for (size_t i = 0; !found && i < json_array_size(candidates); i++)
        found = has_number(json_array_get(candidates, i), column->subject);
    return found;
}

static void add_cell(struct output_table *t, const struct column *column, const json_t *candidate)
{
    if (column->decimals == TEXT)
        output_cell(t, OUTPUT_PLAIN, "%s", json_text(candidate, column->key, ""));
    else if (has_number(candidate, column->key))
        output_cell(t, OUTPUT_PLAIN, "%.*f%s", column->decimals,
                    json_fraction(candidate, column->key, 0), column->unit);
    else
        output_cell(t, OUTPUT_PLAIN, "%s",
                    column->subject && has_number(candidate, column->subject) ? "unknown" : "-");
}

static void print_legend(const struct column *const *shown, size_t count)
{
    printf("\n");
    for (size_t i = 0; i < count; i++)
        if (shown[i]->legend)
            printf("%-11s %s\n", shown[i]->title, shown[i]->legend);
}

static int print_candidates(const json_t *candidates)
{
    const char *titles[COLUMNS + 3] = {"DEVICE"};
    const struct column *shown[COLUMNS];
    struct output_table t;
    size_t count = 0;
    for (size_t i = 0; i < COLUMNS; i++)
        if (appears(&columns[i], candidates)) {
            shown[count++] = &columns[i];
            titles[count] = columns[i].title;
        }
    titles[count + 1] = "WHY";
    output_table_init(&t, titles);
    for (size_t i = 0; i < json_array_size(candidates); i++) {
        const json_t *c = json_array_get(candidates, i);
        /* A server of an earlier version sends no name. */
        output_cell(&t, json_is_true(json_object_get(c, "chosen")) ? OUTPUT_GREEN : OUTPUT_PLAIN,
                    "%s", json_text(c, "device_name", json_text(c, "device", "")));
        for (size_t k = 0; k < count; k++)
            add_cell(&t, shown[k], c);
        output_cell(&t, OUTPUT_PLAIN, "%s%s",
                    json_is_true(json_object_get(c, "here")) ? "runs here; " : "",
                    json_text(c, "reason", ""));
    }
    int status = output_table_print(&t);
    if (status == COMMAND_OK)
        print_legend(shown, count);
    return status;
}

int explanation_print(const json_t *answer)
{
    const json_t *candidates = json_object_get(answer, "candidates");
    printf("%lld, by policy %s: %s\n", (long long)json_number(answer, "id", 0),
           json_text(answer, "policy", ""), json_text(answer, "text", ""));
    const json_t *measured = json_object_get(answer, "measured_pd");
    if (json_is_number(measured))
        printf("the workload takes %.2f times as long as alone; %.2f was predicted\n",
               json_number_value(measured),
               json_number_value(json_object_get(answer, "predicted_pd")));
    /* A workload that requests no device has no candidates. */
    return json_array_size(candidates) == 0 ? COMMAND_OK : print_candidates(candidates);
}
