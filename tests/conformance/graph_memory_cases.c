/* Memory that graphs allocate and free. */
#include "conformance.h"

enum { MIB = 1 << 20, NO_DEVICE = 1000, NO_ATTRIBUTE = 99, GLOBAL = 0 };

static uint64_t attribute(struct conformance *t, int which)
{
    uint64_t value = UINT64_MAX;
    EXPECT(t, cuDeviceGetGraphMemAttribute, CUDA_SUCCESS, (0, which, &value));
    return value;
}

static void check_attributes(struct conformance *t)
{
    uint64_t zero = 0, wrong = 5;
    EXPECT(t, cuDeviceGetGraphMemAttribute, CUDA_ERROR_INVALID_VALUE, (0, NO_ATTRIBUTE, &zero));
    EXPECT(t, cuDeviceGetGraphMemAttribute, CUDA_ERROR_INVALID_DEVICE,
           (NO_DEVICE, CUDA_GRAPH_MEMORY_USED, &zero));
    EXPECT(t, cuDeviceSetGraphMemAttribute, CUDA_SUCCESS, (0, CUDA_GRAPH_MEMORY_USED_HIGH, &zero));
    EXPECT(t, cuDeviceSetGraphMemAttribute, CUDA_ERROR_INVALID_VALUE,
           (0, CUDA_GRAPH_MEMORY_USED_HIGH, &wrong));
    EXPECT(t, cuDeviceSetGraphMemAttribute, CUDA_ERROR_INVALID_DEVICE,
           (NO_DEVICE, CUDA_GRAPH_MEMORY_USED_HIGH, &zero));
    EXPECT(t, cuDeviceGraphMemTrim, CUDA_SUCCESS, (0));
    EXPECT(t, cuDeviceGraphMemTrim, CUDA_ERROR_INVALID_DEVICE, (NO_DEVICE));
}

/* Allocated and freed by the same launch; the graphs' reserve stays until it is trimmed. */
void case_graph_memory_stays_until_trim(struct conformance *t)
{
    CUDA_MEM_ALLOC_NODE_PARAMS wanted = {
        .poolProps = {.allocType = CUDA_ALLOCATION_PINNED, .location = {CUDA_LOCATION_DEVICE, 0}},
        .bytesize = 64 * MIB,
    };
    CUDA_MEM_ALLOC_NODE_PARAMS found = {.bytesize = 0};
    void *graph = NULL, *nodes[3] = {0}, *exec = NULL, *none = NULL;
    uint64_t freed = 0;
    conformance_open_device(t);
    EXPECT(t, cuGraphCreate, CUDA_SUCCESS, (&graph, 0));
    EXPECT(t, cuGraphAddMemAllocNode, CUDA_SUCCESS, (&nodes[0], graph, NULL, 0, &wanted));
    CHECK(t, cuGraphAddMemAllocNode, wanted.dptr != 0);
    EXPECT(t, cuGraphAddMemAllocNode, CUDA_ERROR_INVALID_VALUE, (&none, graph, NULL, 0, NULL));
    const CUDA_MEMSET_NODE_PARAMS fill = {wanted.dptr, 0, 7, 1, MIB, 1};
    EXPECT(t, cuGraphAddMemsetNode, CUDA_SUCCESS,
           (&nodes[1], graph, &nodes[0], 1, &fill, t->context));
    EXPECT(t, cuGraphAddMemFreeNode, CUDA_SUCCESS, (&nodes[2], graph, &nodes[1], 1, wanted.dptr));
    EXPECT(t, cuGraphAddMemFreeNode, CUDA_ERROR_INVALID_VALUE, (&none, graph, &nodes[1], 1, 0));
    EXPECT(t, cuGraphMemAllocNodeGetParams, CUDA_SUCCESS, (nodes[0], &found));
    CHECK(t, cuGraphMemAllocNodeGetParams, found.dptr == wanted.dptr && found.bytesize == 64 * MIB);
    EXPECT(t, cuGraphMemAllocNodeGetParams, CUDA_ERROR_INVALID_VALUE, (NULL, &found));
    EXPECT(t, cuGraphMemFreeNodeGetParams, CUDA_SUCCESS, (nodes[2], &freed));
    CHECK(t, cuGraphMemFreeNodeGetParams, freed == wanted.dptr);
    EXPECT(t, cuGraphMemFreeNodeGetParams, CUDA_ERROR_INVALID_VALUE, (NULL, &freed));

    CHECK(t, cuDeviceGetGraphMemAttribute, attribute(t, CUDA_GRAPH_MEMORY_USED) == 0);
    EXPECT(t, cuGraphInstantiateWithFlags, CUDA_SUCCESS, (&exec, graph, 0));
    EXPECT(t, cuGraphLaunch, CUDA_SUCCESS, (exec, NULL));
    EXPECT(t, cuGraphLaunch, CUDA_SUCCESS, (exec, NULL));
    EXPECT(t, cuCtxSynchronize, CUDA_SUCCESS, ());
    /* Freed, and still mapped by the graph. */
    CHECK(t, cuGraphLaunch, attribute(t, CUDA_GRAPH_MEMORY_USED) != 0);
    CHECK(t, cuGraphLaunch, attribute(t, CUDA_GRAPH_MEMORY_USED_HIGH) >= 64 * MIB);
    CHECK(t, cuGraphLaunch, attribute(t, CUDA_GRAPH_MEMORY_RESERVED_HIGH) >= 64 * MIB);
    EXPECT(t, cuGraphExecDestroy, CUDA_SUCCESS, (exec));
    EXPECT(t, cuGraphDestroy, CUDA_SUCCESS, (graph));
    check_attributes(t);
    CHECK(t, cuDeviceGraphMemTrim, attribute(t, CUDA_GRAPH_MEMORY_RESERVED) == 0);
}

/* Allocated in a capture, freed by the program. */
void case_captured_allocation_blocks_relaunch(struct conformance *t)
{
    void *stream = NULL, *graph = NULL, *exec = NULL, *nodes[2] = {0};
    uint64_t address = 0;
    size_t count = 2;
    int type = -1;
    conformance_open_device(t);
    EXPECT(t, cuStreamCreate, CUDA_SUCCESS, (&stream, CUDA_STREAM_NON_BLOCKING));
    EXPECT(t, cuStreamBeginCapture_v2, CUDA_SUCCESS, (stream, GLOBAL));
    EXPECT(t, cuMemAllocAsync, CUDA_SUCCESS, (&address, 32 * MIB, stream));
    EXPECT(t, cuMemsetD8Async, CUDA_SUCCESS, (address, 3, MIB, stream));
    EXPECT(t, cuStreamEndCapture, CUDA_SUCCESS, (stream, &graph));
    EXPECT(t, cuGraphGetRootNodes, CUDA_SUCCESS, (graph, nodes, &count));
    EXPECT(t, cuGraphNodeGetType, CUDA_SUCCESS, (nodes[0], &type));
    CHECK(t, cuMemAllocAsync, type == CUDA_NODE_ALLOCATE);
    EXPECT(t, cuGraphInstantiateWithFlags, CUDA_SUCCESS, (&exec, graph, 0));
    EXPECT(t, cuGraphLaunch, CUDA_SUCCESS, (exec, stream));
    EXPECT(t, cuStreamSynchronize, CUDA_SUCCESS, (stream));
    CHECK(t, cuGraphLaunch, attribute(t, CUDA_GRAPH_MEMORY_USED) >= 32 * MIB);
    /* The graph cannot run again until its memory is freed. */
    EXPECT(t, cuGraphLaunch, CUDA_ERROR_INVALID_VALUE, (exec, stream));
    EXPECT(t, cuMemFreeAsync, CUDA_SUCCESS, (address, stream));
    EXPECT(t, cuGraphLaunch, CUDA_SUCCESS, (exec, stream));
    EXPECT(t, cuMemFreeAsync, CUDA_SUCCESS, (address, stream));
    EXPECT(t, cuStreamSynchronize, CUDA_SUCCESS, (stream));
    CHECK(t, cuMemFreeAsync, attribute(t, CUDA_GRAPH_MEMORY_USED) != 0);
    EXPECT(t, cuGraphExecDestroy, CUDA_SUCCESS, (exec));
    EXPECT(t, cuGraphDestroy, CUDA_SUCCESS, (graph));

    EXPECT(t, cuStreamBeginCapture_v2, CUDA_SUCCESS, (stream, GLOBAL));
    EXPECT(t, cuMemAllocAsync, CUDA_SUCCESS, (&address, 32 * MIB, stream));
    EXPECT(t, cuStreamEndCapture, CUDA_SUCCESS, (stream, &graph));
    EXPECT(t, cuGraphInstantiateWithFlags, CUDA_SUCCESS,
           (&exec, graph, CUDA_INSTANTIATE_AUTO_FREE));
    EXPECT(t, cuGraphLaunch, CUDA_SUCCESS, (exec, stream));
    EXPECT(t, cuGraphLaunch, CUDA_SUCCESS, (exec, stream));
    EXPECT(t, cuStreamSynchronize, CUDA_SUCCESS, (stream));
    EXPECT(t, cuMemFreeAsync, CUDA_SUCCESS, (address, stream));
    EXPECT(t, cuStreamSynchronize, CUDA_SUCCESS, (stream));
    EXPECT(t, cuGraphExecDestroy, CUDA_SUCCESS, (exec));
    EXPECT(t, cuGraphDestroy, CUDA_SUCCESS, (graph));
}
