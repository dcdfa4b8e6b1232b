#include "emu/mps/mps_log.h"

#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

FILE *mps_log_open(const char *name)
{
    const char *directory = getenv("CUDA_MPS_LOG_DIRECTORY");
    char path[PATH_MAX];
    if (!directory || directory[0] == '\0')
        directory = "/var/log/nvidia-mps";
    (void)mkdir(directory, 0755);
    int length = snprintf(path, sizeof(path), "%s/%s", directory, name);
    if (length < 0 || (size_t)length >= sizeof(path))
        return NULL;
    FILE *log = fopen(path, "ae");
    if (log)
        setvbuf(log, NULL, _IOLBF, BUFSIZ);
    return log;
}

void mps_log(FILE *log, const char *who, const char *format, ...)
{
    if (!log)
        return;
    struct timespec now;
    struct tm local;
    char text[32];
    clock_gettime(CLOCK_REALTIME, &now);
    localtime_r(&now.tv_sec, &local);
    strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S", &local);
    fprintf(log, "[%s.%03ld %s %5d] ", text, now.tv_nsec / 1000000, who, (int)getpid());
    va_list arguments;
    va_start(arguments, format);
    vfprintf(log, format, arguments);
    va_end(arguments);
    fputc('\n', log);
}
