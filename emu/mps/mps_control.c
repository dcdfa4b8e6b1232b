/*
 * nvidia-cuda-mps-control, emulated. With -d or -f the program is the daemon of a pipe directory;
 * otherwise it passes the command in its arguments, or the commands on its standard input, to that
 * daemon.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/str.h"
#include "emu/mps/mps_daemon.h"

struct options {
    bool is_daemon, is_foreground, is_multiuser;
    int first_word; /* index of the command's first word in argv; argc: no command */
};

static bool is_option(const char *argument, const char *short_name, const char *long_name)
{
    return str_equal(argument, short_name) || str_equal(argument, long_name);
}

/* Returns false for an unknown option. */
static bool read_options(int argc, char **argv, struct options *ret_options)
{
    struct options options = {.first_word = 1};
    for (; options.first_word < argc && argv[options.first_word][0] == '-'; options.first_word++) {
        const char *argument = argv[options.first_word];
        if (is_option(argument, "-d", "--daemon"))
            options.is_daemon = true;
        else if (is_option(argument, "-f", "--foreground"))
            options.is_foreground = true;
        else if (is_option(argument, "-M", "--multiuser-server") ||
                 str_equal(argument, "-multiuser-server"))
            options.is_multiuser = true;
        else
            return false;
    }
    *ret_options = options;
    return true;
}

static int serve(struct mps_daemon *daemon)
{
    signal(SIGPIPE, SIG_IGN);
    mps_daemon_run(daemon);
    mps_daemon_close(daemon);
    return 0;
}

static void leave_terminal(void)
{
    setsid();
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int fd = 0; fd < 3 && null >= 0; fd++)
        dup2(null, fd);
    if (null > 2)
        close(null);
}

/* Makes the child the daemon. The parent returns when the daemon listens, or has failed and printed
 * the reason. */
static int run_in_background(bool is_multiuser)
{
    int ready[2];
    char byte;
    if (pipe2(ready, O_CLOEXEC) < 0)
        return 1;
    pid_t pid = fork();
    if (pid < 0)
        return 1;
    if (pid > 0) {
        close(ready[1]);
        return read(ready[0], &byte, 1) == 1 ? 0 : 1;
    }
    close(ready[0]);
    struct error error = {0};
    struct mps_daemon *daemon = calloc(1, sizeof(*daemon));
    int r = daemon ? mps_daemon_open(&error, daemon, is_multiuser) : -ERR_NO_MEMORY;
    if (r < 0) {
        fprintf(stderr, "%s\n", error.text);
    } else {
        leave_terminal();
        r = write(ready[1], "", 1) == 1 ? serve(daemon) : 1;
    }
    free(daemon);
    return r != 0;
}

static int run_in_foreground(bool is_multiuser)
{
    struct error error = {0};
    struct mps_daemon *daemon = calloc(1, sizeof(*daemon));
    int r = daemon ? mps_daemon_open(&error, daemon, is_multiuser) : -ERR_NO_MEMORY;
    if (r < 0)
        fprintf(stderr, "%s\n", error.text);
    else
        r = serve(daemon);
    free(daemon);
    return r != 0;
}

static int connect_to_daemon(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (!mps_pipe_path(MPS_SOCKET_NAME, address.sun_path, sizeof(address.sun_path)))
        return -1;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0)
        return fd;
    if (fd >= 0)
        close(fd);
    return -1;
}

/* Prints an answer up to its NUL. Returns false if the daemon has ended. */
static bool print_answer(int fd)
{
    char c;
    while (read(fd, &c, 1) == 1) {
        if (c == '\0')
            return true;
        putchar(c);
    }
    return false;
}

/* Passes one command on. Returns false if the daemon has ended, as after `quit`. */
static bool pass_on(int fd, const char *command)
{
    char line[MPS_LINE_BYTES_MAX];
    int length = snprintf(line, sizeof(line), "%.*s\n", (int)strcspn(command, "\n"), command);
    if (length < 0 || (size_t)length >= sizeof(line)) {
        puts("The command is too long");
        return true;
    }
    return send(fd, line, (size_t)length, MSG_NOSIGNAL) == length && print_answer(fd);
}

static int pass_commands(int argc, char **argv, int first_word)
{
    char command[MPS_LINE_BYTES_MAX];
    int fd = connect_to_daemon();
    size_t hello_bytes = strlen(MPS_HELLO_CONTROL);
    if (fd < 0 || send(fd, MPS_HELLO_CONTROL, hello_bytes, MSG_NOSIGNAL) != (ssize_t)hello_bytes) {
        fputs("Cannot find MPS control daemon process\n", stderr);
        return 1;
    }
    if (first_word < argc) {
        struct str text;
        str_init(&text, MPS_LINE_BYTES_MAX);
        for (int i = first_word; i < argc; i++)
            str_printf(&text, "%s ", argv[i]);
        pass_on(fd, str_text(&text));
        str_done(&text);
    } else {
        while (fgets(command, sizeof(command), stdin) && pass_on(fd, command))
            fflush(stdout);
    }
    close(fd);
    return 0;
}

int main(int argc, char **argv)
{
    struct options options;
    if (argc == 2 && is_option(argv[1], "-v", "--version")) {
        puts("CUDA MPS Control of the gpumux emulation. Binary version: 13000");
        return 0;
    }
    if (!read_options(argc, argv, &options)) {
        puts("nvidia-cuda-mps-control [-d | -f] [-multiuser-server] [-v] [COMMAND]\n"
             "without -d or -f: passes COMMAND, or the lines of its input, to the daemon");
        return str_equal(argv[1], "-h") || str_equal(argv[1], "--help") ? 0 : 1;
    }
    if (options.is_daemon)
        return run_in_background(options.is_multiuser);
    if (options.is_foreground)
        return run_in_foreground(options.is_multiuser);
    return pass_commands(argc, argv, options.first_word);
}
