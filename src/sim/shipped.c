/* SHIPPED_FOLDER is data/ of the source tree, at build time. */
#include "sim/shipped.h"

#include "base/str.h"

/* Includes a file as read-only data between two symbols. */
#define INCLUDE_FILE(symbol, file)                                                                 \
    __asm__(".pushsection .rodata\n"                                                               \
            ".balign 16\n"                                                                         \
            "shipped_" #symbol ":\n"                                                               \
            ".incbin \"" SHIPPED_FOLDER "/" file "\"\n"                                            \
            "shipped_" #symbol "_end:\n"                                                           \
            ".popsection\n");                                                                      \
    extern const char shipped_##symbol[], shipped_##symbol##_end[]

INCLUDE_FILE(solo, "h200_train_solo.csv");
INCLUDE_FILE(pairs, "h200_train_pairs.csv");

INCLUDE_FILE(noise, "noise_scales.csv");
INCLUDE_FILE(philly, "philly.csv");
INCLUDE_FILE(tasks, "tasks_300.csv");
INCLUDE_FILE(services, "services.csv");
INCLUDE_FILE(rates, "request_rates.csv");

struct shipped {
    const char *name, *start, *end;
};

static const struct shipped files[] = {
    {"h200_train_solo.csv", shipped_solo, shipped_solo_end},
    {"h200_train_pairs.csv", shipped_pairs, shipped_pairs_end},
    {"noise_scales.csv", shipped_noise, shipped_noise_end},
    {"philly.csv", shipped_philly, shipped_philly_end},
    {"tasks_300.csv", shipped_tasks, shipped_tasks_end},
    {"services.csv", shipped_services, shipped_services_end},
    {"request_rates.csv", shipped_rates, shipped_rates_end},
};

const char *shipped_find(const char *name, size_t *ret_length)
{
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        if (!str_equal(files[i].name, name))
            continue;
        *ret_length = (size_t)(files[i].end - files[i].start);
        return files[i].start;
    }
    return NULL;
}
