/* Devices that fail on demand, as programs and NVML see the faults. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/emu/emu_party.h"

enum { STEP_US = 2000, EVENT_MS = 20000, CLOCK_MHZ = 1980 };

static struct driver_api api;
static void *device;

static int set_up(void **state)
{
    (void)state;
    driver_api_make_devices("2xH200:24g", 1, 0);
    setenv("CUDA_MPS_PIPE_DIRECTORY", "/nonexistent", 1);
    assert_int_equal(api.nvmlInit_v2(), NVML_SUCCESS);
    assert_int_equal(api.nvmlDeviceGetHandleByIndex_v2(0, &device), NVML_SUCCESS);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    assert_int_equal(api.nvmlShutdown(), NVML_SUCCESS);
    driver_api_remove_devices();
    return 0;
}

static struct party_client start(void)
{
    struct party_client client = party_start(&api, STEP_US, 64 << 20);
    assert_int_equal(party_opened(&client), CUDA_SUCCESS);
    return client;
}

static void *listen_for_xids(void)
{
    void *set;
    assert_int_equal(api.nvmlEventSetCreate(&set), NVML_SUCCESS);
    assert_int_equal(api.nvmlDeviceRegisterEvents(device, NVML_EVENT_XID, set), NVML_SUCCESS);
    return set;
}

static void expect_xid(void *set, unsigned xid)
{
    nvmlEventData_t event;
    assert_int_equal(api.nvmlEventSetWait_v2(set, &event, EVENT_MS), NVML_SUCCESS);
    assert_ptr_equal(event.device, device);
    assert_int_equal(event.eventType, NVML_EVENT_XID);
    assert_int_equal(event.eventData, xid);
}

static void expect_no_xid(void *set)
{
    nvmlEventData_t event;
    assert_int_equal(api.nvmlEventSetWait_v2(set, &event, 0), NVML_ERROR_TIMEOUT);
    assert_int_equal(api.nvmlEventSetFree(set), NVML_SUCCESS);
}

static uint64_t uncorrected(int counter)
{
    unsigned long long count;
    assert_int_equal(api.nvmlDeviceGetTotalEccErrors(device, 1, counter, &count), NVML_SUCCESS);
    return count;
}

static void contained_ecc_error_ends_one_client(void **state)
{
    (void)state;
    char pid[32];
    unsigned corrected, remapped, pending, failed;
    struct party_client hit = start(), other = start();
    void *set = listen_for_xids();
    snprintf(pid, sizeof(pid), "%d", (int)hit.pid);
    party_fault("ecc", pid);
    assert_int_equal(party_error(&hit), CUDA_ERROR_ECC_UNCORRECTABLE);
    assert_true(party_makes_progress(&other));
    expect_xid(set, 63);
    expect_xid(set, 94);
    expect_no_xid(set);
    assert_int_equal(uncorrected(0), 1);
    assert_int_equal(
        api.nvmlDeviceGetRemappedRows(device, &corrected, &remapped, &pending, &failed), 0);
    assert_int_equal(pending, 1);
    assert_int_equal(remapped, 0);
    party_end(&hit, SIGKILL);
    party_end(&other, SIGKILL);
    party_fault("reset", NULL);
    assert_int_equal(uncorrected(0), 0);
    assert_int_equal(uncorrected(1), 1);
    assert_int_equal(
        api.nvmlDeviceGetRemappedRows(device, &corrected, &remapped, &pending, &failed), 0);
    assert_int_equal(pending, 0);
    assert_int_equal(remapped, 1);
}

static void uncontained_ecc_error_ends_all_clients(void **state)
{
    (void)state;
    struct party_client a = start(), b = start();
    void *set = listen_for_xids();
    party_fault("ecc", NULL);
    assert_int_equal(party_error(&a), CUDA_ERROR_ECC_UNCORRECTABLE);
    assert_int_equal(party_error(&b), CUDA_ERROR_ECC_UNCORRECTABLE);
    expect_xid(set, 63);
    expect_xid(set, 48);
    expect_xid(set, 95);
    expect_no_xid(set);
    party_end(&a, SIGKILL);
    party_end(&b, SIGKILL);
}

static void lost_device_fails_until_reset(void **state)
{
    (void)state;
    nvmlMemory_t memory;
    void *handle;
    unsigned count;
    struct party_client client = start();
    void *set = listen_for_xids();
    party_fault("lost", NULL);
    assert_int_equal(party_error(&client), CUDA_ERROR_UNKNOWN);
    expect_xid(set, 79);
    nvmlEventData_t event;
    assert_int_equal(api.nvmlEventSetWait_v2(set, &event, 0), NVML_ERROR_GPU_IS_LOST);
    assert_int_equal(api.nvmlEventSetFree(set), NVML_SUCCESS);
    assert_int_equal(api.nvmlDeviceGetMemoryInfo(device, &memory), NVML_ERROR_GPU_IS_LOST);
    assert_int_equal(api.nvmlDeviceGetHandleByIndex_v2(0, &handle), NVML_ERROR_GPU_IS_LOST);
    assert_int_equal(api.nvmlDeviceGetHandleByIndex_v2(1, &handle), NVML_SUCCESS);
    assert_int_equal(api.nvmlDeviceGetCount_v2(&count), NVML_SUCCESS);
    assert_int_equal(count, 2);
    struct party_client refused = party_start(&api, STEP_US, 0);
    assert_int_equal(party_opened(&refused), CUDA_ERROR_UNKNOWN);
    party_end(&refused, SIGKILL);
    party_end(&client, SIGKILL);
    party_fault("reset", NULL);
    assert_int_equal(api.nvmlDeviceGetMemoryInfo(device, &memory), NVML_SUCCESS);
    assert_int_equal(memory.used, 0);
    client = start();
    assert_true(party_makes_progress(&client));
    party_end(&client, SIGKILL);
}

static void injected_xids_are_reported(void **state)
{
    (void)state;
    struct party_client client = start();
    void *set = listen_for_xids();
    party_fault("xid", "119");
    party_fault("xid", "43");
    expect_xid(set, 119);
    expect_xid(set, 43);
    expect_no_xid(set);
    assert_true(party_makes_progress(&client));
    char pid[32];
    snprintf(pid, sizeof(pid), "%d", (int)client.pid);
    set = listen_for_xids();
    party_fault("illegal-address", pid);
    expect_xid(set, 31);
    expect_no_xid(set);
    assert_int_equal(party_error(&client), CUDA_ERROR_ILLEGAL_ADDRESS);
    party_end(&client, SIGKILL);
}

/* Returns the emulated time of a kernel of 20 ms, measured in a child. The kernel waits behind
 * another, so that the host's own pauses, which come between an event and later work on an idle
 * device, do not count. */
static double kernel_once_ms(void)
{
    int ends[2];
    float ms = -1;
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        void *start_event, *end_event;
        driver_api_open_device(&api);
        if (api.cuEventCreate(&start_event, 0) != 0 || api.cuEventCreate(&end_event, 0) != 0 ||
            driver_api_burn(&api, NULL, 1000, 0, 50000000) != 0 ||
            api.cuEventRecord(start_event, NULL) != 0 ||
            driver_api_burn(&api, NULL, 1000, 0, 20000000) != 0 ||
            api.cuEventRecord(end_event, NULL) != 0 || api.cuCtxSynchronize() != 0 ||
            api.cuEventElapsedTime(&ms, start_event, end_event) != 0 ||
            write(ends[1], &ms, sizeof(ms)) != (ssize_t)sizeof(ms))
            _exit(1);
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(read(ends[0], &ms, sizeof(ms)), sizeof(ms));
    close(ends[0]);
    close(ends[1]);
    return (double)ms;
}

/* A pause longer than the kernel in front only adds time, so the minimum counts. */
static double kernel_ms(void)
{
    double least_ms = kernel_once_ms();
    for (int i = 0; i < 2; i++) {
        double ms = kernel_once_ms();
        if (ms < least_ms)
            least_ms = ms;
    }
    return least_ms;
}

static void clock_throttling_slows_kernels_visibly(void **state)
{
    (void)state;
    unsigned long long reasons;
    unsigned mhz, celsius;
    double full_ms = kernel_ms();
    struct party_client client = start();
    assert_true(party_makes_progress(&client));
    assert_int_equal(api.nvmlDeviceGetCurrentClocksEventReasons(device, &reasons), NVML_SUCCESS);
    assert_int_equal(reasons & ~(uint64_t)NVML_REASON_GPU_IDLE, 0);
    party_fault("thermal", "75");
    assert_int_equal(api.nvmlDeviceGetCurrentClocksEventReasons(device, &reasons), NVML_SUCCESS);
    assert_int_equal(reasons, NVML_REASON_HW_SLOWDOWN | NVML_REASON_HW_THERMAL);
    PARTY_WAIT(api.nvmlDeviceGetClockInfo(device, NVML_CLOCK_SM, &mhz) == NVML_SUCCESS &&
               mhz == CLOCK_MHZ - CLOCK_MHZ * 750 / 1000);
    assert_int_equal(api.nvmlDeviceGetTemperature(device, 0, &celsius), NVML_SUCCESS);
    assert_true(celsius >= 89);
    party_end(&client, SIGKILL);
    double slow_ms = kernel_ms();
    assert_true(slow_ms > 3.9 * full_ms && slow_ms < 4.2 * full_ms);
    party_fault("power-cap", "10");
    assert_int_equal(api.nvmlDeviceGetCurrentClocksEventReasons(device, &reasons), NVML_SUCCESS);
    assert_int_equal(reasons, NVML_REASON_SW_POWER_CAP);
    party_fault("reset", NULL);
    assert_true(kernel_ms() < 1.1 * full_ms);
}

static void invalid_faults_are_refused(void **state)
{
    (void)state;
    static const char *const wrong[][4] = {
        {"0", "flood", NULL},
        {"7", "lost", NULL},
        {"0", "xid", "many", NULL},
        {"0", "thermal", "100", NULL},
        {"0", "illegal-address", "1", NULL},
        {"0", NULL},
        {"0", "mps-server-crash", NULL},
    };
    char output[2048];
    for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++)
        assert_int_not_equal(
            party_program("gpumux-emu-fault", wrong[i], NULL, output, sizeof(output)), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
        TEST(contained_ecc_error_ends_one_client),    TEST(uncontained_ecc_error_ends_all_clients),
        TEST(lost_device_fails_until_reset),          TEST(injected_xids_are_reported),
        TEST(clock_throttling_slows_kernels_visibly), TEST(invalid_faults_are_refused),
#undef TEST
    };
    driver_api_load(&api);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
