/* Any bytes as the head of a request; its path against a table of routes. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "endpoint/http_internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void no_handler(void *context, struct http_request *request)
{
    (void)context, (void)request;
}

static const struct http_route routes[] = {
    {HTTP_GET, "/v1/workloads/{ref}", no_handler, HTTP_ANYBODY},
    {HTTP_POST, "/v1/workloads/{ref}/cancel", no_handler, HTTP_ANYBODY},
    {HTTP_GET, "/{a}/{b}/{c}/{d}", no_handler, HTTP_ANYBODY},
    {HTTP_GET, NULL, NULL, HTTP_ANYBODY},
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t scanned = 0, half = 0;
    const char *bytes = (const char *)data;
    size_t length = http_head_length(bytes, size, &scanned);
    (void)http_head_length(bytes, size / 2, &half);
    if (length == 0 || http_head_length(bytes, size, &half) != length)
        return 0;
    char *text = malloc(length + 1);
    if (!text)
        return 0;
    memcpy(text, bytes, length);
    struct http_request_head head;
    struct error e = {0};
    if (http_head_parse(&e, text, length, &head) == 0) {
        struct arena arena;
        arena_init(&arena, HTTP_HEADER_MAX);
        const struct http_route *route;
        struct http_parts parts;
        unsigned allowed;
        (void)http_route_find(&e, routes, &arena, head.method, head.path, &route, &parts, &allowed);
        (void)http_head_find(&head, "content-length");
        arena_done(&arena);
    }
    free(text);
    return 0;
}
