/* The head of a request, strictly by RFC 9112. Text that two parsers could read differently is
 * refused. */
#include <string.h>
#include <strings.h>

#include "endpoint/http_internal.h"

static const char *const method_names[HTTP_METHOD_END] = {
    [HTTP_GET] = "GET", [HTTP_POST] = "POST", [HTTP_PUT] = "PUT", [HTTP_DELETE] = "DELETE"};

const char *http_method_name(enum http_method method)
{
    return method_names[method];
}

size_t http_head_length(const char *text, size_t length, size_t *scanned)
{
    /* The end may begin in the part that an earlier call searched. */
    size_t from = *scanned > 3 ? *scanned - 3 : 0;
    const char *end = memmem(text + from, length - from, "\r\n\r\n", 4);
    *scanned = length;
    return end ? (size_t)(end - text) + 4 : 0;
}

static bool is_token_char(char c)
{
    static const bool known[1 << 8] = {
        ['0' ... '9'] = true, ['A' ... 'Z'] = true, ['a' ... 'z'] = true, ['!'] = true,
        ['#'] = true,         ['$'] = true,         ['%'] = true,         ['&'] = true,
        ['\''] = true,        ['*'] = true,         ['+'] = true,         ['-'] = true,
        ['.'] = true,         ['^'] = true,         ['_'] = true,         ['`'] = true,
        ['|'] = true,         ['~'] = true,
    };
    return known[(unsigned char)c];
}

static bool is_token(const char *s)
{
    size_t length = 0;
    while (is_token_char(s[length]))
        length++;
    return length > 0 && s[length] == '\0';
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

bool http_decode(char *text, bool plus_is_space)
{
    char *to = text;
    for (const char *from = text; *from; from++) {
        if (*from == '%') {
            int high = hex_digit(from[1]);
            int low = high < 0 ? -1 : hex_digit(from[2]);
            if (low < 0 || (high == 0 && low == 0))
                return false;
            *to++ = (char)(high * 16 + low);
            from += 2;
        } else {
            *to++ = plus_is_space && *from == '+' ? ' ' : *from;
        }
    }
    *to = '\0';
    return str_is_utf8(text, (size_t)(to - text));
}

static int syntax(struct error *e, const char *what)
{
    return error_set(e, ERR_SYNTAX, "not a valid HTTP request: %s", what);
}

static int parse_query(struct error *e, char *query, struct http_request_head *head)
{
    while (query && *query) {
        char *next = strchr(query, '&');
        if (next)
            *next++ = '\0';
        char *equals = strchr(query, '=');
        if (equals)
            *equals++ = '\0';
        if (head->query_count == HTTP_QUERY_MAX)
            return error_set(e, ERR_TOO_LARGE, "more than %d query parameters", HTTP_QUERY_MAX);
        if (!http_decode(query, true) || (equals && !http_decode(equals, true)))
            return error_set(e, ERR_SYNTAX, "a query parameter is not percent-encoded UTF-8");
        head->query[head->query_count++] =
            (struct http_pair){.name = query, .value = equals ? equals : ""};
        query = next;
    }
    return 0;
}

static int parse_request_line(struct error *e, char *line, struct http_request_head *head)
{
    char *target = strchr(line, ' ');
    char *version = target ? strchr(target + 1, ' ') : NULL;
    if (!version)
        return syntax(e, "its first line is not \"METHOD TARGET HTTP/1.1\"");
    *target++ = '\0';
    *version++ = '\0';
    if (!is_token(line))
        return syntax(e, "its method");
    head->is_1_0 = strcmp(version, "HTTP/1.0") == 0;
    if (!head->is_1_0 && strcmp(version, "HTTP/1.1") != 0)
        return syntax(e, "its version is neither HTTP/1.1 nor HTTP/1.0");
    head->keep_alive = !head->is_1_0;
    head->is_head = strcmp(line, "HEAD") == 0;
    head->method = HTTP_METHOD_END;
    for (int i = 0; i < HTTP_METHOD_END; i++)
        if (strcmp(line, method_names[i]) == 0)
            head->method = (enum http_method)i;
    if (target[0] != '/' || strchr(target, '#'))
        return syntax(e, "its target is not a path");
    head->path = target;
    char *query = strchr(target, '?');
    if (query)
        *query++ = '\0';
    return parse_query(e, query, head);
}

static int parse_header(struct error *e, char *line, struct http_request_head *head)
{
    char *colon = strchr(line, ':');
    if (!colon)
        return syntax(e, "a header without a colon");
    *colon = '\0';
    if (!is_token(line))
        return syntax(e, "a header's name");
    char *value = colon + 1 + strspn(colon + 1, " \t");
    size_t length = strlen(value);
    while (length > 0 && (value[length - 1] == ' ' || value[length - 1] == '\t'))
        value[--length] = '\0';
    for (const char *p = value; *p; p++)
        if (((unsigned char)*p < 0x20 && *p != '\t') || *p == 0x7f)
            return syntax(e, "a control character in a header");
    if (head->header_count == HTTP_HEADERS_MAX)
        return error_set(e, ERR_TOO_LARGE, "more than %d headers", HTTP_HEADERS_MAX);
    head->headers[head->header_count++] = (struct http_pair){.name = line, .value = value};
    return 0;
}

static int parse_content_length(struct error *e, const char *text, struct http_request_head *head)
{
    size_t length = 0;
    if (!*text || text[strspn(text, "0123456789")] != '\0')
        return syntax(e, "its Content-Length is not a number");
    for (const char *p = text; *p; p++) {
        length = length * 10 + (size_t)(*p - '0');
        if (length > HTTP_BODY_MAX)
            return error_set(e, ERR_TOO_LARGE, "a body of more than %d bytes", HTTP_BODY_MAX);
    }
    head->content_length = length;
    return 0;
}

/* Reads the headers that determine where the request ends and what follows it. */
static int read_framing(struct error *e, struct http_request_head *head)
{
    bool has_length = false;
    for (size_t i = 0; i < head->header_count; i++) {
        const struct http_pair *h = &head->headers[i];
        int r = 0;
        if (strcasecmp(h->name, "content-length") == 0) {
            r = has_length ? syntax(e, "two Content-Length") : 0;
            has_length = true;
            if (r == 0)
                r = parse_content_length(e, h->value, head);
        } else if (strcasecmp(h->name, "transfer-encoding") == 0) {
            r = error_set(e, ERR_UNSUPPORTED,
                          "requests with a Transfer-Encoding are not taken: send Content-Length");
        } else if (strcasecmp(h->name, "connection") == 0) {
            if (strcasestr(h->value, "close"))
                head->keep_alive = false;
            else if (strcasestr(h->value, "keep-alive"))
                head->keep_alive = true;
        } else if (strcasecmp(h->name, "expect") == 0) {
            head->expect_continue = strcasecmp(h->value, "100-continue") == 0 && !head->is_1_0;
        }
        if (r < 0)
            return r;
    }
    return 0;
}

int http_head_parse(struct error *e, char *text, size_t length, struct http_request_head *ret)
{
    ret->query_count = ret->header_count = ret->content_length = 0;
    ret->expect_continue = false;
    if (memchr(text, '\0', length))
        return syntax(e, "a NUL in its head");
    text[length] = '\0';
    bool first = true;
    for (char *line = text;;) {
        char *end = strstr(line, "\r\n");
        if (!end)
            return syntax(e, "a line without an end");
        *end = '\0';
        if (end == line)
            return first ? syntax(e, "an empty line before it") : read_framing(e, ret);
        int r = first ? parse_request_line(e, line, ret) : parse_header(e, line, ret);
        if (r < 0)
            return r;
        first = false;
        line = end + 2;
    }
}

const char *http_head_find(const struct http_request_head *head, const char *name)
{
    for (size_t i = 0; i < head->header_count; i++)
        if (strcasecmp(head->headers[i].name, name) == 0)
            return head->headers[i].value;
    return NULL;
}
