#include "opencl.h"

#include "opencl_api_private.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

struct bench_opencl {
    mst_opencl_api api;
    mst_cl_result (*finish)(mst_cl_queue queue); /* clFinish and clReleaseContext, which Muster never calls */
    mst_cl_result (*release_context)(mst_cl_context context);
    mst_cl_device devices[BENCH_OPENCL_QUEUES];
    mst_cl_context context;
    mst_cl_queue queues[BENCH_OPENCL_QUEUES];
    mst_cl_program program;
    mst_cl_kernel kernels[BENCH_OPENCL_QUEUES];
    int32_t count;
    char name[128];
};

#define MST_FOREIGN_STRUCT mst_opencl_api
static const mst_foreign_symbol symbols[] = {MST_OPENCL_SYMBOLS(MST_FOREIGN_NEEDED)};
enum { SYMBOLS = sizeof symbols / sizeof *symbols };

/* ---- open ---- */

static bool open_library(bench_opencl *cl) {
    void *library = dlopen("libOpenCL.so.1", RTLD_NOW | RTLD_LOCAL);
    for (int i = 0; library && i < SYMBOLS; i++) {
        void *address = dlsym(library, symbols[i].name);
        if (!address) return false;
        memcpy((char *)&cl->api + symbols[i].offset, &address, sizeof address);
    }
    void *finish = library ? dlsym(library, "clFinish") : NULL;
    void *release = library ? dlsym(library, "clReleaseContext") : NULL;
    memcpy(&cl->finish, &finish, sizeof finish);
    memcpy(&cl->release_context, &release, sizeof release);
    return finish && release;
}

static bool find_device(bench_opencl *cl, mst_cl_device *device) {
    mst_cl_platform platforms[16];
    uint32_t count = 0, devices = 0;
    if (cl->api.clGetPlatformIDs(16, platforms, &count) != MST_CL_SUCCESS) return false;
    for (uint32_t i = 0; i < count && i < 16; i++)
        if (cl->api.clGetDeviceIDs(platforms[i], MST_CL_DEVICE_TYPE_CPU, 1, device, &devices) == MST_CL_SUCCESS && devices > 0) return true;
    return false;
}

/* One core each; where that is not possible, all in one. */
static void split(bench_opencl *cl, mst_cl_device device, int32_t queues) {
    const mst_cl_property equally[] = {MST_CL_DEVICE_PARTITION_EQUALLY, 1, 0};
    mst_cl_device parts[64];
    uint32_t cores = 0, count = 0;
    cl->api.clGetDeviceInfo(device, MST_CL_DEVICE_MAX_COMPUTE_UNITS, sizeof cores, &cores, NULL);
    bool done = cores > 1 && cores <= 64 && cl->api.clCreateSubDevices(device, equally, 64, parts, &count) == MST_CL_SUCCESS && count > 0;
    if (!done) parts[0] = device, count = 1;
    cl->count = (int32_t)count < queues ? (int32_t)count : queues;
    memcpy(cl->devices, parts, (size_t)cl->count * sizeof *parts);
}

static const char *open_device(bench_opencl *cl, int32_t queues) {
    mst_cl_device device;
    mst_cl_result result = MST_CL_SUCCESS;
    if (!open_library(cl)) return "no libOpenCL.so.1 (package ocl-icd-libopencl1)";
    if (!find_device(cl, &device)) return "no device for CPU cores (package pocl-opencl-icd)";
    cl->api.clGetDeviceInfo(device, MST_CL_DEVICE_VERSION, sizeof cl->name - 1, cl->name, NULL);
    split(cl, device, queues);
    cl->context = cl->api.clCreateContext(NULL, (uint32_t)cl->count, cl->devices, NULL, NULL, &result);
    if (result != MST_CL_SUCCESS) return "no context";
    for (int32_t i = 0; i < cl->count; i++) {
        cl->queues[i] = cl->api.clCreateCommandQueue(cl->context, cl->devices[i], 0, &result);
        if (result != MST_CL_SUCCESS) return "no queue";
    }
    return NULL;
}

bench_opencl *bench_opencl_open(int32_t queues) {
    bench_opencl *cl = calloc(1, sizeof *cl);
    const char *reason = cl ? open_device(cl, queues) : "no memory";
    if (!reason) return cl;
    bench_log("not measured: bare OpenCL: %s", reason);
    bench_opencl_close(cl);
    return NULL;
}

static void end_program(bench_opencl *cl) {
    for (int32_t i = 0; i < cl->count; i++) {
        if (cl->kernels[i]) cl->api.clReleaseKernel(cl->kernels[i]);
        cl->kernels[i] = NULL;
    }
    if (cl->program) cl->api.clReleaseProgram(cl->program);
    cl->program = NULL;
}

void bench_opencl_close(bench_opencl *cl) {
    if (!cl) return;
    end_program(cl);
    for (int32_t i = 0; i < cl->count; i++)
        if (cl->queues[i]) cl->api.clReleaseCommandQueue(cl->queues[i]);
    if (cl->context) cl->release_context(cl->context);
    free(cl);
}

const char *bench_opencl_name(const bench_opencl *cl) { return cl->name; }
int32_t bench_opencl_queues(const bench_opencl *cl) { return cl->count; }

static bool print_log(const bench_opencl *cl) {
    char log[2000] = "";
    cl->api.clGetProgramBuildInfo(cl->program, cl->devices[0], MST_CL_PROGRAM_BUILD_LOG, sizeof log - 1, log, NULL);
    bench_log("bare OpenCL: the kernel was not built: %s", log);
    return false;
}

bool bench_opencl_build(bench_opencl *cl, const char *source, const char *name) {
    mst_cl_result result = MST_CL_SUCCESS;
    end_program(cl);
    cl->program = cl->api.clCreateProgramWithSource(cl->context, 1, &source, NULL, &result);
    if (result != MST_CL_SUCCESS || cl->api.clBuildProgram(cl->program, (uint32_t)cl->count, cl->devices, "", NULL, NULL) != MST_CL_SUCCESS)
        return print_log(cl);
    for (int32_t i = 0; i < cl->count; i++) {
        cl->kernels[i] = cl->api.clCreateKernel(cl->program, name, &result);
        if (result != MST_CL_SUCCESS) return print_log(cl);
    }
    return true;
}

/* ---- jobs ---- */

static int64_t begin_of(const bench_opencl_job *job, int32_t queue) { return queue * job->n / job->cl->count; }

static bool make_buffers(bench_opencl_job *job) {
    bench_opencl *cl = job->cl;
    for (int32_t i = 0; i < cl->count; i++) {
        const int64_t begin = begin_of(job, i), count = begin_of(job, i + 1) - begin;
        for (int side = 0; side < 2; side++) {
            mst_cl_result result = MST_CL_SUCCESS;
            void *memory = side ? (void *)(job->y + begin) : (void *)(uintptr_t)(job->x + begin);
            job->buffers[i][side] = cl->api.clCreateBuffer(cl->context, MST_CL_MEM_READ_WRITE | MST_CL_MEM_USE_HOST_PTR,
                                                           (size_t)count * sizeof(float), memory, &result);
            if (result != MST_CL_SUCCESS) return false;
        }
    }
    return true;
}

bench_opencl_job *bench_opencl_job_open(bench_opencl_job asked) {
    bench_opencl_job *job = malloc(sizeof *job);
    if (job) *job = asked;
    if (job && make_buffers(job)) return job;
    bench_log("not measured: bare OpenCL: no memory");
    if (job) bench_opencl_job_close(job);
    return NULL;
}

void bench_opencl_job_close(void *self) {
    bench_opencl_job *job = self;
    for (int32_t i = 0; i < job->cl->count; i++)
        for (int side = 0; side < 2; side++)
            if (job->buffers[i][side]) job->cl->api.clReleaseMemObject(job->buffers[i][side]);
    free(job);
}

static bool launch(bench_opencl_job *job, int32_t i, mst_cl_event *event) {
    const mst_opencl_api *api = &job->cl->api;
    const mst_cl_kernel kernel = job->cl->kernels[i];
    const uint64_t count = (uint64_t)(begin_of(job, i + 1) - begin_of(job, i));
    const size_t threads = (size_t)(job->groups * job->threads), group = (size_t)job->threads;
    return api->clSetKernelArg(kernel, 0, sizeof job->a, &job->a) == MST_CL_SUCCESS &&
           api->clSetKernelArg(kernel, 1, sizeof(mst_cl_buffer), &job->buffers[i][0]) == MST_CL_SUCCESS &&
           api->clSetKernelArg(kernel, 2, sizeof(mst_cl_buffer), &job->buffers[i][1]) == MST_CL_SUCCESS &&
           api->clSetKernelArg(kernel, 3, sizeof count, &count) == MST_CL_SUCCESS &&
           api->clEnqueueNDRangeKernel(job->cl->queues[i], kernel, 1, NULL, &threads, &group, 0, NULL, event) == MST_CL_SUCCESS;
}

static bool wait_for(const bench_opencl *cl, int32_t i, mst_cl_event event) {
    if (!event) return cl->finish(cl->queues[i]) == MST_CL_SUCCESS;
    int32_t state = 1;
    bool ok = true;
    while (ok && state > MST_CL_COMPLETE)
        ok = cl->api.clGetEventInfo(event, MST_CL_EVENT_EXECUTION_STATUS, sizeof state, &state, NULL) == MST_CL_SUCCESS;
    cl->api.clReleaseEvent(event);
    return ok && state == MST_CL_COMPLETE;
}

static bool once(bench_opencl_job *job) {
    mst_cl_event events[BENCH_OPENCL_QUEUES] = {NULL};
    bool ok = true;
    for (int32_t l = 0; l < job->launches && ok; l++)
        for (int32_t i = 0; i < job->cl->count && ok; i++) ok = launch(job, i, job->polls && l == job->launches - 1 ? &events[i] : NULL);
    for (int32_t i = 0; i < job->cl->count; i++) {
        if (job->cl->count > 1) job->cl->api.clFlush(job->cl->queues[i]);
    }
    for (int32_t i = 0; i < job->cl->count; i++) ok = wait_for(job->cl, i, events[i]) && ok;
    return ok;
}

bool bench_opencl_block(void *self, const bench_block *block, double *ns, int64_t *wrong) {
    bench_opencl_job *job = self;
    bool ok = true;
    (void)wrong;
    BENCH_TIME(block, ns, ok = once(job) && ok);
    return ok;
}
