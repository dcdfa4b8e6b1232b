/*
 * ask [-X METHOD] [-d JSON] SOCKET PATH [FIELD [SECONDS VALUE...]]: prints the API's answer, or a
 * field of it like `curl | jq -r`, in a fraction of their time, because waiting tests ask often.
 * With JSON the request is a POST. FIELD is written as in jq: nodes[0].connected; every element's
 * attempts[].text, one per line, or several by attempt,failures; an element by a string member,
 * limits[name=rate].value. Errors go to standard error.
 *
 * With SECONDS, ask polls until the field has one of the values, even while no server listens, and
 * always prints the last value. Exits with 1 if the field had none of the values, or could not be
 * read.
 *
 * ask -s FILE [-X METHOD] [-d JSON] SOCKET PATH: prints the status of the answer and writes its
 * body to FILE. ask -f FILE FIELD: reads the field from FILE.
 */
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum {
    ANSWER_BYTES_MAX = 16 << 20,
    FIELD_BYTES_MAX = 256,
    PAUSE_MS_MIN = 10,
    PAUSE_MS_MAX = 100,
};

struct question {
    const char *method, *body; /* NULL: none */
    const char *socket, *path;
    const char *field;       /* NULL: the whole body */
    const char *status_file; /* NULL: the status is not requested */
};

struct answer {
    char *bytes;
    size_t length;
};

static int64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static int connect_to(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool fits = snprintf(address.sun_path, sizeof address.sun_path, "%s", path) <
                (int)sizeof address.sun_path;
    if (fd < 0 || (fits && connect(fd, (struct sockaddr *)&address, sizeof address) == 0))
        return fd;
    close(fd);
    return -1;
}

/* Uses HTTP/1.0, so that the answer ends with the connection. */
static bool exchange(const struct question *q, struct answer *answer)
{
    char head[1024];
    size_t body_length = q->body ? strlen(q->body) : 0;
    int length = snprintf(
        head, sizeof head, "%s %s HTTP/1.0\r\nHost: gpumux\r\n%sContent-Length: %zu\r\n\r\n",
        q->method, q->path, q->body ? "Content-Type: application/json\r\n" : "", body_length);
    int fd = connect_to(q->socket);
    bool sent = fd >= 0 && length < (int)sizeof head &&
                send(fd, head, (size_t)length, MSG_NOSIGNAL) == length &&
                (!q->body || send(fd, q->body, body_length, MSG_NOSIGNAL) == (ssize_t)body_length);
    ssize_t n = sent ? 1 : -1;
    for (answer->length = 0;
         n > 0 && answer->length<ANSWER_BYTES_MAX; answer->length += n> 0 ? (size_t)n : 0)
        n = read(fd, answer->bytes + answer->length, ANSWER_BYTES_MAX - answer->length);
    if (fd >= 0)
        close(fd);
    answer->bytes[answer->length] = '\0';
    return n == 0;
}

/* Returns the status and the start of the body; 0: not a valid answer. */
static long status_of(const struct answer *answer, const char **ret_body)
{
    const char *status = strchr(answer->bytes, ' '), *body = strstr(answer->bytes, "\r\n\r\n");
    if (!status || !body)
        return 0;
    *ret_body = body + 4;
    return strtol(status + 1, NULL, 10);
}

/* Finds the element of "name=rate": the one whose member `name` is this string. NULL: none. */
static const json_t *find_element(const json_t *list, const char *name, const char *wanted)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *element = json_array_get(list, i);
        const char *text = json_string_value(json_object_get(element, name));
        if (text && strcmp(text, wanted) == 0)
            return element;
    }
    return NULL;
}

static void put(FILE *out, const json_t *value)
{
    char *text =
        value && !json_is_string(value) ? json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT) : NULL;
    fprintf(out, "%s\n", text ? text : value ? json_string_value(value) : "null");
    free(text);
}

/* Prints one line for each value at the path; a missing value is null, as in jq. */
static void put_all(FILE *out, const json_t *at, const char *path)
{
    char part[FIELD_BYTES_MAX], *end;
    path += *path == '.';
    if (*path == '\0') {
        put(out, at);
        return;
    }
    bool is_element = *path == '[';
    path += is_element;
    size_t length = strcspn(path, is_element ? "]" : ".[");
    snprintf(part, sizeof part, "%.*s", (int)length, path);
    const char *rest = path + length + (is_element && path[length] == ']');
    char *value = strchr(part, '=');
    if (!is_element) {
        put_all(out, json_object_get(at, part), rest);
    } else if (value) {
        *value = '\0';
        put_all(out, find_element(at, part, value + 1), rest);
    } else if (length == 0) {
        for (size_t i = 0; i < json_array_size(at); i++)
            put_all(out, json_array_get(at, i), rest);
    } else {
        put_all(out, json_array_get(at, strtoul(part, &end, 10)), rest);
    }
}

/* Returns the fields of a JSON text, or NULL for invalid JSON. The caller frees the text. */
static char *fields_of(const char *json, const char *fields)
{
    char *text = NULL, copy[FIELD_BYTES_MAX], *rest = NULL;
    size_t length;
    json_t *root = json_loads(json, JSON_DECODE_ANY, NULL);
    FILE *out = root ? open_memstream(&text, &length) : NULL;
    snprintf(copy, sizeof copy, "%s", fields);
    for (char *field = out ? strtok_r(copy, ",", &rest) : NULL; field;
         field = strtok_r(NULL, ",", &rest))
        put_all(out, root, field);
    if (out)
        fclose(out);
    json_decref(root);
    if (text && length > 0 && text[length - 1] == '\n')
        text[length - 1] = '\0';
    return text;
}

static char *status_and_file(const struct question *q, const char *body, long status)
{
    char *text = NULL;
    FILE *file = fopen(q->status_file, "we");
    bool kept = file && fputs(body, file) >= 0;
    if (file && fclose(file) == 0 && kept && asprintf(&text, "%ld", status) < 0)
        text = NULL;
    return text;
}

/* Returns NULL without a successful answer. The caller frees the text. */
static char *ask(const struct question *q, struct answer *answer)
{
    const char *body = answer->bytes;
    long status = exchange(q, answer) ? status_of(answer, &body) : 0;
    if (q->status_file)
        return status ? status_and_file(q, body, status) : NULL;
    if (status >= 200 && status < 300)
        return q->field ? fields_of(body, q->field) : strdup(body);
    fprintf(stderr, "%s\n", body);
    return NULL;
}

static bool is_one_of(const char *text, char **values)
{
    for (; *values; values++)
        if (text && strcmp(text, *values) == 0)
            return true;
    return false;
}

static char *read_file(const char *path, struct answer *answer)
{
    FILE *file = fopen(path, "re");
    answer->length = file ? fread(answer->bytes, 1, ANSWER_BYTES_MAX, file) : 0;
    answer->bytes[answer->length] = '\0';
    if (file)
        fclose(file);
    return answer->bytes;
}

/* Polls until the field has one of the values, or until the deadline; *ret_text is the last
 * value. */
static bool wait_for(const struct question *q, struct answer *answer, int64_t end_ms, char **values,
                     char **ret_text)
{
    char *text = NULL;
    bool is_wanted = false;
    for (int pause_ms = PAUSE_MS_MIN;;) {
        char *newer = ask(q, answer);
        if (newer) {
            free(text);
            text = newer;
        }
        is_wanted = is_one_of(newer, values);
        if (is_wanted || now_ms() >= end_ms)
            break;
        usleep((unsigned)pause_ms * 1000);
        pause_ms += pause_ms < PAUSE_MS_MAX ? PAUSE_MS_MIN : 0;
    }
    *ret_text = text;
    return is_wanted;
}

int main(int argc, char **argv)
{
    struct answer answer = {.bytes = malloc(ANSWER_BYTES_MAX + 1)};
    struct question q = {0};
    const char *file = NULL;
    for (int option; (option = getopt(argc, argv, "+X:d:s:f:")) >= 0;) {
        if (option == 'X')
            q.method = optarg;
        else if (option == 'd')
            q.body = optarg;
        else if (option == 's')
            q.status_file = optarg;
        else if (option == 'f')
            file = optarg;
        else
            return 2;
    }
    argv += optind;
    argc -= optind;
    if (!answer.bytes || (file ? argc != 1 : argc < 2 || argc == 4))
        return 2;
    char *text = NULL;
    bool is_wanted = true;
    if (file) {
        text = fields_of(read_file(file, &answer), argv[0]);
    } else {
        q.method = q.method ? q.method : q.body ? "POST" : "GET";
        q.socket = argv[0];
        q.path = argv[1];
        q.field = argc > 2 ? argv[2] : NULL;
        if (argc > 4)
            is_wanted =
                wait_for(&q, &answer, now_ms() + strtol(argv[3], NULL, 10) * 1000, argv + 4, &text);
        else
            text = ask(&q, &answer);
    }
    if (text) /* a body is printed unchanged */
        printf("%s%s", text, file || q.field || q.status_file ? "\n" : "");
    is_wanted = is_wanted && text;
    free(text);
    free(answer.bytes);
    return is_wanted ? 0 : 1;
}
