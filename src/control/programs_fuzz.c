/* Any bytes as saved programs, then as the payload of a valid checksum. */
#include <stdint.h>
#include <stdlib.h>

#include "control/learning.h"
#include "learn/stored_fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Loads, and if successful uses, saves and loads again. */
static void load(const void *bytes, size_t length)
{
    struct programs *p, *again;
    struct str saved;
    if (programs_load(NULL, bytes, length, &p) < 0)
        return;
    size_t settled = programs_settled(p);
    str_init(&saved, PROGRAMS_STORED_MAX);
    programs_save(p, &saved);
    if (str_failed(&saved) || programs_load(NULL, saved.data, saved.length, &again) < 0 ||
        programs_settled(again) != settled)
        abort();
    str_done(&saved);
    programs_free(again);
    struct learning *l = learning_new();
    if (!l || learning_restore(l, p, NULL, NULL) < 0)
        abort();
    const struct forecast *f = learning_forecast(l);
    const struct forecast_device device = {.hash = 1};
    struct forecast_set set = {.device = &device, .count = 2, .kinds = {1, 2}};
    struct forecast_answer answer;
    f->together(f->context, &set, &answer);
    if (!(answer.pd[0] > 0 && answer.pd[1] > 0))
        abort();
    learning_free(l);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    stored_fuzz(data, size, "prog", PROGRAMS_STORED_MAX, load);
    return 0;
}
