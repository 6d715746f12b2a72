/* Prints which of the libraries are missing that Muster opens at run time: lines "NEED REASON", for
 * tests/needs.txt. CMake asks it (cmake/needs.cmake). It opens them by the names and the variables
 * of the library. */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Of the libraries that the variable names, or of these, the first that opens. */
static void *open_any(const char *variable, const char *const *names) {
    const char *asked = variable ? getenv(variable) : NULL;
    if (asked && strcmp(asked, "none") == 0) return NULL;
    if (asked && *asked) return dlopen(asked, RTLD_NOW | RTLD_LOCAL);
    void *library = NULL;
    for (; *names && !library; names++) library = dlopen(*names, RTLD_NOW | RTLD_LOCAL);
    return library;
}

static int has_opencl_device(void) {
    void *library = open_any("MUSTER_OPENCL_LIBRARY", (const char *const[]){"libOpenCL.so.1", NULL});
    if (!library) return 0;
    int32_t (*platforms)(uint32_t, void **, uint32_t *) = (int32_t(*)(uint32_t, void **, uint32_t *))dlsym(library, "clGetPlatformIDs");
    int32_t (*devices)(void *, uint64_t, uint32_t, void **, uint32_t *) =
        (int32_t(*)(void *, uint64_t, uint32_t, void **, uint32_t *))dlsym(library, "clGetDeviceIDs");
    void *found[16];
    uint32_t count = 0, of_platform = 0;
    if (!platforms || !devices || platforms(16, found, &count) != 0) return 0;
    for (uint32_t i = 0; i < count && i < 16; i++)
        if (devices(found[i], 2 /* CL_DEVICE_TYPE_CPU */, 0, NULL, &of_platform) == 0 && of_platform > 0) return 1;
    return 0;
}

int main(void) {
    if (!open_any("MUSTER_BLAS", (const char *const[]){"libopenblas.so.0", NULL}))
        puts("openblas libopenblas.so.0 does not open (Debian: libopenblas0-pthread)");
    if (!open_any("MUSTER_ONEDNN", (const char *const[]){"libdnnl.so.3", "libdnnl.so.3.6", "libdnnl.so.2", NULL}))
        puts("onednn none of libdnnl.so.3, libdnnl.so.3.6 and libdnnl.so.2 opens (Debian: libdnnl2, libdnnl3 or libdnnl3.6)");
    if (!open_any(NULL, (const char *const[]){"libhwloc.so.15", NULL})) puts("hwloc libhwloc.so.15 does not open (Debian: libhwloc15)");
    if (!open_any(NULL, (const char *const[]){"libnvrtc.so.13", "libnvrtc.so.12", NULL})) puts("nvrtc there is none (script/fetch-nvrtc)");
    if (!has_opencl_device())
        puts("opencl libOpenCL.so.1 offers no CPU (Debian: ocl-icd-libopencl1 pocl-opencl-icd, which needs a cache that it can write: "
             "POCL_CACHE_DIR or ~/.cache)");
    return 0;
}
