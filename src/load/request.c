#include "load/request.h"

#include <string.h>
#include <strings.h>

#include "base/version.h"
#include "wire/http/http_client.h"

/* Returns whether the path can stand in a request line: no spaces and control characters. */
static bool is_path(const char *path)
{
    for (const char *p = path; *p; p++)
        if ((unsigned char)*p <= ' ' || *p == 0x7f)
            return false;
    return *path == '/';
}

static int bad_target(struct error *e, const char *text)
{
    return error_set(e, ERR_INVALID,
                     "'%.100s' is no target: use http://HOST[:PORT]/PATH, HOST:PORT/PATH or "
                     "unix:SOCKET:/PATH",
                     text);
}

static int parse_unix(struct error *e, const char *text, struct request_target *t)
{
    const char *socket = text + strlen("unix:"), *path = strstr(socket, ":/");
    size_t length = path ? (size_t)(path - socket) : strlen(socket);
    if (length == 0 || length >= sizeof t->socket)
        return error_set(e, ERR_INVALID, "the path of a unix socket has 1 to %zu bytes: '%.140s'",
                         sizeof t->socket - 1, text);
    memcpy(t->socket, socket, length);
    t->socket[length] = '\0';
    t->is_unix = true;
    if (!str_copy(t->path, sizeof t->path, path ? path + 1 : "/") || !is_path(t->path))
        return bad_target(e, text);
    return 0;
}

int request_parse_target(struct error *e, const char *text, struct request_target *ret)
{
    static const char scheme[] = "http://";
    struct request_target t = {0};
    char host[ADDRESS_TEXT_MAX + 4];
    int r = 0;
    if (str_starts_with(text, "https://"))
        return error_set(e, ERR_INVALID,
                         "gpumux load does not speak TLS: use a target without "
                         "https");
    if (str_starts_with(text, "unix:")) {
        r = parse_unix(e, text, &t);
        if (r == 0)
            *ret = t;
        return r;
    }
    bool has_scheme = str_starts_with(text, scheme);
    const char *start = has_scheme ? text + sizeof scheme - 1 : text;
    size_t length = strcspn(start, "/?");
    if (length == 0 || length >= ADDRESS_TEXT_MAX || start[length] == '?')
        return bad_target(e, text);
    memcpy(host, start, length);
    host[length] = '\0';
    const char *bracket = strrchr(host, ']');
    if (has_scheme && !strchr(bracket ? bracket : host, ':'))
        memcpy(host + length, ":80", 4);
    if (address_parse(NULL, host, NULL, &t.address) < 0)
        return bad_target(e, text);
    if (!str_copy(t.path, sizeof t.path, start[length] ? start + length : "/") || !is_path(t.path))
        return bad_target(e, text);
    *ret = t;
    return 0;
}

int request_add_model(struct error *e, const char *model, struct request_target *target)
{
    struct str path;
    str_init(&path, sizeof target->path - 1);
    str_append(&path, target->path);
    while (path.length > 0 && path.data[path.length - 1] == '/')
        str_truncate(&path, path.length - 1);
    str_append(&path, "/v2/models/");
    http_append_encoded(&path, model);
    str_append(&path, "/infer");
    int r = 0;
    if (!*model || strchr(target->path, '?') || str_failed(&path))
        r = error_set(e, ERR_INVALID, "the path of the model '%.60s' cannot be made", model);
    else
        (void)str_copy(target->path, sizeof target->path, str_text(&path));
    str_done(&path);
    return r;
}

int request_check_header(struct error *e, const char *header)
{
    static const char *const own[] = {"Content-Length", "Transfer-Encoding", "Connection",
                                      "Inference-Header-Content-Length"};
    size_t name = strcspn(header, ": \t");
    bool is_clean = name > 0 && header[name] == ':';
    for (const char *p = header; *p; p++)
        is_clean = is_clean && ((unsigned char)*p >= ' ' || *p == '\t') && *p != 0x7f;
    if (!is_clean)
        return error_set(e, ERR_INVALID, "'%.60s' is not a header, such as 'Accept: text/plain'",
                         header);
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        if (strlen(own[i]) == name && strncasecmp(header, own[i], name) == 0)
            return error_set(e, ERR_INVALID, "gpumux load sets the header %s itself", own[i]);
    return 0;
}

static bool has_header(const struct request *r, const char *name)
{
    size_t length = strlen(name);
    for (size_t i = 0; i < r->header_count; i++)
        if (strncasecmp(r->headers[i], name, length) == 0 && r->headers[i][length] == ':')
            return true;
    return false;
}

void request_write(const struct request_target *target, const struct request *request,
                   struct str *out)
{
    str_append(out, request->method);
    str_append_char(out, ' ');
    str_append(out, target->path);
    str_append(out, " HTTP/1.1\r\n");
    if (!has_header(request, "Host")) {
        str_append(out, "Host: ");
        if (target->is_unix)
            str_append(out, "localhost");
        else
            address_write(&target->address, out);
        str_append(out, "\r\n");
    }
    if (!has_header(request, "User-Agent"))
        str_append(out, "User-Agent: gpumux-load/" GPUMUX_VERSION "\r\n");
    if (request->content_type && !has_header(request, "Content-Type"))
        str_printf(out, "Content-Type: %s\r\n", request->content_type);
    for (size_t i = 0; i < request->header_count; i++) {
        str_append(out, request->headers[i]);
        str_append(out, "\r\n");
    }
    if (request->inference_header_length > 0)
        str_printf(out, "Inference-Header-Content-Length: %zu\r\n",
                   request->inference_header_length);
    if (request->body_length > 0 || strcmp(request->method, "GET") != 0)
        str_printf(out, "Content-Length: %zu\r\n", request->body_length);
    str_append(out, "\r\n");
    str_append_bytes(out, request->body, request->body_length);
}
