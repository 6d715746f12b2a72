/* The kernels of a graph's groups on the GPUs of its runtime: compiling and loading them, and
 * launching them. */
#include "dialect_private.h"
#include "op_impl.h"
#include "own_thread_impl.h"
#include "program_impl.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { THREADS = 256, GROUPS_PER_PROCESSOR = 32, NAME_BYTES = 24 };

struct mst_fused_program {
    mst_object object;
    bool closed; /* the runtime has been closed, and its devices with it */
    mst_fused_text printed;
    mst_program **programs; /* by rank; NULL: the device runs groups otherwise */
    int64_t *processors;    /* by rank */
};

/* ---- compiling ---- */

static bool device_launches(const mst_device *device) { return !mst_device_is_host(device); }

/* The headers of the built-in kernels, and this module's own. */
static muster_status sources_make(mst_code_headers *headers, mst_code_source **sources, int32_t *count) {
    MUSTER_TRY(mst_code_headers_make(headers));
    *count = headers->count + mst_graph_code.header_count;
    *sources = mst_alloc((size_t)*count * sizeof **sources);
    if (!*sources) return mst_out_of_memory("muster_graph_compile", *count * (int64_t)sizeof **sources);
    memcpy(*sources, headers->list, (size_t)headers->count * sizeof **sources);
    memcpy(*sources + headers->count, mst_graph_code.headers, (size_t)mst_graph_code.header_count * sizeof **sources);
    return MUSTER_OK;
}

typedef struct job {
    mst_device *device;
    const mst_program_request *request;
    mst_program *program;
    int64_t processors;
    muster_status status;
    char message[MST_MESSAGE_SIZE];
} job;

static muster_status job_open(job *j) {
    const mst_device_program_table *programs = j->device->program;
    mst_program_limits limits;
    char *log = NULL;
    if (!programs)
        return mst_error(MUSTER_UNAVAILABLE, "expected a device that compiles kernels, received one of the backend \"%s\"",
                         j->device->table->backend);
    const muster_status status = programs->open(j->device, j->request, &j->program, &log);
    mst_free(log); /* the message has its first lines */
    MUSTER_TRY(status);
    MUSTER_TRY(programs->limits(j->device, j->program, 0, &limits));
    j->processors = limits.processors;
    return MUSTER_OK;
}

static void *job_run(void *argument) {
    job *j = argument;
    j->status = job_open(j);
    if (j->status != MUSTER_OK) mst_error_save(j->message);
    return NULL;
}

/* One thread for each device: those that ask for the same code wait for one compilation. */
static muster_status jobs_run(job *jobs, int32_t count) {
    pthread_t *threads = mst_alloc((size_t)count * sizeof *threads);
    if (!threads) return mst_out_of_memory("muster_graph_compile", count * (int64_t)sizeof *threads);
    int32_t started = 1;
    const sigset_t before = mst_signals_block(); /* signals are for the program's own threads */
    while (started < count && pthread_create(&threads[started], NULL, job_run, &jobs[started]) == 0) started++;
    mst_signals_restore(&before);
    job_run(&jobs[0]);
    for (int32_t i = started; i < count; i++) job_run(&jobs[i]);
    for (int32_t i = 1; i < started; i++) pthread_join(threads[i], NULL);
    mst_free(threads);
    return MUSTER_OK;
}

static muster_status jobs_report(const job *jobs, int32_t count, const char *name) {
    for (int32_t i = 0; i < count; i++)
        if (jobs[i].status != MUSTER_OK)
            return mst_error(jobs[i].status, "muster_graph_compile: graph \"%.100s\" on %s: %s", name, jobs[i].device->name,
                             jobs[i].message);
    return MUSTER_OK;
}

/* The parameters end with the structure, so that the list of a kernel with n tensors begins n
 * places before it. */
static muster_status request_run(mst_fused_program *program, const char *name, const mst_code_source *sources, int32_t source_count,
                                 job *jobs, int32_t job_count) {
    const int32_t count = program->printed.kernel_count;
    const mst_program_parameter parameters[MST_FUSED_TENSORS + 1] = {[MST_FUSED_TENSORS] = {sizeof(mst_fused_parameters)}};
    mst_program_kernel *kernels = mst_alloc((size_t)count * sizeof *kernels);
    char(*names)[NAME_BYTES] = mst_alloc((size_t)count * sizeof *names);
    muster_status status =
        kernels && names ? MUSTER_OK : mst_out_of_memory("muster_graph_compile", count * (int64_t)(sizeof *kernels + sizeof *names));
    for (int32_t k = 0; k < count && status == MUSTER_OK; k++) {
        snprintf(names[k], NAME_BYTES, "mst_fused_%d", (int)k);
        const int32_t tensors = program->printed.tensors_of[k];
        kernels[k] =
            (mst_program_kernel){.name = names[k], .parameters = parameters + MST_FUSED_TENSORS - tensors, .parameter_count = tensors + 1};
    }
    const mst_program_request request = {
        .code = {.name = "groups.cu", .text = program->printed.text.data, .sources = sources, .count = source_count},
        .kernels = kernels,
        .kernel_count = count,
        .needs = MST_NEEDS_CUDA};
    for (int32_t i = 0; i < job_count; i++) jobs[i].request = &request;
    if (status == MUSTER_OK) status = jobs_run(jobs, job_count);
    if (status == MUSTER_OK) status = jobs_report(jobs, job_count, name);
    mst_free(kernels);
    mst_free(names);
    return status;
}

static void program_unload(mst_object *object) {
    mst_fused_program *program = (mst_fused_program *)object;
    muster_runtime *runtime = object->runtime;
    for (int32_t r = 0; r < runtime->size; r++) {
        mst_device *device = runtime->devices[r];
        if (program->programs[r]) device->program->close(device, program->programs[r]);
        program->programs[r] = NULL;
    }
    program->closed = true;
}

/* What has been opened is the program's, also after a failure. */
static muster_status program_build(mst_fused_program *program, const char *name) {
    const muster_runtime *runtime = program->object.runtime;
    mst_code_headers headers = {0};
    mst_code_source *sources = NULL;
    int32_t source_count = 0, job_count = 0;
    job *jobs = mst_alloc((size_t)runtime->size * sizeof *jobs);
    muster_status status = jobs ? sources_make(&headers, &sources, &source_count)
                                : mst_out_of_memory("muster_graph_compile", runtime->size * (int64_t)sizeof *jobs);
    for (int32_t r = 0; r < runtime->size && jobs; r++)
        if (device_launches(runtime->devices[r])) jobs[job_count++].device = runtime->devices[r];
    if (status == MUSTER_OK) status = request_run(program, name, sources, source_count, jobs, job_count);
    for (int32_t r = 0, i = 0; r < runtime->size && jobs; r++) {
        if (!device_launches(runtime->devices[r])) continue;
        program->programs[r] = jobs[i].program;
        program->processors[r] = jobs[i++].processors;
    }
    mst_free(sources);
    mst_code_headers_free(&headers);
    mst_free(jobs);
    return status;
}

static void program_free(mst_fused_program *program) {
    mst_fused_text_free(&program->printed);
    mst_free(program->programs);
    mst_free(program->processors);
    mst_free(program);
}

static muster_status program_open(mst_fused_program *program, const char *name) {
    muster_runtime *runtime = program->object.runtime;
    program->programs = mst_alloc((size_t)runtime->size * sizeof(mst_program *));
    program->processors = mst_alloc((size_t)runtime->size * sizeof *program->processors);
    if (!program->programs || !program->processors)
        return mst_out_of_memory("muster_graph_compile", runtime->size * (int64_t)(sizeof(mst_program *) + sizeof(int64_t)));
    MUSTER_TRY(mst_pool_enter(runtime->pool, "muster_graph_compile", 0));
    const muster_status status = program_build(program, name);
    if (status != MUSTER_OK) {
        char message[MST_MESSAGE_SIZE];
        mst_error_save(message);
        program_unload(&program->object);
        (void)mst_error_restore(status, message);
    } else {
        mst_runtime_add_nameless(runtime, &program->object, "fused groups");
        program->object.destroy = program_unload;
        mst_string_free(&program->printed.text);
    }
    mst_pool_leave(runtime->pool);
    return status;
}

muster_status mst_fused_open(muster_runtime *runtime, const char *name, const mst_fused_group *groups, int32_t count,
                             mst_fused_program **program) {
    bool launches = false;
    *program = NULL;
    for (int32_t r = 0; r < runtime->size; r++) launches |= device_launches(runtime->devices[r]);
    if (!launches || count == 0) return MUSTER_OK;
    mst_fused_program *made = mst_alloc(sizeof *made);
    if (!made) return mst_out_of_memory("muster_graph_compile", (int64_t)sizeof *made);
    made->object.runtime = runtime;
    muster_status status = mst_fused_print(groups, count, &made->printed);
    if (status == MUSTER_OK) status = program_open(made, name);
    if (status == MUSTER_OK)
        *program = made;
    else
        program_free(made);
    return status;
}

/* The kernels go with the runtime; the rest with the graph's function, whose `destroy` may run
 * later. */
void mst_fused_close(mst_fused_program *program) {
    if (!program) return;
    if (!program->closed && !mst_runtime_end_object(&program->object, "muster_function_destroy")) return; /* a child after fork */
    program_free(program);
}

/* ---- launching ---- */

struct mst_fused_launch {
    mst_program *program;
    int32_t kernel, tensor_count;
    int64_t most_groups;
    mst_program_grid grid;
    mst_fused_parameters parameters;
    const muster_tensor *tensors[MST_FUSED_TENSORS];
    mst_program_value values[MST_FUSED_TENSORS + 1];
};

muster_status mst_fused_launch_make(mst_arena *memory, const mst_fused_program *program, int32_t rank, int32_t group_number,
                                    const mst_fused_group *group, const muster_tensor *const *in, muster_tensor *const *out,
                                    mst_fused_launch **launch) {
    *launch = NULL;
    if (!program || !program->programs[rank]) return MUSTER_OK;
    mst_fused_launch *made = mst_arena_take(memory, sizeof *made);
    if (!made) return mst_out_of_memory("muster_function_call", (int64_t)sizeof *made);
    mst_fused_parameters *p = &made->parameters;
    const muster_tensor *shape = NULL;
    for (int32_t i = 0; i < group->operand_count; i++) made->tensors[made->tensor_count++] = in[i];
    for (int32_t r = 0; r < group->result_count; r++) {
        made->tensors[made->tensor_count++] = out[r];
        if (out[r]->dtype == MUSTER_DTYPE_NONE) continue;
        p->wanted |= 1u << r;
        shape = out[r];
    }
    if (shape) {
        p->count = muster_tensor_count(*shape);
        p->ndim = mst_iterator_join(shape->ndim, shape->shape, made->tensor_count, made->tensors, p->shape, p->strides);
    }
    const int64_t most = GROUPS_PER_PROCESSOR * program->processors[rank], wanted = (p->count + THREADS - 1) / THREADS;
    made->program = program->programs[rank];
    made->most_groups = most;
    made->kernel = program->printed.kernel_of[group_number];
    made->grid = (mst_program_grid){.dims = 1, .groups = {wanted < most ? wanted : most, 1, 1}, .threads = {THREADS, 1, 1}};
    made->values[made->tensor_count].address = p;
    *launch = made;
    return MUSTER_OK;
}

muster_status mst_fused_launch_run(muster_worker *worker, mst_fused_launch *launch) {
    if (launch->parameters.count == 0) return MUSTER_OK;
    for (int32_t i = 0; i < launch->tensor_count; i++)
        launch->values[i].address = launch->tensors[i]->dtype == MUSTER_DTYPE_NONE ? NULL : muster_tensor_address(*launch->tensors[i]);
    return worker->device->program->launch(worker->device, launch->program, launch->kernel, &launch->grid, launch->values);
}

muster_status mst_fused_launch_run_first(muster_worker *worker, mst_fused_launch *launch, int64_t count) {
    const int64_t wanted = (count + THREADS - 1) / THREADS;
    launch->parameters.count = launch->parameters.shape[0] = count;
    launch->grid.groups[0] = wanted < launch->most_groups ? wanted : launch->most_groups;
    return mst_fused_launch_run(worker, launch);
}
