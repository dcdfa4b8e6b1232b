/*
 * graph/ represents the work of streams as values: operations, graphs of operations, and captures
 * that record operations. graph/ uses abi/, device/, driver/ and memory/.
 *
 * This header declares graphs: operations and their order. Internal to libcuda.so.1. The driver's
 * documentation requires that a program changes a graph in one thread at a time; a capture changes
 * its graph under process.lock.
 *
 * This folder contains the operations, graphs and captures of the emulated driver. Files of the
 * folder emu/graph may include emu/driver.
 */
#pragma once
#include "emu/graph/operation.h"

enum { GRAPH_NODES_MAX = 1 << 16, GRAPH_EDGES_MAX = 1 << 20 };

struct graph_node {
    uint32_t magic; /* GRAPH_NODE_MAGIC */
    struct graph *graph;
    struct list link; /* link in graph.nodes */
    struct operation operation;
    struct node_set dependencies;
    size_t place;              /* scratch index, while a function visits the whole graph */
    struct graph_node *origin; /* in a clone: the original node */
};

struct graph {
    uint32_t magic;   /* GRAPH_MAGIC */
    struct list link; /* link in process.orphan_graphs, or unused */
    struct process *process;
    struct list nodes; /* list of struct graph_node, in the order of addition */
    size_t node_count, edge_count;
    struct list user_objects; /* list of struct user_object_hold (user_object.c) */
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
/* Copies the operation into a new node, which runs after the nodes in `dependencies`. */
int graph_add(struct graph *graph, const struct operation *operation,
              struct graph_node *const *dependencies, size_t count, struct graph_node **ret_node);
/* Returns whether any node allocates or frees memory. */
bool graph_holds_memory(const struct graph *graph);
/* Clones a graph. Returns CUDA_ERROR_NOT_SUPPORTED if a node allocates or frees memory. */
int graph_clone(const struct graph *graph, struct graph **ret_clone);
/* Sorts the nodes so that each node comes after its dependencies, in an array that the caller
 * frees. Returns CUDA_ERROR_INVALID_VALUE if the graph has a cycle. */
int graph_sort(const struct graph *graph, struct graph_node ***ret_nodes);

/* Functions of user_object.c. */
int user_objects_copy(const struct list *from, struct list *to);
void user_objects_done(struct list *holds);
