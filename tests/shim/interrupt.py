# interrupt.py KERNELS KERNEL_US: what Python makes of signals, with a deep queue. For exit_test.c.
import ctypes
import sys
import time

PTX = b""".version 6.0
.target sm_50
.address_size 64
.visible .entry gpumux_burn(.param .u32 sm, .param .u32 dram, .param .u64 ns,
    .param .u64 buffer, .param .u64 bytes)
{ ret; }
"""
kernels, kernel_us = int(sys.argv[1]), int(sys.argv[2])
cuda = ctypes.CDLL("libcuda.so.1")
context, module, function = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()


def check(result):
    if result != 0:
        sys.exit(f"CUDA error {result}")


def launch():
    values = [ctypes.c_uint32(100), ctypes.c_uint32(0), ctypes.c_uint64(kernel_us * 1000),
              ctypes.c_uint64(0), ctypes.c_uint64(0)]
    parameters = (ctypes.c_void_p * 5)(*[ctypes.addressof(value) for value in values])
    check(cuda.cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, None, parameters, None))


check(cuda.cuInit(0))
check(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0))
check(cuda.cuCtxSetCurrent(context))
check(cuda.cuModuleLoadData(ctypes.byref(module), PTX))
check(cuda.cuModuleGetFunction(ctypes.byref(function), module, b"gpumux_burn"))
for _ in range(kernels):
    launch()
try:
    print("ready", flush=True)
    for _ in range(600):
        time.sleep(0.1)  # a signal that comes right before it is noticed only when it is over
except KeyboardInterrupt:
    launch()
    print("interrupted", flush=True)
    sys.exit(7)
