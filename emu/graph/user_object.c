/* Objects of the program that graphs hold. A function of the program destroys an object with the
 * last graph and the program's own last reference. */
#include <stdlib.h>

#include "emu/graph/graph.h"

struct user_object {
    uint32_t magic; /* USER_OBJECT_MAGIC */
    _Atomic unsigned references;
    void (*destroy)(void *);
    void *argument;
};

/* A graph's references to one object. */
struct user_object_hold {
    struct list link; /* link in graph.user_objects */
    struct user_object *object;
    unsigned references;
};

static void drop(struct user_object *object, unsigned count)
{
    if (atomic_fetch_sub(&object->references, count) > count)
        return;
    object->magic = DEAD_MAGIC;
    object->destroy(object->argument);
    free(object);
}

static struct user_object_hold *find_hold(struct list *holds, const struct user_object *object)
{
    list_for_each (it, holds) {
        struct user_object_hold *hold = list_entry(it, struct user_object_hold, link);
        if (hold->object == object)
            return hold;
    }
    return NULL;
}

static int hold(struct list *holds, struct user_object *object, unsigned count)
{
    struct user_object_hold *held = find_hold(holds, object);
    if (!held) {
        held = calloc(1, sizeof(*held));
        if (!held)
            return CUDA_ERROR_OUT_OF_MEMORY;
        held->object = object;
        list_append(holds, &held->link);
    }
    held->references += count;
    return CUDA_SUCCESS;
}

int user_objects_copy(const struct list *from, struct list *to)
{
    int r = CUDA_SUCCESS;
    list_for_each (it, from) {
        const struct user_object_hold *held = list_entry(it, struct user_object_hold, link);
        if (r == CUDA_SUCCESS)
            r = hold(to, held->object, 1);
        if (r == CUDA_SUCCESS)
            held->object->references++;
    }
    return r;
}

void user_objects_done(struct list *holds)
{
    list_for_each_safe (it, holds) {
        struct user_object_hold *held = list_entry(it, struct user_object_hold, link);
        list_remove(&held->link);
        drop(held->object, held->references);
        free(held);
    }
}

static int object_resolve(const struct user_object *object, unsigned count)
{
    struct process *process;
    int r = process_ready(&process);
    if (r != CUDA_SUCCESS)
        return r;
    return object && object->magic == USER_OBJECT_MAGIC && count > 0 && count <= INT32_MAX
               ? CUDA_SUCCESS
               : CUDA_ERROR_INVALID_VALUE;
}

CUDA_API int cuUserObjectCreate(struct user_object **ret_object, void *argument,
                                void (*destroy)(void *), unsigned references, unsigned flags)
{
    enum { NO_DESTRUCTOR_SYNC = 1 };
    struct process *process;
    int r = process_ready(&process);
    if (r != CUDA_SUCCESS)
        return r;
    if (!ret_object || !destroy || references == 0 || references > INT32_MAX ||
        flags != NO_DESTRUCTOR_SYNC)
        return CUDA_ERROR_INVALID_VALUE;
    struct user_object *object = calloc(1, sizeof(*object));
    if (!object)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *object = (struct user_object){
        .magic = USER_OBJECT_MAGIC,
        .references = references,
        .destroy = destroy,
        .argument = argument,
    };
    *ret_object = object;
    return CUDA_SUCCESS;
}

CUDA_API int cuUserObjectRetain(struct user_object *object, unsigned count)
{
    int r = object_resolve(object, count);
    if (r == CUDA_SUCCESS)
        object->references += count;
    return r;
}

CUDA_API int cuUserObjectRelease(struct user_object *object, unsigned count)
{
    int r = object_resolve(object, count);
    if (r == CUDA_SUCCESS)
        drop(object, count);
    return r;
}

CUDA_API int cuGraphRetainUserObject(struct graph *graph, struct user_object *object,
                                     unsigned count, unsigned flags)
{
    enum { MOVE = 1 };
    int r = graph_resolve(graph);
    if (r == CUDA_SUCCESS)
        r = object_resolve(object, count);
    if (r == CUDA_SUCCESS && flags > MOVE)
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS)
        r = hold(&graph->user_objects, object, count);
    if (r == CUDA_SUCCESS && flags != MOVE)
        object->references += count;
    return r;
}

CUDA_API int cuGraphReleaseUserObject(struct graph *graph, struct user_object *object,
                                      unsigned count)
{
    int r = graph_resolve(graph);
    if (r == CUDA_SUCCESS)
        r = object_resolve(object, count);
    if (r != CUDA_SUCCESS)
        return r;
    struct user_object_hold *held = find_hold(&graph->user_objects, object);
    if (!held || held->references < count)
        return CUDA_ERROR_INVALID_VALUE;
    held->references -= count;
    if (held->references == 0) {
        list_remove(&held->link);
        free(held);
    }
    drop(object, count);
    return CUDA_SUCCESS;
}
