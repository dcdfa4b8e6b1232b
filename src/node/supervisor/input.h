/* What goes into the task's standard input: a bounded buffer with a place in the stream. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { INPUT_BUFFER_MAX = 64 << 10 };

struct input {
    int fd;         /* non-blocking; -1: closed, what comes is dropped */
    uint64_t taken; /* bytes of the stream taken so far */
    bool ended;
    size_t length;
    char bytes[INPUT_BUFFER_MAX];
};

/* fd belongs to the input from now on. */
void input_init(struct input *in, int fd);
/* Takes what is new and fits. False if there is a gap before `offset`: see in->taken. */
bool input_take(struct input *in, uint64_t offset, const char *bytes, size_t length, bool end);
/* Writes what the pipe takes; closes it after the last byte, or when nobody reads it any more. */
void input_write(struct input *in);
void input_done(struct input *in);
