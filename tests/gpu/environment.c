/* The first step of script/gpu-check: what this machine has, one "key: value" a line. It opens the
 * driver and the other libraries as Muster opens them and uses nothing of Muster, so that it can be
 * built by the C compiler alone:
 *
 *     cc -std=gnu11 tests/gpu/environment.c -o environment -ldl
 *
 * No line names the host, its user, or a serial number of a GPU. Exit 0: there are GPUs that can be
 * used; 77: there are none, and a line says why. */
#include <dirent.h>
#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/statvfs.h>

extern char **environ;

static void *open_named(const char *soname) {
    const char *folder = getenv("MUSTER_CUDA_LIBRARIES");
    char path[4096];
    const bool only = folder && *folder;
    snprintf(path, sizeof path, "%s%s%s", only ? folder : "", only ? "/" : "", soname);
    return dlopen(path, RTLD_NOW | RTLD_LOCAL);
}

/* The function of this name with these arguments, which return an int; NULL if there is none. */
#define FIND(library, name, ...) \
    int (*name)(__VA_ARGS__);    \
    *(void **)&name = library ? dlsym(library, #name) : NULL

/* ---- the operating system ---- */

static void tell_limits(void) {
    struct statvfs shm;
    struct rlimit locked;
    if (statvfs("/dev/shm", &shm) == 0)
        printf("/dev/shm: %llu MiB, %llu MiB free\n", (unsigned long long)shm.f_blocks * shm.f_frsize >> 20,
               (unsigned long long)shm.f_bavail * shm.f_frsize >> 20);
    else
        printf("/dev/shm: none\n");
    if (getrlimit(RLIMIT_MEMLOCK, &locked) != 0)
        printf("locked memory: not known\n");
    else if (locked.rlim_cur == RLIM_INFINITY)
        printf("locked memory: unlimited\n");
    else
        printf("locked memory: at most %llu KiB\n", (unsigned long long)locked.rlim_cur >> 10);
}

/* With an IOMMU that translates, copies between GPUs over PCIe can hang or deliver garbage. */
static void tell_iommu(void) {
    int groups = 0;
    DIR *folder = opendir("/sys/kernel/iommu_groups");
    for (struct dirent *entry; folder && (entry = readdir(folder));) groups += entry->d_name[0] != '.';
    if (folder) closedir(folder);
    printf("IOMMU groups: %d\n", groups);
}

/* The variables of CUDA and NCCL. Those in the list hold no names of hosts, users or folders, so
 * their values are printed; of the others only that they are set. */
static void tell_variables(void) {
    static const char *const open[] = {"CUDA_VISIBLE_DEVICES", "CUDA_MODULE_LOADING", "CUDA_DEVICE_MAX_CONNECTIONS",
                                       "CUDA_LAUNCH_BLOCKING", "CUDA_DEVICE_ORDER",   "NCCL_P2P_DISABLE",
                                       "NCCL_SHM_DISABLE",     "NCCL_NVLS_ENABLE",    "NCCL_RUNTIME_CONNECT"};
    for (char **one = environ; *one; one++) {
        const size_t length = strcspn(*one, "=");
        bool shown = false;
        if (strncmp(*one, "CUDA_", 5) != 0 && strncmp(*one, "NCCL_", 5) != 0) continue;
        for (size_t i = 0; i < sizeof open / sizeof *open; i++) shown |= strlen(open[i]) == length && strncmp(*one, open[i], length) == 0;
        printf("variable: %.*s%s\n", (int)length, *one, shown ? *one + length : " is set");
    }
}

/* ---- the libraries beside the driver ---- */

/* "library: NAME: SONAME: opened", or "missing" with the loader's words. */
static void *tell_library(const char *name, const char *const *sonames) {
    char reason[512] = "";
    for (int i = 0; sonames[i]; i++) {
        void *library = open_named(sonames[i]);
        if (library) {
            printf("library: %s: %s: opened\n", name, sonames[i]);
            return library;
        }
        const char *words = dlerror();
        if (!*reason) snprintf(reason, sizeof reason, "%s", words ? words : "");
    }
    printf("library: %s: %s: missing: %s\n", name, sonames[0], reason);
    return NULL;
}

/* A driver of CUDA 12 does not run what CUDA 13's libraries launch, so they are passed over. */
static void tell_libraries(int driver) {
    static const char *const nvrtc_names[] = {"libnvrtc.so.13", "libnvrtc.so.12", NULL};
    static const char *const cublas_names[] = {"libcublas.so.13", "libcublas.so.12", NULL};
    static const char *const cudnn_names[] = {"libcudnn.so.9", NULL};
    static const char *const nccl_names[] = {"libnccl.so.2", NULL};
    const int from = driver > 0 && driver < 13000;
    int parts[3] = {0}, version = 0;
    void *nvrtc = tell_library("NVRTC", nvrtc_names + from), *cublas = tell_library("cuBLAS", cublas_names + from),
         *cudnn = tell_library("cuDNN", cudnn_names), *nccl = tell_library("NCCL", nccl_names);
    FIND(nvrtc, nvrtcVersion, int *, int *);
    FIND(cublas, cublasGetProperty, int, int *);
    FIND(cudnn, cudnnGetVersion, void); /* a size_t, of 5 digits */
    FIND(nccl, ncclGetVersion, int *);
    if (nvrtcVersion && nvrtcVersion(&parts[0], &parts[1]) == 0) printf("NVRTC: %d.%d\n", parts[0], parts[1]);
    bool known = cublasGetProperty != NULL;
    for (int i = 0; i < 3 && known; i++) known = cublasGetProperty(i, &parts[i]) == 0;
    if (known) printf("cuBLAS: %d.%d.%d\n", parts[0], parts[1], parts[2]);
    if (cudnnGetVersion) version = cudnnGetVersion();
    if (cudnnGetVersion) printf("cuDNN: %d.%d.%d\n", version / 10000, version / 100 % 100, version % 100);
    if (ncclGetVersion && ncclGetVersion(&version) == 0) printf("NCCL: %d.%d.%d\n", version / 10000, version / 100 % 100, version % 100);
}

/* ---- the driver ---- */

static int attribute(void *driver, int which, int device) {
    int value = -1;
    FIND(driver, cuDeviceGetAttribute, int *, int, int);
    return cuDeviceGetAttribute && cuDeviceGetAttribute(&value, which, device) == 0 ? value : -1;
}

/* Numbers of CUdevice_attribute (cuda.h). An instance of a GPU in MIG mode says so in its name. */
static void tell_device(void *driver, int ordinal) {
    static const char *const modes[] = {"shared", "exclusive to a thread", "prohibited", "exclusive to a process"};
    enum { MULTIPROCESSORS = 16, COMPUTE_MODE = 20, MAJOR = 75, MINOR = 76, PAGEABLE = 88, MANAGED = 89, REGISTER = 99 };
    char name[128] = "of an unknown model";
    size_t bytes = 0;
    int device = 0;
    FIND(driver, cuDeviceGet, int *, int);
    FIND(driver, cuDeviceGetName, char *, int, int);
    FIND(driver, cuDeviceTotalMem_v2, size_t *, int);
    if (cuDeviceGet(&device, ordinal) != 0) return;
    if (cuDeviceGetName) cuDeviceGetName(name, sizeof name, device);
    if (cuDeviceTotalMem_v2) cuDeviceTotalMem_v2(&bytes, device);
    const int mode = attribute(driver, COMPUTE_MODE, device);
    printf("device %d: %s, sm_%d%d, %d multiprocessors, %zu MiB, %s, pageable access %d, managed access %d, pinning %d\n", ordinal, name,
           attribute(driver, MAJOR, device), attribute(driver, MINOR, device), attribute(driver, MULTIPROCESSORS, device), bytes >> 20,
           mode >= 0 && mode < 4 ? modes[mode] : "mode not known", attribute(driver, PAGEABLE, device), attribute(driver, MANAGED, device),
           attribute(driver, REGISTER, device));
    printf("model: %s\n", name);
    if (strstr(name, " MIG ")) printf("MIG: device %d is an instance\n", ordinal);
}

/* A row per device: which others' memory it can read, 1 or 0. */
static void tell_peers(void *driver, int count) {
    int pairs = 0;
    FIND(driver, cuDeviceCanAccessPeer, int *, int, int);
    for (int i = 0; i < count && cuDeviceCanAccessPeer; i++) {
        printf("peers of %d:", i);
        for (int j = 0; j < count; j++) {
            int can = 0;
            if (i != j && cuDeviceCanAccessPeer(&can, i, j) != 0) can = -1;
            pairs += i != j && can == 1;
            if (i == j)
                printf(" -");
            else
                printf(" %d", can);
        }
        printf("\n");
    }
    printf("peer access: %s\n", count < 2 ? "one device" : pairs == count * (count - 1) ? "all pairs" : pairs ? "some pairs" : "none");
}

static void tell_loading(void *driver) {
    int mode = 0;
    FIND(driver, cuModuleGetLoadingMode, int *);
    const bool known = cuModuleGetLoadingMode && cuModuleGetLoadingMode(&mode) == 0;
    printf("module loading: %s\n", !known ? "not told" : mode == 1 ? "eager" : mode == 2 ? "lazy" : "of a mode that is not known");
}

/* 77, and a line with the reason. */
static int tell_none(const char *what, const char *reason) {
    printf("no GPU: %s%s\n", what, reason ? reason : "");
    return 77;
}

static int tell_devices(void *driver, int *version) {
    int count = 0;
    char code[16];
    FIND(driver, cuInit, unsigned);
    FIND(driver, cuDriverGetVersion, int *);
    FIND(driver, cuDeviceGetCount, int *);
    if (!cuInit || !cuDriverGetVersion || !cuDeviceGetCount) return tell_none("libcuda.so.1 lacks a symbol", NULL);
    if (cuDriverGetVersion(version) == 0) printf("driver: CUDA %d.%d\n", *version / 1000, *version % 1000 / 10);
    const int result = cuInit(0);
    snprintf(code, sizeof code, "%d", result);
    if (result != 0) return tell_none("cuInit: error ", code);
    if (cuDeviceGetCount(&count) != 0 || count == 0) return tell_none("the driver finds none", NULL);
    printf("simulated: %s\n", dlsym(driver, "muster_simulated") ? "yes" : "no");
    printf("devices: %d\n", count);
    for (int i = 0; i < count; i++) tell_device(driver, i);
    tell_peers(driver, count);
    tell_loading(driver);
    return 0;
}

int main(void) {
    int version = 0;
    void *driver = tell_library("driver", (const char *const[]){"libcuda.so.1", NULL});
    const int result = driver ? tell_devices(driver, &version) : tell_none("no driver", NULL);
    tell_libraries(version);
    tell_limits();
    tell_iommu();
    tell_variables();
    return result;
}
