/* Any bytes as saved measurements and as a saved model, then as the payloads with a valid header
 * and checksum. */
#include <stdint.h>
#include <stdlib.h>

#include "learn/predictor.h"
#include "learn/stored_fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void load_predictor(const void *bytes, size_t length)
{
    struct predictor *p;
    struct prediction prediction;
    if (predictor_load(NULL, bytes, length, &p) < 0)
        return;
    for (uint64_t family = 0; family < 4; family++) {
        struct task_profile tasks[2] = {{.family = family, .sm_activity = 0.5}, {.family = 1}};
        predictor_predict(p, NULL, &tasks[0], &tasks[1], 1, &prediction);
        if (prediction.source == PREDICTOR_ALONE || prediction.source == PREDICTOR_COLD)
            abort();
    }
    predictor_free(p);
}

static void load_observations(const void *bytes, size_t length)
{
    struct observations *o, *again;
    struct task_profile own = {.family = 1}, neighbour = {.family = 2};
    struct str saved;
    if (observations_load(NULL, bytes, length, &o) < 0)
        return;
    if (observations_add(o, &own, &neighbour, 1, 2) < 0)
        abort();
    str_init(&saved, OBSERVATIONS_STORED_MAX);
    observations_save(o, &saved);
    if (str_failed(&saved) || observations_load(NULL, saved.data, saved.length, &again) < 0 ||
        observations_total(again) != observations_total(o))
        abort();
    str_done(&saved);
    observations_free(o);
    observations_free(again);
}

static void load(const void *bytes, size_t length)
{
    load_predictor(bytes, length);
    load_observations(bytes, length);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    stored_fuzz(data, size, "pred", PREDICTOR_STORED_MAX, load);
    stored_fuzz(data, size, "obsv", PREDICTOR_STORED_MAX, load);
    return 0;
}
