/*
 * What a CUDA program pays for single calls: an empty launch, cudaMalloc with cudaFree, cudaMallocAsync with
 * cudaFreeAsync. Prints one JSON object with the median over chunks, in nanoseconds.
 */
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

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

template <typename Call> static double median_ns(int chunks, int calls, Call call)
{
    std::vector<double> times;
    for (int chunk = -2; chunk < chunks; chunk++) {
        auto start = std::chrono::steady_clock::now();
        for (int i = 0; i < calls; i++)
            call();
        std::chrono::duration<double, std::nano> spent = std::chrono::steady_clock::now() - start;
        check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
        if (chunk >= 0) /* the first ones warm up */
            times.push_back(spent.count() / calls);
    }
    std::nth_element(times.begin(), times.begin() + times.size() / 2, times.end());
    return times[times.size() / 2];
}

int main()
{
    check(cudaFree(0), "cudaFree");
    double launch = median_ns(100, 1000, [] { empty<<<1, 1>>>(); });
    check(cudaGetLastError(), "a launch");
    double plain = median_ns(30, 50, [] {
        void *block;
        check(cudaMalloc(&block, block_bytes), "cudaMalloc");
        check(cudaFree(block), "cudaFree");
    });
    double ordered = median_ns(50, 1000, [] {
        void *block;
        check(cudaMallocAsync(&block, block_bytes, 0), "cudaMallocAsync");
        check(cudaFreeAsync(block, 0), "cudaFreeAsync");
    });
    printf("{\"launch_ns\": %.1f, \"malloc_ns\": %.1f, \"malloc_async_ns\": %.1f}\n", launch, plain, ordered);
    return 0;
}
