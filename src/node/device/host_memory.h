/* Host memory that this machine, and the cgroup of this process, still allow programs to take. */
#pragma once
#include <stdint.h>

/* Returns the available bytes; 0 if they cannot be read. Reads files of /proc and /sys. */
uint64_t host_memory_available(void);
