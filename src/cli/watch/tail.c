#include "cli/watch/tail.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static struct logline *at(const struct tail *t, size_t index)
{
    return &t->kept[(t->first + index) % t->capacity];
}

static void drop_oldest(struct tail *t)
{
    struct logline *oldest = at(t, 0);
    t->full_count -= oldest->is_full;
    free((char *)oldest->time);
    t->first = (t->first + 1) % t->capacity;
    t->count--;
}

int tail_init(struct tail *t, size_t lines)
{
    assert(lines <= TAIL_LINES_MAX);
    *t = (struct tail){.lines = lines, .capacity = lines + TAIL_PIECES_MAX};
    t->kept = calloc(t->capacity, sizeof *t->kept);
    return t->kept ? 0 : -ERR_NO_MEMORY;
}

void tail_done(struct tail *t)
{
    while (t->count > 0)
        drop_oldest(t);
    free(t->kept);
    *t = (struct tail){0};
}

int tail_keep(struct tail *t, const struct logline *line)
{
    char *copy = malloc(line->time_length + line->length + 1);
    if (!copy)
        return -ERR_NO_MEMORY;
    memcpy(copy, line->time, line->time_length);
    memcpy(copy + line->time_length, line->text, line->length);
    if (t->count == t->capacity)
        drop_oldest(t);
    struct logline *kept = at(t, t->count++);
    *kept = *line;
    kept->time = copy;
    kept->text = copy + line->time_length;
    t->full_count += line->is_full;
    while (t->full_count > t->lines)
        drop_oldest(t);
    return 0;
}

int tail_emit(struct tail *t, follow_line_fn on_line, void *arg)
{
    bool is_open = t->count > 0 && !at(t, t->count - 1)->is_full;
    while (t->count > 0 && t->full_count + is_open > t->lines)
        drop_oldest(t);
    int r = 0;
    for (size_t i = 0; r == 0 && i < t->count; i++)
        r = on_line(arg, at(t, i));
    return r;
}
