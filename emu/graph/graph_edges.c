/* Queries of a graph's nodes and edges, and changes of edges. */
#include <string.h>

#include "emu/graph/graph.h"

/* The answer to a query: without an array, the number of nodes; with an array, at most *count
 * nodes, and NULL after the last. */
struct node_answer {
    struct graph_node **nodes;
    size_t capacity, found;
};

static void answer_node(struct node_answer *answer, struct graph_node *node)
{
    if (answer->nodes && answer->found >= answer->capacity)
        return;
    if (answer->nodes)
        answer->nodes[answer->found] = node;
    answer->found++;
}

static void finish_answer(const struct node_answer *answer, size_t *count)
{
    for (size_t i = answer->found; answer->nodes && i < answer->capacity; i++)
        answer->nodes[i] = NULL;
    *count = answer->found;
}

CUDA_API int cuGraphGetNodes(struct graph *graph, struct graph_node **nodes, size_t *count)
{
    int r = graph_resolve(graph);
    if (r == CUDA_SUCCESS && !count)
        r = CUDA_ERROR_INVALID_VALUE;
    if (r != CUDA_SUCCESS)
        return r;
    struct node_answer answer = {nodes, *count, 0};
    list_for_each (it, &graph->nodes)
        answer_node(&answer, list_entry(it, struct graph_node, link));
    finish_answer(&answer, count);
    return CUDA_SUCCESS;
}

CUDA_API int cuGraphGetRootNodes(struct graph *graph, struct graph_node **nodes, size_t *count)
{
    int r = graph_resolve(graph);
    if (r == CUDA_SUCCESS && !count)
        r = CUDA_ERROR_INVALID_VALUE;
    if (r != CUDA_SUCCESS)
        return r;
    struct node_answer answer = {nodes, *count, 0};
    list_for_each (it, &graph->nodes) {
        struct graph_node *node = list_entry(it, struct graph_node, link);
        if (node->dependencies.count == 0)
            answer_node(&answer, node);
    }
    finish_answer(&answer, count);
    return CUDA_SUCCESS;
}

CUDA_API int cuGraphNodeGetDependencies(struct graph_node *node, struct graph_node **nodes,
                                        size_t *count)
{
    int r = node_resolve(node);
    if (r == CUDA_SUCCESS && !count)
        r = CUDA_ERROR_INVALID_VALUE;
    if (r != CUDA_SUCCESS)
        return r;
    struct node_answer answer = {nodes, *count, 0};
    for (size_t i = 0; i < node->dependencies.count; i++)
        answer_node(&answer, node->dependencies.nodes[i]);
    finish_answer(&answer, count);
    return CUDA_SUCCESS;
}

CUDA_API int cuGraphNodeGetDependentNodes(struct graph_node *node, struct graph_node **nodes,
                                          size_t *count)
{
    int r = node_resolve(node);
    if (r == CUDA_SUCCESS && !count)
        r = CUDA_ERROR_INVALID_VALUE;
    if (r != CUDA_SUCCESS)
        return r;
    struct node_answer answer = {nodes, *count, 0};
    list_for_each (it, &node->graph->nodes) {
        struct graph_node *other = list_entry(it, struct graph_node, link);
        if (node_set_has(&other->dependencies, node))
            answer_node(&answer, other);
    }
    finish_answer(&answer, count);
    return CUDA_SUCCESS;
}

CUDA_API int cuGraphGetEdges(struct graph *graph, struct graph_node **from, struct graph_node **to,
                             size_t *count)
{
    int r = graph_resolve(graph);
    if (r == CUDA_SUCCESS && (!count || (from == NULL) != (to == NULL)))
        r = CUDA_ERROR_INVALID_VALUE;
    if (r != CUDA_SUCCESS)
        return r;
    struct node_answer froms = {from, *count, 0}, tos = {to, *count, 0};
    list_for_each (it, &graph->nodes) {
        struct graph_node *node = list_entry(it, struct graph_node, link);
        for (size_t i = 0; i < node->dependencies.count; i++) {
            answer_node(&froms, node->dependencies.nodes[i]);
            answer_node(&tos, node);
        }
    }
    finish_answer(&froms, count);
    finish_answer(&tos, count);
    return CUDA_SUCCESS;
}

/* Edges with data say when a kernel may start early, which is not emulated. */
static int check_data(const CUgraphEdgeData *data, size_t count)
{
    static const CUgraphEdgeData plain = {0};
    for (size_t i = 0; data && i < count; i++) {
        if (memcmp(&data[i], &plain, sizeof(plain)) != 0)
            return CUDA_ERROR_NOT_SUPPORTED;
    }
    return CUDA_SUCCESS;
}

static void clear_data(CUgraphEdgeData *data, size_t count)
{
    if (data)
        memset(data, 0, count * sizeof(*data));
}

static int check_edges(const struct graph *graph, struct graph_node *const *from,
                       struct graph_node *const *to, size_t count)
{
    int r = graph_resolve(graph);
    if (r != CUDA_SUCCESS)
        return r;
    if (count > 0 && (!from || !to))
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count; i++) {
        if (node_resolve(from[i]) != CUDA_SUCCESS || node_resolve(to[i]) != CUDA_SUCCESS ||
            from[i]->graph != graph || to[i]->graph != graph || from[i] == to[i])
            return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}

CUDA_API int cuGraphAddDependencies(struct graph *graph, struct graph_node *const *from,
                                    struct graph_node *const *to, size_t count)
{
    int r = check_edges(graph, from, to, count);
    if (r == CUDA_SUCCESS && graph->edge_count + count > GRAPH_EDGES_MAX)
        r = CUDA_ERROR_OUT_OF_MEMORY;
    for (size_t i = 0; i < count && r == CUDA_SUCCESS; i++) {
        if (node_set_has(&to[i]->dependencies, from[i]))
            return CUDA_ERROR_INVALID_VALUE;
        r = node_set_add(&to[i]->dependencies, from[i]);
        graph->edge_count += r == CUDA_SUCCESS;
    }
    return r;
}

CUDA_API int cuGraphRemoveDependencies(struct graph *graph, struct graph_node *const *from,
                                       struct graph_node *const *to, size_t count)
{
    int r = check_edges(graph, from, to, count);
    if (r == CUDA_SUCCESS && graph_holds_memory(graph))
        r = CUDA_ERROR_NOT_SUPPORTED;
    for (size_t i = 0; i < count && r == CUDA_SUCCESS; i++) {
        if (!node_set_has(&to[i]->dependencies, from[i]))
            return CUDA_ERROR_INVALID_VALUE;
        node_set_remove(&to[i]->dependencies, from[i]);
        graph->edge_count--;
    }
    return r;
}

/* The versions since CUDA 12.3, with data for each edge. */
CUDA_API int cuGraphNodeGetDependencies_v2(struct graph_node *node, struct graph_node **nodes,
                                           CUgraphEdgeData *data, size_t *count)
{
    int r = cuGraphNodeGetDependencies(node, nodes, count);
    if (r == CUDA_SUCCESS && nodes)
        clear_data(data, *count);
    return r;
}

CUDA_API int cuGraphNodeGetDependentNodes_v2(struct graph_node *node, struct graph_node **nodes,
                                             CUgraphEdgeData *data, size_t *count)
{
    int r = cuGraphNodeGetDependentNodes(node, nodes, count);
    if (r == CUDA_SUCCESS && nodes)
        clear_data(data, *count);
    return r;
}

CUDA_API int cuGraphGetEdges_v2(struct graph *graph, struct graph_node **from,
                                struct graph_node **to, CUgraphEdgeData *data, size_t *count)
{
    int r = cuGraphGetEdges(graph, from, to, count);
    if (r == CUDA_SUCCESS && from)
        clear_data(data, *count);
    return r;
}

CUDA_API int cuGraphAddDependencies_v2(struct graph *graph, struct graph_node *const *from,
                                       struct graph_node *const *to, const CUgraphEdgeData *data,
                                       size_t count)
{
    int r = check_data(data, count);
    return r == CUDA_SUCCESS ? cuGraphAddDependencies(graph, from, to, count) : r;
}

CUDA_API int cuGraphRemoveDependencies_v2(struct graph *graph, struct graph_node *const *from,
                                          struct graph_node *const *to, const CUgraphEdgeData *data,
                                          size_t count)
{
    int r = check_data(data, count);
    return r == CUDA_SUCCESS ? cuGraphRemoveDependencies(graph, from, to, count) : r;
}
