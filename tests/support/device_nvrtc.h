/* Where the tests find the real NVRTC: in the CUDA toolkit, or where script/fetch-nvrtc puts it. */
#ifndef MST_DEVICE_NVRTC_H
#define MST_DEVICE_NVRTC_H

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* Sets MUSTER_CUDA_LIBRARIES to the first folder that has an NVRTC. If none has, the loader looks
 * for it. */
static inline void nvrtc_find_library(void) {
    static const char *const folders[] = {"/usr/local/cuda/lib64", MUSTER_NVRTC_FETCHED};
    static const char *const sonames[] = {"libnvrtc.so.13", "libnvrtc.so.12"};
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++)
        for (size_t j = 0; j < sizeof sonames / sizeof *sonames; j++) {
            char path[4096];
            snprintf(path, sizeof path, "%s/%s", folders[i], sonames[j]);
            if (access(path, R_OK) != 0) continue;
            setenv("MUSTER_CUDA_LIBRARIES", folders[i], 1);
            return;
        }
}

#endif
