/* A CUDA program built by nvcc. Prints a result as specified in programs/probe.py. */
#include <cstdio>
#include <cstdlib>
#include <unistd.h>
#include <vector>

__global__ void scale(unsigned *data)
{
    data[threadIdx.x] = data[threadIdx.x] * 2 + 1;
}

static void need(cudaError_t result, const char *what)
{
    if (result == cudaSuccess)
        return;
    fprintf(stderr, "plain: %s: %s\n", what, cudaGetErrorString(result));
    exit(1);
}

static unsigned long long compute()
{
    std::vector<unsigned> values(256);
    unsigned *data, *ordered;
    unsigned long long sum = 0;
    cudaStream_t stream;
    cudaGraph_t graph;
    cudaGraphExec_t instance;
    for (unsigned i = 0; i < values.size(); i++)
        values[i] = i * i;
    size_t bytes = values.size() * sizeof(unsigned);
    need(cudaMalloc(&data, bytes), "cudaMalloc");
    need(cudaMemcpy(data, values.data(), bytes, cudaMemcpyHostToDevice), "cudaMemcpy");
    need(cudaStreamCreate(&stream), "cudaStreamCreate");
    for (int i = 0; i < 5; i++)
        scale<<<1, 256, 0, stream>>>(data);
    need(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), "cudaStreamBeginCapture");
    for (int i = 0; i < 5; i++)
        scale<<<1, 256, 0, stream>>>(data);
    need(cudaStreamEndCapture(stream, &graph), "cudaStreamEndCapture");
    need(cudaGraphInstantiate(&instance, graph, 0), "cudaGraphInstantiate");
    need(cudaGraphLaunch(instance, stream), "cudaGraphLaunch");
    need(cudaMallocAsync(&ordered, 64 << 20, stream), "cudaMallocAsync");
    need(cudaFreeAsync(ordered, stream), "cudaFreeAsync");
    need(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
    need(cudaMemcpy(values.data(), data, bytes, cudaMemcpyDeviceToHost), "cudaMemcpy");
    need(cudaFree(data), "cudaFree");
    for (unsigned value : values)
        sum += value;
    return sum;
}

int main()
{
    const char *text = getenv("PROBE_BYTES"), *hold = getenv("PROBE_HOLD_S");
    size_t free_bytes = 0, total_bytes = 0;
    void *block;
    unsigned long long before = compute();
    need(cudaMemGetInfo(&free_bytes, &total_bytes), "cudaMemGetInfo");
    cudaError_t result = cudaMalloc(&block, text ? strtoull(text, nullptr, 10) : 0);
    if (result != cudaErrorMemoryAllocation)
        need(result, "the large allocation");
    if (result == cudaSuccess)
        need(cudaFree(block), "cudaFree");
    (void)cudaGetLastError();
    unsigned long long again = compute();
    printf("{\"result\": [%llu], \"again\": [%llu], \"total_bytes\": %zu, \"oom\": %s}\n", before, again, total_bytes,
           result == cudaSuccess ? "null" : "\"cudaErrorMemoryAllocation\"");
    fflush(stdout);
    sleep(hold ? strtoul(hold, nullptr, 10) : 0);
    return 0;
}
