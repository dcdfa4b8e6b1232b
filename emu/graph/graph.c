/* The structure of graphs: nodes, edges, copies, and an order of execution. */
#include "emu/graph/graph.h"

#include <stdlib.h>
#include <string.h>

int node_set_add(struct node_set *set, struct graph_node *node)
{
    if (node_set_has(set, node))
        return CUDA_SUCCESS;
    if (set->count == set->capacity) {
        size_t capacity = set->capacity ? set->capacity * 2 : 2;
        struct graph_node **nodes = realloc(set->nodes, capacity * sizeof(*nodes));
        if (!nodes)
            return CUDA_ERROR_OUT_OF_MEMORY;
        set->nodes = nodes;
        set->capacity = capacity;
    }
    set->nodes[set->count++] = node;
    return CUDA_SUCCESS;
}

bool node_set_has(const struct node_set *set, const struct graph_node *node)
{
    for (size_t i = 0; i < set->count; i++) {
        if (set->nodes[i] == node)
            return true;
    }
    return false;
}

void node_set_remove(struct node_set *set, const struct graph_node *node)
{
    for (size_t i = 0; i < set->count; i++) {
        if (set->nodes[i] != node)
            continue;
        set->count--;
        memmove(&set->nodes[i], &set->nodes[i + 1], (set->count - i) * sizeof(*set->nodes));
        return;
    }
}

int node_set_copy(struct node_set *to, const struct node_set *from)
{
    int r = CUDA_SUCCESS;
    to->count = 0;
    for (size_t i = 0; i < from->count && r == CUDA_SUCCESS; i++)
        r = node_set_add(to, from->nodes[i]);
    return r;
}

void node_set_done(struct node_set *set)
{
    free(set->nodes);
    *set = (struct node_set){0};
}

static void free_node(struct graph_node *node)
{
    list_remove(&node->link);
    operation_done(&node->operation);
    node_set_done(&node->dependencies);
    node->magic = DEAD_MAGIC;
    free(node);
}

void graph_free(struct graph *graph)
{
    list_for_each_safe (it, &graph->nodes)
        free_node(list_entry(it, struct graph_node, link));
    user_objects_done(&graph->user_objects);
    list_remove(&graph->link);
    graph->magic = DEAD_MAGIC;
    free(graph);
}

/* Frees graphs whose capture ended with its stream, when freeing was not possible under
 * process.lock. */
static void free_orphans(struct process *process)
{
    struct list orphans;
    list_init(&orphans);
    pthread_mutex_lock(&process->lock);
    list_move_all(&process->orphan_graphs, &orphans);
    pthread_mutex_unlock(&process->lock);
    list_for_each_safe (it, &orphans)
        graph_free(list_entry(it, struct graph, link));
}

int graph_make(struct process *process, struct graph **ret_graph)
{
    free_orphans(process);
    struct graph *graph = calloc(1, sizeof(*graph));
    if (!graph)
        return CUDA_ERROR_OUT_OF_MEMORY;
    graph->magic = GRAPH_MAGIC;
    graph->process = process;
    list_init(&graph->link);
    list_init(&graph->nodes);
    list_init(&graph->user_objects);
    *ret_graph = graph;
    return CUDA_SUCCESS;
}

int graph_resolve(const struct graph *graph)
{
    struct process *process;
    int r = process_ready(&process);
    if (r != CUDA_SUCCESS)
        return r;
    return graph && graph->magic == GRAPH_MAGIC ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

int node_resolve(const struct graph_node *node)
{
    struct process *process;
    int r = process_ready(&process);
    if (r != CUDA_SUCCESS)
        return r;
    return node && node->magic == GRAPH_NODE_MAGIC ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static int set_dependencies(struct graph_node *node, struct graph_node *const *dependencies,
                            size_t count)
{
    int r = CUDA_SUCCESS;
    for (size_t i = 0; i < count && r == CUDA_SUCCESS; i++) {
        if (!dependencies[i] || dependencies[i]->graph != node->graph)
            return CUDA_ERROR_INVALID_VALUE;
        r = node_set_add(&node->dependencies, dependencies[i]);
    }
    return r;
}

int graph_add(struct graph *graph, const struct operation *operation,
              struct graph_node *const *dependencies, size_t count, struct graph_node **ret_node)
{
    if (graph->node_count == GRAPH_NODES_MAX || graph->edge_count + count > GRAPH_EDGES_MAX)
        return CUDA_ERROR_OUT_OF_MEMORY;
    struct graph_node *node = calloc(1, sizeof(*node));
    if (!node)
        return CUDA_ERROR_OUT_OF_MEMORY;
    node->magic = GRAPH_NODE_MAGIC;
    node->graph = graph;
    list_init(&node->link);
    node->operation.type = CUDA_NODE_EMPTY;
    int r = set_dependencies(node, dependencies, count);
    if (r == CUDA_SUCCESS)
        r = operation_copy(operation, &node->operation);
    if (r != CUDA_SUCCESS) {
        free_node(node);
        return r;
    }
    list_append(&graph->nodes, &node->link);
    graph->node_count++;
    graph->edge_count += node->dependencies.count;
    if (ret_node)
        *ret_node = node;
    return CUDA_SUCCESS;
}

bool graph_holds_memory(const struct graph *graph)
{
    list_for_each (it, &graph->nodes) {
        const struct graph_node *node = list_entry(it, struct graph_node, link);
        if (node->operation.type == CUDA_NODE_ALLOCATE || node->operation.type == CUDA_NODE_FREE)
            return true;
    }
    return false;
}

/* The nodes of `clone` are in the order of those of `graph`, whose `place` is their index. */
static int clone_edges(const struct graph *graph, struct graph_node *const *clones)
{
    size_t i = 0;
    list_for_each (it, &graph->nodes) {
        const struct graph_node *node = list_entry(it, struct graph_node, link);
        struct graph_node *clone = clones[i++];
        for (size_t d = 0; d < node->dependencies.count; d++) {
            int r = node_set_add(&clone->dependencies, clones[node->dependencies.nodes[d]->place]);
            if (r != CUDA_SUCCESS)
                return r;
        }
    }
    return CUDA_SUCCESS;
}

static int clone_into(const struct graph *graph, struct graph *clone)
{
    struct graph_node **clones = calloc(graph->node_count + 1, sizeof(struct graph_node *));
    if (!clones)
        return CUDA_ERROR_OUT_OF_MEMORY;
    size_t i = 0;
    int r = CUDA_SUCCESS;
    list_for_each (it, &graph->nodes) {
        struct graph_node *node = list_entry(it, struct graph_node, link);
        if (r != CUDA_SUCCESS)
            break;
        node->place = i;
        r = graph_add(clone, &node->operation, NULL, 0, &clones[i]);
        if (r == CUDA_SUCCESS)
            clones[i++]->origin = node;
    }
    if (r == CUDA_SUCCESS)
        r = clone_edges(graph, clones);
    if (r == CUDA_SUCCESS)
        r = user_objects_copy(&graph->user_objects, &clone->user_objects);
    clone->edge_count = graph->edge_count;
    free(clones);
    return r;
}

int graph_clone(const struct graph *graph, struct graph **ret_clone)
{
    struct graph *clone;
    if (graph_holds_memory(graph))
        return CUDA_ERROR_NOT_SUPPORTED;
    int r = graph_make(graph->process, &clone);
    if (r != CUDA_SUCCESS)
        return r;
    r = clone_into(graph, clone);
    if (r == CUDA_SUCCESS)
        *ret_clone = clone;
    else
        graph_free(clone);
    return r;
}

static bool is_ready(const struct graph_node *node)
{
    for (size_t i = 0; i < node->dependencies.count; i++) {
        if (node->dependencies.nodes[i]->place == 0)
            return false;
    }
    return true;
}

/* Each round takes the nodes that have become ready. Nodes are nearly always in a valid order, so
 * that one round suffices. `place` is a node's index in the order, from 1. */
int graph_sort(const struct graph *graph, struct graph_node ***ret_nodes)
{
    struct graph_node **sorted = calloc(graph->node_count + 1, sizeof(struct graph_node *));
    if (!sorted)
        return CUDA_ERROR_OUT_OF_MEMORY;
    list_for_each (it, &graph->nodes)
        list_entry(it, struct graph_node, link)->place = 0;
    size_t count = 0, before;
    do {
        before = count;
        list_for_each (it, &graph->nodes) {
            struct graph_node *node = list_entry(it, struct graph_node, link);
            if (node->place > 0 || !is_ready(node))
                continue;
            sorted[count++] = node;
            node->place = count;
        }
    } while (count > before && count < graph->node_count);
    if (count < graph->node_count) {
        free(sorted);
        return CUDA_ERROR_INVALID_VALUE;
    }
    *ret_nodes = sorted;
    return CUDA_SUCCESS;
}

CUDA_API int cuGraphCreate(struct graph **ret_graph, unsigned flags)
{
    struct process *process;
    int r = process_ready(&process);
    if (r != CUDA_SUCCESS)
        return r;
    if (!ret_graph || flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    return graph_make(process, ret_graph);
}

CUDA_API int cuGraphDestroy(struct graph *graph)
{
    int r = graph_resolve(graph);
    if (r == CUDA_SUCCESS)
        graph_free(graph);
    return r;
}

CUDA_API int cuGraphClone(struct graph **ret_clone, struct graph *graph)
{
    int r = graph_resolve(graph);
    if (r == CUDA_SUCCESS && !ret_clone)
        r = CUDA_ERROR_INVALID_VALUE;
    return r == CUDA_SUCCESS ? graph_clone(graph, ret_clone) : r;
}

CUDA_API int cuGraphNodeFindInClone(struct graph_node **ret_node, struct graph_node *node,
                                    struct graph *clone)
{
    int r = node_resolve(node);
    if (r == CUDA_SUCCESS)
        r = graph_resolve(clone);
    if (r == CUDA_SUCCESS && !ret_node)
        r = CUDA_ERROR_INVALID_VALUE;
    if (r != CUDA_SUCCESS)
        return r;
    list_for_each (it, &clone->nodes) {
        struct graph_node *found = list_entry(it, struct graph_node, link);
        if (found->origin == node) {
            *ret_node = found;
            return CUDA_SUCCESS;
        }
    }
    return CUDA_ERROR_INVALID_VALUE;
}

CUDA_API int cuGraphNodeGetType(struct graph_node *node, int *ret_type)
{
    int r = node_resolve(node);
    if (r == CUDA_SUCCESS && !ret_type)
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS)
        *ret_type = (int)node->operation.type;
    return r;
}

CUDA_API int cuGraphDestroyNode(struct graph_node *node)
{
    int r = node_resolve(node);
    if (r != CUDA_SUCCESS)
        return r;
    if (node->operation.type == CUDA_NODE_ALLOCATE || node->operation.type == CUDA_NODE_FREE)
        return CUDA_ERROR_NOT_SUPPORTED;
    struct graph *graph = node->graph;
    graph->edge_count -= node->dependencies.count;
    list_for_each (it, &graph->nodes) {
        struct node_set *others = &list_entry(it, struct graph_node, link)->dependencies;
        graph->edge_count -= node_set_has(others, node);
        node_set_remove(others, node);
    }
    graph->node_count--;
    free_node(node);
    return CUDA_SUCCESS;
}
