/*
 * "Did you mean": the known word that is nearest to one that is not known.
 *
 *   hint_init(&hint, word);  for every known word: hint_offer(&hint, known);  hint_get(&hint)
 */
#pragma once
#include <stddef.h>

enum { HINT_WORD_MAX = 64 };

struct hint {
    const char *word; /* the caller's */
    size_t distance;
    char best[HINT_WORD_MAX];
};

void hint_init(struct hint *h, const char *word);
void hint_offer(struct hint *h, const char *known);
/* The nearest one, or NULL when none is near enough to be meant. */
const char *hint_get(const struct hint *h);
