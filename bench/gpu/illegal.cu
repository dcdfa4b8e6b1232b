/* Runs valid kernels for the given time, in milliseconds, then writes to an invalid address. */
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>

__global__ void write_to(int *place)
{
    *place = 1;
}

int main(int argc, char **argv)
{
    long good_ms = argc > 1 ? strtol(argv[1], nullptr, 10) : 1000;
    int *place;
    if (cudaMalloc(&place, 1 << 20) != cudaSuccess)
        return 2;
    auto start = std::chrono::steady_clock::now();
    while (std::chrono::steady_clock::now() - start < std::chrono::milliseconds(good_ms)) {
        write_to<<<1, 1>>>(place);
        if (cudaDeviceSynchronize() != cudaSuccess)
            return 3; /* a fault of another process */
    }
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    printf("faulting at %.3f\n", now.tv_sec + now.tv_nsec / 1e9);
    fflush(stdout);
    write_to<<<1, 1>>>(nullptr);
    cudaError_t result = cudaDeviceSynchronize();
    fprintf(stderr, "illegal: %s\n", cudaGetErrorString(result));
    return result == cudaSuccess ? 0 : 1;
}
