#include <sys/mman.h>

#include "shim/memory/graphs.h"
#include "shim/hook/capture.h"
#include "shim/memory/grants.h"
#include "shim/sys/fault_point.h"

enum {
    MEMORY_USED = 0,
    MEMORY_RESERVED = 2,
    NODE_GRAPH = 4,
    NODE_ALLOCATE = 10,
    NODE_FREE = 11,
    LOCATION_DEVICE = 1,
    NODES_MAX = 1 << 24, /* nodes of one graph; a larger graph is counted only after its launch */
    DEPTH_MAX = 8,
};

/* ---- the needs of a graph ---- */

struct need {
    uint64_t all, now, peak; /* bytes */
    CUdevice device;
};

struct survey {
    struct need needs[PAGE_DEVICES_MAX];
    uint32_t devices;          /* bit i: needs[i] is not empty */
    struct allocations pieces; /* by address, until a node frees them */
};

static void note_allocation(struct process *p, struct survey *survey, CUgraphNode node)
{
    CUDA_MEM_ALLOC_NODE_PARAMS wanted;
    if (p->calls.real.cuGraphMemAllocNodeGetParams(node, &wanted) != CUDA_SUCCESS ||
        wanted.poolProps.location.type != LOCATION_DEVICE)
        return;
    int device = devices_index(p, wanted.poolProps.location.id);
    uint64_t bytes = quota_charged(wanted.bytesize);
    if (device < 0)
        return;
    struct need *need = &survey->needs[device];
    const struct allocation piece = {.address = wanted.dptr, .bytes = bytes, .device = device};
    if (__builtin_add_overflow(need->all, bytes, &need->all))
        need->all = UINT64_MAX;
    if (__builtin_add_overflow(need->now, bytes, &need->now))
        need->now = UINT64_MAX;
    need->peak = need->now > need->peak ? need->now : need->peak;
    need->device = wanted.poolProps.location.id;
    survey->devices |= UINT32_C(1) << device;
    /* On failure the piece counts as never freed: an upper bound. */
    (void)allocations_add(&survey->pieces, &piece);
}

static void note_free(struct process *p, struct survey *survey, CUgraphNode node)
{
    CUdeviceptr address = 0;
    struct allocation piece;
    if (p->calls.real.cuGraphMemFreeNodeGetParams(node, &address) == CUDA_SUCCESS &&
        allocations_take(&survey->pieces, address, &piece))
        survey->needs[piece.device].now -= piece.bytes;
}

static void look_at(struct process *p, struct survey *survey, CUgraph graph, int depth)
{
    size_t count = 0;
    CUgraph child;
    CUgraphNodeType type;
    if (p->calls.real.cuGraphGetNodes(graph, NULL, &count) != CUDA_SUCCESS || count == 0 ||
        count > NODES_MAX)
        return;
    const size_t bytes = count * sizeof(CUgraphNode);
    CUgraphNode *nodes = sys_mmap(bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
    if (!nodes)
        return;
    CUresult r = p->calls.real.cuGraphGetNodes(graph, nodes, &count);
    for (size_t i = 0; r == CUDA_SUCCESS && i < count && nodes[i]; i++) {
        if (p->calls.real.cuGraphNodeGetType(nodes[i], &type) != CUDA_SUCCESS)
            continue;
        if (type == NODE_ALLOCATE)
            note_allocation(p, survey, nodes[i]);
        else if (type == NODE_FREE)
            note_free(p, survey, nodes[i]);
        else if (type == NODE_GRAPH && depth < DEPTH_MAX &&
                 p->calls.real.cuGraphChildGraphNodeGetGraph(nodes[i], &child) == CUDA_SUCCESS)
            look_at(p, survey, child, depth + 1);
    }
    (void)sys_munmap(nodes, bytes);
}

static uint64_t key_of(CUgraphExec graph, int device)
{
    return (uint64_t)(uintptr_t)graph + (uint64_t)device;
}

/* Records the needs of a graph after the driver has instantiated it. */
static CUresult note_graph(struct process *p, CUresult r, CUgraphExec *made, CUgraph graph)
{
    struct survey survey = {0};
    if (r != CUDA_SUCCESS || !made || !process_is_ready(p))
        return r;
    look_at(p, &survey, graph, 0);
    for (int i = 0; i < PAGE_DEVICES_MAX; i++) {
        const struct need *need = &survey.needs[i];
        const struct allocation kept = {
            .address = key_of(*made, i), .bytes = need->all, .value = need->peak, .device = i};
        if (!(survey.devices & UINT32_C(1) << i))
            continue;
        if (!allocations_add(&p->graphs.needs, &kept))
            process_count(p, STATUS_allocations_uncounted, 1);
        p->graphs.on[i].device = need->device;
    }
    atomic_fetch_or(&p->graphs.devices, survey.devices);
    allocations_reset(&survey.pieces);
    (void)graphs_settle(p);
    return r;
}

/* ---- the memory that pools hold ---- */

static bool read_device(struct process *p, const struct graphs_device *on,
                        CUgraphMem_attribute attribute, uint64_t *ret_bytes)
{
    uint64_t bytes = 0;
    if (p->calls.real.cuDeviceGetGraphMemAttribute(on->device, attribute, &bytes) != CUDA_SUCCESS)
        return false;
    *ret_bytes = bytes;
    return true;
}

/* Sets the ledger to the bytes that the driver reports, under the device's lock. `extra` is
 * reserved besides. */
static void commit(struct process *p, int device, uint64_t extra)
{
    struct graphs_device *on = &p->graphs.on[device];
    uint64_t before = atomic_load(&on->counted_bytes) + extra, now;
    if (!read_device(p, on, MEMORY_RESERVED, &now))
        now = before;
    FAULT_POINT();
    if (now > before) {
        quota_force(&p->client, device, now - before);
        process_count(p, STATUS_uncounted_bytes, now - before);
    } else {
        quota_release(&p->client, device, before - now);
    }
    atomic_store(&on->counted_bytes, now);
}

static bool is_used(const struct graphs *graphs, int device)
{
    return device >= 0 &&
           atomic_load_explicit(&graphs->devices, memory_order_relaxed) & UINT32_C(1) << device;
}

/* If the lock is taken, a launch is under way and may be delayed for long; it counts at its end. */
bool graphs_settle(struct process *p)
{
    bool is_any = false;
    for (int i = 0; i < PAGE_DEVICES_MAX && atomic_load(&p->graphs.devices); i++) {
        if (!is_used(&p->graphs, i))
            continue;
        is_any = true;
        if (!lock_try(&p->graphs.on[i].lock))
            continue;
        commit(p, i, 0);
        lock_release(&p->graphs.on[i].lock);
    }
    return is_any;
}

/* Call under the device's lock. */
static void trim(struct process *p, int device)
{
    CUstreamCaptureMode mode = capture_relax(p);
    (void)p->calls.real.cuDeviceGraphMemTrim(p->graphs.on[device].device);
    capture_restore(p, mode);
    commit(p, device, 0);
}

bool graphs_let_go(struct process *p, int device)
{
    if (!is_used(&p->graphs, device) || !lock_try(&p->graphs.on[device].lock))
        return false;
    trim(p, device);
    lock_release(&p->graphs.on[device].lock);
    return true;
}

void graphs_reset(struct graphs *graphs)
{
    allocations_reset(&graphs->needs);
    *graphs = (struct graphs){0};
}

/* ---- launches ---- */

/* Reserves a launch's needs, under the device's lock. If all allocations together do not fit, their
 * largest sum at one time may. */
static bool reserve(struct process *p, int device, const struct allocation *need,
                    uint64_t *ret_reserved)
{
    const struct graphs_device *on = &p->graphs.on[device];
    const uint64_t wanted[] = {need->bytes, need->value, need->bytes, need->value};
    uint64_t used = 0, reserved = 0;
    for (int i = 0; i < 4; i++) {
        if (i == 2) {
            (void)pools_let_go(p, device);
            trim(p, device);
        }
        (void)(read_device(p, on, MEMORY_USED, &used) &&
               read_device(p, on, MEMORY_RESERVED, &reserved));
        *ret_reserved = pools_needed(used, reserved, wanted[i]);
        if (*ret_reserved == 0 || quota_reserve(&p->client, device, *ret_reserved))
            return true;
    }
    return false;
}

bool graphs_begin(struct process *p, CUgraphExec graph, struct graphs_ticket *ret_ticket)
{
    struct allocation need;
    ret_ticket->devices = 0;
    if (atomic_load_explicit(&p->graphs.devices, memory_order_relaxed) == 0)
        return true;
    for (int i = 0; i < PAGE_DEVICES_MAX; i++) {
        if (!is_used(&p->graphs, i) || !allocations_find(&p->graphs.needs, key_of(graph, i), &need))
            continue;
        if (!lock_enter(&p->graphs.on[i].lock))
            continue; /* a signal handler in a launch, whose end counts for both */
        if (!reserve(p, i, &need, &ret_ticket->reserved_bytes[i])) {
            lock_release(&p->graphs.on[i].lock);
            graphs_end(p, ret_ticket);
            process_count(p, STATUS_out_of_memory, 1);
            return false;
        }
        ret_ticket->devices |= UINT32_C(1) << i;
    }
    return true;
}

void graphs_end(struct process *p, const struct graphs_ticket *ticket)
{
    FAULT_POINT();
    for (int i = 0; ticket->devices && i < PAGE_DEVICES_MAX; i++) {
        if (!(ticket->devices & UINT32_C(1) << i))
            continue;
        commit(p, i, ticket->reserved_bytes[i]);
        lock_release(&p->graphs.on[i].lock);
    }
}

CUresult hook_cuGraphUpload(CUgraphExec graph, CUstream stream)
{
    struct process *p = process_enter();
    struct graphs_ticket memory;
    if (!process_is_ready(p))
        return p->calls.real.cuGraphUpload(graph, stream);
    if (!graphs_begin(p, graph, &memory))
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult r = p->calls.real.cuGraphUpload(graph, stream);
    graphs_end(p, &memory);
    return r;
}

CUresult hook_cuGraphUpload_ptsz(CUgraphExec graph, CUstream stream)
{
    struct process *p = process_enter();
    struct graphs_ticket memory;
    if (!process_is_ready(p))
        return p->calls.real.cuGraphUpload_ptsz(graph, stream);
    if (!graphs_begin(p, graph, &memory))
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult r = p->calls.real.cuGraphUpload_ptsz(graph, stream);
    graphs_end(p, &memory);
    return r;
}

/* ---- instantiated graphs ---- */

CUresult hook_cuGraphInstantiate(CUgraphExec *ret_graph, CUgraph graph, CUgraphNode *ret_node,
                                 char *log, size_t log_bytes)
{
    struct process *p = process_enter();
    CUresult r = p->calls.real.cuGraphInstantiate(ret_graph, graph, ret_node, log, log_bytes);
    return note_graph(p, r, ret_graph, graph);
}

CUresult hook_cuGraphInstantiate_v2(CUgraphExec *ret_graph, CUgraph graph, CUgraphNode *ret_node,
                                    char *log, size_t log_bytes)
{
    struct process *p = process_enter();
    CUresult r = p->calls.real.cuGraphInstantiate_v2(ret_graph, graph, ret_node, log, log_bytes);
    return note_graph(p, r, ret_graph, graph);
}

CUresult hook_cuGraphInstantiateWithFlags(CUgraphExec *ret_graph, CUgraph graph,
                                          unsigned long long flags)
{
    struct process *p = process_enter();
    CUresult r = p->calls.real.cuGraphInstantiateWithFlags(ret_graph, graph, flags);
    return note_graph(p, r, ret_graph, graph);
}

CUresult hook_cuGraphInstantiateWithParams(CUgraphExec *ret_graph, CUgraph graph,
                                           CUDA_GRAPH_INSTANTIATE_PARAMS *parameters)
{
    struct process *p = process_enter();
    CUresult r = p->calls.real.cuGraphInstantiateWithParams(ret_graph, graph, parameters);
    return note_graph(p, r, ret_graph, graph);
}

CUresult hook_cuGraphInstantiateWithParams_ptsz(CUgraphExec *ret_graph, CUgraph graph,
                                                CUDA_GRAPH_INSTANTIATE_PARAMS *parameters)
{
    struct process *p = process_enter();
    CUresult r = p->calls.real.cuGraphInstantiateWithParams_ptsz(ret_graph, graph, parameters);
    return note_graph(p, r, ret_graph, graph);
}

CUresult hook_cuGraphExecDestroy(CUgraphExec graph)
{
    struct process *p = process_enter();
    struct allocation need;
    bool is_ready = process_is_ready(p) && atomic_load(&p->graphs.devices);
    for (int i = 0; is_ready && i < PAGE_DEVICES_MAX; i++)
        (void)allocations_take(&p->graphs.needs, key_of(graph, i), &need);
    const struct cost_launch launch = {.function = graph, .is_graph = true};
    if (process_is_ready(p))
        cost_forget(&p->launch->costs, cost_key(&launch));
    CUresult r = p->calls.real.cuGraphExecDestroy(graph);
    if (is_ready)
        (void)graphs_settle(p);
    return r;
}

CUresult hook_cuDeviceGraphMemTrim(CUdevice device)
{
    struct process *p = process_enter();
    CUresult r = p->calls.real.cuDeviceGraphMemTrim(device);
    if (r == CUDA_SUCCESS && process_is_ready(p))
        (void)graphs_settle(p);
    return r;
}
