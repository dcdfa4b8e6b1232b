#include "proxy/backends.h"

#include <stdlib.h>
#include <string.h>

enum { PORT_MAX = 65535 };

static struct backend *find(struct backends *b, int port)
{
    for (size_t i = 0; i < b->count; i++)
        if (b->items[i].port == port)
            return &b->items[i];
    return NULL;
}

bool backends_parse(struct backends *b, const char *order)
{
    struct backends read = {.generation = b->generation + 1};
    size_t word = strlen(BACKENDS_WORD);
    if (strncmp(order, BACKENDS_WORD, word) != 0)
        return false;
    for (const char *at = order + word; *at;) {
        char *end;
        if (*at++ != ' ' || *at < '0' || *at > '9' || read.count == BACKENDS_MAX)
            return false;
        unsigned long port = strtoul(at, &end, 10);
        if (port < 1 || port > PORT_MAX || find(&read, (int)port))
            return false;
        const struct backend *known = find(b, (int)port);
        read.items[read.count++] =
            (struct backend){.port = (int)port, .connections = known ? known->connections : 0};
        at = end;
    }
    if (read.count == 0)
        return false;
    *b = read;
    return true;
}

int backends_choose(struct backends *b)
{
    const struct backend *best = NULL;
    for (size_t i = 0; i < b->count; i++) {
        const struct backend *other = &b->items[(b->next + i) % b->count];
        if (!best || other->connections < best->connections)
            best = other;
    }
    if (!best)
        return 0;
    b->next = (size_t)(best - b->items) + 1;
    return best->port;
}

bool backends_has(const struct backends *b, int port)
{
    for (size_t i = 0; i < b->count; i++)
        if (b->items[i].port == port)
            return true;
    return false;
}

void backends_opened(struct backends *b, int port)
{
    struct backend *backend = find(b, port);
    if (backend)
        backend->connections++;
}

void backends_closed(struct backends *b, int port)
{
    struct backend *backend = find(b, port);
    if (backend && backend->connections > 0)
        backend->connections--;
}
