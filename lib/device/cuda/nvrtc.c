/* NVRTC as a compiler of device code. */
#include "code_impl.h"
#include "nvrtc_api_private.h"
#include "own_thread_impl.h"

#include <stdio.h>
#include <string.h>

/* No contraction to fused multiply-adds: wherever the formula is the same, results equal those of
 * the host's loops bit for bit. */
static const char *const own_options[] = {"--std=c++17", "--fmad=false", "--device-as-default-execution-space"};
enum { OWN_OPTIONS = sizeof own_options / sizeof *own_options, OPTION_SIZE = 48, FIRST_LINES = 300 };

static muster_status version(const mst_code_target *target, char text[MST_CODE_VERSION_SIZE]) {
    const mst_nvrtc_api *api = target->user;
    int major = 0, minor = 0;
    mst_nvrtc_result result = api->nvrtcVersion(&major, &minor);
    if (result != MST_NVRTC_SUCCESS) return mst_nvrtc_error(api, result, "nvrtcVersion", NULL);
    int length = snprintf(text, MST_CODE_VERSION_SIZE, "%d.%d%s", major, minor, mst_foreign_simulated() ? " simulated" : "");
    for (int i = 0; i < OWN_OPTIONS; i++)
        length += snprintf(text + length, (size_t)(MST_CODE_VERSION_SIZE - length), " %s", own_options[i]);
    return MUSTER_OK;
}

/* The highest architecture that this NVRTC knows, up to the device's; 0: none. */
static muster_status choose(const mst_nvrtc_api *api, int32_t architecture, int *chosen) {
    int known[256], count = 0;
    *chosen = 0;
    mst_nvrtc_result result = api->nvrtcGetNumSupportedArchs(&count);
    if (result != MST_NVRTC_SUCCESS) return mst_nvrtc_error(api, result, "nvrtcGetNumSupportedArchs", NULL);
    if (count < 0 || count > (int)(sizeof known / sizeof *known))
        return mst_error(MUSTER_UNSUPPORTED, "NVRTC: expected at most %d architectures, received %d", (int)(sizeof known / sizeof *known),
                         count);
    result = api->nvrtcGetSupportedArchs(known);
    if (result != MST_NVRTC_SUCCESS) return mst_nvrtc_error(api, result, "nvrtcGetSupportedArchs", NULL);
    for (int i = 0; i < count; i++)
        if (known[i] <= architecture && known[i] > *chosen) *chosen = known[i];
    return MUSTER_OK;
}

static char *log_of(const mst_nvrtc_api *api, mst_nvrtc_program program) {
    size_t bytes = 0;
    if (api->nvrtcGetProgramLogSize(program, &bytes) != MST_NVRTC_SUCCESS || bytes <= 1) return NULL;
    char *log = mst_alloc(bytes + 1);
    if (log && api->nvrtcGetProgramLog(program, log) == MST_NVRTC_SUCCESS && log[0]) return log;
    mst_free(log);
    return NULL;
}

/* The log's first error, which warnings may precede. */
static const char *first_error(const char *log) {
    const char *at = strstr(log, "error");
    while (at && at > log && at[-1] != '\n') at--;
    return at ? at : log;
}

static muster_status take_image(const mst_nvrtc_api *api, mst_nvrtc_program program, bool binary, mst_code_image *image) {
    size_t bytes = 0;
    mst_nvrtc_result result = binary ? api->nvrtcGetCUBINSize(program, &bytes) : api->nvrtcGetPTXSize(program, &bytes);
    if (result != MST_NVRTC_SUCCESS) return mst_nvrtc_error(api, result, binary ? "nvrtcGetCUBINSize" : "nvrtcGetPTXSize", NULL);
    char *data = mst_alloc(bytes + 1);
    if (!data) return mst_out_of_memory("NVRTC: image", (int64_t)bytes);
    result = binary ? api->nvrtcGetCUBIN(program, data) : api->nvrtcGetPTX(program, data);
    if (result != MST_NVRTC_SUCCESS || bytes == 0) {
        mst_free(data);
        if (result == MST_NVRTC_SUCCESS) return mst_error(MUSTER_INTERNAL, "NVRTC: expected an image, received 0 bytes");
        return mst_nvrtc_error(api, result, binary ? "nvrtcGetCUBIN" : "nvrtcGetPTX", NULL);
    }
    image->data = data;
    image->bytes = (int64_t)bytes;
    return MUSTER_OK;
}

static muster_status compile_program(const mst_code_target *target, mst_nvrtc_program program, mst_code_image *image) {
    const mst_nvrtc_api *api = target->user;
    const char *options[OWN_OPTIONS + MST_CODE_OPTIONS + 1];
    char architecture[OPTION_SIZE], what[OPTION_SIZE];
    int chosen = 0, count = 0;
    MUSTER_TRY(choose(api, target->architecture, &chosen));
    if (chosen == 0)
        return mst_error(MUSTER_UNSUPPORTED,
                         "NVRTC: this version makes no code for devices of compute capability %d.%d any more; use an older one (NVRTC 12 "
                         "for 7.0 and 7.2)",
                         (int)target->architecture / 10, (int)target->architecture % 10);
    bool binary = chosen == target->architecture;
    snprintf(architecture, sizeof architecture, "--gpu-architecture=%s_%d", binary ? "sm" : "compute", chosen);
    snprintf(what, sizeof what, "compiling for %s_%d", binary ? "sm" : "compute", chosen);
    for (int i = 0; i < OWN_OPTIONS; i++) options[count++] = own_options[i];
    options[count++] = architecture;
    for (int i = 0; i < MST_CODE_OPTIONS && target->options[i]; i++) options[count++] = target->options[i];
    mst_nvrtc_result result = api->nvrtcCompileProgram(program, count, options);
    image->log = log_of(api, program);
    if (result == MST_NVRTC_SUCCESS) return take_image(api, program, binary, image);
    muster_status status = mst_nvrtc_error(api, result, "nvrtcCompileProgram", what);
    if (result != MST_NVRTC_COMPILATION || !image->log) return status;
    return mst_error(status, "NVRTC: %s: %.*s", what, FIRST_LINES, first_error(image->log));
}

typedef struct compilation {
    const mst_code_target *target;
    const mst_code_program *source;
    mst_code_image *image;
} compilation;

static muster_status compile_here(void *argument) {
    const compilation *c = argument;
    const mst_code_program *source = c->source;
    const mst_nvrtc_api *api = c->target->user;
    const char **sources = mst_alloc((size_t)source->count * sizeof *sources),
               **names = sources ? mst_alloc((size_t)source->count * sizeof *names) : NULL;
    if (!names) {
        mst_free(sources);
        return mst_out_of_memory("NVRTC: sources", (int64_t)source->count * (int64_t)sizeof *sources);
    }
    for (int32_t i = 0; i < source->count; i++) {
        sources[i] = source->sources[i].text;
        names[i] = source->sources[i].name;
    }
    mst_nvrtc_program program = NULL;
    mst_nvrtc_result result = api->nvrtcCreateProgram(&program, source->text, source->name, source->count, sources, names);
    muster_status status = result == MST_NVRTC_SUCCESS ? compile_program(c->target, program, c->image)
                                                       : mst_nvrtc_error(api, result, "nvrtcCreateProgram", NULL);
    if (program) (void)api->nvrtcDestroyProgram(&program);
    mst_free(names);
    mst_free(sources);
    return status;
}

/* A compiler needs a large stack. */
static muster_status compile(const mst_code_target *target, const mst_code_program *source, mst_code_image *image) {
    compilation c = {target, source, image};
    return mst_own_thread_run(compile_here, &c, "NVRTC");
}

const mst_code_compiler mst_nvrtc_compiler = {.name = "nvrtc", .version = version, .compile = compile};
