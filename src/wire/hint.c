#include "wire/hint.h"

#include <string.h>

#include "base/str.h"

void hint_init(struct hint *h, const char *word)
{
    /* A third of the letters may be wrong; two swapped letters count as two. */
    *h = (struct hint){.word = word, .distance = strlen(word) / 3 + 2};
}

void hint_offer(struct hint *h, const char *known)
{
    size_t distance = str_distance(h->word, known, h->distance);
    if (distance >= h->distance || strlen(known) >= sizeof h->best)
        return;
    h->distance = distance;
    str_copy(h->best, sizeof h->best, known);
}

const char *hint_get(const struct hint *h)
{
    return h->best[0] ? h->best : NULL;
}
