/*
 * Random numbers from an explicit generator: the same seed gives the same run. xoshiro256**, seeded
 * by splitmix64. Not for secrets.
 */
#pragma once
#include <stdint.h>

struct rng {
    uint64_t state[4];
};

void rng_seed(struct rng *r, uint64_t seed);
uint64_t rng_u64(struct rng *r);
/* Uniform in [0, bound); bound > 0. */
uint64_t rng_below(struct rng *r, uint64_t bound);
/* Uniform in [0, 1). */
double rng_double(struct rng *r);
/* Returns a seed from the operating system, for main programs without a given seed. */
uint64_t rng_os_seed(void);
