/* Threads of the shim's own: detached, with every signal blocked. They need the C library's, which
 * may have none. */
#pragma once
#include <stdbool.h>

enum { THREAD_STACK_BYTES = 256 << 10 }; /* the driver's calls need some */

/* False: no thread is to be had. */
bool thread_start(void *(*run)(void *argument), void *argument);
