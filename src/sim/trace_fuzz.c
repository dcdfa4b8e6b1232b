/* Any bytes as a trace, as a mix and as a list of nodes: rejected, or a valid result. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "sim/hardware.h"
#include "sim/trace.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool holds)
{
    if (!holds)
        __builtin_trap();
}

static void read_trace(const char *text, size_t length, const struct tables *t)
{
    struct trace_mix mix;
    struct trace trace;
    trace_mix_default(t, &mix);
    if (trace_parse(NULL, text, length, t, &mix, 1, &trace) < 0)
        return;
    check(trace.count > 0 && trace.items[0].submit_s == 0);
    for (size_t i = 0; i < trace.count; i++) {
        const struct trace_item *item = &trace.items[i];
        check(item->model < t->model_count && item->devices > 0 && item->duration_s >= 1);
        check(isfinite(item->submit_s) && (i == 0 || item->submit_s >= item[-1].submit_s));
    }
    trace_done(&trace);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char solo[] =
        "model,batch,iter_ms,mem_mib,params,gr_active_pct,sm_active_pct,"
        "sm_occupancy_pct,tensor_pct,dram_pct\nvgg16,512,70,3866,1,99,93,72,2,6\n";
    struct tables tables = {0};
    struct hardware hardware;
    struct trace_mix mix;
    char *text = malloc(size + 1);
    if (!text)
        return 0;
    memcpy(text, data, size);
    text[size] = '\0';
    check(tables_add_solo(NULL, solo, sizeof solo - 1, &tables) == 0);
    read_trace(text, size, &tables);
    if (trace_mix_parse(NULL, text, &tables, &mix) == 0)
        check(mix.count > 0 && mix.parts[0].weight > 0 && mix.parts[0].batch >= 1);
    if (hardware_parse(NULL, text, &hardware) == 0)
        check(hardware.device_count > 0 && hardware.device_count <= HARDWARE_DEVICES_MAX);
    tables_done(&tables);
    free(text);
    return 0;
}
