#include "wire/http/http_parse.h"

#include <string.h>
#include <strings.h>

void http_parser_init(struct http_parser *p, http_body_fn on_body, void *arg)
{
    *p = (struct http_parser){.on_body = on_body, .arg = arg};
    str_init(&p->line, HTTP_PARSE_LINE_MAX);
}

void http_parser_done(struct http_parser *p)
{
    str_done(&p->line);
}

const struct http_head *http_parser_head(const struct http_parser *p)
{
    return p->state >= HTTP_PARSE_FIXED_BODY ? &p->head : NULL;
}

bool http_parser_is_done(const struct http_parser *p)
{
    return p->state == HTTP_PARSE_DONE;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Parses "HTTP/1.1 200 OK"; the reason may be missing. */
static int parse_status_line(struct error *e, struct http_parser *p, const char *line)
{
    bool right = str_starts_with(line, "HTTP/1.") && is_digit(line[7]) && line[8] == ' ' &&
                 is_digit(line[9]) && is_digit(line[10]) && is_digit(line[11]) &&
                 (line[12] == ' ' || line[12] == '\0');
    if (!right)
        return error_set(e, ERR_PROTOCOL, "the answer is not HTTP/1");
    p->head = (struct http_head){.keep_alive = line[7] != '0'};
    p->head.status = (line[9] - '0') * 100 + (line[10] - '0') * 10 + (line[11] - '0');
    if (p->head.status < 100)
        return error_set(e, ERR_PROTOCOL, "invalid HTTP status %d", p->head.status);
    p->has_length = p->chunked = false;
    p->remaining = 0;
    p->state = HTTP_PARSE_HEADERS;
    return 0;
}

static int parse_length(struct error *e, struct http_parser *p, const char *value)
{
    uint64_t length = 0;
    if (!*value)
        return error_set(e, ERR_PROTOCOL, "Content-Length is empty");
    for (; *value; value++) {
        if (!is_digit(*value) || length > (UINT64_MAX - 9) / 10)
            return error_set(e, ERR_PROTOCOL, "Content-Length is not a number");
        length = length * 10 + (uint64_t)(*value - '0');
    }
    if (p->has_length && p->remaining != length)
        return error_set(e, ERR_PROTOCOL, "two different Content-Lengths");
    p->has_length = true;
    p->remaining = length;
    return 0;
}

static void take_content_type(struct http_parser *p, const char *value)
{
    size_t length = strcspn(value, "; \t");
    if (length >= sizeof p->head.content_type)
        length = sizeof p->head.content_type - 1;
    for (size_t i = 0; i < length; i++) {
        char c = value[i];
        p->head.content_type[i] = (char)(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
    }
    p->head.content_type[length] = '\0';
}

/* Takes the first product of the Server header; a product that does not fit is ignored. */
static void take_server(struct http_parser *p, char *value)
{
    value[strcspn(value, " \t")] = '\0';
    if (!str_copy(p->head.server, sizeof p->head.server, value))
        p->head.server[0] = '\0';
}

static int parse_header(struct error *e, struct http_parser *p, char *line)
{
    char *colon = strchr(line, ':');
    if (!colon || colon == line || strcspn(line, " \t") < (size_t)(colon - line))
        return error_set(e, ERR_PROTOCOL, "a malformed HTTP header");
    *colon = '\0';
    char *value = colon + 1 + strspn(colon + 1, " \t");
    for (size_t n = strlen(value); n > 0 && (value[n - 1] == ' ' || value[n - 1] == '\t'); n--)
        value[n - 1] = '\0';
    if (strcasecmp(line, "Content-Length") == 0)
        return parse_length(e, p, value);
    if (strcasecmp(line, "Transfer-Encoding") == 0) {
        if (strcasecmp(value, "chunked") != 0 || p->chunked)
            return error_set(e, ERR_PROTOCOL, "unsupported Transfer-Encoding '%.40s'", value);
        p->chunked = true;
    } else if (strcasecmp(line, "Connection") == 0) {
        if (strcasecmp(value, "close") == 0)
            p->head.keep_alive = false;
        else if (strcasecmp(value, "keep-alive") == 0)
            p->head.keep_alive = true;
    } else if (strcasecmp(line, "Content-Type") == 0) {
        take_content_type(p, value);
    } else if (strcasecmp(line, "Server") == 0) {
        take_server(p, value);
    }
    return 0;
}

/* Handles the empty line after the headers: selects how the body is read. */
static int begin_body(struct error *e, struct http_parser *p)
{
    if (p->head.status < 200) {
        p->state = HTTP_PARSE_STATUS_LINE;
        return 0;
    }
    if (p->chunked && p->has_length)
        return error_set(e, ERR_PROTOCOL, "the answer has both chunks and a Content-Length");
    if (p->head.status == 204 || p->head.status == 304)
        p->state = HTTP_PARSE_DONE;
    else if (p->chunked)
        p->state = HTTP_PARSE_CHUNK_SIZE;
    else if (p->has_length)
        p->state = p->remaining ? HTTP_PARSE_FIXED_BODY : HTTP_PARSE_DONE;
    else {
        p->state = HTTP_PARSE_BODY_TO_END;
        p->head.keep_alive = false;
    }
    return 0;
}

/* Parses "1a2b" or "1a2b;extension". */
static int parse_chunk_size(struct error *e, struct http_parser *p, const char *line)
{
    uint64_t size = 0;
    size_t digits = strspn(line, "0123456789abcdefABCDEF");
    if (digits == 0 || digits > 15 || (line[digits] && !strchr("; \t", line[digits])))
        return error_set(e, ERR_PROTOCOL, "a malformed chunk size");
    for (size_t i = 0; i < digits; i++) {
        char c = line[i];
        size = size * 16 + (uint64_t)(is_digit(c) ? c - '0' : (c | 0x20) - 'a' + 10);
    }
    p->remaining = size;
    p->state = size ? HTTP_PARSE_CHUNK_DATA : HTTP_PARSE_TRAILERS;
    return 0;
}

static int handle_line(struct error *e, struct http_parser *p)
{
    char *line = p->line.data;
    switch (p->state) {
    case HTTP_PARSE_STATUS_LINE:
        return parse_status_line(e, p, line);
    case HTTP_PARSE_HEADERS:
        return *line ? parse_header(e, p, line) : begin_body(e, p);
    case HTTP_PARSE_CHUNK_SIZE:
        return parse_chunk_size(e, p, line);
    case HTTP_PARSE_CHUNK_END:
        if (*line)
            return error_set(e, ERR_PROTOCOL, "a chunk is longer than its size");
        p->state = HTTP_PARSE_CHUNK_SIZE;
        return 0;
    default: /* HTTP_PARSE_TRAILERS: trailers are ignored */
        if (!*line)
            p->state = HTTP_PARSE_DONE;
        return 0;
    }
}

/* Takes bytes up to the end of a line, and handles the line. Headers, trailers and chunk sizes of
 * one chunk count together against HTTP_PARSE_HEAD_MAX. */
static int feed_line(struct error *e, struct http_parser *p, const char *bytes, size_t length,
                     size_t *ret_used)
{
    const char *end = memchr(bytes, '\n', length);
    size_t taken = end ? (size_t)(end - bytes) + 1 : length;
    size_t text = end ? taken - 1 : taken;
    p->head_bytes += taken;
    if (p->head_bytes > HTTP_PARSE_HEAD_MAX)
        return error_set(e, ERR_TOO_LARGE, "the HTTP headers are larger than %d bytes",
                         HTTP_PARSE_HEAD_MAX);
    if (memchr(bytes, '\0', text))
        return error_set(e, ERR_PROTOCOL, "a NUL in the HTTP headers");
    str_append_bytes(&p->line, bytes, text);
    if (str_failed(&p->line))
        return error_set(e, ERR_TOO_LARGE, "an HTTP header is longer than %d bytes",
                         HTTP_PARSE_LINE_MAX);
    *ret_used = taken;
    if (!end)
        return 0;
    if (p->line.length > 0 && p->line.data[p->line.length - 1] == '\r')
        p->line.data[--p->line.length] = '\0';
    str_append(&p->line, ""); /* an empty line needs its NUL too */
    int r = p->line.data ? handle_line(e, p) : error_set(e, ERR_NO_MEMORY, "out of memory");
    str_clear(&p->line);
    return r;
}

static int feed_body(struct http_parser *p, const char *bytes, size_t length, size_t *ret_used)
{
    bool to_end = p->state == HTTP_PARSE_BODY_TO_END;
    size_t taken = !to_end && p->remaining < length ? (size_t)p->remaining : length;
    int r = p->on_body ? p->on_body(p->arg, bytes, taken) : 0;
    if (r != 0)
        return r;
    *ret_used = taken;
    if (to_end)
        return 0;
    p->remaining -= taken;
    if (p->remaining > 0)
        return 0;
    p->head_bytes = 0;
    p->state = p->state == HTTP_PARSE_FIXED_BODY ? HTTP_PARSE_DONE : HTTP_PARSE_CHUNK_END;
    return 0;
}

int http_parser_feed(struct error *e, struct http_parser *p, const char *bytes, size_t length,
                     size_t *ret_used)
{
    size_t used = 0;
    while (used < length && p->state != HTTP_PARSE_DONE) {
        size_t taken = 0;
        bool in_body = p->state == HTTP_PARSE_FIXED_BODY || p->state == HTTP_PARSE_CHUNK_DATA ||
                       p->state == HTTP_PARSE_BODY_TO_END;
        int r = in_body ? feed_body(p, bytes + used, length - used, &taken)
                        : feed_line(e, p, bytes + used, length - used, &taken);
        if (r < 0)
            return r;
        used += taken;
    }
    *ret_used = used;
    return 0;
}

int http_parser_end(struct error *e, struct http_parser *p)
{
    if (p->state == HTTP_PARSE_BODY_TO_END)
        p->state = HTTP_PARSE_DONE;
    if (p->state != HTTP_PARSE_DONE)
        return error_set(e, ERR_PROTOCOL, "the connection was closed in the middle of an answer");
    return 0;
}
