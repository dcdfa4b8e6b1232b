/*
 * graph/ has what streams do as values: operations, graphs of them, and captures that record them.
 * It uses abi/, device/, driver/ and memory/.
 *
 * Graphs: operations and which of them come before which. Inside libcuda.so.1 only. A graph is
 * changed by one thread at a time, as the driver's documentation asks of the program; what a
 * capture adds is added under process.lock.
 */
#pragma once
#include "emu/graph/operation.h"

enum { GRAPH_NODES_MAX = 1 << 16, GRAPH_EDGES_MAX = 1 << 20 };

struct graph_node {
    uint32_t magic; /* GRAPH_NODE_MAGIC */
    struct graph *graph;
    struct list link; /* graph.nodes */
    struct operation operation;
    struct node_set dependencies;
    size_t place;              /* used while a graph is looked at as a whole */
    struct graph_node *origin; /* in a clone: the node that it was cloned from */
};

struct graph {
    uint32_t magic;   /* GRAPH_MAGIC */
    struct list link; /* process.orphan_graphs, or none */
    struct process *process;
    struct list nodes; /* of struct graph_node, in the order in which they were added */
    size_t node_count, edge_count;
    struct list user_objects; /* of struct user_object_hold (user_object.c) */
};

int node_set_add(struct node_set *set, struct graph_node *node);
void node_set_remove(struct node_set *set, const struct graph_node *node);
bool node_set_has(const struct node_set *set, const struct graph_node *node);
int node_set_copy(struct node_set *to, const struct node_set *from);
void node_set_done(struct node_set *set);

int graph_make(struct process *process, struct graph **ret_graph);
void graph_free(struct graph *graph);
int graph_resolve(const struct graph *graph);
int node_resolve(const struct graph_node *node);
/* Copies the operation into a new node behind those of `dependencies`. */
int graph_add(struct graph *graph, const struct operation *operation,
              struct graph_node *const *dependencies, size_t count, struct graph_node **ret_node);
/* Whether any node allocates or frees memory. */
bool graph_holds_memory(const struct graph *graph);
/* Without such nodes: CUDA_ERROR_NOT_SUPPORTED. */
int graph_clone(const struct graph *graph, struct graph **ret_clone);
/* The nodes in an order in which each comes after what it depends on, in an array that the caller
 * frees. CUDA_ERROR_INVALID_VALUE when there is none. */
int graph_sort(const struct graph *graph, struct graph_node ***ret_nodes);

/* user_object.c. */
int user_objects_copy(const struct list *from, struct list *to);
void user_objects_done(struct list *holds);
