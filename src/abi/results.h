/* Results of the CUDA driver (api/cuda_results.def) and of NVML (api/nvml_results.def). */
#pragma once

enum cuda_result {
#define RESULT(name, number, text) name = number,
#include "../../api/cuda_results.def"
#undef RESULT
};

enum nvml_result {
#define RESULT(name, number) name = number,
#include "../../api/nvml_results.def"
#undef RESULT
};
