/*
 * The protocol between programs and the MPS control daemon, over the socket MPS_SOCKET_NAME in its
 * pipe directory. Each program starts its connection with one line:
 *
 *   client     A process starts to use CUDA. The reply is one struct mps_welcome, as soon as the
 *              server is ready.
 *   control    Commands follow, one per line. The reply to each command is text that ends with a
 *              NUL.
 *
 * The daemon of a real driver uses the same socket but another protocol. The file MPS_MARKER_NAME
 * beside the socket therefore marks the emulated daemon.
 */
#pragma once
#include <stdint.h>

#include "emu/device/visible.h"

#define MPS_PIPE_DIRECTORY         "CUDA_MPS_PIPE_DIRECTORY"
#define MPS_PIPE_DIRECTORY_DEFAULT "/tmp/nvidia-mps"
#define MPS_SOCKET_NAME            "control"
#define MPS_MARKER_NAME            "emulated"
#define MPS_HELLO_CLIENT           "client\n"
#define MPS_HELLO_CONTROL          "control\n"

enum {
    MPS_WELCOME_VERSION = 1,
    MPS_LINE_BYTES_MAX = 512,
    MPS_PERCENTAGE_ONE = 1000, /* percentages are in thousandths of a percent */
    MPS_PERCENTAGE_FULL = 100 * MPS_PERCENTAGE_ONE,
};

struct mps_welcome {
    uint32_t version;
    int32_t result; /* CUDA result; the fields below are valid if it is CUDA_SUCCESS */
    int32_t server_pid;
    uint32_t percentage; /* active threads, in parts of MPS_PERCENTAGE_FULL */
    uint32_t priority;
    struct visible_among served;
    /* Pinned device memory, indexed as `served`; 0: no limit. */
    uint64_t limits_bytes[EMU_DEVICES_MAX];
};

/* Parses a percentage, 0 < p ≤ 100, into thousandths. Returns false for text that the real daemon
 * refuses. */
bool mps_parse_percentage(const char *text, uint32_t *ret_percentage);
/* Parses a number of bytes with the unit M or G. Returns false for other text. */
bool mps_parse_bytes(const char *text, uint64_t *ret_bytes);
/* Returns the pipe directory that the environment names. */
const char *mps_pipe_directory(void);
/* Sets `path` to the file `name` in the pipe directory. Returns false if the path is too long for a
 * socket. */
bool mps_pipe_path(const char *name, char *path, size_t size);
