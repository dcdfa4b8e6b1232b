/* The task's standard input: a bounded buffer with a position in the stream. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { INPUT_BUFFER_MAX = 64 << 10 };

struct input {
    int fd;         /* non-blocking; -1: closed, and input is dropped */
    uint64_t taken; /* bytes of the stream taken so far */
    bool ended;
    size_t length;
    char bytes[INPUT_BUFFER_MAX];
};

/* Takes ownership of fd. */
void input_init(struct input *in, int fd);
/* Takes new bytes, as many as fit. Returns false if bytes before `offset` are missing; in->taken is
 * the expected offset. */
bool input_take(struct input *in, uint64_t offset, const char *bytes, size_t length, bool end);
/* Writes as much as the pipe accepts. Closes the pipe after the last byte, or if the pipe has no
 * reader. */
void input_write(struct input *in);
void input_done(struct input *in);
