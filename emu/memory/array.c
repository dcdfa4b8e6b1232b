#include "emu/memory/array.h"

#include <stdlib.h>
#include <sys/mman.h>

#include "emu/graph/capture.h"
#include "emu/memory/memory.h"

enum {
    ARRAY_LAYERED = 1,
    ARRAY_CUBEMAP = 4,
    ARRAY_FLAGS_KNOWN = 0xf, /* layered, surface, cubemap, gather */
    ARRAY_WIDTH_MAX = 131072,
    ARRAY_DEPTH_MAX = 16384,
    ARRAY_LEVELS_MAX = 18, /* levels until a width of ARRAY_WIDTH_MAX has become 1 */
};

struct array {
    uint32_t magic; /* ARRAY_MAGIC */
    CUDA_ARRAY3D_DESCRIPTOR shape;
    size_t row_bytes, slice_bytes, bytes;
    uint64_t charged_bytes; /* 0: a level, whose bytes are charged with the mipmapped array */
    unsigned char *contents;
    struct context *context;
    struct list link;                  /* link in context.arrays; unused in a level */
    struct mipmapped_array *mipmapped; /* mipmapped array of the level, or NULL */
};

struct mipmapped_array {
    uint32_t magic; /* MIPMAPPED_ARRAY_MAGIC */
    struct context *context;
    struct list link; /* link in context.mipmapped_arrays */
    uint64_t charged_bytes;
    unsigned level_count;
    struct array levels[ARRAY_LEVELS_MAX];
};

static size_t element_bytes(const CUDA_ARRAY3D_DESCRIPTOR *shape)
{
    switch (shape->Format) {
    case CUDA_FORMAT_U8:
    case CUDA_FORMAT_S8:
        return shape->NumChannels;
    case CUDA_FORMAT_U16:
    case CUDA_FORMAT_S16:
    case CUDA_FORMAT_HALF:
        return 2 * (size_t)shape->NumChannels;
    case CUDA_FORMAT_U32:
    case CUDA_FORMAT_S32:
    case CUDA_FORMAT_FLOAT:
        return 4 * (size_t)shape->NumChannels;
    default:
        return 0;
    }
}

static int check_shape(const CUDA_ARRAY3D_DESCRIPTOR *shape)
{
    if (shape->Width == 0 || shape->Width > ARRAY_WIDTH_MAX || shape->Height > ARRAY_WIDTH_MAX ||
        shape->Depth > ARRAY_DEPTH_MAX || element_bytes(shape) == 0 ||
        (shape->NumChannels != 1 && shape->NumChannels != 2 && shape->NumChannels != 4))
        return CUDA_ERROR_INVALID_VALUE;
    if ((shape->Flags & ~(unsigned)ARRAY_FLAGS_KNOWN) != 0)
        return CUDA_ERROR_NOT_SUPPORTED;
    if (shape->Height == 0 && shape->Depth > 0 && (shape->Flags & ARRAY_LAYERED) == 0)
        return CUDA_ERROR_INVALID_VALUE;
    if ((shape->Flags & ARRAY_CUBEMAP) && shape->Depth % 6 != 0)
        return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
}

static size_t at_least_one(size_t value)
{
    return value > 0 ? value : 1;
}

/* Computes the sizes of the shape; a dimension of 0 does not exist. */
static void size_array(struct array *array)
{
    array->row_bytes = array->shape.Width * element_bytes(&array->shape);
    array->slice_bytes = array->row_bytes * at_least_one(array->shape.Height);
    array->bytes = array->slice_bytes * at_least_one(array->shape.Depth);
}

static void *map_contents(size_t bytes)
{
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return at == MAP_FAILED ? NULL : at;
}

static int make_array(struct context *context, const CUDA_ARRAY3D_DESCRIPTOR *shape,
                      struct array **ret_array)
{
    int r = check_shape(shape);
    if (r == CUDA_SUCCESS)
        r = capture_check_unsafe(context->process);
    if (r != CUDA_SUCCESS)
        return r;
    struct array *array = calloc(1, sizeof(*array));
    if (!array)
        return CUDA_ERROR_OUT_OF_MEMORY;
    array->magic = ARRAY_MAGIC;
    array->shape = *shape;
    array->context = context;
    size_array(array);
    array->charged_bytes = memory_charged(array->bytes);
    r = memory_charge(context->visible, array->charged_bytes);
    if (r == CUDA_SUCCESS) {
        array->contents = map_contents(array->bytes);
        if (!array->contents) {
            memory_discharge(context->visible, array->charged_bytes);
            r = CUDA_ERROR_OUT_OF_MEMORY;
        }
    }
    if (r != CUDA_SUCCESS) {
        free(array);
        return r;
    }
    pthread_mutex_lock(&context->process->lock);
    list_append(&context->arrays, &array->link);
    pthread_mutex_unlock(&context->process->lock);
    *ret_array = array;
    return CUDA_SUCCESS;
}

CUDA_API int cuArray3DCreate_v2(struct array **ret_array, const CUDA_ARRAY3D_DESCRIPTOR *shape)
{
    struct context *context;
    int r = context_current(&context);
    if (r == CUDA_SUCCESS && (!ret_array || !shape))
        r = CUDA_ERROR_INVALID_VALUE;
    return r == CUDA_SUCCESS ? make_array(context, shape, ret_array) : r;
}

CUDA_API int cuArrayCreate_v2(struct array **ret_array, const CUDA_ARRAY_DESCRIPTOR *shape)
{
    const CUDA_ARRAY3D_DESCRIPTOR whole = {
        .Width = shape ? shape->Width : 0,
        .Height = shape ? shape->Height : 0,
        .Format = shape ? shape->Format : 0,
        .NumChannels = shape ? shape->NumChannels : 0,
    };
    return cuArray3DCreate_v2(ret_array, shape ? &whole : NULL);
}

static int array_resolve(const struct array *array)
{
    struct process *process;
    int r = process_ready(&process);
    if (r != CUDA_SUCCESS)
        return r;
    if (!array || array->magic != ARRAY_MAGIC)
        return CUDA_ERROR_INVALID_HANDLE;
    return array->context->destroyed ? CUDA_ERROR_CONTEXT_IS_DESTROYED : CUDA_SUCCESS;
}

CUDA_API int cuArray3DGetDescriptor_v2(CUDA_ARRAY3D_DESCRIPTOR *ret_shape, struct array *array)
{
    int r = array_resolve(array);
    if (r == CUDA_SUCCESS && !ret_shape)
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS)
        *ret_shape = array->shape;
    return r;
}

CUDA_API int cuArrayGetDescriptor_v2(CUDA_ARRAY_DESCRIPTOR *ret_shape, struct array *array)
{
    int r = array_resolve(array);
    if (r == CUDA_SUCCESS && !ret_shape)
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS)
        *ret_shape = (CUDA_ARRAY_DESCRIPTOR){
            .Width = array->shape.Width,
            .Height = array->shape.Height,
            .Format = array->shape.Format,
            .NumChannels = array->shape.NumChannels,
        };
    return r;
}

/* Call under process.lock. */
static void free_array(struct array *array)
{
    memory_discharge(array->context->visible, array->charged_bytes);
    munmap(array->contents, array->bytes);
    list_remove(&array->link);
    array->magic = DEAD_MAGIC;
    free(array);
}

CUDA_API int cuArrayDestroy(struct array *array)
{
    int r = array_resolve(array);
    if (r == CUDA_SUCCESS && array->mipmapped)
        r = CUDA_ERROR_INVALID_HANDLE;
    if (r != CUDA_SUCCESS)
        return r;
    struct process *process = array->context->process;
    pthread_mutex_lock(&process->lock);
    free_array(array);
    pthread_mutex_unlock(&process->lock);
    return CUDA_SUCCESS;
}

/* Call under process.lock. */
static void free_mipmapped(struct mipmapped_array *mipmapped)
{
    memory_discharge(mipmapped->context->visible, mipmapped->charged_bytes);
    for (unsigned i = 0; i < mipmapped->level_count; i++)
        munmap(mipmapped->levels[i].contents, mipmapped->levels[i].bytes);
    list_remove(&mipmapped->link);
    mipmapped->magic = DEAD_MAGIC;
    free(mipmapped);
}

void array_discard_all(struct context *context)
{
    list_for_each_safe (it, &context->arrays)
        free_array(list_entry(it, struct array, link));
    list_for_each_safe (it, &context->mipmapped_arrays)
        free_mipmapped(list_entry(it, struct mipmapped_array, link));
}

static bool is_inside(size_t start, size_t length, size_t whole)
{
    return start <= whole && length <= whole - start;
}

int array_find(struct array *array, const struct array_box *box, unsigned char **ret_at,
               size_t *ret_row_bytes, size_t *ret_slice_bytes)
{
    if (!array || array->magic != ARRAY_MAGIC)
        return CUDA_ERROR_INVALID_HANDLE;
    if (!is_inside(box->x_bytes, box->width_bytes, array->row_bytes) ||
        !is_inside(box->y, box->height, at_least_one(array->shape.Height)) ||
        !is_inside(box->z, box->depth, at_least_one(array->shape.Depth)))
        return CUDA_ERROR_INVALID_VALUE;
    *ret_at =
        array->contents + box->z * array->slice_bytes + box->y * array->row_bytes + box->x_bytes;
    *ret_row_bytes = array->row_bytes;
    *ret_slice_bytes = array->slice_bytes;
    return CUDA_SUCCESS;
}

static size_t half(size_t value)
{
    return value > 1 ? value / 2 : value;
}

static unsigned levels_of(const CUDA_ARRAY3D_DESCRIPTOR *shape, unsigned wanted)
{
    size_t longest = shape->Width > shape->Height ? shape->Width : shape->Height;
    if ((shape->Flags & ARRAY_LAYERED) == 0 && shape->Depth > longest)
        longest = shape->Depth;
    unsigned most = 1;
    while (longest > 1) {
        longest /= 2;
        most++;
    }
    return wanted < most ? wanted : most;
}

/* Each level has half the width, height and depth of the level before; the number of layers
 * stays. */
static int make_levels(struct mipmapped_array *mipmapped, const CUDA_ARRAY3D_DESCRIPTOR *shape,
                       unsigned count)
{
    CUDA_ARRAY3D_DESCRIPTOR at = *shape;
    for (unsigned i = 0; i < count; i++) {
        struct array *level = &mipmapped->levels[i];
        level->magic = ARRAY_MAGIC;
        level->shape = at;
        level->context = mipmapped->context;
        level->mipmapped = mipmapped;
        list_init(&level->link);
        size_array(level);
        level->contents = map_contents(level->bytes);
        if (!level->contents)
            return CUDA_ERROR_OUT_OF_MEMORY;
        mipmapped->level_count++;
        mipmapped->charged_bytes += level->bytes;
        at.Width = half(at.Width);
        at.Height = half(at.Height);
        if ((at.Flags & ARRAY_LAYERED) == 0)
            at.Depth = half(at.Depth);
    }
    mipmapped->charged_bytes = memory_charged(mipmapped->charged_bytes);
    return CUDA_SUCCESS;
}

CUDA_API int cuMipmappedArrayCreate(struct mipmapped_array **ret_mipmapped,
                                    const CUDA_ARRAY3D_DESCRIPTOR *shape, unsigned level_count)
{
    struct context *context;
    int r = context_current(&context);
    if (r == CUDA_SUCCESS && (!ret_mipmapped || !shape || level_count == 0))
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS)
        r = check_shape(shape);
    if (r == CUDA_SUCCESS)
        r = capture_check_unsafe(context->process);
    if (r != CUDA_SUCCESS)
        return r;
    struct mipmapped_array *made = calloc(1, sizeof(*made));
    if (!made)
        return CUDA_ERROR_OUT_OF_MEMORY;
    made->magic = MIPMAPPED_ARRAY_MAGIC;
    made->context = context;
    list_init(&made->link);
    r = make_levels(made, shape, levels_of(shape, level_count));
    if (r == CUDA_SUCCESS)
        r = memory_charge(context->visible, made->charged_bytes);
    pthread_mutex_lock(&context->process->lock);
    if (r == CUDA_SUCCESS) {
        list_append(&context->mipmapped_arrays, &made->link);
        *ret_mipmapped = made;
    } else {
        made->charged_bytes = 0;
        free_mipmapped(made);
    }
    pthread_mutex_unlock(&context->process->lock);
    return r;
}

static int mipmapped_resolve(const struct mipmapped_array *mipmapped)
{
    struct process *process;
    int r = process_ready(&process);
    if (r != CUDA_SUCCESS)
        return r;
    if (!mipmapped || mipmapped->magic != MIPMAPPED_ARRAY_MAGIC)
        return CUDA_ERROR_INVALID_HANDLE;
    return mipmapped->context->destroyed ? CUDA_ERROR_CONTEXT_IS_DESTROYED : CUDA_SUCCESS;
}

CUDA_API int cuMipmappedArrayGetLevel(struct array **ret_array, struct mipmapped_array *mipmapped,
                                      unsigned level)
{
    int r = mipmapped_resolve(mipmapped);
    if (r == CUDA_SUCCESS && (!ret_array || level >= mipmapped->level_count))
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS)
        *ret_array = &mipmapped->levels[level];
    return r;
}

CUDA_API int cuMipmappedArrayDestroy(struct mipmapped_array *mipmapped)
{
    int r = mipmapped_resolve(mipmapped);
    if (r != CUDA_SUCCESS)
        return r;
    struct process *process = mipmapped->context->process;
    pthread_mutex_lock(&process->lock);
    free_mipmapped(mipmapped);
    pthread_mutex_unlock(&process->lock);
    return CUDA_SUCCESS;
}
