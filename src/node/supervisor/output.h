/*
 * An attempt's output on disk: one stream of CRI lines,
 *
 *   2026-11-15T05:46:15.123456789Z stdout F a whole line
 *   2026-11-15T05:46:15.223456789Z stderr P a piece of a line, more follows
 *
 * cut into files output.OFFSET.log, where OFFSET is the position of the file's first byte in the
 * stream. A position in the stream therefore stays valid when old files are deleted. The supervisor
 * appends output to the file with the largest offset.
 *
 * A piece (P) is written when a line is longer than OUTPUT_LINE_MAX, when a started line has waited
 * OUTPUT_PAUSE_MS for its end (a prompt, a progress bar), and when a stream ends without a newline.
 *
 * A full or broken disk never stops the task: output that cannot be written is dropped and counted,
 * and a line reports the loss once writing succeeds again.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "base/str.h"

enum {
    OUTPUT_LINE_MAX = 16 << 10, /* bytes of a line before the line is cut */
    OUTPUT_PAUSE_MS = 100,
    OUTPUT_BUFFER_MAX = 32 << 10, /* bytes gathered before one write */
    OUTPUT_NAME_MAX = 48,
};

enum output_stream { OUTPUT_STDOUT, OUTPUT_STDERR, OUTPUT_STREAMS };

struct output_pending {
    size_t length;
    int64_t since_boot_ms; /* arrival of the first byte */
    char bytes[OUTPUT_LINE_MAX];
};

struct output {
    int directory_fd; /* borrowed from the caller */
    int fd;           /* current file; -1: no file could be created */
    int files_max;
    uint64_t file_bytes_max;
    uint64_t start;         /* position of the current file in the stream */
    uint64_t size;          /* bytes of the current file */
    uint64_t dropped_bytes; /* bytes dropped since the last line about dropped output */
    int dropped_errno;
    struct output_pending pending[OUTPUT_STREAMS];
    size_t buffered;
    char buffer[OUTPUT_BUFFER_MAX + OUTPUT_LINE_MAX + 128];
};

/* Starts an empty stream. Never fails: without a file, output is dropped and counted. */
void output_init(struct output *o, int directory_fd, int64_t file_bytes, int files);
void output_done(struct output *o);
/* Adds output of a stream. Everything but an unfinished line is in the file when the call
 * returns. */
void output_append(struct output *o, enum output_stream stream, const char *bytes, size_t length);
/* Writes unfinished lines that have waited long enough; `all`: writes all unfinished lines. */
void output_flush(struct output *o, bool all);
/* Returns the boot-clock time at which output_flush() is due; INT64_MAX: never. */
int64_t output_next_flush(const struct output *o);

/* ---- reading, by any process that can open the directory ---- */

struct output_slice {
    /* position of the first byte read; larger than requested if that part was deleted */
    uint64_t offset;
    size_t length;
};

/* Reads at most `max` bytes of the stream from `offset` into `bytes`; length 0: no output at
 * `offset` yet. Returns 0, or -ERR_DENIED for a file that is not a regular file of `owner`. */
int output_read(struct error *e, int directory_fd, uid_t owner, uint64_t offset, void *bytes,
                size_t max, struct output_slice *ret);
/* Returns the bytes that an attempt's output takes on disk. */
uint64_t output_disk_bytes(int directory_fd);
