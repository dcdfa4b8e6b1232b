/* gpumux explain: why a workload is placed where it is, or waits. */
#include <stdio.h>

#include "cli/frame/output.h"
#include "cli/connect/reference.h"
#include "cli/watch/watching.h"

/* Adds a number; "-" if unknown. */
static void number_cell(struct output_table *t, const json_t *candidate, const char *key,
                        int decimals, const char *unit)
{
    const json_t *value = json_object_get(candidate, key);
    if (json_is_number(value))
        output_cell(t, OUTPUT_PLAIN, "%.*f%s", decimals, json_number_value(value), unit);
    else
        output_cell(t, OUTPUT_PLAIN, "-");
}

/* Adds the p99 of the service closest to its SLO; "-" without such a service. */
static void p99_cell(struct output_table *t, const json_t *candidate)
{
    if (json_is_null(json_object_get(candidate, "p99_ms")) &&
        json_is_number(json_object_get(candidate, "slo_ms")))
        output_cell(t, OUTPUT_PLAIN, "unknown");
    else
        number_cell(t, candidate, "p99_ms", 1, " ms");
}

static int show(const json_t *answer)
{
    static const char *const titles[] = {"DEVICE", "NODE", "MODEL", "ALIKE", "NEIGHBOURS",
                                         "SPEED",  "PD",   "GAIN",  "P99",   "MEASURED",
                                         "SLO",    "WHY",  NULL};
    struct output_table t;
    const json_t *candidates = json_object_get(answer, "candidates");
    printf("%lld, by policy %s: %s\n", (long long)json_number(answer, "id", 0),
           json_text(answer, "policy", ""), json_text(answer, "text", ""));
    const json_t *measured = json_object_get(answer, "measured_pd");
    if (json_is_number(measured))
        printf("the workload takes %.2f times as long as alone; %.2f was predicted\n",
               json_number_value(measured),
               json_number_value(json_object_get(answer, "predicted_pd")));
    if (json_array_size(candidates) == 0)
        return COMMAND_OK; /* no device requested */
    output_table_init(&t, titles);
    for (size_t i = 0; i < json_array_size(candidates); i++) {
        const json_t *c = json_array_get(candidates, i);
        bool chosen = json_is_true(json_object_get(c, "chosen"));
        bool here = json_is_true(json_object_get(c, "here"));
        output_cell(&t, chosen ? OUTPUT_GREEN : OUTPUT_PLAIN, "%s", json_text(c, "device", ""));
        output_cell(&t, OUTPUT_PLAIN, "%s", json_text(c, "node", ""));
        output_cell(&t, OUTPUT_PLAIN, "%s", json_text(c, "model", ""));
        output_cell(&t, OUTPUT_PLAIN, "%lld", (long long)json_number(c, "alike", 1));
        output_cell(&t, OUTPUT_PLAIN, "%lld", (long long)json_number(c, "neighbours", 0));
        number_cell(&t, c, "speed", 2, "");
        number_cell(&t, c, "pd", 2, "");
        number_cell(&t, c, "gain", 2, "");
        p99_cell(&t, c);
        number_cell(&t, c, "p99_measured_ms", 1, " ms");
        number_cell(&t, c, "slo_ms", 1, " ms");
        output_cell(&t, OUTPUT_PLAIN, "%s%s", here ? "runs here; " : "",
                    json_text(c, "reason", ""));
    }
    int status = output_table_print(&t);
    output_table_done(&t);
    return status;
}

int explain_command(const struct invocation *in)
{
    return references_show(in, ARRAY_LIVE, "/explain", show);
}
