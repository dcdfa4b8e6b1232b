/*
 * Trees are grown from presorted columns. For every feature a list has the samples in ascending
 * order. A node is the same range in all lists, and a split divides every list in two and keeps the
 * order. So each list is sorted once, and a level of a tree costs samples × features.
 *
 * A tree is an array of nodes. The left child follows its parent; a leaf is its own right child, so
 * a walk may harmlessly continue in a leaf. WALKS trees are walked in parallel, because a walk
 * mostly waits for memory.
 */
#include "learn/forest.h"

#include <assert.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"

/* Small, because a walk mostly waits for memory. */
struct node {
    float threshold; /* samples up to this value go left; a leaf has −∞ */
    uint16_t right;  /* index in the tree; a leaf's own index */
    uint16_t feature;
};

struct tree {
    struct node *nodes; /* points into the forest's arrays, like `answers` */
    double *answers;    /* mean of the node's samples */
    size_t count;
};

struct forest {
    size_t node_count;
    struct node *nodes;
    double *answers;
    struct tree trees[FOREST_TREES];
};

/* State of growing a tree. */
struct grower {
    const double *targets;
    size_t count, features;
    double *columns;   /* features × count: the rows, transposed */
    uint16_t *sorted;  /* features × count: sample indices, ascending by value */
    uint16_t *order;   /* as `sorted`, for one tree: the `drawn` distinct samples */
    uint16_t *aside;   /* scratch space, count */
    uint32_t *weights; /* how often each sample was drawn */
    bool *goes_left;   /* indexed by sample */
    size_t drawn;
    uint16_t shuffled[FOREST_FEATURES_MAX];
    size_t usable; /* useful features, the first of `shuffled` */
    size_t tries;  /* features examined per split */
    struct rng rng;
    struct node *nodes; /* room for count, like `answers`: a leaf has two samples */
    double *answers;
    size_t node_count;
};

struct split {
    size_t feature;
    float threshold;
    double score;
};

static uint16_t *order_of(const struct grower *g, size_t feature)
{
    return g->order + feature * g->count;
}

static void sort_column(const double *column, uint16_t *index, uint16_t *aside, size_t count)
{
    for (size_t width = 1; width < count; width *= 2) {
        for (size_t from = 0; from < count; from += 2 * width) {
            size_t middle = from + width < count ? from + width : count;
            size_t end = from + 2 * width < count ? from + 2 * width : count;
            size_t a = from, b = middle;
            for (size_t to = from; to < end; to++)
                aside[to] = a < middle && (b == end || column[index[a]] <= column[index[b]])
                                ? index[a++]
                                : index[b++];
        }
        memcpy(index, aside, count * sizeof *index);
    }
}

/* Returns whether a feature is useful: not constant, and not equal to an earlier feature. */
static bool is_telling(const struct grower *g, size_t feature)
{
    const double *column = g->columns + feature * g->count;
    const uint16_t *index = g->sorted + feature * g->count;
    if (!(column[index[0]] < column[index[g->count - 1]]))
        return false;
    for (size_t k = 0; k < g->usable; k++)
        if (memcmp(g->columns + g->shuffled[k] * g->count, column, g->count * sizeof *column) == 0)
            return false;
    return true;
}

static void grower_sort(struct grower *g, const double *rows)
{
    for (size_t f = 0; f < g->features; f++) {
        double *column = g->columns + f * g->count;
        uint16_t *index = g->sorted + f * g->count;
        for (size_t i = 0; i < g->count; i++) {
            column[i] = rows[i * g->features + f];
            index[i] = (uint16_t)i;
        }
        sort_column(column, index, g->aside, g->count);
        if (is_telling(g, f))
            g->shuffled[g->usable++] = (uint16_t)f;
    }
    g->tries = (g->usable + 2) / 3;
}

static void grower_draw(struct grower *g)
{
    memset(g->weights, 0, g->count * sizeof *g->weights);
    for (size_t i = 0; i < g->count; i++)
        g->weights[rng_below(&g->rng, g->count)]++;
    for (size_t k = 0; k < g->usable; k++) {
        size_t f = g->shuffled[k];
        uint16_t *order = order_of(g, f);
        g->drawn = 0;
        for (size_t i = 0; i < g->count; i++) {
            uint16_t sample = g->sorted[f * g->count + i];
            if (g->weights[sample] > 0)
                order[g->drawn++] = sample;
        }
    }
}

/* Finds the best split of a range by one feature, if better than *best. Returns false if the
 * feature is constant in the range. */
static bool try_feature(const struct grower *g, size_t feature, size_t from, size_t end, double sum,
                        double weight, struct split *best)
{
    const uint16_t *order = order_of(g, feature);
    const double *column = g->columns + feature * g->count;
    if (!(column[order[from]] < column[order[end - 1]]))
        return false;
    double left_sum = 0, left_weight = 0;
    for (size_t i = from; i + FOREST_LEAF_MIN < end; i++) {
        uint16_t sample = order[i];
        left_weight += g->weights[sample];
        left_sum += g->weights[sample] * g->targets[sample];
        double here = column[sample], next = column[order[i + 1]];
        float threshold = (float)(here + (next - here) / 2);
        if (i + 1 - from < FOREST_LEAF_MIN || (double)threshold < here || (double)threshold >= next)
            continue;
        double right_sum = sum - left_sum;
        double score =
            left_sum * left_sum / left_weight + right_sum * right_sum / (weight - left_weight);
        if (score > best->score)
            *best = (struct split){.feature = feature, .score = score, .threshold = threshold};
    }
    return true;
}

/* Examines `tries` features that vary in the range, in random order. */
static bool find_split(struct grower *g, size_t from, size_t end, double sum, double weight,
                       struct split *ret)
{
    struct split best = {.score = sum * sum / weight * (1 + 1e-12) + 1e-300};
    double before = best.score;
    size_t tried = 0;
    for (size_t k = 0; k < g->usable && tried < g->tries; k++) {
        size_t other = k + rng_below(&g->rng, g->usable - k);
        uint16_t feature = g->shuffled[other];
        g->shuffled[other] = g->shuffled[k];
        g->shuffled[k] = feature;
        if (try_feature(g, feature, from, end, sum, weight, &best))
            tried++;
    }
    *ret = best;
    return best.score > before;
}

/* Divides the range in all lists and returns the start of its right part. */
static size_t divide(struct grower *g, size_t from, size_t end, const struct split *split)
{
    const uint16_t *by = order_of(g, split->feature);
    const double *column = g->columns + split->feature * g->count;
    size_t middle = from;
    for (size_t i = from; i < end; i++) {
        g->goes_left[by[i]] = column[by[i]] <= (double)split->threshold;
        middle += g->goes_left[by[i]];
    }
    for (size_t k = 0; k < g->usable; k++) {
        uint16_t *order = order_of(g, g->shuffled[k]);
        size_t left = from, right = 0;
        for (size_t i = from; i < end; i++) {
            uint16_t sample = order[i];
            if (g->goes_left[sample])
                order[left++] = sample;
            else
                g->aside[right++] = sample;
        }
        memcpy(order + left, g->aside, right * sizeof *order);
    }
    return middle;
}

static void grow(struct grower *g, size_t from, size_t end, size_t depth)
{
    size_t at = g->node_count++;
    const uint16_t *order = order_of(g, g->shuffled[0]);
    double sum = 0, weight = 0;
    for (size_t i = from; i < end; i++) {
        weight += g->weights[order[i]];
        sum += g->weights[order[i]] * g->targets[order[i]];
    }
    g->answers[at] = sum / weight;
    g->nodes[at] = (struct node){.threshold = -HUGE_VALF, .right = (uint16_t)at};
    struct split split;
    if (end - from < 2 * FOREST_LEAF_MIN || depth == FOREST_DEPTH_MAX ||
        !find_split(g, from, end, sum, weight, &split))
        return;
    size_t middle = divide(g, from, end, &split);
    grow(g, from, middle, depth + 1);
    g->nodes[at] = (struct node){.threshold = split.threshold,
                                 .feature = (uint16_t)split.feature,
                                 .right = (uint16_t)g->node_count};
    grow(g, middle, end, depth + 1);
}

/* Grows a tree of samples that no feature distinguishes. */
static void grow_leaf(struct grower *g)
{
    g->node_count = 1;
    g->nodes[0] = (struct node){.threshold = -HUGE_VALF};
    g->answers[0] = 0;
    for (size_t i = 0; i < g->count; i++)
        g->answers[0] += g->weights[i] * g->targets[i] / (double)g->count;
}

static void grower_done(struct grower *g)
{
    free(g->columns);
    free(g->sorted);
    free(g->order);
    free(g->aside);
    free(g->weights);
    free(g->goes_left);
    free(g->nodes);
    free(g->answers);
}

static bool grower_init(struct grower *g, const double *rows, const double *targets, size_t count,
                        size_t features, uint64_t seed)
{
    *g = (struct grower){.targets = targets, .count = count, .features = features};
    rng_seed(&g->rng, seed);
    g->columns = calloc(features * count, sizeof *g->columns);
    g->sorted = calloc(features * count, sizeof *g->sorted);
    g->order = calloc(features * count, sizeof *g->order);
    g->aside = calloc(count, sizeof *g->aside);
    g->weights = calloc(count, sizeof *g->weights);
    g->goes_left = calloc(count, sizeof *g->goes_left);
    g->nodes = calloc(count, sizeof *g->nodes);
    g->answers = calloc(count, sizeof *g->answers);
    if (g->columns == NULL || g->sorted == NULL || g->order == NULL || g->aside == NULL ||
        g->weights == NULL || g->goes_left == NULL || g->nodes == NULL || g->answers == NULL)
        return false;
    grower_sort(g, rows);
    return true;
}

/* Appends a tree to the forest's nodes. */
static bool forest_append(struct forest *f, size_t tree, const struct node *nodes,
                          const double *answers, size_t count)
{
    struct node *more = reallocarray(f->nodes, f->node_count + count, sizeof *more);
    if (more == NULL)
        return false;
    f->nodes = more;
    double *more_answers = reallocarray(f->answers, f->node_count + count, sizeof *more_answers);
    if (more_answers == NULL)
        return false;
    f->answers = more_answers;
    memcpy(more + f->node_count, nodes, count * sizeof *nodes);
    memcpy(more_answers + f->node_count, answers, count * sizeof *answers);
    f->node_count += count;
    f->trees[tree].count = count;
    return true;
}

/* Sets the trees' pointers, after the last append. */
static void forest_point_trees(struct forest *f)
{
    size_t at = 0;
    for (size_t t = 0; t < FOREST_TREES; t++) {
        f->trees[t].nodes = f->nodes + at;
        f->trees[t].answers = f->answers + at;
        at += f->trees[t].count;
    }
}

int forest_train(const double *rows, const double *targets, size_t count, size_t features,
                 uint64_t seed, struct forest **ret_forest)
{
    assert(count > 0 && count <= FOREST_SAMPLES_MAX && features > 0 &&
           features <= FOREST_FEATURES_MAX);
    struct grower g;
    struct forest *f = calloc(1, sizeof *f);
    bool ok = grower_init(&g, rows, targets, count, features, seed) && f != NULL;
    for (size_t t = 0; ok && t < FOREST_TREES; t++) {
        grower_draw(&g);
        g.node_count = 0;
        if (g.usable > 0) {
            grow(&g, 0, g.drawn, 0);
        } else {
            grow_leaf(&g);
        }
        ok = forest_append(f, t, g.nodes, g.answers, g.node_count);
    }
    grower_done(&g);
    if (!ok) {
        forest_free(f);
        return -ERR_NO_MEMORY;
    }
    forest_point_trees(f);
    *ret_forest = f;
    return 0;
}

void forest_free(struct forest *f)
{
    if (f == NULL)
        return;
    free(f->nodes);
    free(f->answers);
    free(f);
}

enum { WALKS = 10 };
_Static_assert(FOREST_TREES % WALKS == 0, "trees are walked WALKS at a time");

static uint32_t step(const struct tree *tree, const double *row, uint32_t at)
{
    const struct node *node = &tree->nodes[at];
    uint32_t left = 0u - (uint32_t)(row[node->feature] <= (double)node->threshold);
    return ((at + 1) & left) | (node->right & ~left);
}

static void walk(const struct tree trees[WALKS], const double *row, double ret_answers[WALKS])
{
    uint32_t at[WALKS] = {0};
    for (bool moved = true; moved;) {
        uint32_t change = 0;
        for (size_t k = 0; k < WALKS; k++) {
            uint32_t next = step(&trees[k], row, at[k]);
            change |= next ^ at[k];
            at[k] = next;
        }
        moved = change != 0;
    }
    for (size_t k = 0; k < WALKS; k++)
        ret_answers[k] = trees[k].answers[at[k]];
}

double forest_predict(const struct forest *f, const double *row, double *ret_spread)
{
    double answers[FOREST_TREES], mean = 0, square = 0;
    for (size_t t = 0; t < FOREST_TREES; t += WALKS)
        walk(f->trees + t, row, answers + t);
    for (size_t t = 0; t < FOREST_TREES; t++)
        mean += answers[t];
    mean /= FOREST_TREES;
    for (size_t t = 0; t < FOREST_TREES; t++)
        square += (answers[t] - mean) * (answers[t] - mean);
    *ret_spread = sqrt(square / FOREST_TREES);
    return mean;
}

static bool is_leaf(const struct node *nodes, size_t at)
{
    return nodes[at].right == at;
}

/* Saves each node: feature and right child in one number, then a leaf's answer or an inner node's
 * threshold. */
void forest_save(const struct forest *f, struct str *to)
{
    for (size_t t = 0; t < FOREST_TREES; t++) {
        const struct tree *tree = &f->trees[t];
        stored_put_u64(to, tree->count);
        for (size_t i = 0; i < tree->count; i++) {
            const struct node *node = &tree->nodes[i];
            stored_put_u64(to, (uint64_t)node->feature << 16 | node->right);
            stored_put_double(to,
                              is_leaf(tree->nodes, i) ? tree->answers[i] : (double)node->threshold);
        }
    }
}

/* Checks that the children of an inner node follow it within the tree, so that every walk ends. */
static bool node_is_sound(const struct node *nodes, size_t at, size_t count, size_t features)
{
    return nodes[at].feature < features &&
           (is_leaf(nodes, at) || (nodes[at].right > at + 1 && nodes[at].right < count));
}

static bool load_tree(struct stored_reader *r, size_t count, size_t features, struct node *nodes,
                      double *answers)
{
    for (size_t i = 0; i < count; i++) {
        size_t both = stored_get_size(r, UINT32_MAX);
        double value = stored_get_double(r);
        nodes[i] = (struct node){.feature = (uint16_t)(both >> 16), .right = (uint16_t)both};
        if (r->failed || !node_is_sound(nodes, i, count, features))
            return false;
        nodes[i].threshold = is_leaf(nodes, i) ? -HUGE_VALF : (float)value;
        answers[i] = is_leaf(nodes, i) ? value : 0;
    }
    return count > 0;
}

struct forest *forest_load(struct stored_reader *r, size_t features)
{
    enum { NODES_MAX = FOREST_SAMPLES_MAX, NODE_BYTES = 16 };
    struct forest *f = calloc(1, sizeof *f);
    struct node *nodes = NULL;
    double *answers = NULL;
    bool ok = f != NULL;
    for (size_t t = 0; ok && t < FOREST_TREES; t++) {
        size_t count = stored_get_size(r, NODES_MAX);
        free(nodes);
        free(answers);
        nodes = calloc(count + 1, sizeof *nodes);
        answers = calloc(count + 1, sizeof *answers);
        ok = nodes != NULL && answers != NULL && count <= r->left / NODE_BYTES &&
             load_tree(r, count, features, nodes, answers) &&
             forest_append(f, t, nodes, answers, count);
    }
    free(nodes);
    free(answers);
    if (!ok) {
        r->failed = true;
        forest_free(f);
        return NULL;
    }
    forest_point_trees(f);
    return f;
}
