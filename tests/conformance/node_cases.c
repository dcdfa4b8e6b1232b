/* Graphs made node by node, and graphs instantiated from them. */
#include <stdatomic.h>
#include <string.h>

#include "conformance.h"

enum { BYTES = 4096, EDGES_MAX = 8 };

static void count_call(void *argument)
{
    ++*(_Atomic int *)argument;
}

static void count_two(void *argument)
{
    *(_Atomic int *)argument += 2;
}

/* The kernel of every case, with parameters that live as long as the process. */
static CUDA_KERNEL_NODE_PARAMS short_kernel(struct conformance *t)
{
    static uint32_t sm_permille = 10, dram_permille = 0;
    static uint64_t duration_ns = 1000;
    static void *parameters[] = {&sm_permille, &dram_permille, &duration_ns};
    return (CUDA_KERNEL_NODE_PARAMS){t->function, 1, 1,          1,    32,   1,
                                     1,           0, parameters, NULL, NULL, NULL};
}

static CUDA_MEMCPY3D copy_down(void *to, uint64_t from, size_t bytes)
{
    return (CUDA_MEMCPY3D){
        .srcMemoryType = CUDA_MEMORY_DEVICE,
        .srcDevice = from,
        .dstMemoryType = CUDA_MEMORY_HOST,
        .dstHost = to,
        .WidthInBytes = bytes,
        .Height = 1,
        .Depth = 1,
    };
}

static void check_kernel_node(struct conformance *t, void *graph, void *node)
{
    CUDA_KERNEL_NODE_PARAMS kernel = short_kernel(t), found = {0};
    void *other = NULL;
    EXPECT(t, cuGraphAddKernelNode, CUDA_SUCCESS, (&other, graph, &node, 1, &kernel));
    EXPECT(t, cuGraphAddKernelNode, CUDA_ERROR_INVALID_VALUE, (&other, NULL, NULL, 0, &kernel));
    EXPECT(t, cuGraphAddKernelNode_v2, CUDA_ERROR_INVALID_VALUE, (&other, graph, NULL, 0, NULL));
    EXPECT(t, cuGraphKernelNodeGetParams_v2, CUDA_SUCCESS, (node, &found));
    CHECK(t, cuGraphKernelNodeGetParams_v2, found.blockDimX == 32 && found.gridDimX == 1);
    CHECK(t, cuGraphKernelNodeGetParams_v2,
          found.kernelParams && *(uint64_t *)found.kernelParams[2] == 1000);
    EXPECT(t, cuGraphKernelNodeGetParams_v2, CUDA_ERROR_INVALID_VALUE, (node, NULL));
    kernel.blockDimX = 64;
    EXPECT(t, cuGraphKernelNodeSetParams_v2, CUDA_SUCCESS, (node, &kernel));
    EXPECT(t, cuGraphKernelNodeSetParams_v2, CUDA_ERROR_INVALID_VALUE, (node, NULL));
    EXPECT(t, cuGraphKernelNodeGetParams, CUDA_SUCCESS, (node, &found));
    CHECK(t, cuGraphKernelNodeSetParams_v2, found.blockDimX == 64);
    EXPECT(t, cuGraphKernelNodeGetParams, CUDA_ERROR_INVALID_VALUE, (NULL, &found));
    kernel.blockDimX = 32;
    EXPECT(t, cuGraphKernelNodeSetParams, CUDA_SUCCESS, (node, &kernel));
    EXPECT(t, cuGraphKernelNodeSetParams, CUDA_ERROR_INVALID_VALUE, (NULL, &kernel));
    EXPECT(t, cuGraphDestroyNode, CUDA_SUCCESS, (other));
    EXPECT(t, cuGraphDestroyNode, CUDA_ERROR_INVALID_VALUE, (NULL));
}

static void check_parameters(struct conformance *t, void *copy_node, void *fill_node,
                             void *host_node)
{
    CUDA_MEMCPY3D copy = {0};
    CUDA_MEMSET_NODE_PARAMS fill = {0};
    CUDA_HOST_NODE_PARAMS host = {0};
    EXPECT(t, cuGraphMemcpyNodeGetParams, CUDA_SUCCESS, (copy_node, &copy));
    CHECK(t, cuGraphMemcpyNodeGetParams, copy.WidthInBytes == BYTES && copy.srcDevice != 0);
    EXPECT(t, cuGraphMemcpyNodeGetParams, CUDA_ERROR_INVALID_VALUE, (copy_node, NULL));
    EXPECT(t, cuGraphMemcpyNodeSetParams, CUDA_SUCCESS, (copy_node, &copy));
    EXPECT(t, cuGraphMemcpyNodeSetParams, CUDA_ERROR_INVALID_VALUE, (copy_node, NULL));
    EXPECT(t, cuGraphMemsetNodeGetParams, CUDA_SUCCESS, (fill_node, &fill));
    CHECK(t, cuGraphMemsetNodeGetParams, fill.value == 7 && fill.width == BYTES);
    EXPECT(t, cuGraphMemsetNodeGetParams, CUDA_ERROR_INVALID_VALUE, (NULL, &fill));
    fill.value = 8;
    EXPECT(t, cuGraphMemsetNodeSetParams, CUDA_SUCCESS, (fill_node, &fill));
    EXPECT(t, cuGraphMemsetNodeSetParams, CUDA_ERROR_INVALID_VALUE, (fill_node, NULL));
    EXPECT(t, cuGraphHostNodeGetParams, CUDA_SUCCESS, (host_node, &host));
    CHECK(t, cuGraphHostNodeGetParams, host.fn == count_call);
    EXPECT(t, cuGraphHostNodeGetParams, CUDA_ERROR_INVALID_VALUE, (NULL, &host));
    EXPECT(t, cuGraphHostNodeSetParams, CUDA_SUCCESS, (host_node, &host));
    EXPECT(t, cuGraphHostNodeSetParams, CUDA_ERROR_INVALID_VALUE, (host_node, NULL));
}

/* The nodes form a chain: kernel, fill, copy, host. */
static void check_shape(struct conformance *t, void *graph, void **nodes)
{
    void *found[EDGES_MAX] = {0}, *to[EDGES_MAX] = {0};
    CUgraphEdgeData data[EDGES_MAX] = {{0}};
    size_t count = 0;
    int type = -1;
    EXPECT(t, cuGraphGetNodes, CUDA_SUCCESS, (graph, NULL, &count));
    CHECK(t, cuGraphGetNodes, count == 4);
    EXPECT(t, cuGraphGetNodes, CUDA_SUCCESS, (graph, found, &count));
    CHECK(t, cuGraphGetNodes, count == 4 && found[0] != NULL);
    count = EDGES_MAX;
    EXPECT(t, cuGraphGetRootNodes, CUDA_SUCCESS, (graph, found, &count));
    CHECK(t, cuGraphGetRootNodes, count == 1 && found[0] == nodes[0] && found[1] == NULL);
    EXPECT(t, cuGraphGetRootNodes, CUDA_ERROR_INVALID_VALUE, (NULL, found, &count));
    EXPECT(t, cuGraphGetEdges, CUDA_SUCCESS, (graph, NULL, NULL, &count));
    CHECK(t, cuGraphGetEdges, count == 3);
    EXPECT(t, cuGraphGetEdges, CUDA_ERROR_INVALID_VALUE, (NULL, NULL, NULL, &count));
    EXPECT(t, cuGraphGetEdges_v2, CUDA_SUCCESS, (graph, found, to, data, &count));
    CHECK(t, cuGraphGetEdges_v2, count == 3 && data[0].type == 0);
    EXPECT(t, cuGraphGetEdges_v2, CUDA_ERROR_INVALID_VALUE, (NULL, NULL, NULL, NULL, &count));
    count = EDGES_MAX;
    EXPECT(t, cuGraphNodeGetDependencies, CUDA_SUCCESS, (nodes[2], found, &count));
    CHECK(t, cuGraphNodeGetDependencies, count == 1 && found[0] == nodes[1]);
    EXPECT(t, cuGraphNodeGetDependencies, CUDA_ERROR_INVALID_VALUE, (NULL, found, &count));
    EXPECT(t, cuGraphNodeGetDependencies_v2, CUDA_SUCCESS, (nodes[2], NULL, NULL, &count));
    CHECK(t, cuGraphNodeGetDependencies_v2, count == 1);
    EXPECT(t, cuGraphNodeGetDependencies_v2, CUDA_ERROR_INVALID_VALUE, (NULL, NULL, NULL, &count));
    count = EDGES_MAX;
    EXPECT(t, cuGraphNodeGetDependentNodes, CUDA_SUCCESS, (nodes[0], found, &count));
    CHECK(t, cuGraphNodeGetDependentNodes, count == 1 && found[0] == nodes[1]);
    EXPECT(t, cuGraphNodeGetDependentNodes, CUDA_ERROR_INVALID_VALUE, (NULL, found, &count));
    EXPECT(t, cuGraphNodeGetDependentNodes_v2, CUDA_SUCCESS, (nodes[3], NULL, NULL, &count));
    CHECK(t, cuGraphNodeGetDependentNodes_v2, count == 0);
    EXPECT(t, cuGraphNodeGetDependentNodes_v2, CUDA_ERROR_INVALID_VALUE,
           (NULL, NULL, NULL, &count));
    EXPECT(t, cuGraphNodeGetType, CUDA_SUCCESS, (nodes[1], &type));
    CHECK(t, cuGraphNodeGetType, type == CUDA_NODE_FILL);
    EXPECT(t, cuGraphNodeGetType, CUDA_ERROR_INVALID_VALUE, (NULL, &type));
}

static void check_edges(struct conformance *t, void *graph, void **nodes)
{
    EXPECT(t, cuGraphAddDependencies, CUDA_SUCCESS, (graph, &nodes[0], &nodes[3], 1));
    EXPECT(t, cuGraphAddDependencies, CUDA_ERROR_INVALID_VALUE, (graph, &nodes[0], &nodes[3], 1));
    EXPECT(t, cuGraphRemoveDependencies, CUDA_SUCCESS, (graph, &nodes[0], &nodes[3], 1));
    EXPECT(t, cuGraphRemoveDependencies, CUDA_ERROR_INVALID_VALUE,
           (graph, &nodes[0], &nodes[3], 1));
    EXPECT(t, cuGraphAddDependencies_v2, CUDA_SUCCESS, (graph, &nodes[0], &nodes[3], NULL, 1));
    EXPECT(t, cuGraphAddDependencies_v2, CUDA_ERROR_INVALID_VALUE,
           (graph, &nodes[0], &nodes[3], NULL, 1));
    EXPECT(t, cuGraphRemoveDependencies_v2, CUDA_SUCCESS, (graph, &nodes[0], &nodes[3], NULL, 1));
    EXPECT(t, cuGraphRemoveDependencies_v2, CUDA_ERROR_INVALID_VALUE,
           (graph, &nodes[0], &nodes[3], NULL, 1));
}

/* A clone has nodes of its own, and outlives the graph. */
static void *check_clone(struct conformance *t, void *graph, void **nodes)
{
    void *clone = NULL, *found = NULL;
    size_t count = 0;
    EXPECT(t, cuGraphClone, CUDA_SUCCESS, (&clone, graph));
    EXPECT(t, cuGraphClone, CUDA_ERROR_INVALID_VALUE, (&found, NULL));
    EXPECT(t, cuGraphNodeFindInClone, CUDA_SUCCESS, (&found, nodes[1], clone));
    CHECK(t, cuGraphNodeFindInClone, found && found != nodes[1]);
    EXPECT(t, cuGraphNodeFindInClone, CUDA_ERROR_INVALID_VALUE, (&found, nodes[1], NULL));
    EXPECT(t, cuGraphGetNodes, CUDA_SUCCESS, (clone, NULL, &count));
    CHECK(t, cuGraphClone, count == 4);
    return clone;
}

static void run(struct conformance *t, void *exec)
{
    EXPECT(t, cuGraphLaunch, CUDA_SUCCESS, (exec, NULL));
    EXPECT(t, cuCtxSynchronize, CUDA_SUCCESS, ());
}

void case_graph_nodes_run_in_order(struct conformance *t)
{
    static _Atomic int calls;
    unsigned char to[BYTES] = {0};
    void *graph = NULL, *nodes[4] = {0}, *exec = NULL, *none = NULL;
    uint64_t device = 0;
    conformance_open_device(t);
    CUDA_KERNEL_NODE_PARAMS kernel = short_kernel(t);
    EXPECT(t, cuMemAlloc_v2, CUDA_SUCCESS, (&device, BYTES));
    const CUDA_MEMSET_NODE_PARAMS fill = {device, 0, 7, 1, BYTES, 1};
    const CUDA_MEMCPY3D copy = copy_down(to, device, BYTES);
    const CUDA_HOST_NODE_PARAMS host = {count_call, &calls};
    EXPECT(t, cuGraphCreate, CUDA_SUCCESS, (&graph, 0));
    EXPECT(t, cuGraphCreate, CUDA_ERROR_INVALID_VALUE, (&none, 5));
    EXPECT(t, cuGraphAddKernelNode_v2, CUDA_SUCCESS, (&nodes[0], graph, NULL, 0, &kernel));
    EXPECT(t, cuGraphAddMemsetNode, CUDA_SUCCESS,
           (&nodes[1], graph, &nodes[0], 1, &fill, t->context));
    EXPECT(t, cuGraphAddMemsetNode, CUDA_ERROR_INVALID_VALUE,
           (&none, graph, NULL, 0, NULL, t->context));
    EXPECT(t, cuGraphAddMemcpyNode, CUDA_SUCCESS,
           (&nodes[2], graph, &nodes[1], 1, &copy, t->context));
    EXPECT(t, cuGraphAddMemcpyNode, CUDA_ERROR_INVALID_VALUE,
           (&none, graph, NULL, 0, NULL, t->context));
    EXPECT(t, cuGraphAddHostNode, CUDA_SUCCESS, (&nodes[3], graph, &nodes[2], 1, &host));
    EXPECT(t, cuGraphAddHostNode, CUDA_ERROR_INVALID_VALUE, (&none, graph, NULL, 0, NULL));
    check_kernel_node(t, graph, nodes[0]);
    check_parameters(t, nodes[2], nodes[1], nodes[3]);
    check_shape(t, graph, nodes);
    check_edges(t, graph, nodes);
    void *clone = check_clone(t, graph, nodes);
    EXPECT(t, cuGraphInstantiateWithFlags, CUDA_SUCCESS, (&exec, graph, 0));
    EXPECT(t, cuGraphDestroy, CUDA_SUCCESS, (graph));
    run(t, exec);
    CHECK(t, cuGraphLaunch, calls == 1 && to[0] == 8 && to[BYTES - 1] == 8);
    EXPECT(t, cuGraphExecDestroy, CUDA_SUCCESS, (exec));
    EXPECT(t, cuGraphInstantiateWithFlags, CUDA_SUCCESS, (&exec, clone, 0));
    EXPECT(t, cuGraphDestroy, CUDA_SUCCESS, (clone));
    run(t, exec);
    CHECK(t, cuGraphClone, calls == 2);
    EXPECT(t, cuGraphExecDestroy, CUDA_SUCCESS, (exec));
    EXPECT(t, cuMemFree_v2, CUDA_SUCCESS, (device));
}

/* Event nodes, child graphs, words of memory, and empty nodes. */
void case_event_and_child_nodes_run(struct conformance *t)
{
    static _Atomic int calls;
    void *graph = NULL, *child = NULL, *inner = NULL, *event = NULL, *found = NULL, *exec = NULL;
    void *nodes[5] = {0}, *none = NULL, *memory = NULL;
    uint64_t at = 0;
    const CUDA_HOST_NODE_PARAMS host = {count_call, &calls};
    conformance_open_device(t);
    EXPECT(t, cuMemHostAlloc, CUDA_SUCCESS, (&memory, BYTES, 2));
    EXPECT(t, cuMemHostGetDevicePointer_v2, CUDA_SUCCESS, (&at, memory, 0));
    EXPECT(t, cuEventCreate, CUDA_SUCCESS, (&event, CUDA_EVENT_DISABLE_TIMING));
    EXPECT(t, cuGraphCreate, CUDA_SUCCESS, (&graph, 0));
    EXPECT(t, cuGraphCreate, CUDA_SUCCESS, (&child, 0));
    EXPECT(t, cuGraphAddHostNode, CUDA_SUCCESS, (&inner, child, NULL, 0, &host));
    CUstreamBatchMemOpParams word = {.operation = CUDA_WORD_WRITE_64, .address = at, .value = 77};
    const CUDA_BATCH_MEM_OP_NODE_PARAMS words = {t->context, 1, &word, 0};
    EXPECT(t, cuGraphAddEmptyNode, CUDA_SUCCESS, (&nodes[0], graph, NULL, 0));
    EXPECT(t, cuGraphAddEmptyNode, CUDA_ERROR_INVALID_VALUE, (&none, NULL, NULL, 0));
    EXPECT(t, cuGraphAddChildGraphNode, CUDA_SUCCESS, (&nodes[1], graph, &nodes[0], 1, child));
    EXPECT(t, cuGraphAddChildGraphNode, CUDA_ERROR_INVALID_VALUE, (&none, graph, NULL, 0, NULL));
    EXPECT(t, cuGraphAddBatchMemOpNode, CUDA_SUCCESS, (&nodes[2], graph, &nodes[1], 1, &words));
    EXPECT(t, cuGraphAddBatchMemOpNode, CUDA_ERROR_INVALID_VALUE, (&none, graph, NULL, 0, NULL));
    EXPECT(t, cuGraphAddEventRecordNode, CUDA_SUCCESS, (&nodes[3], graph, &nodes[2], 1, event));
    EXPECT(t, cuGraphAddEventRecordNode, CUDA_ERROR_INVALID_VALUE, (&none, graph, NULL, 0, NULL));
    EXPECT(t, cuGraphAddEventWaitNode, CUDA_SUCCESS, (&nodes[4], graph, &nodes[3], 1, event));
    EXPECT(t, cuGraphAddEventWaitNode, CUDA_ERROR_INVALID_VALUE, (&none, graph, NULL, 0, NULL));
    EXPECT(t, cuGraphChildGraphNodeGetGraph, CUDA_SUCCESS, (nodes[1], &found));
    CHECK(t, cuGraphChildGraphNodeGetGraph, found && found != child);
    EXPECT(t, cuGraphChildGraphNodeGetGraph, CUDA_ERROR_INVALID_VALUE, (NULL, &found));
    EXPECT(t, cuGraphEventRecordNodeGetEvent, CUDA_SUCCESS, (nodes[3], &found));
    CHECK(t, cuGraphEventRecordNodeGetEvent, found == event);
    EXPECT(t, cuGraphEventRecordNodeGetEvent, CUDA_ERROR_INVALID_VALUE, (NULL, &found));
    found = NULL;
    EXPECT(t, cuGraphEventWaitNodeGetEvent, CUDA_SUCCESS, (nodes[4], &found));
    CHECK(t, cuGraphEventWaitNodeGetEvent, found == event);
    EXPECT(t, cuGraphEventWaitNodeGetEvent, CUDA_ERROR_INVALID_VALUE, (NULL, &found));
    EXPECT(t, cuGraphDestroy, CUDA_SUCCESS, (child));
    EXPECT(t, cuGraphInstantiate_v2, CUDA_SUCCESS, (&exec, graph, NULL, NULL, 0));
    run(t, exec);
    CHECK(t, cuGraphAddChildGraphNode, calls == 1);
    CHECK(t, cuGraphAddBatchMemOpNode, *(_Atomic uint64_t *)memory == 77);
    EXPECT(t, cuEventQuery, CUDA_SUCCESS, (event));
    EXPECT(t, cuGraphExecDestroy, CUDA_SUCCESS, (exec));
    EXPECT(t, cuGraphInstantiate, CUDA_SUCCESS, (&exec, graph, NULL, NULL, 0));
    EXPECT(t, cuGraphInstantiate, CUDA_ERROR_INVALID_VALUE, (&none, NULL, NULL, NULL, 0));
    EXPECT(t, cuGraphInstantiate_v2, CUDA_ERROR_INVALID_VALUE, (&none, NULL, NULL, NULL, 0));
    EXPECT(t, cuGraphExecDestroy, CUDA_SUCCESS, (exec));
    EXPECT(t, cuGraphDestroy, CUDA_SUCCESS, (graph));
}

/* Every kind of node by one call, and events that replace others. */
void case_generic_nodes_can_be_changed(struct conformance *t)
{
    static _Atomic int calls;
    void *graph = NULL, *exec = NULL, *nodes[3] = {0}, *first = NULL, *second = NULL, *none = NULL;
    conformance_open_device(t);
    EXPECT(t, cuEventCreate, CUDA_SUCCESS, (&first, CUDA_EVENT_DISABLE_TIMING));
    EXPECT(t, cuEventCreate, CUDA_SUCCESS, (&second, CUDA_EVENT_DISABLE_TIMING));
    CUgraphNodeParams host = {.type = CUDA_NODE_HOST, .host = {count_call, (void *)&calls}};
    CUgraphNodeParams record = {.type = CUDA_NODE_RECORD_EVENT, .eventRecord = first};
    CUgraphNodeParams wait = {.type = CUDA_NODE_WAIT_EVENT, .eventWait = first};
    EXPECT(t, cuGraphCreate, CUDA_SUCCESS, (&graph, 0));
    EXPECT(t, cuGraphAddNode, CUDA_SUCCESS, (&nodes[0], graph, NULL, 0, &host));
    EXPECT(t, cuGraphAddNode, CUDA_ERROR_INVALID_VALUE, (&none, NULL, NULL, 0, &host));
    EXPECT(t, cuGraphAddNode_v2, CUDA_SUCCESS, (&nodes[1], graph, &nodes[0], NULL, 1, &record));
    EXPECT(t, cuGraphAddNode_v2, CUDA_ERROR_INVALID_VALUE, (&none, NULL, NULL, NULL, 0, &host));
    EXPECT(t, cuGraphAddNode_v2, CUDA_SUCCESS, (&nodes[2], graph, &nodes[1], NULL, 1, &wait));
    EXPECT(t, cuGraphEventRecordNodeSetEvent, CUDA_SUCCESS, (nodes[1], second));
    EXPECT(t, cuGraphEventRecordNodeSetEvent, CUDA_ERROR_INVALID_VALUE, (NULL, second));
    EXPECT(t, cuGraphEventWaitNodeSetEvent, CUDA_SUCCESS, (nodes[2], second));
    EXPECT(t, cuGraphEventWaitNodeSetEvent, CUDA_ERROR_INVALID_VALUE, (NULL, second));
    EXPECT(t, cuGraphEventRecordNodeGetEvent, CUDA_SUCCESS, (nodes[1], &none));
    CHECK(t, cuGraphEventRecordNodeSetEvent, none == second);
    EXPECT(t, cuGraphInstantiateWithFlags, CUDA_SUCCESS, (&exec, graph, 0));
    run(t, exec);
    CHECK(t, cuGraphAddNode, calls == 1);
    EXPECT(t, cuGraphExecDestroy, CUDA_SUCCESS, (exec));
    EXPECT(t, cuGraphDestroy, CUDA_SUCCESS, (graph));
}

/* Changes of an instantiated graph. */
static void check_changes(struct conformance *t, void *exec, void **nodes,
                          const CUDA_MEMCPY3D *copy)
{
    static _Atomic int calls;
    CUDA_KERNEL_NODE_PARAMS kernel = short_kernel(t);
    const CUDA_HOST_NODE_PARAMS host = {count_two, &calls};
    const CUDA_MEMSET_NODE_PARAMS fill = {copy->srcDevice, 0, 9, 1, BYTES, 1};
    unsigned enabled = 99;
    kernel.gridDimX = 2;
    EXPECT(t, cuGraphExecKernelNodeSetParams_v2, CUDA_SUCCESS, (exec, nodes[0], &kernel));
    EXPECT(t, cuGraphExecKernelNodeSetParams_v2, CUDA_ERROR_INVALID_VALUE, (exec, NULL, &kernel));
    EXPECT(t, cuGraphExecKernelNodeSetParams, CUDA_SUCCESS, (exec, nodes[0], &kernel));
    EXPECT(t, cuGraphExecKernelNodeSetParams, CUDA_ERROR_INVALID_VALUE, (exec, nodes[0], NULL));
    EXPECT(t, cuGraphExecMemsetNodeSetParams, CUDA_SUCCESS, (exec, nodes[1], &fill, t->context));
    EXPECT(t, cuGraphExecMemsetNodeSetParams, CUDA_ERROR_INVALID_VALUE,
           (exec, nodes[1], NULL, t->context));
    EXPECT(t, cuGraphExecMemcpyNodeSetParams, CUDA_SUCCESS, (exec, nodes[2], copy, t->context));
    EXPECT(t, cuGraphExecMemcpyNodeSetParams, CUDA_ERROR_INVALID_VALUE,
           (exec, nodes[2], NULL, t->context));
    EXPECT(t, cuGraphExecHostNodeSetParams, CUDA_SUCCESS, (exec, nodes[3], &host));
    EXPECT(t, cuGraphExecHostNodeSetParams, CUDA_ERROR_INVALID_VALUE, (exec, nodes[3], NULL));
    run(t, exec);
    CHECK(t, cuGraphExecHostNodeSetParams, calls == 2);
    CHECK(t, cuGraphExecMemsetNodeSetParams, *(unsigned char *)copy->dstHost == 9);
    EXPECT(t, cuGraphNodeSetEnabled, CUDA_SUCCESS, (exec, nodes[1], 0));
    EXPECT(t, cuGraphNodeSetEnabled, CUDA_ERROR_INVALID_VALUE, (exec, NULL, 0));
    EXPECT(t, cuGraphNodeGetEnabled, CUDA_SUCCESS, (exec, nodes[1], &enabled));
    CHECK(t, cuGraphNodeGetEnabled, enabled == 0);
    EXPECT(t, cuGraphNodeGetEnabled, CUDA_ERROR_INVALID_VALUE, (exec, NULL, &enabled));
    EXPECT(t, cuMemsetD8_v2, CUDA_SUCCESS, (copy->srcDevice, 1, BYTES));
    run(t, exec);
    CHECK(t, cuGraphNodeSetEnabled, *(unsigned char *)copy->dstHost == 1);
    EXPECT(t, cuGraphNodeSetEnabled, CUDA_SUCCESS, (exec, nodes[1], 1));
}

static void check_updates(struct conformance *t, void *exec, void *graph)
{
    CUgraphExecUpdateResultInfo update = {.result = 99};
    void *longer = NULL, *node = NULL, *none = NULL;
    int result = 99;
    EXPECT(t, cuGraphExecUpdate_v2, CUDA_SUCCESS, (exec, graph, &update));
    CHECK(t, cuGraphExecUpdate_v2, update.result == CUDA_UPDATE_SUCCESS);
    EXPECT(t, cuGraphExecUpdate_v2, CUDA_ERROR_INVALID_VALUE, (exec, NULL, &update));
    EXPECT(t, cuGraphExecUpdate, CUDA_SUCCESS, (exec, graph, &none, &result));
    CHECK(t, cuGraphExecUpdate, result == CUDA_UPDATE_SUCCESS);
    EXPECT(t, cuGraphClone, CUDA_SUCCESS, (&longer, graph));
    EXPECT(t, cuGraphAddEmptyNode, CUDA_SUCCESS, (&node, longer, NULL, 0));
    EXPECT(t, cuGraphExecUpdate_v2, CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE, (exec, longer, &update));
    CHECK(t, cuGraphExecUpdate_v2, update.result == CUDA_UPDATE_TOPOLOGY_CHANGED);
    EXPECT(t, cuGraphExecUpdate, CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE,
           (exec, longer, &none, &result));
    EXPECT(t, cuGraphDestroy, CUDA_SUCCESS, (longer));
}

void case_changed_graphs_run_new_parameters(struct conformance *t)
{
    static _Atomic int calls;
    static unsigned char to[BYTES];
    void *graph = NULL, *nodes[4] = {0}, *exec = NULL;
    uint64_t device = 0, flags = 99;
    CUDA_GRAPH_INSTANTIATE_PARAMS wanted = {.flags = CUDA_INSTANTIATE_AUTO_FREE, .result_out = 99};
    conformance_open_device(t);
    CUDA_KERNEL_NODE_PARAMS kernel = short_kernel(t);
    EXPECT(t, cuMemAlloc_v2, CUDA_SUCCESS, (&device, BYTES));
    const CUDA_MEMSET_NODE_PARAMS fill = {device, 0, 7, 1, BYTES, 1};
    const CUDA_MEMCPY3D copy = copy_down(to, device, BYTES);
    const CUDA_HOST_NODE_PARAMS host = {count_call, &calls};
    EXPECT(t, cuGraphCreate, CUDA_SUCCESS, (&graph, 0));
    EXPECT(t, cuGraphAddKernelNode_v2, CUDA_SUCCESS, (&nodes[0], graph, NULL, 0, &kernel));
    EXPECT(t, cuGraphAddMemsetNode, CUDA_SUCCESS,
           (&nodes[1], graph, &nodes[0], 1, &fill, t->context));
    EXPECT(t, cuGraphAddMemcpyNode, CUDA_SUCCESS,
           (&nodes[2], graph, &nodes[1], 1, &copy, t->context));
    EXPECT(t, cuGraphAddHostNode, CUDA_SUCCESS, (&nodes[3], graph, &nodes[2], 1, &host));
    EXPECT(t, cuGraphInstantiateWithParams, CUDA_SUCCESS, (&exec, graph, &wanted));
    CHECK(t, cuGraphInstantiateWithParams, wanted.result_out == 0);
    EXPECT(t, cuGraphInstantiateWithParams, CUDA_ERROR_INVALID_VALUE, (&exec, NULL, &wanted));
    EXPECT(t, cuGraphExecGetFlags, CUDA_SUCCESS, (exec, &flags));
    CHECK(t, cuGraphExecGetFlags, flags == CUDA_INSTANTIATE_AUTO_FREE);
    EXPECT(t, cuGraphExecGetFlags, CUDA_ERROR_INVALID_VALUE, (NULL, &flags));
    EXPECT(t, cuGraphUpload, CUDA_SUCCESS, (exec, NULL));
    EXPECT(t, cuGraphUpload, CUDA_ERROR_INVALID_VALUE, (NULL, NULL));
    check_changes(t, exec, nodes, &copy);
    check_updates(t, exec, graph);
    EXPECT(t, cuGraphExecDestroy, CUDA_SUCCESS, (exec));
    EXPECT(t, cuGraphDestroy, CUDA_SUCCESS, (graph));
    EXPECT(t, cuMemFree_v2, CUDA_SUCCESS, (device));
}

void case_user_objects_live_until_released(struct conformance *t)
{
    static _Atomic int destroyed;
    enum { NO_SYNC = 1, MOVE = 1 };
    void *object = NULL, *graph = NULL, *none = NULL;
    conformance_open_device(t);
    EXPECT(t, cuGraphCreate, CUDA_SUCCESS, (&graph, 0));
    EXPECT(t, cuUserObjectCreate, CUDA_SUCCESS,
           (&object, (void *)&destroyed, count_call, 1, NO_SYNC));
    EXPECT(t, cuUserObjectCreate, CUDA_ERROR_INVALID_VALUE,
           (&none, (void *)&destroyed, count_call, 1, 0));
    EXPECT(t, cuUserObjectRetain, CUDA_SUCCESS, (object, 2));
    EXPECT(t, cuUserObjectRetain, CUDA_ERROR_INVALID_VALUE, (NULL, 1));
    EXPECT(t, cuUserObjectRelease, CUDA_SUCCESS, (object, 1));
    EXPECT(t, cuUserObjectRelease, CUDA_ERROR_INVALID_VALUE, (NULL, 1));
    EXPECT(t, cuGraphRetainUserObject, CUDA_SUCCESS, (graph, object, 1, 0));
    EXPECT(t, cuGraphRetainUserObject, CUDA_ERROR_INVALID_VALUE, (graph, NULL, 1, 0));
    EXPECT(t, cuGraphReleaseUserObject, CUDA_SUCCESS, (graph, object, 1));
    EXPECT(t, cuGraphReleaseUserObject, CUDA_ERROR_INVALID_VALUE, (graph, NULL, 1));
    EXPECT(t, cuGraphRetainUserObject, CUDA_SUCCESS, (graph, object, 1, MOVE));
    CHECK(t, cuUserObjectRelease, destroyed == 0);
    EXPECT(t, cuUserObjectRelease, CUDA_SUCCESS, (object, 1));
    CHECK(t, cuUserObjectRelease, destroyed == 0);
    EXPECT(t, cuGraphDestroy, CUDA_SUCCESS, (graph));
    CHECK(t, cuGraphRetainUserObject, conformance_becomes(&destroyed, 1));
}
