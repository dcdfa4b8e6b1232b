"""Kernels of gpumux-burn through the CUDA driver alone: no PyTorch, on emulated devices and real
ones."""

import ctypes
from pathlib import Path


class Kernels:
    """A stream of the primary context on device 0."""

    SMS_PERMILLE, DRAM_PERMILLE = 500, 0

    def __init__(self):
        self.driver = ctypes.CDLL("libcuda.so.1")
        self.check("cuInit", 0)
        device, context, module = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_void_p()
        self.function, self.stream = ctypes.c_void_p(), ctypes.c_void_p()
        self.check("cuDeviceGet", ctypes.byref(device), 0)
        self.check("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self.check("cuCtxSetCurrent", context)
        ptx = Path(__file__).with_name("burn.ptx").read_bytes() + b"\0"
        self.check("cuModuleLoadData", ctypes.byref(module), ptx)
        self.check("cuModuleGetFunction", ctypes.byref(self.function), module, b"gpumux_burn")
        self.check("cuStreamCreate", ctypes.byref(self.stream), 1)
        self.values = (ctypes.c_uint32(self.SMS_PERMILLE), ctypes.c_uint32(self.DRAM_PERMILLE),
                       ctypes.c_uint64(0), ctypes.c_uint64(0), ctypes.c_uint64(0))
        self.parameters = (ctypes.c_void_p * 5)(*[ctypes.addressof(v) for v in self.values])

    def check(self, name, *arguments):
        result = getattr(self.driver, name)(*arguments)
        if result != 0:
            raise OSError(f"{name} failed with CUDA error {result}")

    def launch(self, us):
        self.values[2].value = int(us * 1000)
        self.check("cuLaunchKernel", self.function, 66, 1, 1, 1024, 1, 1, 0, self.stream,
                   self.parameters, None)

    def wait(self):
        self.check("cuStreamSynchronize", self.stream)
