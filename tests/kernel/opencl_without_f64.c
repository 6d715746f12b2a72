/* OpenCL as of a machine whose devices do not compute in f64: the functions are those of the loader
 * that this library is linked with, but for the one that lists a device's extensions. */
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { CL_DEVICE_EXTENSIONS = 0x1030 };

typedef int32_t (*get_device_info)(void *device, uint32_t what, size_t size, void *value, size_t *needed);

int32_t clGetDeviceInfo(void *device, uint32_t what, size_t size, void *value, size_t *needed);
__attribute__((visibility("default"))) int32_t clGetDeviceInfo(void *device, uint32_t what, size_t size, void *value, size_t *needed) {
    static const char name[] = "cl_khr_fp64";
    get_device_info real;
    void *symbol = dlsym(RTLD_NEXT, "clGetDeviceInfo");
    memcpy(&real, &symbol, sizeof real);
    const int32_t code = real(device, what, size, value, needed);
    if (code != 0 || what != CL_DEVICE_EXTENSIONS || !value) return code;
    char *found = strstr(value, name);
    if (found) memset(found, ' ', sizeof name - 1);
    return code;
}
