/* muster/machine.h: what the library finds on this machine, without a runtime: the libraries that
 * it opens at run time, and the thresholds in force. The program muster-info prints all of it, with
 * the devices (muster_device_get_info).
 * Errors: INVALID_ARGUMENT (NULL, struct_size), OUT_OF_RANGE (no such index). Threads: any, also
 * inside a body. */
#ifndef MUSTER_MACHINE_H
#define MUSTER_MACHINE_H

#include "muster/runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One library that Muster opens at run time where it is there. A result struct: the rules are in
 * muster/status.h. Texts are cut where they do not fit. */
typedef struct muster_library_info {
    size_t struct_size; /* set by muster_library_info_init */
    int32_t found;      /* 1: it is used for its work; 0: it is not, and `text` says why */
    int32_t reserved;
    char name[32];    /* "OpenBLAS" */
    char work[96];    /* what it does for Muster: "products of matrices on CPU devices" */
    char version[64]; /* "0.3.21"; "" where it is not found */
    char path[512];   /* the file, with symbolic links followed; "" where it is not found */
    char text[512];   /* what it says of itself, or the sentence with which the library refuses or does without it */
} muster_library_info;
static inline void muster_library_info_init(muster_library_info *info) {
    if (info) info->struct_size = sizeof *info;
}
/* The number of such libraries, and library `index` of them, from 0 to count - 1. Opens the library
 * as the runtime does, by the same names and variables of the environment; it stays open until the
 * process ends. The MPI shim is opened, and MPI is not initialised. */
MUSTER_API int32_t muster_library_count(void);
MUSTER_API MUSTER_NODISCARD muster_status muster_library_get_info(int32_t index, muster_library_info *info);

/* One threshold: a size from which on another way between GPUs is taken. A result struct. */
typedef struct muster_threshold_info {
    size_t struct_size; /* set by muster_threshold_info_init */
    int64_t bytes;
    char name[32];    /* "p2p_bytes" */
    char kind[96];    /* of machine for which the value was written: a model of GPU, "sm_90", "any" */
    char source[512]; /* the file that MUSTER_THRESHOLDS names; "" for the table in the library */
} muster_threshold_info;
static inline void muster_threshold_info_init(muster_threshold_info *info) {
    if (info) info->struct_size = sizeof *info;
}
/* The number of thresholds, and threshold `index` of them as it holds on device `device` of
 * muster_device_get_info. Errors: also INVALID_ARGUMENT (the file of MUSTER_THRESHOLDS), errors of
 * the device. */
MUSTER_API int32_t muster_threshold_count(void);
MUSTER_API MUSTER_NODISCARD muster_status muster_threshold_get_info(int32_t device, int32_t index, muster_threshold_info *info);

#ifdef __cplusplus
}
#endif
#endif
