/*
 * "Did you mean": the known word that is nearest to an unknown word.
 *
 *   hint_init(&hint, word);  for every known word: hint_offer(&hint, known);  hint_get(&hint)
 */
#pragma once
#include <stddef.h>

enum { HINT_WORD_MAX = 64 };

struct hint {
    const char *word; /* borrowed from the caller */
    size_t distance;
    char best[HINT_WORD_MAX];
};

void hint_init(struct hint *h, const char *word);
void hint_offer(struct hint *h, const char *known);
/* Returns the nearest word, or NULL if every offered word differs too much. */
const char *hint_get(const struct hint *h);
