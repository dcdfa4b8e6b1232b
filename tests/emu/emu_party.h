/*
 * For tests: emulated devices with clients in processes of their own that do as they are told, and
 * an MPS daemon of a fresh pipe directory. A failed set-up ends the program.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "tests/emu/driver_api.h"

enum party_order {
    PARTY_RUN,     /* one kernel after the other, each waited for */
    PARTY_QUEUE,   /* `amount` kernels at once, then a wait for them */
    PARTY_ILLEGAL, /* an illegal address, then a wait */
    PARTY_LEAVE,   /* gives its context back and lives on */
};

enum { PARTY_NOT_YET = -1 };

/* Shared with the process of the client. */
struct party_report {
    _Atomic int opened;  /* the CUDA result of its start, or PARTY_NOT_YET */
    _Atomic int error;   /* the first error after that; 0: none */
    _Atomic int order;   /* enum party_order, of the test */
    _Atomic int ordered; /* counts orders: a client looks when it has changed */
    _Atomic int done;    /* `ordered` when the last was queued */
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

/* Starts a client that at once does PARTY_RUN with kernels of kernel_us, after it has allocated
 * allocate_bytes in pieces of 64 MiB, or as many as it gets. Does not wait for it. */
struct party_client party_start(struct driver_api *api, unsigned kernel_us,
                                uint64_t allocate_bytes);
/* The same as another user: for root. */
struct party_client party_start_as(struct driver_api *api, uid_t uid, unsigned kernel_us,
                                   uint64_t allocate_bytes);
/* Waits until it has started; its result. */
int party_opened(const struct party_client *client);
/* Waits until the order is carried out as far as the client's own calls go. */
void party_order(const struct party_client *client, enum party_order order, unsigned amount,
                 unsigned kernel_us);
/* Waits until it has an error, and returns that; 0: it went on for some steps without. */
int party_error(const struct party_client *client);
bool party_makes_progress(const struct party_client *client);
/* Ends it with a signal and waits for that. */
void party_end(struct party_client *client, int signal_number);

/* Fresh pipe and log directories, and PATH of the daemon; no daemon yet. */
void party_make_directories(void);
void party_remove_directories(void);
/* From here on, party_program() runs copies in the pipe directory. A test with another user's
 * clients needs that: the build may lie in a home directory that only its owner can enter. */
void party_stage_programs(void);
/* Runs a program of the emulator: arguments end with NULL, input may be NULL, output gets what it
 * printed, errors too. Returns its exit status; 124 when it had not ended after ten seconds. */
int party_program(const char *name, const char *const *arguments, const char *input, char *output,
                  size_t size);
/* One command of nvidia-cuda-mps-control. */
int party_control(const char *command, char *output, size_t size);
/* gpumux-emu-fault 0 FAULT [ARGUMENT]; ends the program when that fails. */
void party_fault(const char *fault, const char *argument);
/* The pid of the daemon's server; 0: none. */
pid_t party_server(void);

/* Waits, for at most 30 s. */
#define PARTY_WAIT(condition)                                                                      \
    do {                                                                                           \
        for (int party_left = 30000; !(condition); party_left--) {                                 \
            assert_true(party_left > 0);                                                           \
            usleep(1000);                                                                          \
        }                                                                                          \
    } while (0)
