#include <string.h>

#include "endpoint/http_internal.h"

/* Returns the length of the segment at p, up to '/' or the end. */
static size_t part_length(const char *p)
{
    return strcspn(p, "/");
}

/* Returns whether path has the shape of the route. Sets parts to the segments that matched {…},
 * still encoded. */
static bool shape_matches(const char *route, const char *path, struct http_parts *parts,
                          size_t lengths[HTTP_PATH_PARTS_MAX])
{
    parts->count = 0;
    while (*route == '/' && *path == '/') {
        route++;
        path++;
        size_t of_route = part_length(route), of_path = part_length(path);
        if (*route == '{') {
            if (of_path == 0 || parts->count == HTTP_PATH_PARTS_MAX)
                return false;
            lengths[parts->count] = of_path;
            parts->items[parts->count++] = (struct http_pair){.name = route + 1, .value = path};
        } else if (of_route != of_path || memcmp(route, path, of_path) != 0) {
            return false;
        }
        route += of_route;
        path += of_path;
    }
    return *route == '\0' && *path == '\0';
}

static int decode_parts(struct error *e, struct arena *arena, struct http_parts *parts,
                        const size_t lengths[HTTP_PATH_PARTS_MAX])
{
    for (size_t i = 0; i < parts->count; i++) {
        char *text = arena_strndup(arena, parts->items[i].value, lengths[i]);
        if (!text)
            return error_set(e, ERR_NO_MEMORY, "no memory for a request");
        if (!http_decode(text, false))
            return error_set(e, ERR_SYNTAX, "the path is not percent-encoded UTF-8");
        parts->items[i].value = text;
    }
    return 0;
}

int http_route_find(struct error *e, const struct http_route *routes, struct arena *arena,
                    enum http_method method, const char *path, const struct http_route **ret_route,
                    struct http_parts *ret_parts, unsigned *ret_allowed)
{
    unsigned allowed = 0;
    size_t lengths[HTTP_PATH_PARTS_MAX];
    for (const struct http_route *route = routes; route->path; route++) {
        struct http_parts parts;
        if (!shape_matches(route->path, path, &parts, lengths))
            continue;
        if (route->method == method) {
            int r = decode_parts(e, arena, &parts, lengths);
            if (r == 0) {
                *ret_route = route;
                *ret_parts = parts;
            }
            return r;
        }
        allowed |= 1u << route->method;
    }
    if (!allowed)
        return error_set(e, ERR_NOT_FOUND, "there is no %.200s here", path);
    *ret_allowed = allowed;
    return error_set(e, ERR_METHOD, "%.200s does not take this method", path);
}
