/* The OpenCL state of this process: the device, its sub-devices, and their context. */
#include "opencl_state_private.h"

#include "library_facts_impl.h"
#include "own_thread_impl.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { PLATFORMS = 16, EXTENSIONS_SIZE = 8192 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static mst_opencl state;
static bool ready;    /* guarded by the lock */
static pid_t process; /* the process that made it: a child after fork does not have the implementation's threads */

static muster_status report_no_device(const char *reason) {
    return mst_error(MUSTER_UNAVAILABLE, "kernels on CPU cores need an OpenCL device for them: install the package pocl-opencl-icd (%s)",
                     reason);
}

static bool flag_of(const mst_opencl *cl, mst_cl_device device, uint32_t what) {
    mst_cl_bool value = 0;
    return cl->api->clGetDeviceInfo(device, what, sizeof value, &value, NULL) == MST_CL_SUCCESS && value;
}

/* The platform's first device for CPU cores, if it can be used; NULL: none. */
static mst_cl_device device_of(const mst_opencl *cl, mst_cl_platform platform) {
    mst_cl_device device = NULL;
    uint32_t count = 0;
    if (cl->api->clGetDeviceIDs(platform, MST_CL_DEVICE_TYPE_CPU, 1, &device, &count) != MST_CL_SUCCESS || count == 0) return NULL;
    return flag_of(cl, device, MST_CL_DEVICE_AVAILABLE) && flag_of(cl, device, MST_CL_DEVICE_COMPILER_AVAILABLE) ? device : NULL;
}

static bool is_pocl(const mst_opencl *cl, mst_cl_platform platform) {
    char name[256] = "";
    return cl->api->clGetPlatformInfo(platform, MST_CL_PLATFORM_NAME, sizeof name - 1, name, NULL) == MST_CL_SUCCESS &&
           strcmp(name, "Portable Computing Language") == 0;
}

/* Prefers PoCL's device, which the tests run with; otherwise takes the first one. */
static muster_status choose(mst_opencl *cl, mst_cl_device *chosen) {
    mst_cl_platform platforms[PLATFORMS];
    uint32_t count = 0;
    *chosen = NULL;
    const mst_cl_result result = cl->api->clGetPlatformIDs(PLATFORMS, platforms, &count);
    if (result != MST_CL_SUCCESS || count == 0) return report_no_device("no OpenCL implementation is installed");
    if (count > PLATFORMS) count = PLATFORMS;
    for (uint32_t i = 0; i < count; i++) {
        mst_cl_device device = device_of(cl, platforms[i]);
        if (!device) continue;
        cl->is_pocl = is_pocl(cl, platforms[i]);
        if (!*chosen || cl->is_pocl) *chosen = device;
        if (cl->is_pocl) break;
    }
    if (*chosen) return MUSTER_OK;
    return report_no_device(
        "no implementation offers one with a compiler; PoCL does so only where it can write its cache, POCL_CACHE_DIR or ~/.cache/pocl");
}

/* One sub-device per core, so that the kernels of one worker leave the cores of the others
 * alone. */
static void partition(mst_opencl *cl, mst_cl_device root) {
    const mst_cl_property equally[] = {MST_CL_DEVICE_PARTITION_EQUALLY, 1, 0};
    uint32_t count = 0, cores = 0;
    if (cl->api->clGetDeviceInfo(root, MST_CL_DEVICE_MAX_COMPUTE_UNITS, sizeof cores, &cores, NULL) == MST_CL_SUCCESS && cores > 1 &&
        cores <= MST_OPENCL_DEVICES &&
        cl->api->clCreateSubDevices(root, equally, MST_OPENCL_DEVICES, cl->devices, &count) == MST_CL_SUCCESS && count > 0) {
        cl->count = (int32_t)count;
        return;
    }
    cl->devices[0] = root;
    cl->count = 1;
}

static bool has_word(const char *words, const char *word) {
    const size_t length = strlen(word);
    for (const char *at = strstr(words, word); at; at = strstr(at + 1, word))
        if ((at == words || at[-1] == ' ') && (at[length] == ' ' || at[length] == 0)) return true;
    return false;
}

static muster_status read_text(const mst_opencl *cl, mst_cl_device device, uint32_t what, char *text, size_t size) {
    memset(text, 0, size);
    return MST_CL(cl, "the device for CPU cores", clGetDeviceInfo, device, what, size - 1, text, NULL);
}

static muster_status describe(mst_opencl *cl, mst_cl_device root, char *extensions) {
    char driver[64], version[160];
    uint64_t most = 0;
    uint8_t digest[32];
    mst_sha256 hash;
    MUSTER_TRY(read_text(cl, root, MST_CL_DEVICE_EXTENSIONS, extensions, EXTENSIONS_SIZE));
    MUSTER_TRY(read_text(cl, root, MST_CL_DRIVER_VERSION, driver, sizeof driver));
    MUSTER_TRY(read_text(cl, root, MST_CL_DEVICE_VERSION, version, sizeof version));
    MUSTER_TRY(read_text(cl, root, MST_CL_DEVICE_NAME, cl->name, sizeof cl->name));
    MUSTER_TRY(MST_CL(cl, cl->name, clGetDeviceInfo, root, MST_CL_DEVICE_MAX_MEM_ALLOC_SIZE, sizeof most, &most, NULL));
    cl->most_bytes = most > INT64_MAX ? INT64_MAX : (int64_t)most;
    cl->has_double = has_word(extensions, "cl_khr_fp64");
    cl->has_small = has_word(extensions, "cl_khr_byte_addressable_store");
    mst_sha256_begin(&hash);
    mst_sha256_add(&hash, extensions, (int64_t)strlen(extensions));
    mst_sha256_add(&hash, version, (int64_t)strlen(version) + 1);
    mst_sha256_add(&hash, cl->name, (int64_t)strlen(cl->name) + 1);
    mst_sha256_end(&hash, digest);
    int length = snprintf(cl->version, sizeof cl->version, "%.60s ", driver);
    for (int i = 0; i < 16; i++) length += snprintf(cl->version + length, sizeof cl->version - (size_t)length, "%02x", digest[i]);
    return MUSTER_OK;
}

static muster_status open_with(mst_opencl *cl, char *extensions) {
    mst_cl_device root;
    mst_cl_result result = MST_CL_SUCCESS;
    MUSTER_TRY(choose(cl, &root));
    MUSTER_TRY(describe(cl, root, extensions));
    partition(cl, root);
    cl->context = cl->api->clCreateContext(NULL, (uint32_t)cl->count, cl->devices, NULL, NULL, &result);
    return mst_opencl_check(result, "clCreateContext", cl->name);
}

/* On a thread of its own: implementations start threads, and PoCL's compiler needs a large
 * stack. */
static muster_status open_state(void *extensions) {
    const mst_signal_stack saved = mst_signal_stack_save();
    const muster_status status = open_with(&state, extensions);
    if (status == MUSTER_OK) (void)mst_opencl_prepare(&state);
    mst_signal_stack_restore(&saved);
    return status;
}

static muster_status open_locked(const mst_opencl_api *api) {
    if (ready && process == getpid()) return MUSTER_OK;
    if (ready)
        return mst_error(MUSTER_BAD_STATE,
                         "kernels on CPU cores: the process was forked after OpenCL had been opened, whose threads are not in this one");
    char *extensions = mst_alloc(EXTENSIONS_SIZE);
    if (!extensions) return mst_out_of_memory("OpenCL: extensions", EXTENSIONS_SIZE);
    memset(&state, 0, sizeof state);
    state.api = api;
    muster_status status = mst_own_thread_run(open_state, extensions, "OpenCL");
    mst_free(extensions);
    ready = status == MUSTER_OK;
    process = getpid();
    return status;
}

muster_status mst_opencl_get(const mst_opencl **cl) {
    const mst_opencl_api *api;
    *cl = NULL;
    MUSTER_TRY(mst_opencl_api_get(&api));
    pthread_mutex_lock(&lock);
    muster_status status = open_locked(api);
    pthread_mutex_unlock(&lock);
    if (status == MUSTER_OK) *cl = &state;
    return status;
}

muster_status mst_opencl_probe(void) {
    const mst_opencl *cl;
    return mst_opencl_get(&cl);
}

void mst_opencl_get_facts(mst_library_facts *facts) {
    const mst_opencl *cl;
    if (mst_opencl_get(&cl) != MUSTER_OK) {
        mst_library_missing(facts);
        return;
    }
    mst_library_found(facts, &cl->api->clGetPlatformIDs);
    snprintf(facts->version, sizeof facts->version, "%.*s", (int)strcspn(cl->version, " "), cl->version);
    snprintf(facts->text, sizeof facts->text, "%s%.95s", cl->is_pocl ? "PoCL, " : "", cl->name);
}
