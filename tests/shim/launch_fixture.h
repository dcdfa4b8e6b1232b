/*
 * Programs that launch on an emulated device, with a registrar for an agent, for tests by cmocka:
 * what fails here fails the test.
 */
#pragma once
#include <stdint.h>

#include "tests/emu/emu_party.h"
#include "tests/shim/talker.h"

enum {
    MS_US = 1000,
    FOREVER_US = 600 * 1000 * 1000,    /* of a gate that nobody waits for */
    COLLECTIVE_GRID = 132 * 8 * 30000, /* blocks of a kernel that takes 300 ms */
};

/* By the arguments of the test's program: registrar, launcher, shim and PTX. False: they are
 * others. To be ended. */
bool launch_fixture_begin(int argc, char **argv);
void launch_fixture_end(void);
/* The driver of this process. */
struct driver_api *launch_fixture_api(void);

/* One emulated device; for cmocka. */
int set_up_devices(void **state);
/* For more streams than there are slots. */
int set_up_three_devices(void **state);
/* For MPS: without it clients take turns. */
int set_up_sliced_devices(void **state);
int tear_down_devices(void **state);

void start_registrar(struct talker *ret_registrar, const char *name, const char *value,
                     const char *name2, const char *value2);
/* Of a task or a service, by its mark, with its context. */
void start_launcher(struct talker *ret_launcher, const char *mark);
/* The same, without a context. */
void start_closed_launcher(struct talker *ret_launcher, const char *mark);
/* Returns how it ended. */
int finish(const struct talker *talker, const char *last_line);
void end_by_kill(struct talker *talker);
/* The number that the registrar shows of the process, or of the last that carried its mark. */
uint64_t number_of(const struct talker *registrar, const char *mark, const char *name);
/* Until what the kernels of these launches cost is known. */
void learn_cost_of(const char *launches, const struct talker *registrar, const struct talker *task);
