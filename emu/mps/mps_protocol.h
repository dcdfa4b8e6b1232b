/*
 * How programs talk to the MPS control daemon, over the socket MPS_SOCKET_NAME in its pipe
 * directory. Whoever connects first sends one line:
 *
 *   client     a process that starts to use CUDA. The answer is one struct mps_welcome, once the
 *              server is there; until then it waits.
 *   control    commands follow, a line each; each is answered with text that ends with a NUL.
 *
 * The daemon of a real driver has the same socket, and another protocol: MPS_MARKER_NAME beside it
 * says that this one is emulated.
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
    MPS_PERCENTAGE_ONE = 1000, /* percentages are counted in thousandths */
    MPS_PERCENTAGE_FULL = 100 * MPS_PERCENTAGE_ONE,
};

struct mps_welcome {
    uint32_t version;
    int32_t result; /* CUDA's; what follows holds if it is CUDA_SUCCESS */
    int32_t server_pid;
    uint32_t percentage; /* active threads, of MPS_PERCENTAGE_FULL */
    uint32_t priority;
    struct visible_among served;
    uint64_t limits_bytes[EMU_DEVICES_MAX]; /* pinned device memory, as `served` counts; 0: none */
};

/* Of thousandths of a percent: 0 < p ≤ 100. False: it is none, as the real daemon judges it. */
bool mps_parse_percentage(const char *text, uint32_t *ret_percentage);
/* A number with M or G. False: it is none. */
bool mps_parse_bytes(const char *text, uint64_t *ret_bytes);
/* The pipe directory that the environment names, and a file in it. False: too long for a socket. */
const char *mps_pipe_directory(void);
bool mps_pipe_path(const char *name, char *path, size_t size);
