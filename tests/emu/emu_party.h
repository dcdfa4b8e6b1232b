/*
 * For tests: emulated devices with clients in processes of their own that follow orders, and an MPS
 * daemon in a fresh pipe directory. A failed set-up ends the program.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "tests/emu/driver_api.h"

enum party_order {
    PARTY_RUN,     /* runs kernels one after another, and waits for each */
    PARTY_QUEUE,   /* queues `amount` kernels at once, then waits for them */
    PARTY_ILLEGAL, /* accesses an illegal address, then waits */
    PARTY_LEAVE,   /* releases its context and lives on */
};

enum { PARTY_NOT_YET = -1 };

/* Shared with the client's process. */
struct party_report {
    _Atomic int opened;  /* CUDA result of the client's start, or PARTY_NOT_YET */
    _Atomic int error;   /* first error after the start; 0: none */
    _Atomic int order;   /* enum party_order, set by the test */
    _Atomic int ordered; /* number of orders; a change tells the client to read `order` */
    _Atomic int done;    /* value of `ordered` when the last order was queued */
    _Atomic unsigned amount, kernel_us;
    _Atomic unsigned steps;
    _Atomic int sms;
    _Atomic uint64_t allocated_bytes;
    _Atomic int allocation_error;
};

struct party_client {
    pid_t pid;
    struct party_report *report;
};

/* Starts a client that allocates allocate_bytes in pieces of 64 MiB, or as many as it gets, and
 * then does PARTY_RUN with kernels of kernel_us. Does not wait for the client. */
struct party_client party_start(struct driver_api *api, unsigned kernel_us,
                                uint64_t allocate_bytes);
/* Like party_start(), as another user. Needs root. */
struct party_client party_start_as(struct driver_api *api, uid_t uid, unsigned kernel_us,
                                   uint64_t allocate_bytes);
/* Waits until the client has started. Returns its CUDA result. */
int party_opened(const struct party_client *client);
/* Waits until the client's own calls for the order are done. */
void party_order(const struct party_client *client, enum party_order order, unsigned amount,
                 unsigned kernel_us);
/* Waits until the client has an error, and returns the error; 0: the client made some steps without
 * one. */
int party_error(const struct party_client *client);
bool party_makes_progress(const struct party_client *client);
/* Ends the client with a signal and waits for its end. */
void party_end(struct party_client *client, int signal_number);

/* Makes fresh pipe and log directories and sets PATH for the daemon. Starts no daemon. */
void party_make_directories(void);
void party_remove_directories(void);
/* Makes party_program() run copies in the pipe directory from now on. A test with another user's
 * clients needs copies: the build may lie in a home directory that only its owner can enter. */
void party_stage_programs(void);
/* Runs a program of the emulator. arguments end with NULL, input may be NULL, and output receives
 * both outputs of the program. Returns the exit status; 124 if the program ran longer than ten
 * seconds. */
int party_program(const char *name, const char *const *arguments, const char *input, char *output,
                  size_t size);
/* Runs one command of nvidia-cuda-mps-control. */
int party_control(const char *command, char *output, size_t size);
/* Runs gpumux-emu-fault 0 FAULT [ARGUMENT]. Ends the program on failure. */
void party_fault(const char *fault, const char *argument);
/* Returns the pid of the daemon's server; 0: none. */
pid_t party_server(void);

/* Waits for the condition, for at most 30 s. */
#define PARTY_WAIT(condition)                                                                      \
    do {                                                                                           \
        for (int party_left = 30000; !(condition); party_left--) {                                 \
            assert_true(party_left > 0);                                                           \
            usleep(1000);                                                                          \
        }                                                                                          \
    } while (0)
