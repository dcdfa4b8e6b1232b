/*
 * Fixture for cmocka tests: programs that launch on an emulated device, with a registrar as their
 * agent. A failure here fails the test.
 */
#pragma once
#include <stdint.h>

#include "tests/emu/emu_party.h"
#include "tests/shim/talker.h"

enum {
    MS_US = 1000,
    FOREVER_US = 600 * 1000 * 1000,    /* a gate that never opens by its time limit */
    COLLECTIVE_GRID = 132 * 8 * 30000, /* blocks of a kernel that takes 300 ms */
};

/* Parses the test's arguments: registrar, launcher, shim and PTX. Returns false if they are wrong.
 * End with launch_fixture_end(). */
bool launch_fixture_begin(int argc, char **argv);
void launch_fixture_end(void);
/* Returns the driver of this process. */
struct driver_api *launch_fixture_api(void);

/* Makes one emulated device. A cmocka set-up. */
int set_up_devices(void **state);
/* For tests that use more streams than there are slots. */
int set_up_three_devices(void **state);
/* For tests of MPS: without a server, clients take turns. */
int set_up_sliced_devices(void **state);
int tear_down_devices(void **state);

void start_registrar(struct talker *ret_registrar, const char *name, const char *value,
                     const char *name2, const char *value2);
/* Starts a launcher with a context; its mark says whether it is a task or a service. */
void start_launcher(struct talker *ret_launcher, const char *mark);
/* Like start_launcher(), without a context. */
void start_closed_launcher(struct talker *ret_launcher, const char *mark);
/* Ends the program by its last line. Returns its exit status. */
int finish(const struct talker *talker, const char *last_line);
void end_by_kill(struct talker *talker);
/* Returns a number that the registrar shows for the process with the mark, or for the last one. */
uint64_t number_of(const struct talker *registrar, const char *mark, const char *name);
/* Repeats the launches until the shim has measured the cost of their kernels. */
void learn_cost_of(const char *launches, const struct talker *registrar, const struct talker *task);
