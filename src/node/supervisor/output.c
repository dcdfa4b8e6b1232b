#include "node/supervisor/output.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/durable.h"

enum { OUTPUT_FILES_SEEN_MAX = 4096, STAMP_MAX = 40, HEAD_MAX = 64 };

static const char *const stream_names[OUTPUT_STREAMS] = {
    [OUTPUT_STDOUT] = "stdout",
    [OUTPUT_STDERR] = "stderr",
};

static char *file_name(uint64_t start, char name[OUTPUT_NAME_MAX])
{
    snprintf(name, OUTPUT_NAME_MAX, "output.%" PRIu64 ".log", start);
    return name;
}

static bool file_name_parse(const char *name, uint64_t *ret_start)
{
    uint64_t start;
    char canonical[OUTPUT_NAME_MAX];
    if (sscanf(name, "output.%20" SCNu64 ".log", &start) != 1 ||
        !str_equal(file_name(start, canonical), name))
        return false;
    *ret_start = start;
    return true;
}

static int compare_starts(const void *a, const void *b)
{
    uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;
    return (left > right) - (left < right);
}

/* Lists the starts of all files in ascending order; the caller frees *ret_starts. Returns their
 * number. */
static size_t list_files(int directory_fd, uint64_t **ret_starts)
{
    int fd = openat(directory_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *directory = fd >= 0 ? fdopendir(fd) : NULL;
    uint64_t *starts = calloc(OUTPUT_FILES_SEEN_MAX, sizeof *starts);
    size_t count = 0;
    for (struct dirent *entry;
         starts && directory && count < OUTPUT_FILES_SEEN_MAX && (entry = readdir(directory));)
        if (file_name_parse(entry->d_name, &starts[count]))
            count++;
    if (directory)
        closedir(directory);
    else if (fd >= 0)
        close(fd);
    if (count)
        qsort(starts, count, sizeof *starts, compare_starts);
    *ret_starts = starts;
    return count;
}

/* ---- writing ---- */

static void open_file(struct output *o)
{
    char name[OUTPUT_NAME_MAX];
    o->fd = openat(o->directory_fd, file_name(o->start, name),
                   O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600);
    o->size = 0;
    if (o->fd < 0)
        o->dropped_errno = errno;
}

static void remove_oldest(struct output *o)
{
    uint64_t *starts;
    size_t count = list_files(o->directory_fd, &starts);
    char name[OUTPUT_NAME_MAX];
    for (size_t i = 0; i + (size_t)o->files_max < count; i++)
        unlinkat(o->directory_fd, file_name(starts[i], name), 0);
    free(starts);
}

void output_init(struct output *o, int directory_fd, int64_t file_bytes, int files)
{
    o->directory_fd = directory_fd;
    o->files_max = files;
    o->file_bytes_max = (uint64_t)file_bytes;
    o->start = 0;
    o->dropped_bytes = 0;
    o->dropped_errno = 0;
    o->buffered = 0;
    for (int i = 0; i < OUTPUT_STREAMS; i++)
        o->pending[i].length = 0;
    open_file(o);
}

void output_done(struct output *o)
{
    if (o->fd >= 0)
        close(o->fd);
    o->fd = -1;
}

/* Returns the number of bytes written. A partly written line is removed from the file. */
static size_t write_lines(struct output *o, const char *bytes, size_t length)
{
    size_t done = 0;
    while (o->fd >= 0 && done < length) {
        ssize_t n = write(o->fd, bytes + done, length - done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            o->dropped_errno = n < 0 ? errno : EIO;
            const char *newline = memrchr(bytes, '\n', done);
            size_t whole = newline ? (size_t)(newline + 1 - bytes) : 0;
            done = ftruncate(o->fd, (off_t)(o->size + whole)) < 0 ? done : whole;
            break;
        }
        done += (size_t)n;
    }
    o->size += done;
    return done;
}

static size_t format_head(enum output_stream stream, bool whole, char head[HEAD_MAX])
{
    struct timespec now;
    struct tm day;
    char stamp[STAMP_MAX];
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &day);
    strftime(stamp, sizeof stamp, "%Y-%m-%dT%H:%M:%S", &day);
    int n = snprintf(head, HEAD_MAX, "%s.%09ldZ %s %c ", stamp, now.tv_nsec, stream_names[stream],
                     whole ? 'F' : 'P');
    return (size_t)n;
}

static void note_dropped(struct output *o)
{
    char line[256];
    size_t head = format_head(OUTPUT_STDERR, true, line);
    int n = snprintf(line + head, sizeof line - head,
                     "[gpumux: %" PRIu64 " bytes of output were dropped: %s]\n", o->dropped_bytes,
                     strerror(o->dropped_errno));
    if (n > 0 && write_lines(o, line, head + (size_t)n))
        o->dropped_bytes = 0;
}

static void write_buffer(struct output *o)
{
    if (!o->buffered)
        return;
    if (o->fd < 0)
        open_file(o);
    if (o->dropped_bytes)
        note_dropped(o);
    size_t written = o->dropped_bytes ? 0 : write_lines(o, o->buffer, o->buffered);
    o->dropped_bytes += o->buffered - written;
    o->buffered = 0;
}

static void rotate(struct output *o)
{
    write_buffer(o);
    if (o->fd < 0 || o->size == 0)
        return;
    uint64_t start = o->start, size = o->size;
    int fd = o->fd;
    o->start = start + size;
    open_file(o);
    if (o->fd < 0) { /* without a new file, the old one grows beyond its limit */
        o->start = start;
        o->size = size;
        o->fd = fd;
        return;
    }
    close(fd);
    remove_oldest(o);
}

static void emit(struct output *o, enum output_stream stream, bool whole)
{
    struct output_pending *pending = &o->pending[stream];
    char head[HEAD_MAX];
    size_t head_length = format_head(stream, whole, head);
    size_t length = head_length + pending->length + 1;
    if (o->size + o->buffered + length > o->file_bytes_max)
        rotate(o);
    memcpy(o->buffer + o->buffered, head, head_length);
    memcpy(o->buffer + o->buffered + head_length, pending->bytes, pending->length);
    o->buffered += length;
    o->buffer[o->buffered - 1] = '\n';
    pending->length = 0;
    if (o->buffered >= OUTPUT_BUFFER_MAX)
        write_buffer(o);
}

void output_append(struct output *o, enum output_stream stream, const char *bytes, size_t length)
{
    struct output_pending *pending = &o->pending[stream];
    while (length) {
        const char *newline = memchr(bytes, '\n', length);
        size_t part = newline ? (size_t)(newline - bytes) : length;
        size_t room = OUTPUT_LINE_MAX - pending->length;
        bool cut = part > room;
        if (cut)
            part = room;
        if (!pending->length)
            pending->since_boot_ms = clock_boot_ms();
        memcpy(pending->bytes + pending->length, bytes, part);
        pending->length += part;
        bytes += part;
        length -= part;
        if (cut) {
            emit(o, stream, false);
        } else if (newline) {
            emit(o, stream, true);
            bytes++;
            length--;
        }
    }
    write_buffer(o);
}

void output_flush(struct output *o, bool all)
{
    int64_t now_ms = clock_boot_ms();
    for (int i = 0; i < OUTPUT_STREAMS; i++)
        if (o->pending[i].length &&
            (all || now_ms >= o->pending[i].since_boot_ms + OUTPUT_PAUSE_MS))
            emit(o, (enum output_stream)i, false);
    write_buffer(o);
    if (all && o->dropped_bytes && o->fd >= 0)
        note_dropped(o);
}

int64_t output_next_flush(const struct output *o)
{
    int64_t next_ms = INT64_MAX;
    for (int i = 0; i < OUTPUT_STREAMS; i++)
        if (o->pending[i].length && o->pending[i].since_boot_ms + OUTPUT_PAUSE_MS < next_ms)
            next_ms = o->pending[i].since_boot_ms + OUTPUT_PAUSE_MS;
    return next_ms;
}

/* ---- reading ---- */

int output_read(struct error *e, int directory_fd, uid_t owner, uint64_t offset, void *bytes,
                size_t max, struct output_slice *ret)
{
    struct output_slice slice = {.offset = offset};
    uint64_t *starts;
    size_t count = list_files(directory_fd, &starts);
    int r = 0;
    if (count && starts[0] > offset)
        slice.offset = starts[0];
    for (size_t i = 0; i < count && slice.length < max; i++) {
        uint64_t at = slice.offset + slice.length;
        if (starts[i] > at || (i + 1 < count && starts[i + 1] <= at))
            continue;
        char name[OUTPUT_NAME_MAX];
        int fd;
        r = durable_open(e, directory_fd, file_name(starts[i], name), owner, &fd);
        if (r == -ERR_NOT_FOUND) { /* rotated away meanwhile: ask again */
            r = 0;
            break;
        }
        if (r < 0)
            break;
        ssize_t n =
            pread(fd, (char *)bytes + slice.length, max - slice.length, (off_t)(at - starts[i]));
        if (n < 0)
            r = error_set_errno(e, ERR_IO, errno, "%s cannot be read", name);
        close(fd);
        if (n <= 0)
            break;
        slice.length += (size_t)n;
    }
    free(starts);
    if (r == 0)
        *ret = slice;
    return r;
}

uint64_t output_disk_bytes(int directory_fd)
{
    uint64_t *starts, total = 0;
    size_t count = list_files(directory_fd, &starts);
    for (size_t i = 0; i < count; i++) {
        char name[OUTPUT_NAME_MAX];
        struct stat st;
        if (fstatat(directory_fd, file_name(starts[i], name), &st, AT_SYMLINK_NOFOLLOW) == 0 &&
            st.st_size > 0)
            total += (uint64_t)st.st_size;
    }
    free(starts);
    return total;
}
