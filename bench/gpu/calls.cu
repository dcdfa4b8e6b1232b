/*
 * Times of single calls in a CUDA program: an empty launch; a launch after the program has run
 * through 1 MiB of code and as much data; cudaMalloc with cudaFree; cudaMallocAsync with
 * cudaFreeAsync. For every line of input the program measures once, for some 15 ms, and prints a
 * JSON object with the means in nanoseconds.
 */
#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "../cold_code.h"

static const size_t block_bytes = 2 << 20;

__global__ void empty()
{
}

static void check(cudaError_t result, const char *what)
{
    if (result == cudaSuccess)
        return;
    fprintf(stderr, "calls: %s: %s\n", what, cudaGetErrorString(result));
    exit(1);
}

template <typename Call> static double mean_ns(int calls, Call call)
{
    auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < calls; i++)
        call();
    std::chrono::duration<double, std::nano> spent = std::chrono::steady_clock::now() - start;
    check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    return spent.count() / calls;
}

static double cold_mean_ns(int calls, const struct cold_code *cold)
{
    std::chrono::duration<double, std::nano> spent(0);
    for (int i = 0; i < calls; i++) {
        cold_run(cold);
        auto start = std::chrono::steady_clock::now();
        empty<<<1, 1>>>();
        spent += std::chrono::steady_clock::now() - start;
    }
    check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    return spent.count() / calls;
}

int main()
{
    struct cold_code cold;
    check(cudaFree(0), "cudaFree");
    if (!cold_make(1 << 20, &cold)) {
        fprintf(stderr, "calls: no memory for code\n");
        return 1;
    }
    for (int c; (c = getchar()) != EOF;) {
        if (c != '\n')
            continue;
        double launch = mean_ns(1000, [] { empty<<<1, 1>>>(); });
        double cold_launch = cold_mean_ns(20, &cold);
        check(cudaGetLastError(), "a launch");
        double plain = mean_ns(30, [] {
            void *block;
            check(cudaMalloc(&block, block_bytes), "cudaMalloc");
            check(cudaFree(block), "cudaFree");
        });
        double ordered = mean_ns(1000, [] {
            void *block;
            check(cudaMallocAsync(&block, block_bytes, 0), "cudaMallocAsync");
            check(cudaFreeAsync(block, 0), "cudaFreeAsync");
        });
        printf("{\"launch_ns\": %.1f, \"cold_launch_ns\": %.1f, \"malloc_ns\": %.1f, "
               "\"malloc_async_ns\": %.1f}\n",
               launch, cold_launch, plain, ordered);
        fflush(stdout);
    }
    return 0;
}
