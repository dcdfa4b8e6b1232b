#include "bench/replay.h"

#include <assert.h>
#include <stdbool.h>

#include "contention/contention.h"

struct replay {
    struct contention_device device;
    struct contention_kernel kernels[REPLAY_CLIENTS_MAX];
    size_t count; /* number of kernels */
    uint64_t now_ns;
};

/* Returns when the client's next kernel is queued; CONTENTION_NEVER without any. */
static uint64_t next_ns(const struct replay_client *client)
{
    if (!client->due_ns)
        return client->kernels_done * client->launch_ns;
    uint64_t request = client->kernels_done / client->kernel_count;
    return request < client->due_count ? client->due_ns[request] : CONTENTION_NEVER;
}

static void start(struct replay *replay, struct replay_client *client, uint32_t number)
{
    const struct replay_kernel *kernel =
        &client->kernels[client->kernels_done % client->kernel_count];
    contention_kernel_init(&replay->kernels[replay->count++],
                           &(struct contention_launch){
                               .tag = number,
                               .duration_ns = kernel->duration_ns,
                               .block_ns = kernel->block_ns,
                               .party = client->party,
                               .client = number,
                               .sm_permille = kernel->sm_permille,
                               .dram_permille = kernel->dram_permille,
                               .share_permille = client->share_permille,
                               .priority = client->priority,
                           });
    client->is_running = true;
}

/* Starts kernels that can start. Returns when the next one can. */
static uint64_t admit(struct replay *replay, struct replay_client *clients, size_t count)
{
    uint64_t arrival_ns = CONTENTION_NEVER;
    for (uint32_t i = 0; i < count; i++) {
        struct replay_client *client = &clients[i];
        if (client->is_running)
            continue;
        uint64_t ns = next_ns(client);
        if (ns <= replay->now_ns)
            start(replay, client, i);
        else if (ns < arrival_ns)
            arrival_ns = ns;
    }
    return arrival_ns;
}

static void finish(const struct replay *replay, struct replay_client *client)
{
    client->is_running = false;
    client->end_ns = replay->now_ns;
    uint64_t request = client->kernels_done++ / client->kernel_count;
    if (client->due_ns && client->latency_ns && client->kernels_done % client->kernel_count == 0)
        client->latency_ns[request] = replay->now_ns - client->due_ns[request];
}

void replay_run(struct replay_client *clients, size_t count, uint64_t until_ns)
{
    assert(count <= REPLAY_CLIENTS_MAX);
    struct replay replay = {.count = 0};
    contention_init(&replay.device);
    while (replay.now_ns < until_ns) {
        uint64_t arrival_ns = admit(&replay, clients, count);
        uint64_t ns = contention_plan(&replay.device, replay.kernels, replay.count);
        uint64_t limit_ns = arrival_ns < until_ns ? arrival_ns : until_ns;
        if (replay.count == 0 && arrival_ns == CONTENTION_NEVER)
            break;
        if (ns > limit_ns - replay.now_ns)
            ns = limit_ns - replay.now_ns;
        contention_elapse(&replay.device, replay.kernels, replay.count, ns);
        replay.now_ns += ns;
        size_t kept = 0;
        for (size_t i = 0; i < replay.count; i++) {
            if (replay.kernels[i].work == 0)
                finish(&replay, &clients[replay.kernels[i].tag]);
            else
                replay.kernels[kept++] = replay.kernels[i];
        }
        replay.count = kept;
    }
}
