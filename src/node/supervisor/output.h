/*
 * An attempt's output on disk: one stream of CRI lines,
 *
 *   2026-11-15T05:46:15.123456789Z stdout F a whole line
 *   2026-11-15T05:46:15.223456789Z stderr P a piece of a line, more follows
 *
 * cut into files output.OFFSET.log, where OFFSET is the place of the file's first byte in the
 * stream. So a place in the stream stays the same whatever was rotated away, and the file with the
 * largest offset is the one that grows.
 *
 * A piece (P) is written when a line is longer than OUTPUT_LINE_MAX, when a started line has waited
 * OUTPUT_PAUSE_MS for its end (a prompt, a progress bar), and at the end of a stream without a
 * newline.
 *
 * A disk that is full or broken never stops the task: what cannot be written is dropped and
 * counted, and a line says so as soon as one can be written.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "base/str.h"

enum {
    OUTPUT_LINE_MAX = 16 << 10, /* bytes of a line before it is cut */
    OUTPUT_PAUSE_MS = 100,
    OUTPUT_BUFFER_MAX = 32 << 10, /* gathered before one write */
    OUTPUT_NAME_MAX = 48,
};

enum output_stream { OUTPUT_STDOUT, OUTPUT_STDERR, OUTPUT_STREAMS };

struct output_pending {
    size_t length;
    int64_t since_boot_ms; /* when its first byte came */
    char bytes[OUTPUT_LINE_MAX];
};

struct output {
    int directory_fd; /* the caller's */
    int fd;           /* of the current file; -1: none could be made */
    int files_max;
    uint64_t file_bytes_max;
    uint64_t start;         /* of the current file, in the stream */
    uint64_t size;          /* of the current file */
    uint64_t dropped_bytes; /* since the last line that said so */
    int dropped_errno;
    struct output_pending pending[OUTPUT_STREAMS];
    size_t buffered;
    char buffer[OUTPUT_BUFFER_MAX + OUTPUT_LINE_MAX + 128];
};

/* Starts an empty stream. Never fails: without a file, output is dropped and counted. */
void output_init(struct output *o, int directory_fd, int64_t file_bytes, int files);
void output_done(struct output *o);
/* What a stream said. Written to the file before it returns, except for an unfinished line. */
void output_append(struct output *o, enum output_stream stream, const char *bytes, size_t length);
/* Writes unfinished lines that have waited long enough, or (`all`) every one. */
void output_flush(struct output *o, bool all);
/* When output_flush has something to do (boot clock); INT64_MAX: never. */
int64_t output_next_flush(const struct output *o);

/* ---- reading, by anybody who can open the directory ---- */

struct output_slice {
    uint64_t offset; /* of the first byte read: later than asked for if that is no longer kept */
    size_t length;
};

/* Reads at most `max` bytes of the stream from `offset` into `bytes`. length 0: nothing there yet.
 * Files that are not plain ones of `owner` are refused: -ERR_DENIED. */
int output_read(struct error *e, int directory_fd, uid_t owner, uint64_t offset, void *bytes,
                size_t max, struct output_slice *ret);
/* Bytes on disk of an attempt's output. */
uint64_t output_disk_bytes(int directory_fd);
