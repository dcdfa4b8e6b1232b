#include "node/attempt/verdict_file.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/durable.h"
#include "node/supervisor/attempt_file.h"

enum { NAME_MAX_BYTES = ATTEMPT_NAME_MAX + sizeof ".verdict" };

int verdict_write(const struct verdict *verdict, struct str *out)
{
    str_printf(out, "%s ", attempt_verdict_name(verdict->verdict));
    for (const char *at = verdict->why; *at; at++)
        str_append_char(out, *at == '\n' ? ' ' : *at);
    str_append_char(out, '\n');
    return str_failed(out) ? -ERR_TOO_LARGE : 0;
}

int verdict_parse(struct error *e, const char *text, size_t length, struct verdict *ret)
{
    struct verdict verdict = {0};
    char line[VERDICT_FILE_MAX];
    if (length == 0 || length >= sizeof line || memchr(text, '\0', length) ||
        memchr(text, '\n', length) != text + length - 1)
        return error_set(e, ERR_CORRUPT, "a verdict is one line");
    memcpy(line, text, length - 1);
    line[length - 1] = '\0';
    char *space = strchr(line, ' ');
    if (!space)
        return error_set(e, ERR_CORRUPT, "a verdict has a reason");
    *space = '\0';
    if (attempt_verdict_parse(line, &verdict.verdict) < 0 ||
        !str_copy(verdict.why, sizeof verdict.why, space + 1))
        return error_set(e, ERR_CORRUPT, "this is no verdict");
    *ret = verdict;
    return 0;
}

static void name_file(const char *name, char ret_name[NAME_MAX_BYTES])
{
    snprintf(ret_name, NAME_MAX_BYTES, "%s.verdict", name);
}

int verdict_save(struct error *e, int directory_fd, const char *name, const struct verdict *verdict)
{
    char file[NAME_MAX_BYTES];
    struct str text;
    name_file(name, file);
    str_init(&text, VERDICT_FILE_MAX);
    int r = verdict_write(verdict, &text);
    if (r < 0)
        error_set(e, ERR_TOO_LARGE, "the verdict is too long");
    else
        r = durable_replace(e, directory_fd, file, str_text(&text), text.length);
    str_done(&text);
    return r;
}

bool verdict_load(int directory_fd, const char *name, struct verdict *ret)
{
    char file[NAME_MAX_BYTES];
    struct str text;
    name_file(name, file);
    str_init(&text, VERDICT_FILE_MAX);
    bool there = durable_read(NULL, directory_fd, file, geteuid(), &text) == 0 &&
                 verdict_parse(NULL, str_text(&text), text.length, ret) == 0;
    str_done(&text);
    return there;
}

int64_t verdict_grace_left_ms(int directory_fd, const char *name, int64_t grace_ms)
{
    char file[NAME_MAX_BYTES];
    struct stat st;
    name_file(name, file);
    if (grace_ms <= VERDICT_GRACE_LEAST_MS || fstatat(directory_fd, file, &st, 0) < 0)
        return grace_ms;
    int64_t since_ms = st.st_mtim.tv_sec * 1000 + st.st_mtim.tv_nsec / 1000000;
    int64_t left_ms = since_ms + grace_ms - clock_wall_ms();
    if (left_ms < VERDICT_GRACE_LEAST_MS)
        return VERDICT_GRACE_LEAST_MS;
    return left_ms < grace_ms ? left_ms : grace_ms;
}

void verdict_remove(int directory_fd, const char *name)
{
    char file[NAME_MAX_BYTES];
    name_file(name, file);
    unlinkat(directory_fd, file, 0);
}
