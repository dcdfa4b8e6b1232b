/*
 * ask [-d JSON] SOCKET PATH FIELD [SECONDS VALUE...]: a field of what the API answers to a GET, or to a POST of JSON, as
 * `curl | jq -r` would print it, for a fraction of their time: a test that waits asks often. FIELD is written as in jq:
 * nodes[0].connected, or with an element by one of its strings, limits[name=rate].value. What it answers else goes to
 * standard error.
 *
 * With SECONDS it asks until the field has one of the values, also while nobody listens, and prints the last it had in any
 * case. Exits with 1 if it was none of them, or could not be had.
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
    const char *body; /* NULL: a GET */
    const char *socket, *path, *field;
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

/* By HTTP/1.0: the answer ends with the connection. */
static bool exchange(const struct question *q, struct answer *answer)
{
    char head[1024];
    size_t body_length = q->body ? strlen(q->body) : 0;
    int length = snprintf(head, sizeof head,
                          "%s %s HTTP/1.0\r\nHost: gpumux\r\nContent-Type: application/json\r\n"
                          "Content-Length: %zu\r\n\r\n",
                          q->body ? "POST" : "GET", q->path, body_length);
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

/* NULL: it is no success, or no JSON. */
static json_t *parse(const struct answer *answer)
{
    const char *status = strchr(answer->bytes, ' '), *body = strstr(answer->bytes, "\r\n\r\n");
    if (!status || status[1] != '2' || !body) {
        fprintf(stderr, "%s\n", body ? body + 4 : answer->bytes);
        return NULL;
    }
    return json_loads(body + 4, JSON_DECODE_ANY, NULL);
}

/* "name=rate": the element whose member of that name is this string. NULL: there is none. */
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

/* What is not there is null, as in jq. */
static const json_t *find(const json_t *at, const char *field)
{
    char copy[FIELD_BYTES_MAX], *rest = NULL;
    snprintf(copy, sizeof copy, "%s", field);
    for (char *part = strtok_r(copy, ".[]", &rest); part && at;
         part = strtok_r(NULL, ".[]", &rest)) {
        char *end, *value = strchr(part, '=');
        unsigned long index = strtoul(part, &end, 10);
        if (value) {
            *value = '\0';
            at = find_element(at, part, value + 1);
        } else {
            at = *end ? json_object_get(at, part) : json_array_get(at, index);
        }
    }
    return at;
}

/* To be freed. */
static char *text_of(const json_t *value)
{
    if (!value)
        return strdup("null");
    return json_is_string(value) ? strdup(json_string_value(value))
                                 : json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
}

/* NULL: there was no answer. To be freed. */
static char *ask(const struct question *q, struct answer *answer)
{
    json_t *root = exchange(q, answer) ? parse(answer) : NULL;
    char *text = root ? text_of(find(root, q->field)) : NULL;
    json_decref(root);
    return text;
}

static bool is_one_of(const char *text, char **values)
{
    for (; *values; values++)
        if (text && strcmp(text, *values) == 0)
            return true;
    return false;
}

int main(int argc, char **argv)
{
    struct answer answer = {.bytes = malloc(ANSWER_BYTES_MAX + 1)};
    struct question q = {0};
    if (argc > 2 && strcmp(argv[1], "-d") == 0) {
        q.body = argv[2];
        argv += 2;
        argc -= 2;
    }
    if (argc < 4 || argc == 5 || !answer.bytes)
        return 2;
    q.socket = argv[1];
    q.path = argv[2];
    q.field = argv[3];
    int64_t end_ms = now_ms() + (argc > 4 ? strtol(argv[4], NULL, 10) * 1000 : 0);
    char *text = ask(&q, &answer);
    bool is_wanted = argc == 4 ? text != NULL : is_one_of(text, argv + 5);
    for (int pause_ms = PAUSE_MS_MIN; !is_wanted && now_ms() < end_ms;) {
        usleep((unsigned)pause_ms * 1000);
        pause_ms += pause_ms < PAUSE_MS_MAX ? PAUSE_MS_MIN : 0;
        char *newer = ask(&q, &answer);
        if (newer) {
            free(text);
            text = newer;
        }
        is_wanted = is_one_of(newer, argv + 5);
    }
    if (text)
        puts(text);
    free(text);
    free(answer.bytes);
    return is_wanted ? 0 : 1;
}
