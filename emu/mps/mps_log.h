/* The logs of the MPS daemon and its server, in the format of the real logs. */
#pragma once
#include <stdio.h>

/* Opens `name` (control.log or server.log) in CUDA_MPS_LOG_DIRECTORY (/var/log/nvidia-mps) for
 * appending. Returns NULL on failure; mps_log() then does nothing. */
FILE *mps_log_open(const char *name);
void mps_log(FILE *log, const char *who, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
