#include "cli/load/load_plan.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "wire/spec.h"

enum { TRACE_TEXT_MAX = 256 << 20, METHOD_MAX = 32 };
static const double timeout_default_s = 10;

/* ---- single options ---- */

static int read_time(struct error *e, const struct invocation *in, const char *name, double most_s,
                     double *seconds)
{
    const char *text = option_value(in, name);
    double ms;
    if (!text)
        return 0;
    if (spec_parse_real_duration(NULL, text, &ms) < 0 || ms / 1000 > most_s)
        return error_set(e, ERR_INVALID,
                         "--%s must be a time of at most %gs, such as 30s or 5m, not '%.40s'", name,
                         most_s, text);
    *seconds = ms / 1000;
    return 0;
}

static int read_count(struct error *e, const struct invocation *in, const char *name,
                      uint64_t least, uint64_t most, uint64_t *count)
{
    const char *text = option_value(in, name);
    char *end;
    if (!text)
        return 0;
    errno = 0;
    unsigned long long number = strtoull(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end || errno || number < least || number > most)
        return error_set(e, ERR_INVALID, "--%s must be a whole number from %llu to %llu, not '%s'",
                         name, (unsigned long long)least, (unsigned long long)most, text);
    *count = number;
    return 0;
}

static int read_speed(struct error *e, const struct invocation *in, double *speed)
{
    const char *text = option_value(in, "speed");
    char *end;
    if (!text)
        return 0;
    double number = strtod(text, &end);
    if (!*text || *end || !(number >= 1e-6 && number <= 1e6))
        return error_set(e, ERR_INVALID, "--speed must be a number from 1e-6 to 1e6, not '%s'",
                         text);
    *speed = number;
    return 0;
}

static int read_file(struct error *e, const char *path, struct str *out)
{
    char piece[64 << 10];
    ssize_t n;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return error_set_errno(e, errno == ENOENT ? ERR_NOT_FOUND : ERR_IO, errno, "cannot open %s",
                               path);
    while ((n = read(fd, piece, sizeof piece)) > 0 || (n < 0 && errno == EINTR))
        if (n > 0)
            str_append_bytes(out, piece, (size_t)n);
    int failure = errno;
    close(fd);
    if (n < 0)
        return error_set_errno(e, ERR_IO, failure, "cannot read %s", path);
    if (str_failed(out))
        return error_set(e, ERR_TOO_LARGE, "%s is larger than %zu bytes", path, out->max);
    return 0;
}

/* ---- the request ---- */

/* A body of the Open Inference Protocol, and its path. */
static int make_inference(struct error *e, const struct invocation *in, struct load_plan *p,
                          struct request *request, struct str *body)
{
    struct request_tensor tensors[REQUEST_TENSORS_MAX];
    size_t count = 0;
    for (size_t i = 0; i < in->given_count; i++) {
        if (strcmp(in->given[i].option->name, "tensor") != 0)
            continue;
        if (count == REQUEST_TENSORS_MAX)
            return error_set(e, ERR_TOO_LARGE, "more than %d tensors", REQUEST_TENSORS_MAX);
        int r = request_parse_tensor(e, in->given[i].value, &tensors[count++]);
        if (r < 0)
            return r;
    }
    if (count == 0)
        return error_set(e, ERR_INVALID, "--oip needs --tensor, such as input:FP32:1x3x224x224");
    if (option_given(in, "body"))
        return error_set(e, ERR_INVALID, "--oip and --body cannot be combined");
    bool is_binary = option_given(in, "binary");
    size_t json_length;
    request_write_tensors(tensors, count, is_binary, p->seed, body, &json_length);
    request->inference_header_length = is_binary ? json_length : 0;
    request->content_type = is_binary ? "application/octet-stream" : "application/json";
    return request_add_model(e, option_value(in, "oip"), &p->target);
}

static int take_headers(struct error *e, const struct invocation *in, struct request *request)
{
    for (size_t i = 0; i < in->given_count; i++) {
        if (strcmp(in->given[i].option->name, "header") != 0)
            continue;
        if (request->header_count == REQUEST_HEADERS_MAX)
            return error_set(e, ERR_TOO_LARGE, "more than %d headers", REQUEST_HEADERS_MAX);
        int r = request_check_header(e, in->given[i].value);
        if (r < 0)
            return r;
        request->headers[request->header_count++] = in->given[i].value;
    }
    return 0;
}

static int make_body(struct error *e, const struct invocation *in, struct load_plan *p,
                     struct request *request, struct str *body)
{
    const char *text = option_value(in, "body");
    int r = 0;
    if (option_given(in, "oip"))
        r = make_inference(e, in, p, request, body);
    else if (option_given(in, "tensor") || option_given(in, "binary"))
        r = error_set(e, ERR_INVALID, "--tensor and --binary need --oip MODEL");
    else if (text && text[0] == '@')
        r = read_file(e, text + 1, body);
    else if (text)
        str_append(body, text);
    if (r == 0 && str_failed(body))
        r = error_set(e, ERR_TOO_LARGE, "the body is larger than %d bytes", REQUEST_BODY_MAX);
    return r;
}

/* Refuses a method that would end the request line early. */
static int check_method(struct error *e, const char *method)
{
    size_t letters = strspn(method, "ABCDEFGHIJKLMNOPQRSTUVWXYZ");
    if (letters == 0 || method[letters] || letters > METHOD_MAX || strcmp(method, "HEAD") == 0)
        return error_set(e, ERR_INVALID, "'%.40s' is not a method with a body, such as GET or POST",
                         method);
    return 0;
}

static int make_request(struct error *e, const struct invocation *in, struct load_plan *p)
{
    struct request request = {.content_type = "application/json"};
    struct str body;
    str_init(&body, REQUEST_BODY_MAX);
    int r = make_body(e, in, p, &request, &body);
    if (r == 0)
        r = take_headers(e, in, &request);
    if (r == 0 && option_given(in, "method"))
        r = check_method(e, option_value(in, "method"));
    if (r == 0) {
        bool has_body = option_given(in, "oip") || option_given(in, "body");
        const char *method = option_value(in, "method");
        request.method = method ? method : has_body ? "POST" : "GET";
        request.content_type = has_body ? request.content_type : NULL;
        request.body = str_text(&body);
        request.body_length = body.length;
        request_write(&p->target, &request, &p->request);
        if (str_failed(&p->request))
            r = error_set(e, ERR_TOO_LARGE, "the request is larger than %d bytes", REQUEST_MAX);
    }
    str_done(&body);
    p->config.request = str_text(&p->request);
    p->config.request_length = p->request.length;
    return r;
}

/* ---- arrivals and limits ---- */

static int make_arrivals(struct error *e, const struct invocation *in, struct load_plan *p)
{
    struct arrivals_limits limits = {.speed = 1, .seed = p->seed};
    struct arrivals_words words;
    struct str trace;
    int r = arrivals_parse(e, p->arrivals_text, &words);
    if (r == 0 && option_given(in, "rate"))
        r = arrivals_parse_rate(e, option_value(in, "rate"), &limits.rate_per_s);
    if (r == 0)
        r = read_time(e, in, "seconds", ARRIVALS_SECONDS_MAX / 2, &limits.seconds);
    if (r == 0)
        r = read_count(e, in, "requests", 1, UINT64_MAX / 2, &limits.requests);
    if (r == 0)
        r = read_speed(e, in, &limits.speed);
    if (r < 0)
        return r;
    if (limits.speed != 1 && words.kind != ARRIVALS_TRACE)
        return error_set(e, ERR_INVALID, "--speed needs --arrivals trace:FILE");
    if (limits.seconds == 0 && limits.requests == 0 && words.kind != ARRIVALS_TRACE)
        limits.seconds = ARRIVALS_RUN_DEFAULT_S;
    if (limits.seconds > 0)
        limits.seconds += p->warmup_s;
    str_init(&trace, TRACE_TEXT_MAX);
    if (words.kind == ARRIVALS_TRACE)
        r = read_file(e, words.path, &trace);
    if (r == 0)
        r = arrivals_init(e, &words, &limits, str_text(&trace), trace.length, &p->arrivals);
    str_done(&trace);
    return r;
}

static int read_limits(struct error *e, const struct invocation *in, struct load_plan *p)
{
    uint64_t connections = 64, queue = 10000;
    double timeout_s = timeout_default_s;
    p->seed = 1;
    int r = read_count(e, in, "connections", 1, LOAD_CONNECTIONS_MAX, &connections);
    if (r == 0)
        r = read_count(e, in, "queue", 1, LOAD_QUEUE_MAX, &queue);
    if (r == 0)
        r = read_count(e, in, "seed", 0, UINT64_MAX, &p->seed);
    if (r == 0)
        r = read_time(e, in, "timeout", 86400, &timeout_s);
    if (r == 0)
        r = read_time(e, in, "warmup", ARRIVALS_SECONDS_MAX / 2, &p->warmup_s);
    if (r == 0 && !(timeout_s >= 0.001))
        r = error_set(e, ERR_INVALID, "--timeout must be at least 1ms");
    p->config.connections = (int)connections;
    p->config.queue = (size_t)queue;
    p->config.timeout_ns = llround(timeout_s * 1e9);
    p->config.is_stream = option_given(in, "stream");
    p->config.stop_fd = -1;
    return r;
}

int load_plan_init(struct error *e, const struct invocation *in, struct load_plan *ret)
{
    *ret = (struct load_plan){.url = in->operands[0]};
    const char *arrivals = option_value(in, "arrivals");
    str_init(&ret->request, REQUEST_MAX);
    ret->arrivals_text = arrivals ? arrivals : "poisson";
    int r = request_parse_target(e, ret->url, &ret->target);
    if (r == 0)
        r = read_limits(e, in, ret);
    if (r == 0)
        r = make_request(e, in, ret);
    if (r == 0)
        r = make_arrivals(e, in, ret);
    if (r == 0)
        r = tally_init(e, llround(ret->warmup_s * 1e9), &ret->tally);
    if (r == 0 && option_given(in, "slo"))
        r = tally_parse_slos(e, option_value(in, "slo"), ret->tally.slos, &ret->tally.slo_count);
    ret->config.target = &ret->target;
    return r;
}

void load_plan_done(struct load_plan *p)
{
    str_done(&p->request);
    arrivals_done(&p->arrivals);
    tally_done(&p->tally);
}
