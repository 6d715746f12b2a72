/* Does on a real GPU what a trace of the simulated machine says (MUSTER_SIM_TRACE), and compares
 * every copy to the host with what the simulated machine found.
 *   replay TRACE the driver, cuBLAS and NVRTC are the system's, or those of the folder
 *   MUSTER_CUDA_LIBRARIES
 * Devices of the trace beyond those of the machine share the latter. A copy is "equal", or "near"
 * where all its f32 differ by rounding only (kernels call functions whose last bits differ), else
 * "different", and the exit status is 1. */
#include "base_skip.h"
#include "code_impl.h"
#include "contract_support.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

extern const mst_code_sources mst_simulated_code;
enum { DEVICES = 8, STREAM, EVENT, BLOCK, LINE = 1 << 14 };

#define NEED(expression)                                                                   \
    do {                                                                                   \
        unsigned code_ = (unsigned)(expression);                                           \
        if (code_) {                                                                       \
            fprintf(stderr, "replay: line %d: %s: %u\n", line_number, #expression, code_); \
            exit(2);                                                                       \
        }                                                                                  \
    } while (0)

static int line_number, device_count, equal_count, near_count, different_count;
static mst_cublas_handle handles[DEVICES];
static mst_cu_context contexts[DEVICES];
/* of the contract's text, and of all others: compiled when one of those is asked for */
static mst_cu_module modules[DEVICES][2];

/* ---- what the trace calls things by, and what they are here ---- */
typedef struct thing {
    int kind, device;
    unsigned long long name, here;
    size_t bytes;
} thing;
static thing *things;
static int thing_count, thing_room;

static void add_thing(thing added) {
    if (thing_count == thing_room) {
        thing_room = thing_room ? 2 * thing_room : 256;
        things = realloc(things, sizeof *things * (size_t)thing_room);
        if (!things) abort();
    }
    things[thing_count++] = added;
}

/* The latest of that name; NULL: none. */
static thing *find_thing(int kind, unsigned long long name) {
    for (int i = thing_count - 1; i >= 0; i--) {
        thing *t = &things[i];
        if (t->kind == kind && (kind == BLOCK ? name - t->name < t->bytes : name == t->name)) return t;
    }
    return NULL;
}

static thing *need_thing(int kind, unsigned long long name) {
    thing *found = find_thing(kind, name);
    if (found) return found;
    fprintf(stderr, "replay: line %d: %llx is not known\n", line_number, name);
    exit(2);
}

static mst_cu_stream stream_named(unsigned long long name, int *device) {
    thing *found = need_thing(STREAM, name);
    if (device) *device = found->device;
    NEED(cu.cuCtxSetCurrent(contexts[found->device]));
    return (mst_cu_stream)(uintptr_t)found->here;
}

static mst_cu_address address_of(unsigned long long name) {
    thing *block = need_thing(BLOCK, name);
    return block->here + (name - block->name);
}

/* ---- contents of copies ---- */
static unsigned char *contents;
static size_t contents_bytes;

static const unsigned char *find_contents(unsigned long long copy, size_t bytes) {
    size_t at = 0;
    while (at + 16 <= contents_bytes) {
        uint64_t head[2];
        memcpy(head, contents + at, 16);
        if (head[0] == copy) return head[1] == bytes && at + 16 + bytes <= contents_bytes ? contents + at + 16 : NULL;
        at += 16 + head[1];
    }
    return NULL; /* the copy was dropped */
}

static bool is_near(const unsigned char *a, const unsigned char *b, size_t bytes) {
    if (bytes % 4) return false;
    for (size_t i = 0; i < bytes; i += 4) {
        float x, y;
        memcpy(&x, a + i, 4);
        memcpy(&y, b + i, 4);
        if (memcmp(&x, &y, 4) != 0 && !(fabsf(x - y) <= 1e-5f * fmaxf(fabsf(x), fabsf(y)) + 1e-6f)) return false;
    }
    return true;
}

static void compare(unsigned long long copy, const unsigned char *expected, const unsigned char *found, size_t bytes) {
    if (memcmp(expected, found, bytes) == 0)
        equal_count++;
    else if (is_near(expected, found, bytes))
        near_count++;
    else {
        different_count++;
        printf("line %d: copy %llu of %zu bytes is different\n", line_number, copy, bytes);
    }
}

/* ---- device code, with the options of the library ---- */
enum { CONTRACT, BUILT_IN };

static char *compile(int device, int which) {
    enum { OWN = 3 };
    static const char *const own[OWN] = {"stdint.h", "stddef.h", "string.h"};
    const char *names[256], *sources[256];
    char *main_text = calloc(1, 1 << 16), option[64], path[256];
    int count = 0, major = 0, minor = 0;
    for (int i = 0; i < mst_simulated_code.header_count + mst_simulated_code.family_count; i++) {
        bool kernels = i >= mst_simulated_code.header_count;
        const mst_code_source *text =
            kernels ? &mst_simulated_code.families[i - mst_simulated_code.header_count].source : &mst_simulated_code.headers[i];
        if (kernels && (strcmp(text->name, "contract.cu") == 0) != (which == CONTRACT)) continue;
        names[count] = text->name;
        sources[count++] = text->text;
        if (kernels) sprintf(main_text + strlen(main_text), "#include \"%s\"\n", text->name);
    }
    for (int i = 0; i < OWN; i++) {
        snprintf(path, sizeof path, "lib/device/code/nvrtc/%s", own[i]);
        names[count] = own[i];
        sources[count++] = contract_read(path);
    }
    NEED(cu.cuDeviceGetAttribute(&major, MST_CU_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device));
    NEED(cu.cuDeviceGetAttribute(&minor, MST_CU_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device));
    snprintf(option, sizeof option, "--gpu-architecture=sm_%d%d", major, minor);
    mst_nvrtc_program program;
    size_t bytes = 0;
    NEED(nvrtc.nvrtcCreateProgram(&program, main_text, "replay.cu", count, sources, names));
    mst_nvrtc_result result = nvrtc.nvrtcCompileProgram(
        program, 4, (const char *const[]){option, "--std=c++17", "--fmad=false", "--device-as-default-execution-space"});
    if (result) contract_show_log(program);
    NEED(result);
    NEED(nvrtc.nvrtcGetCUBINSize(program, &bytes));
    char *cubin = calloc(1, bytes + 1);
    NEED(nvrtc.nvrtcGetCUBIN(program, cubin));
    NEED(nvrtc.nvrtcDestroyProgram(&program));
    for (int i = count - OWN; i < count; i++) free((void *)sources[i]);
    free(main_text);
    return cubin;
}

/* The device's context is current. */
static mst_cu_function find_function(int device, const char *kernel) {
    int which = strncmp(kernel, "contract_", 9) == 0 ? CONTRACT : BUILT_IN;
    mst_cu_function function = NULL;
    if (!modules[device][which]) {
        char *cubin = compile(device, which);
        NEED(cu.cuModuleLoadData(&modules[device][which], cubin));
        free(cubin);
    }
    NEED(cu.cuModuleGetFunction(&function, modules[device][which], kernel));
    return function;
}

static void open_device(int device) {
    NEED(cu.cuDevicePrimaryCtxRetain(&contexts[device], device));
    NEED(cu.cuCtxSetCurrent(contexts[device]));
    if (blas.cublasCreate_v2) NEED(blas.cublasCreate_v2(&handles[device]));
    /* as far as the machine can: what cannot is no error before a kernel needs it */
    for (int i = 0; i < device; i++) {
        cu.cuCtxEnablePeerAccess(contexts[i], 0);
        cu.cuCtxSetCurrent(contexts[i]);
        cu.cuCtxEnablePeerAccess(contexts[device], 0);
        cu.cuCtxSetCurrent(contexts[device]);
    }
}

/* ---- lines ---- */
static void replay_launch(const char *line) {
    unsigned long long stream;
    char kernel[256], *hex = malloc(LINE);
    long long blocks;
    unsigned threads;
    int bytes, device;
    union {
        unsigned char bytes[4096];
        uint64_t words[512];
    } parameters;
    if (sscanf(line, "launch %llx %255s %lld %u %d %16383s", &stream, kernel, &blocks, &threads, &bytes, hex) != 6 || bytes > 4096) exit(2);
    for (int i = 0; i < bytes; i++) sscanf(hex + 2 * i, "%2hhx", &parameters.bytes[i]);
    for (int i = 0; i < bytes / 8; i++)
        if (find_thing(BLOCK, parameters.words[i])) parameters.words[i] = address_of(parameters.words[i]);
    mst_cu_stream on = stream_named(stream, &device);
    mst_cu_function function = find_function(device, kernel);
    NEED(cu.cuLaunchKernel(function, (unsigned)blocks, 1, 1, threads, 1, 1, 0, on, (void *[]){&parameters}, NULL));
    free(hex);
}

static void replay_gemm(const char *line) {
    unsigned long long stream, a, b, c;
    unsigned ta, tb, type, compute;
    long long m, n, k, lda, ldb, ldc;
    double alpha, beta;
    int device;
    if (sscanf(line, "gemm %llx %u %u %lld %lld %lld %u %u %lg %lg %llx %lld %llx %lld %llx %lld", &stream, &ta, &tb, &m, &n, &k, &type,
               &compute, &alpha, &beta, &a, &lda, &b, &ldb, &c, &ldc) != 16 ||
        !blas.cublasGemmEx)
        exit(2);
    float narrow[2] = {(float)alpha, (float)beta};
    bool wide = compute == MST_CUBLAS_COMPUTE_64F;
    mst_cu_stream on = stream_named(stream, &device);
    NEED(blas.cublasSetStream_v2(handles[device], on));
    NEED(blas.cublasGemmEx(handles[device], ta, tb, (int)m, (int)n, (int)k, wide ? (void *)&alpha : &narrow[0],
                           (void *)(uintptr_t)address_of(a), type, (int)lda, (void *)(uintptr_t)address_of(b), type, (int)ldb,
                           wide ? (void *)&beta : &narrow[1], (void *)(uintptr_t)address_of(c), type, (int)ldc, compute,
                           MST_CUBLAS_GEMM_DEFAULT));
}

static bool replay_copy(const char *line) {
    unsigned long long stream, to, from, copy;
    size_t bytes;
    int value;
    if (sscanf(line, "htod %llx %llx %zu %llu", &stream, &to, &bytes, &copy) == 4) {
        const unsigned char *data = find_contents(copy, bytes);
        if (data) NEED(cu.cuMemcpyHtoDAsync_v2(address_of(to), data, bytes, stream_named(stream, NULL)));
    } else if (sscanf(line, "dtoh %llx %llx %zu %llu", &stream, &from, &bytes, &copy) == 4) {
        const unsigned char *data = find_contents(copy, bytes);
        unsigned char *found = malloc(bytes);
        if (!found) abort();
        NEED(cu.cuMemcpyDtoHAsync_v2(found, address_of(from), bytes, stream_named(stream, NULL)));
        NEED(cu.cuStreamSynchronize(stream_named(stream, NULL)));
        if (data) compare(copy, data, found, bytes);
        free(found);
    } else if (sscanf(line, "dtod %llx %llx %llx %zu", &stream, &to, &from, &bytes) == 4) {
        NEED(cu.cuMemcpyDtoDAsync_v2(address_of(to), address_of(from), bytes, stream_named(stream, NULL)));
    } else if (sscanf(line, "memset %llx %llx %d %zu", &stream, &to, &value, &bytes) == 4) {
        NEED(cu.cuMemsetD8Async(address_of(to), (unsigned char)value, bytes, stream_named(stream, NULL)));
    } else {
        return false;
    }
    return true;
}

static bool replay_handle(const char *line) {
    unsigned long long name, other;
    int device = 0;
    mst_cu_stream stream;
    mst_cu_event event;
    if (sscanf(line, "stream %d %llx", &device, &name) == 2) {
        NEED(cu.cuCtxSetCurrent(contexts[device % device_count]));
        NEED(cu.cuStreamCreate(&stream, MST_CU_STREAM_NON_BLOCKING));
        add_thing((thing){STREAM, device % device_count, name, (uintptr_t)stream, 0});
    } else if (sscanf(line, "event %d %llx", &device, &name) == 2) {
        NEED(cu.cuCtxSetCurrent(contexts[device % device_count]));
        NEED(cu.cuEventCreate(&event, MST_CU_EVENT_DISABLE_TIMING));
        add_thing((thing){EVENT, device % device_count, name, (uintptr_t)event, 0});
    } else if (sscanf(line, "record %llx %llx", &name, &other) == 2) {
        NEED(cu.cuEventRecord((mst_cu_event)(uintptr_t)need_thing(EVENT, name)->here, stream_named(other, NULL)));
    } else if (sscanf(line, "wait %llx %llx", &name, &other) == 2) {
        NEED(cu.cuStreamWaitEvent(stream_named(name, NULL), (mst_cu_event)(uintptr_t)need_thing(EVENT, other)->here, 0));
    } else if (sscanf(line, "stream_destroy %llx", &name) == 1) {
        NEED(cu.cuStreamDestroy_v2(stream_named(name, NULL)));
        need_thing(STREAM, name)->kind = 0;
    } else if (sscanf(line, "event_destroy %llx", &name) == 1) {
        NEED(cu.cuEventDestroy_v2((mst_cu_event)(uintptr_t)need_thing(EVENT, name)->here));
        need_thing(EVENT, name)->kind = 0;
    } else {
        return false;
    }
    return true;
}

static bool replay_memory(const char *line) {
    unsigned long long name;
    int device = 0;
    size_t bytes;
    mst_cu_address address;
    if (sscanf(line, "alloc %d %llx %zu", &device, &name, &bytes) == 3) {
        NEED(cu.cuCtxSetCurrent(contexts[device % device_count]));
        NEED(cu.cuMemAlloc_v2(&address, bytes));
        add_thing((thing){BLOCK, device % device_count, name, address, bytes});
        return true;
    }
    if (sscanf(line, "free %d %llx", &device, &name) != 2) return false;
    thing *block = find_thing(BLOCK, name);
    if (!block) return true; /* the simulated machine has refused it, too */
    NEED(cu.cuCtxSetCurrent(contexts[block->device]));
    NEED(cu.cuMemFree_v2(block->here));
    block->kind = 0;
    return true;
}

static void replay_line(const char *line) {
    if (strncmp(line, "launch ", 7) == 0)
        replay_launch(line);
    else if (strncmp(line, "gemm ", 5) == 0)
        replay_gemm(line);
    else if (!replay_copy(line) && !replay_handle(line) && !replay_memory(line)) {
        fprintf(stderr, "replay: line %d is not understood: %s", line_number, line);
        exit(2);
    }
}

static void read_contents(const char *trace) {
    char name[4096];
    snprintf(name, sizeof name, "%s.data", trace);
    FILE *file = fopen(name, "r");
    if (!file || fseek(file, 0, SEEK_END) != 0) {
        perror(name);
        exit(2);
    }
    contents_bytes = (size_t)ftell(file);
    rewind(file);
    contents = malloc(contents_bytes + 1);
    if (!contents || fread(contents, 1, contents_bytes, file) != contents_bytes) exit(2);
    fclose(file);
}

int main(int count, char **arguments) {
    FILE *trace = count == 2 ? fopen(arguments[1], "r") : NULL;
    if (!trace) {
        fprintf(stderr, "usage: replay TRACE\n");
        return 2;
    }
    read_contents(arguments[1]);
    if (!contract_open_cuda() || !contract_open_nvrtc()) return SKIP_SUITE("the CUDA driver or NVRTC could not be opened");
    contract_open_cublas();
    NEED(cu.cuInit(0));
    NEED(cu.cuDeviceGetCount(&device_count));
    if (device_count > DEVICES) device_count = DEVICES;
    for (int i = 0; i < device_count; i++) open_device(i);
    char *line = NULL;
    size_t room = 0;
    for (line_number = 1; getline(&line, &room, trace) > 0; line_number++) replay_line(line);
    for (int i = 0; i < thing_count; i++)
        if (things[i].kind == STREAM) NEED(cu.cuStreamSynchronize(stream_named(things[i].name, NULL)));
    fclose(trace);
    free(line);
    free(contents);
    free(things);
    printf("%d lines: %d copies to the host equal, %d near, %d different\n", line_number - 1, equal_count, near_count, different_count);
    return different_count ? 1 : 0;
}
