#include "proxy/http1.h"

#include <string.h>
#include <strings.h>

enum { DIGITS_MAX = 18, HEX_DIGITS_MAX = 15, VERSION_LENGTH = 8 /* "HTTP/1.1" */ };

void http1_init(struct http1_parser *p, bool is_response)
{
    *p = (struct http1_parser){.is_response = is_response};
}

bool http1_is_idle(const struct http1_parser *p)
{
    return p->state == HTTP1_AT_START_LINE && p->head_bytes == 0;
}

bool http1_ends_with_connection(const struct http1_parser *p)
{
    return p->state == HTTP1_AT_BODY_TO_END;
}

/* ---- lines ---- */

struct line {
    const char *text; /* the first HTTP1_LINE_MAX bytes, without the end of the line */
    size_t length;
    bool is_whole; /* the line has no more bytes */
};

/* Takes bytes up to the end of a line. Returns false if the line is not complete yet; *ret_used is
 * then `length`. A line that is complete in the input is not copied. */
static bool take_line(struct http1_parser *p, const char *bytes, size_t length, size_t *ret_used,
                      struct line *ret)
{
    const char *end = memchr(bytes, '\n', length);
    size_t used = end ? (size_t)(end - bytes) + 1 : length;
    p->head_bytes += used;
    *ret_used += used;
    if (end && p->line_length == 0) {
        bool is_whole = used - 1 <= sizeof p->line; /* as if the line came in pieces */
        *ret = (struct line){bytes, is_whole ? used - 1 : sizeof p->line, is_whole};
    } else {
        size_t text = end ? used - 1 : used;
        size_t at = p->line_length < sizeof p->line ? p->line_length : sizeof p->line;
        size_t room = sizeof p->line - at;
        memcpy(p->line + at, bytes, text < room ? text : room);
        p->line_length += text; /* counts also the bytes that do not fit */
        if (text > room)
            p->line_length = sizeof p->line + 1;
        if (!end)
            return false;
        *ret = (struct line){p->line, p->line_length, p->line_length <= sizeof p->line};
        if (!ret->is_whole)
            ret->length = sizeof p->line;
        p->line_length = 0;
    }
    if (ret->is_whole && ret->length > 0 && ret->text[ret->length - 1] == '\r')
        ret->length--;
    return true;
}

/* ---- heads ---- */

static bool has_version(const char *text)
{
    return memcmp(text, "HTTP/1.", VERSION_LENGTH - 1) == 0 &&
           (text[VERSION_LENGTH - 1] == '0' || text[VERSION_LENGTH - 1] == '1');
}

static bool begins(const struct line *line, const char *word)
{
    size_t length = strlen(word);
    return line->length >= length && memcmp(line->text, word, length) == 0;
}

static bool parse_request_line(struct http1_parser *p, const struct line *line)
{
    if (begins(line, "HEAD "))
        p->head.method = HTTP1_METHOD_HEAD;
    else if (begins(line, "CONNECT "))
        p->head.method = HTTP1_METHOD_CONNECT;
    const char *space = memchr(line->text, ' ', line->length);
    if (!space || space == line->text)
        return false;
    if (!line->is_whole) /* a long target hides the version */
        return true;
    if (line->length < VERSION_LENGTH + 2 || line->text[line->length - VERSION_LENGTH - 1] != ' ' ||
        !has_version(line->text + line->length - VERSION_LENGTH))
        return false;
    p->head.close = line->text[line->length - 1] == '0';
    return true;
}

static bool parse_status_line(struct http1_parser *p, const struct line *line)
{
    if (line->length < VERSION_LENGTH + 4 || !has_version(line->text) ||
        line->text[VERSION_LENGTH] != ' ')
        return false;
    p->head.close = line->text[VERSION_LENGTH - 1] == '0';
    for (size_t i = VERSION_LENGTH + 1; i < VERSION_LENGTH + 4; i++) {
        if (line->text[i] < '0' || line->text[i] > '9')
            return false;
        p->head.status = p->head.status * 10 + (line->text[i] - '0');
    }
    return p->head.status >= 100;
}

/* Returns whether the comma-separated list contains the word, in any case; *ret_is_last: and as
 * its last element. */
static bool list_has(const char *text, size_t length, const char *word, bool *ret_is_last)
{
    size_t word_length = strlen(word);
    bool found = false;
    *ret_is_last = false;
    for (size_t at = 0; at < length;) {
        while (at < length && (text[at] == ' ' || text[at] == '\t' || text[at] == ','))
            at++;
        size_t end = at;
        while (end < length && text[end] != ',')
            end++;
        size_t trimmed = end;
        while (trimmed > at && (text[trimmed - 1] == ' ' || text[trimmed - 1] == '\t'))
            trimmed--;
        if (trimmed > at) {
            *ret_is_last =
                trimmed - at == word_length && strncasecmp(text + at, word, word_length) == 0;
            found = found || *ret_is_last;
        }
        at = end;
    }
    return found;
}

static bool parse_length(struct http1_parser *p, const char *text, size_t length)
{
    uint64_t number = 0;
    if (length == 0 || length > DIGITS_MAX)
        return false;
    for (size_t i = 0; i < length; i++) {
        if (text[i] < '0' || text[i] > '9')
            return false;
        number = number * 10 + (uint64_t)(text[i] - '0');
    }
    bool differs = p->head.has_length && p->head.length != number;
    p->head.has_length = true;
    p->head.length = number;
    return !differs;
}

/* Finds the value of a header. Returns false for another header. */
static bool is_header(const struct line *line, const char *name, const char **ret_value,
                      size_t *ret_length)
{
    size_t length = strlen(name);
    if (line->length <= length || line->text[length] != ':' ||
        strncasecmp(line->text, name, length) != 0)
        return false;
    const char *value = line->text + length + 1, *end = line->text + line->length;
    while (value < end && (*value == ' ' || *value == '\t'))
        value++;
    while (end > value && (end[-1] == ' ' || end[-1] == '\t'))
        end--;
    *ret_value = value;
    *ret_length = (size_t)(end - value);
    return true;
}

static bool parse_header(struct http1_parser *p, const struct line *line)
{
    const char *value;
    size_t length;
    bool is_last;
    switch (line->text[0] | 0x20) {
    case 'c':
        if (is_header(line, "content-length", &value, &length))
            return line->is_whole && parse_length(p, value, length);
        if (is_header(line, "connection", &value, &length)) {
            if (list_has(value, length, "close", &is_last))
                p->head.close = true;
            else if (list_has(value, length, "keep-alive", &is_last))
                p->head.close = false;
        }
        return true;
    case 't':
        if (is_header(line, "transfer-encoding", &value, &length)) {
            p->head.chunked = list_has(value, length, "chunked", &is_last) && is_last;
            p->unknown_coding = !p->head.chunked;
            return line->is_whole;
        }
        return true;
    case 'u':
        if (is_header(line, "upgrade", &value, &length))
            p->head.upgrade =
                list_has(value, length, "h2c", &is_last) ? HTTP1_UPGRADE_H2C : HTTP1_UPGRADE_OTHER;
        return true;
    default:
        return true;
    }
}

/* Decides where the body ends. Returns false if nobody can know. */
static bool choose_body(struct http1_parser *p)
{
    const struct http1_head *head = &p->head;
    p->remaining = 0;
    if (p->is_response) {
        bool connects = p->answers == HTTP1_METHOD_CONNECT && head->status / 100 == 2;
        if (head->status == 101 || connects)
            p->state = HTTP1_AT_TUNNEL;
        else if (head->status / 100 == 1 || head->status == 204 || head->status == 304 ||
                 p->answers == HTTP1_METHOD_HEAD)
            p->state = HTTP1_AT_END;
        else if (head->chunked)
            p->state = HTTP1_AT_CHUNK_SIZE;
        else if (p->unknown_coding || !head->has_length)
            p->state = HTTP1_AT_BODY_TO_END;
        else
            p->state = head->length ? HTTP1_AT_BODY : HTTP1_AT_END;
    } else if (head->chunked) {
        p->state = HTTP1_AT_CHUNK_SIZE;
    } else if (p->unknown_coding) {
        return false;
    } else {
        p->state = head->length ? HTTP1_AT_BODY : HTTP1_AT_END;
    }
    if (p->state == HTTP1_AT_BODY)
        p->remaining = head->length;
    return true;
}

static enum http1_event fail(struct http1_parser *p)
{
    p->state = HTTP1_AT_ERROR;
    return HTTP1_BAD;
}

static enum http1_event take_head_line(struct http1_parser *p, const struct line *line)
{
    if (p->head_bytes > HTTP1_HEAD_MAX)
        return fail(p);
    if (p->state == HTTP1_AT_START_LINE) {
        if (line->length == 0 && line->is_whole) { /* empty lines before a message are allowed */
            p->head_bytes = 0;
            return HTTP1_MORE;
        }
        p->head = (struct http1_head){0};
        p->unknown_coding = false;
        if (!p->is_response && line->is_whole && line->length == 14 &&
            memcmp(line->text, "PRI * HTTP/2.0", 14) == 0)
            return HTTP1_H2;
        p->state = HTTP1_AT_HEADERS;
        bool is_good = p->is_response ? parse_status_line(p, line) : parse_request_line(p, line);
        return is_good ? HTTP1_MORE : fail(p);
    }
    if (line->length > 0 || !line->is_whole)
        return parse_header(p, line) ? HTTP1_MORE : fail(p);
    p->head_bytes = 0;
    return choose_body(p) ? HTTP1_HEAD : fail(p);
}

/* ---- bodies ---- */

static bool parse_chunk_size(struct http1_parser *p, const struct line *line)
{
    uint64_t size = 0;
    size_t digits = 0;
    for (; digits < line->length; digits++) {
        char c = line->text[digits];
        unsigned digit;
        if (c >= '0' && c <= '9')
            digit = (unsigned)(c - '0');
        else if ((c | 0x20) >= 'a' && (c | 0x20) <= 'f')
            digit = (unsigned)((c | 0x20) - 'a' + 10);
        else
            break;
        size = size * 16 + digit;
    }
    if (digits == 0 || digits > HEX_DIGITS_MAX ||
        (digits < line->length && !strchr("; \t", line->text[digits])))
        return false;
    p->chunk_bytes = p->remaining = size;
    p->head_bytes = 0;
    p->state = size ? HTTP1_AT_CHUNK_DATA : HTTP1_AT_TRAILERS;
    return true;
}

static enum http1_event take_framing_line(struct http1_parser *p, const struct line *line)
{
    switch (p->state) {
    case HTTP1_AT_CHUNK_SIZE:
        return parse_chunk_size(p, line) ? HTTP1_MORE : fail(p);
    case HTTP1_AT_CHUNK_END:
        if (line->length > 0 || !line->is_whole)
            return fail(p);
        p->head_bytes = 0;
        p->state = HTTP1_AT_CHUNK_SIZE;
        return HTTP1_CHUNK;
    default: /* trailers */
        if (line->length == 0 && line->is_whole)
            p->state = HTTP1_AT_END;
        return HTTP1_MORE;
    }
}

static enum http1_event take_body(struct http1_parser *p, size_t length, size_t *ret_used)
{
    size_t used = length < p->remaining ? length : (size_t)p->remaining;
    p->remaining -= used;
    *ret_used += used;
    if (p->remaining == 0)
        p->state = p->state == HTTP1_AT_BODY ? HTTP1_AT_END : HTTP1_AT_CHUNK_END;
    return HTTP1_BODY;
}

enum http1_event http1_next(struct http1_parser *p, const char *bytes, size_t length,
                            size_t *ret_used)
{
    enum http1_event event = HTTP1_MORE;
    struct line line;
    *ret_used = 0;
    if (p->state == HTTP1_AT_END) {
        p->state = HTTP1_AT_START_LINE;
        p->head_bytes = 0;
        return HTTP1_END;
    }
    while (event == HTTP1_MORE && *ret_used < length) {
        const char *at = bytes + *ret_used;
        size_t left = length - *ret_used;
        switch (p->state) {
        case HTTP1_AT_START_LINE:
        case HTTP1_AT_HEADERS:
            if (take_line(p, at, left, ret_used, &line))
                event = take_head_line(p, &line);
            break;
        case HTTP1_AT_CHUNK_SIZE:
        case HTTP1_AT_CHUNK_END:
        case HTTP1_AT_TRAILERS:
            if (take_line(p, at, left, ret_used, &line))
                event = take_framing_line(p, &line);
            break;
        case HTTP1_AT_BODY:
        case HTTP1_AT_CHUNK_DATA:
            return take_body(p, left, ret_used);
        case HTTP1_AT_BODY_TO_END:
        case HTTP1_AT_TUNNEL:
            *ret_used = length;
            return p->state == HTTP1_AT_TUNNEL ? HTTP1_MORE : HTTP1_BODY;
        case HTTP1_AT_END:
            p->state = HTTP1_AT_START_LINE;
            p->head_bytes = 0;
            return HTTP1_END;
        case HTTP1_AT_ERROR:
            return HTTP1_BAD;
        }
        if (p->head_bytes > HTTP1_HEAD_MAX)
            return fail(p);
    }
    return event;
}
