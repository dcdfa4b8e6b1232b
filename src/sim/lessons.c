#include "sim/lessons.h"

#include <stdlib.h>

#include "learn/observations.h"
#include "learn/predictor.h"

/* Growth of the measurements after which a new model is trained. Training costs as much as the
 * measurements, so a geometric schedule keeps the total low. */
#define GROWTH 1.5

struct lessons {
    struct observations *observations;
    struct predictor *predictor; /* NULL: not trained yet */
    uint64_t seed, version;
    double due; /* measurements at which a model is trained */
};

struct lessons *lessons_new(uint64_t seed)
{
    struct lessons *l = calloc(1, sizeof *l);
    if (!l)
        return NULL;
    *l = (struct lessons){.seed = seed, .version = 1, .due = PREDICTOR_OBSERVATIONS_MIN};
    l->observations = observations_new(seed);
    if (!l->observations) {
        free(l);
        return NULL;
    }
    return l;
}

void lessons_free(struct lessons *l)
{
    if (!l)
        return;
    predictor_free(l->predictor);
    observations_free(l->observations);
    free(l);
}

int lessons_add(struct lessons *l, const struct task_profile *own,
                const struct task_profile *others, size_t other_count, double interference)
{
    l->version += l->predictor == NULL; /* cold-start predictions depend on the measurements */
    return observations_add(l->observations, own, others, other_count, interference);
}

int lessons_revise(struct lessons *l)
{
    struct predictor *trained;
    if ((double)observations_total(l->observations) < l->due)
        return 0;
    int r = predictor_train(l->observations, PREDICTOR_FOREST_ALONE, l->seed, &trained);
    if (r < 0)
        return r;
    predictor_free(l->predictor);
    l->predictor = trained;
    l->due = GROWTH * (double)observations_total(l->observations);
    l->version++;
    return 0;
}

uint64_t lessons_version(const struct lessons *l)
{
    return l->version;
}

double lessons_predict(const struct lessons *l, const struct task_profile *own,
                       const struct task_profile *other)
{
    struct prediction prediction;
    predictor_predict(l->predictor, l->observations, own, other, 1, &prediction);
    return prediction.interference;
}
