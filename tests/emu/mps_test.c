/* The MPS daemon, its server and their clients: behaviour as measured on a real H200. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "tests/emu/emu_party.h"

enum { STEP_US = 2000, HARMLESS_US = 22000, DEEP_US = 20000 };

static struct driver_api api;
static const char *const background[] = {"-d", NULL};

static int set_up(void **state)
{
    (void)state;
    /* Slow, so that a kill finds work left, even on a busy machine. */
    driver_api_make_devices("H200:24g", 0.1, 0);
    party_make_directories();
    unsetenv("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE");
    unsetenv("CUDA_MPS_CLIENT_PRIORITY");
    unsetenv("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT");
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    char output[256];
    party_control("quit -t 0", output, sizeof(output));
    party_remove_directories();
    driver_api_remove_devices();
    return 0;
}

static void start_daemon(void)
{
    char output[256];
    assert_int_equal(
        party_program("nvidia-cuda-mps-control", background, NULL, output, sizeof(output)), 0);
    assert_string_equal(output, "");
}

static void expect(const char *command, const char *answer)
{
    char output[4096];
    assert_int_equal(party_control(command, output, sizeof(output)), 0);
    assert_string_equal(output, answer);
}

/* Runs a command whose first word is followed by the server's pid. */
static void expect_of_server(const char *word, const char *rest, const char *answer)
{
    char command[256];
    snprintf(command, sizeof(command), "%s %d %s", word, (int)party_server(), rest);
    expect(command, answer);
}

static void daemon_answers_match_real_daemon(void **state)
{
    (void)state;
    char output[256];
    assert_int_equal(party_control("get_server_list", output, sizeof(output)), 1);
    assert_string_equal(output, "Cannot find MPS control daemon process\n");
    start_daemon();
    assert_int_equal(
        party_program("nvidia-cuda-mps-control", background, NULL, output, sizeof(output)), 1);
    assert_string_equal(output, "An instance of this daemon is already running\n");
    expect("get_server_list", "");
    expect("get_default_active_thread_percentage", "100.0\n");
    expect("set_default_active_thread_percentage 50", "50.0\n");
    expect("set_default_active_thread_percentage 150", "50.0\n");
    expect("set_default_active_thread_percentage abc", "50.0\n");
    expect("bogus", "Unknown command \"bogus\"\n");
    expect("", "Unknown command \"\"\n");
    expect("get_client_list 1", "Server 1 not found\n");
    expect("get_client_list", "Server 0 not found\n");
    expect("get_server_status", "A server PID is required\n");
    expect("get_device_client_list", "");
    expect("get_default_device_pinned_mem_limit 0", "");
    expect("set_default_device_pinned_mem_limit 0 4G", "");
    expect("get_default_device_pinned_mem_limit 0", "4G\n");
    expect("get_default_client_priority", "0\n");
    expect("set_default_client_priority 1", "");
    expect("get_default_client_priority", "1\n");
    expect("set_default_client_priority 7", "Invalid priority value - must be 0 or 1!\n");
    expect("ps", "Server not found\n");
    expect("terminate_client 1 2", "Server 1 not found\nServer 1 not found!\n1\n");
    expect("shutdown_server 1", "Server 1 not found\n");
    snprintf(output, sizeof(output), "start_server -uid %u", (unsigned)getuid());
    expect(output, "");
    assert_true(party_server() > 0);
    expect_of_server("get_server_status", "", "ACTIVE\n");
    expect_of_server("get_active_thread_percentage", "", "50.0\n");
    expect_of_server("set_active_thread_percentage", "30", "30.0\n");
    expect_of_server("get_device_pinned_mem_limit", "0", "4G\n");
    expect_of_server("terminate_client", "1", "201\n");
    expect_of_server("shutdown_server", "", "");
    PARTY_WAIT(party_server() == 0);
}

static void client_limits_combine_server_and_environment(void **state)
{
    (void)state;
    char pid[32], output[4096];
    start_daemon();
    struct party_client a = party_start(&api, STEP_US, 64 << 20);
    assert_int_equal(party_opened(&a), CUDA_SUCCESS);
    assert_int_equal(a.report->sms, 132);
    snprintf(pid, sizeof(pid), "%d\n", (int)a.pid);
    expect_of_server("get_client_list", "", pid);
    snprintf(output, sizeof(output), "[0] 01:00.0, NVIDIA H200\n%d.1\n", (int)a.pid);
    expect("get_device_client_list", output);
    party_control("ps", output, sizeof(output));
    assert_non_null(strstr(output, "NAMESPACE"));
    assert_non_null(strstr(output, "GPU-"));

    expect_of_server("set_active_thread_percentage", "50", "50.0\n");
    expect_of_server("set_device_pinned_mem_limit", "0 1G", "");
    struct party_client b = party_start(&api, STEP_US, UINT64_C(4) << 30);
    assert_int_equal(party_opened(&b), CUDA_SUCCESS);
    assert_int_equal(b.report->sms, 66);
    assert_int_equal(b.report->allocated_bytes, 1 << 30);
    assert_int_equal(b.report->allocation_error, CUDA_ERROR_OUT_OF_MEMORY);
    setenv("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "30", 1);
    setenv("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", "1=2G,0=512M", 1);
    struct party_client c = party_start(&api, STEP_US, UINT64_C(4) << 30);
    assert_int_equal(party_opened(&c), CUDA_SUCCESS);
    assert_int_equal(c.report->sms, 38);
    assert_int_equal(c.report->allocated_bytes, 512 << 20);
    assert_true(party_makes_progress(&a) && party_makes_progress(&b) && party_makes_progress(&c));
    party_end(&a, SIGKILL);
    party_end(&b, SIGKILL);
    party_end(&c, SIGKILL);
    PARTY_WAIT(party_control("ps", output, sizeof(output)) == 0 && output[0] == '\0');
}

static void clients_beyond_48_are_refused(void **state)
{
    (void)state;
    enum { CLIENTS = 50, CLIENTS_MAX = 48, IDLE_US = 100000 };
    struct party_client clients[CLIENTS];
    int refused = 0;
    start_daemon();
    for (int i = 0; i < CLIENTS; i++)
        clients[i] = party_start(&api, IDLE_US, 0);
    for (int i = 0; i < CLIENTS; i++) {
        int r = party_opened(&clients[i]);
        assert_true(r == CUDA_SUCCESS || r == CUDA_ERROR_MPS_MAX_CLIENTS_REACHED);
        refused += r != CUDA_SUCCESS;
    }
    assert_int_equal(refused, CLIENTS - CLIENTS_MAX);
    for (int i = 0; i < CLIENTS; i++)
        party_end(&clients[i], SIGKILL);
}

/* Two clients: the second is the neighbour of the first, which has a fault. */
struct pair {
    struct party_client guilty, neighbour;
};

static struct pair start_pair(void)
{
    struct pair pair = {
        .guilty = party_start(&api, STEP_US, 64 << 20),
        .neighbour = party_start(&api, STEP_US, 64 << 20),
    };
    assert_int_equal(party_opened(&pair.guilty), CUDA_SUCCESS);
    assert_int_equal(party_opened(&pair.neighbour), CUDA_SUCCESS);
    return pair;
}

static void illegal_address_ends_all_mps_clients(void **state)
{
    (void)state;
    start_daemon();
    struct pair pair = start_pair();
    party_order(&pair.guilty, PARTY_ILLEGAL, 0, STEP_US);
    assert_int_equal(party_error(&pair.guilty), CUDA_ERROR_ILLEGAL_ADDRESS);
    assert_int_equal(party_error(&pair.neighbour), CUDA_ERROR_ILLEGAL_ADDRESS);
    pid_t server = party_server();
    expect_of_server("get_server_status", "", "FAULT\n");
    struct party_client refused = party_start(&api, STEP_US, 0);
    assert_int_equal(party_opened(&refused), CUDA_ERROR_MPS_SERVER_NOT_READY);
    party_end(&refused, SIGKILL);
    party_end(&pair.guilty, SIGKILL);
    refused = party_start(&api, STEP_US, 0);
    assert_int_equal(party_opened(&refused), CUDA_ERROR_MPS_SERVER_NOT_READY);
    party_end(&refused, SIGKILL);
    /* The neighbour need not end, only leave. */
    party_order(&pair.neighbour, PARTY_LEAVE, 0, 0);
    expect_of_server("get_server_status", "", "ACTIVE\n");
    struct party_client next = party_start(&api, STEP_US, 0);
    assert_int_equal(party_opened(&next), CUDA_SUCCESS);
    assert_true(party_makes_progress(&next));
    assert_int_equal(party_server(), server);
    party_end(&next, SIGKILL);
    party_end(&pair.neighbour, SIGKILL);
}

static void illegal_address_without_mps_spares_neighbours(void **state)
{
    (void)state;
    struct pair pair = start_pair();
    party_order(&pair.guilty, PARTY_ILLEGAL, 0, STEP_US);
    assert_int_equal(party_error(&pair.guilty), CUDA_ERROR_ILLEGAL_ADDRESS);
    assert_true(party_makes_progress(&pair.neighbour));
    party_end(&pair.guilty, SIGKILL);
    /* A deep queue does no harm there either. */
    struct party_client deep = party_start(&api, STEP_US, 0);
    assert_int_equal(party_opened(&deep), CUDA_SUCCESS);
    party_order(&deep, PARTY_QUEUE, 50, DEEP_US);
    party_end(&deep, SIGKILL);
    assert_true(party_makes_progress(&pair.neighbour));
    party_end(&pair.neighbour, SIGKILL);
}

static void end_one_and_expect(unsigned kernels, unsigned kernel_us, int signal_number,
                               int neighbours_error)
{
    struct pair pair = start_pair();
    party_order(&pair.guilty, PARTY_QUEUE, kernels, kernel_us);
    party_end(&pair.guilty, signal_number);
    if (neighbours_error == 0)
        assert_true(party_makes_progress(&pair.neighbour));
    else
        assert_int_equal(party_error(&pair.neighbour), neighbours_error);
    party_end(&pair.neighbour, SIGKILL);
    char output[64];
    PARTY_WAIT(party_control("ps", output, sizeof(output)) == 0 && output[0] == '\0');
}

static void kill_with_deep_queue_ends_neighbours(void **state)
{
    (void)state;
    start_daemon();
    end_one_and_expect(4, HARMLESS_US, SIGKILL, 0);
    end_one_and_expect(1, 180000, SIGKILL, CUDA_ERROR_ILLEGAL_ADDRESS);
    end_one_and_expect(50, DEEP_US, SIGKILL, CUDA_ERROR_ILLEGAL_ADDRESS);
    end_one_and_expect(50, DEEP_US, SIGTERM, CUDA_ERROR_ILLEGAL_ADDRESS);
}

static void terminate_client_makes_kill_harmless(void **state)
{
    (void)state;
    start_daemon();
    struct pair pair = start_pair();
    party_order(&pair.guilty, PARTY_QUEUE, 200, DEEP_US);
    char command[128];
    snprintf(command, sizeof(command), "terminate_client %d %d", (int)party_server(),
             (int)pair.guilty.pid);
    expect(command, "0\n");
    assert_int_equal(party_error(&pair.guilty), CUDA_ERROR_MPS_CLIENT_TERMINATED);
    expect_of_server("get_server_status", "", "ACTIVE\n");
    party_end(&pair.guilty, SIGKILL);
    assert_true(party_makes_progress(&pair.neighbour));
    party_end(&pair.neighbour, SIGKILL);
}

static void crashed_server_loses_clients(void **state)
{
    (void)state;
    start_daemon();
    struct pair pair = start_pair();
    /* One client sleeps in a long wait when the server crashes. */
    party_order(&pair.neighbour, PARTY_QUEUE, 1, 20 * 1000 * 1000);
    pid_t server = party_server();
    party_fault("mps-server-crash", NULL);
    assert_int_equal(party_error(&pair.guilty), CUDA_ERROR_MPS_RPC_FAILURE);
    assert_int_equal(party_error(&pair.neighbour), CUDA_ERROR_MPS_RPC_FAILURE);
    expect("get_server_list", "");
    struct party_client next = party_start(&api, STEP_US, 0);
    assert_int_equal(party_opened(&next), CUDA_SUCCESS);
    assert_true(party_makes_progress(&next));
    assert_true(party_server() != 0 && party_server() != server);
    party_end(&next, SIGKILL);
    party_end(&pair.guilty, SIGKILL);
    party_end(&pair.neighbour, SIGKILL);
}

static void crashed_daemon_ends_server(void **state)
{
    (void)state;
    char output[256];
    start_daemon();
    struct pair pair = start_pair();
    party_fault("mps-control-crash", NULL);
    assert_int_equal(party_error(&pair.guilty), CUDA_ERROR_MPS_RPC_FAILURE);
    assert_int_equal(party_error(&pair.neighbour), CUDA_ERROR_MPS_RPC_FAILURE);
    assert_int_equal(party_control("get_server_list", output, sizeof(output)), 1);
    /* Without a daemon programs run without MPS. */
    struct party_client alone = party_start(&api, STEP_US, 0);
    assert_int_equal(party_opened(&alone), CUDA_SUCCESS);
    assert_true(party_makes_progress(&alone));
    start_daemon();
    expect("get_server_list", "");
    assert_true(party_makes_progress(&alone));
    party_end(&alone, SIGKILL);
    party_end(&pair.guilty, SIGKILL);
    party_end(&pair.neighbour, SIGKILL);
}

static void hanging_daemon_delays_new_clients(void **state)
{
    (void)state;
    start_daemon();
    struct party_client before = party_start(&api, STEP_US, 0);
    assert_int_equal(party_opened(&before), CUDA_SUCCESS);
    party_fault("mps-control-hang", NULL);
    struct party_client during = party_start(&api, STEP_US, 0);
    assert_true(party_makes_progress(&before));
    usleep(200000);
    assert_int_equal(during.report->opened, PARTY_NOT_YET);
    party_fault("mps-control-resume", NULL);
    assert_int_equal(party_opened(&during), CUDA_SUCCESS);
    party_fault("mps-server-hang", NULL);
    struct party_client later = party_start(&api, STEP_US, 0);
    assert_true(party_makes_progress(&before));
    usleep(200000);
    assert_int_equal(later.report->opened, PARTY_NOT_YET);
    party_fault("mps-server-resume", NULL);
    assert_int_equal(party_opened(&later), CUDA_SUCCESS);
    party_end(&before, SIGKILL);
    party_end(&during, SIGKILL);
    party_end(&later, SIGKILL);
}

static pid_t pid_of_daemon(void)
{
    char path[256];
    int pid = 0;
    snprintf(path, sizeof(path), "%s/nvidia-cuda-mps-control.pid",
             getenv("CUDA_MPS_PIPE_DIRECTORY"));
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%d", &pid), 1);
    fclose(file);
    return pid;
}

static int64_t cpu_ms(pid_t pid)
{
    clockid_t clock;
    struct timespec used;
    assert_int_equal(clock_getcpuclockid(pid, &clock), 0);
    assert_int_equal(clock_gettime(clock, &used), 0);
    return used.tv_sec * 1000 + used.tv_nsec / 1000000;
}

/* A client that the daemon cannot accept waits, and costs the daemon no time. */
static void daemon_without_descriptors_stays_idle(void **state)
{
    /* Enough for poll, whose limit is the number of polled descriptors, but not for a client. */
    enum { REST_MS = 300, FILES = 3 };
    struct rlimit before;
    (void)state;
    start_daemon();
    pid_t daemon = pid_of_daemon();
    assert_int_equal(prlimit(daemon, RLIMIT_NOFILE, NULL, &before), 0);
    const struct rlimit few = {.rlim_cur = FILES, .rlim_max = before.rlim_max};
    assert_int_equal(prlimit(daemon, RLIMIT_NOFILE, &few, NULL), 0);
    struct party_client client = party_start(&api, STEP_US, 0);
    usleep(REST_MS * 1000);
    int64_t since_ms = cpu_ms(daemon);
    usleep(REST_MS * 1000);
    assert_true(cpu_ms(daemon) - since_ms < REST_MS / 3);
    assert_int_equal(client.report->opened, PARTY_NOT_YET);
    assert_int_equal(prlimit(daemon, RLIMIT_NOFILE, &before, NULL), 0);
    assert_int_equal(party_opened(&client), CUDA_SUCCESS);
    party_end(&client, SIGKILL);
}

static void quit_waits_for_clients_until_timeout(void **state)
{
    (void)state;
    char output[256];
    start_daemon();
    struct party_client client = party_start(&api, STEP_US, 0);
    assert_int_equal(party_opened(&client), CUDA_SUCCESS);
    expect("quit -t 1", "");
    assert_int_equal(party_error(&client), CUDA_ERROR_MPS_RPC_FAILURE);
    assert_int_equal(party_control("get_server_list", output, sizeof(output)), 1);
    party_end(&client, SIGKILL);
    start_daemon();
    client = party_start(&api, STEP_US, 0);
    assert_int_equal(party_opened(&client), CUDA_SUCCESS);
    party_end(&client, SIGKILL);
    expect("quit", "");
}

static void users_alternate_unless_multiuser_server_runs(void **state)
{
    (void)state;
    enum { NOBODY = 65534 };
    static const char *const multiuser[] = {"-d", "-multiuser-server", NULL};
    char output[256];
    if (getuid() != 0) {
        print_message("skipped: two users, which only root can be\n");
        return;
    }
    driver_api_share_devices();
    chmod(getenv("CUDA_MPS_PIPE_DIRECTORY"), 0777);
    party_stage_programs();
    start_daemon();
    struct party_client first = party_start(&api, STEP_US, 0);
    assert_int_equal(party_opened(&first), CUDA_SUCCESS);
    pid_t server = party_server();
    struct party_client other = party_start_as(&api, NOBODY, STEP_US, 0);
    assert_true(party_makes_progress(&first));
    usleep(200000);
    assert_int_equal(other.report->opened, PARTY_NOT_YET);
    party_end(&first, SIGKILL);
    assert_int_equal(party_opened(&other), CUDA_SUCCESS);
    assert_true(party_server() != server);
    party_end(&other, SIGKILL);
    expect("quit", "");
    assert_int_equal(
        party_program("nvidia-cuda-mps-control", multiuser, NULL, output, sizeof(output)), 0);
    first = party_start(&api, STEP_US, 0);
    other = party_start_as(&api, NOBODY, STEP_US, 0);
    assert_int_equal(party_opened(&first), CUDA_SUCCESS);
    assert_int_equal(party_opened(&other), CUDA_SUCCESS);
    assert_true(party_makes_progress(&first) && party_makes_progress(&other));
    party_end(&first, SIGKILL);
    party_end(&other, SIGKILL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
        TEST(daemon_answers_match_real_daemon),
        TEST(client_limits_combine_server_and_environment),
        TEST(clients_beyond_48_are_refused),
        TEST(illegal_address_ends_all_mps_clients),
        TEST(illegal_address_without_mps_spares_neighbours),
        TEST(kill_with_deep_queue_ends_neighbours),
        TEST(terminate_client_makes_kill_harmless),
        TEST(crashed_server_loses_clients),
        TEST(crashed_daemon_ends_server),
        TEST(hanging_daemon_delays_new_clients),
        TEST(daemon_without_descriptors_stays_idle),
        TEST(quit_waits_for_clients_until_timeout),
        TEST(users_alternate_unless_multiuser_server_runs),
#undef TEST
    };
    driver_api_load(&api);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
