/* Tests of commands with a gpumux of another version, played by a process that sends fixed
 * responses. */
#include "cli/connect/client.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/version.h"
#include "cli/connect/follow.h"

enum { VERSION_BYTES = 64, REQUEST_BYTES = 8192, PATIENCE_MS = 60000, UNANSWERED_MS = 2500 };

struct fixture {
    char directory[32], socket[64], requests[64]; /* requests: a file with one request a line */
    pid_t server;
    struct client client;
};

/* Returns this version with `more` added to the minor number. */
static const char *version_with(int more, char text[VERSION_BYTES])
{
    snprintf(text, VERSION_BYTES, "gpumux/%d.%d.0", GPUMUX_VERSION_MAJOR,
             GPUMUX_VERSION_MINOR + more);
    return text;
}

/* Responds to every request with "{}" and this Server header; NULL: never responds. */
static _Noreturn void serve(int listener, const char *server, const char *requests)
{
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    while (!server)
        pause();
    char bytes[REQUEST_BYTES], answer[256];
    snprintf(answer, sizeof answer,
             "HTTP/1.1 200 OK\r\n%s%s%sContent-Length: 2\r\nConnection: close\r\n\r\n{}",
             *server ? "Server: " : "", server, *server ? "\r\n" : "");
    for (int fd; (fd = accept(listener, NULL, NULL)) >= 0; close(fd)) {
        ssize_t n = recv(fd, bytes, sizeof bytes - 1, 0);
        FILE *file = n > 0 ? fopen(requests, "ae") : NULL;
        if (!file)
            continue;
        bytes[n] = '\0';
        fprintf(file, "%.*s\n", (int)strcspn(bytes, " "), bytes);
        fclose(file);
        if (write(fd, answer, strlen(answer)) < 0)
            break;
    }
    _exit(0);
}

static void start(struct fixture *f, const struct invocation *in, const char *server)
{
    *f = (struct fixture){.directory = "/tmp/gmc.XXXXXX"};
    assert_non_null(mkdtemp(f->directory));
    snprintf(f->socket, sizeof f->socket, "%s/s", f->directory);
    snprintf(f->requests, sizeof f->requests, "%s/requests", f->directory);
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    assert_true(str_copy(address.sun_path, sizeof address.sun_path, f->socket));
    int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(listener, 8), 0);
    f->server = fork();
    assert_true(f->server >= 0);
    if (f->server == 0)
        serve(listener, server, f->requests);
    close(listener);
    assert_int_equal(setenv("GPUMUX_SOCKET", f->socket, 1), 0);
    assert_int_equal(client_init(&f->client, in), COMMAND_OK);
}

/* Returns the methods of all requests, with a space after each. */
static void stop(struct fixture *f, char *ret_methods, size_t size)
{
    client_done(&f->client);
    kill(f->server, SIGKILL);
    waitpid(f->server, NULL, 0);
    FILE *file = fopen(f->requests, "re");
    size_t n = file ? fread(ret_methods, 1, size - 1, file) : 0;
    ret_methods[n] = '\0';
    for (char *p = ret_methods; (p = strchr(p, '\n'));)
        *p = ' ';
    if (file)
        fclose(file);
    unlink(f->requests);
    unlink(f->socket);
    rmdir(f->directory);
}

static int never_called(void *arg, const struct sse_event *event)
{
    (void)arg, (void)event;
    fail_msg("an event of another version was shown");
    return 0;
}

static const struct option options[] = {{"socket", 0, "PATH", "where", NULL},
                                        {"url", 0, "URL", "where", NULL},
                                        {"quiet", 'q', NULL, "say less", NULL},
                                        {0}};
static const struct command command = {.name = "test", .options = options};
static const struct invocation invocation = {.command = &command};

static void incompatible_server_header_is_refused(void **state)
{
    (void)state;
    char text[VERSION_BYTES];
    struct error e = {0};
    for (int more = -1; more <= 1; more++)
        assert_int_equal(client_check_server(&e, version_with(more, text)), 0);
    assert_int_equal(client_check_server(&e, ""), 0);
    assert_int_equal(client_check_server(&e, "proxy/9.9.9"), 0);
    assert_int_equal(client_check_server(&e, "gpumux/"), -ERR_UNSUPPORTED);
    assert_int_equal(client_check_server(&e, version_with(2, text)), -ERR_UNSUPPORTED);
    assert_non_null(strstr(e.text, GPUMUX_VERSION));
    assert_non_null(strstr(e.text, text + strlen("gpumux/")));
    assert_non_null(strstr(e.text, "install"));
}

static void compatible_server_is_checked_once(void **state)
{
    (void)state;
    char version[VERSION_BYTES], methods[256];
    const char *servers[] = {version_with(1, version), ""};
    for (size_t i = 0; i < 2; i++) {
        struct fixture f;
        struct error e = {0};
        start(&f, &invocation, servers[i]);
        assert_int_equal(client_request(&e, &f.client, "POST", "/v1/x", "{}", 0, NULL), 0);
        assert_int_equal(client_request(&e, &f.client, "POST", "/v1/x", "{}", 0, NULL), 0);
        stop(&f, methods, sizeof methods);
        assert_string_equal(methods, "GET POST POST ");
    }
}

static void incompatible_server_gets_no_changes(void **state)
{
    (void)state;
    char version[VERSION_BYTES], methods[256];
    struct fixture f;
    struct error e = {0};
    start(&f, &invocation, version_with(2, version));
    assert_int_equal(client_request(&e, &f.client, "POST", "/v1/x", "{}", CLIENT_RETRY_MS, NULL),
                     -ERR_UNSUPPORTED);
    assert_int_equal(client_fail(&f.client, &e), COMMAND_FAILED);
    json_t *answer = NULL;
    assert_int_equal(client_get(&e, &f.client, "/v1/x", &answer), -ERR_UNSUPPORTED);
    assert_null(answer);
    struct follow_events events;
    assert_int_equal(follow_events_init(&e, &events, &f.client, NULL, 0, never_called, NULL), 0);
    e = (struct error){0};
    assert_int_equal(follow_events_step(&e, &events, PATIENCE_MS), -ERR_UNSUPPORTED);
    assert_non_null(strstr(e.text, version + strlen("gpumux/")));
    follow_events_done(&events);
    stop(&f, methods, sizeof methods);
    /* No request that changes anything was sent. */
    assert_string_equal(methods, "GET GET GET ");
}

/* The number of lines on standard error, and the last line. */
struct capture {
    int saved;
    FILE *file;
};

static void capture_begin(struct capture *capture)
{
    capture->saved = dup(STDERR_FILENO);
    capture->file = tmpfile();
    assert_true(capture->saved >= 0 && capture->file);
    assert_true(dup2(fileno(capture->file), STDERR_FILENO) >= 0);
}

static int capture_end(struct capture *capture, char *ret_line, int size)
{
    int lines = 0;
    *ret_line = '\0';
    assert_true(dup2(capture->saved, STDERR_FILENO) >= 0);
    close(capture->saved);
    rewind(capture->file);
    while (fgets(ret_line, size, capture->file))
        lines++;
    fclose(capture->file);
    return lines;
}

/* Sends a request that gets no response; returns the output on standard error. */
static int ask_in_vain(const struct invocation *in, char *ret_line, int size)
{
    struct fixture f;
    struct error e = {0};
    struct capture capture;
    char methods[256];
    const struct http_call call = {.method = "GET", .target = "/v1/x", .timeout_ms = UNANSWERED_MS};
    start(&f, in, NULL);
    capture_begin(&capture);
    int r = client_call(&e, &f.client, &call, 0, NULL);
    int lines = capture_end(&capture, ret_line, size);
    assert_int_equal(r, -ERR_UNAVAILABLE);
    assert_non_null(strstr(e.text, f.socket));
    if (lines)
        assert_non_null(strstr(ret_line, f.socket));
    stop(&f, methods, sizeof methods);
    return lines;
}

static void silence_is_reported_once_with_deadline(void **state)
{
    (void)state;
    char line[512];
    int colons = 0;
    assert_int_equal(ask_in_vain(&invocation, line, sizeof line), 1);
    const char *until = strstr(line, "waiting until ");
    assert_non_null(until);
    for (const char *c = until; *c; c++)
        colons += *c == ':';
    assert_int_equal(colons, 2); /* a time of day */
}

static void quiet_command_reports_no_silence(void **state)
{
    (void)state;
    char line[512];
    struct option_given given = {.option = &options[2]};
    struct invocation quiet = {.command = &command, .given = &given, .given_count = 1};
    assert_int_equal(ask_in_vain(&quiet, line, sizeof line), 0);
}

/* A follower waits without a deadline; the report comes once gpumux was silent for a second. */
static void silence_is_reported_to_followers(void **state)
{
    (void)state;
    struct fixture f;
    struct error e = {0};
    struct capture capture;
    struct follow_events events;
    char line[512], methods[256], version[VERSION_BYTES];
    start(&f, &invocation, version_with(0, version));
    assert_int_equal(client_request(&e, &f.client, "GET", "/v1/x", NULL, 0, NULL), 0);
    assert_int_equal(follow_events_init(&e, &events, &f.client, NULL, 0, never_called, NULL), 0);
    assert_int_equal(kill(f.server, SIGKILL), 0);
    assert_int_equal(waitpid(f.server, NULL, 0), f.server);
    int64_t end_ms = clock_boot_ms() + UNANSWERED_MS;
    capture_begin(&capture);
    while (clock_boot_ms() < end_ms)
        assert_int_equal(follow_events_step(&e, &events, UNANSWERED_MS / 10), 0);
    assert_int_equal(capture_end(&capture, line, sizeof line), 1);
    assert_non_null(strstr(line, "waiting until gpumux is back"));
    follow_events_done(&events);
    stop(&f, methods, sizeof methods);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(incompatible_server_header_is_refused),
        cmocka_unit_test(compatible_server_is_checked_once),
        cmocka_unit_test(incompatible_server_gets_no_changes),
        cmocka_unit_test(silence_is_reported_once_with_deadline),
        cmocka_unit_test(quiet_command_reports_no_silence),
        cmocka_unit_test(silence_is_reported_to_followers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
