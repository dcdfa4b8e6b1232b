/* The log of the MPS daemon and its server, in the layout of the real ones. */
#pragma once
#include <stdio.h>

/* name: control.log or server.log in CUDA_MPS_LOG_DIRECTORY (/var/log/nvidia-mps), for appending;
 * NULL, and everything is silent, where that cannot be. */
FILE *mps_log_open(const char *name);
void mps_log(FILE *log, const char *who, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
