/* Tests of waiting for contexts during a capture. The driver and the marks are fakes of this
 * test. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "shim/hook/capture.h"
#include "shim/sys/clock.h"

enum { OUTSTANDING_LOOKS = 5, LONG_MS = 60000, SHORT_MS = 20 };
#define CONTEXT ((CUcontext)0x1000)

/* A driver that refuses to wait during a capture, always or only in the usual mode. */
static struct fake_driver {
    CUcontext current;
    CUstreamCaptureMode mode;
    bool is_strict;
    int waits, refusals; /* in CONTEXT */
    int flushes;         /* in CONTEXT, and relaxed */
    int looks_left;      /* queries until no work is outstanding */
} driver;

static CUresult push_current(CUcontext context)
{
    driver.current = context;
    return CUDA_SUCCESS;
}

static CUresult pop_current(CUcontext *ret_context)
{
    *ret_context = driver.current;
    driver.current = NULL;
    return CUDA_SUCCESS;
}

static CUresult exchange_capture_mode(CUstreamCaptureMode *mode)
{
    CUstreamCaptureMode before = driver.mode;
    driver.mode = *mode;
    *mode = before;
    return CUDA_SUCCESS;
}

static CUresult synchronize(void)
{
    assert_ptr_equal(driver.current, CONTEXT);
    bool is_refused = driver.is_strict || driver.mode != CAPTURE_RELAXED;
    driver.refusals += is_refused;
    driver.waits += !is_refused;
    return is_refused ? CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD : CUDA_SUCCESS;
}

void marks_flush(struct process *p)
{
    (void)p;
    driver.flushes += driver.current == CONTEXT && driver.mode == CAPTURE_RELAXED;
}

uint64_t launch_outstanding_ns(struct process *p)
{
    (void)p;
    return driver.looks_left > 0 ? (uint64_t)driver.looks_left-- : 0;
}

static void wait_for_work(bool is_strict, uint32_t captures, int looks, uint64_t most_ms)
{
    struct process *p = aligned_alloc(_Alignof(struct process), sizeof(*p));
    struct launch *launch = calloc(1, sizeof(*launch));
    assert_true(p && launch);
    memset(p, 0, sizeof(*p));
    p->launch = launch;
    p->calls.real.cuCtxPushCurrent_v2 = push_current;
    p->calls.real.cuCtxPopCurrent_v2 = pop_current;
    p->calls.real.cuCtxSynchronize = synchronize;
    p->calls.real.cuThreadExchangeStreamCaptureMode = exchange_capture_mode;
    atomic_store(&launch->captures, captures);
    driver = (struct fake_driver){.is_strict = is_strict, .looks_left = looks};
    busy_add(&p->busy, CONTEXT);
    busy_synchronize(p, clock_now_ns() + most_ms * CLOCK_MS_NS);
    assert_int_equal(driver.mode, 0);
    free(launch);
    free(p);
}

static void test_a_capture_elsewhere_is_no_hindrance(void **state)
{
    (void)state;
    wait_for_work(false, 1, OUTSTANDING_LOOKS, LONG_MS);
    assert_int_equal(driver.waits, 1);
    assert_int_equal(driver.looks_left, OUTSTANDING_LOOKS);
}

static void test_who_is_refused_waits_for_marks(void **state)
{
    (void)state;
    wait_for_work(true, 1, OUTSTANDING_LOOKS, LONG_MS);
    assert_int_equal(driver.refusals, 1);
    assert_int_equal(driver.flushes, 1);
    assert_int_equal(driver.looks_left, 0);
}

static void test_marks_are_not_waited_for_for_ever(void **state)
{
    (void)state;
    wait_for_work(true, 1, INT32_MAX, SHORT_MS);
    assert_in_range(driver.looks_left, 1, INT32_MAX - 1);
}

/* The driver reports another error, and marks may never arrive after it. */
static void test_without_a_capture_there_is_no_waiting_for_marks(void **state)
{
    (void)state;
    wait_for_work(true, 0, OUTSTANDING_LOOKS, LONG_MS);
    assert_int_equal(driver.looks_left, OUTSTANDING_LOOKS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_capture_elsewhere_is_no_hindrance),
        cmocka_unit_test(test_who_is_refused_waits_for_marks),
        cmocka_unit_test(test_marks_are_not_waited_for_for_ever),
        cmocka_unit_test(test_without_a_capture_there_is_no_waiting_for_marks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
