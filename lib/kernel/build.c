/* From source to kernels on all devices: every kernel on every device is one job, and several
 * threads run the jobs. */
#include "kernel_private.h"
#include "own_thread_impl.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

enum { THREADS = 16 };

/* One kernel on one device. */
typedef struct job {
    const mst_kernel_plan *plan;
    mst_device *device;
    mst_kernel_device *result;
    muster_status status;
    char *log;
    char message[MST_MESSAGE_SIZE];
} job;

typedef struct build {
    muster_runtime *runtime;
    const char *where;
    const mst_kernel_plan *plans;
    muster_kernel **kernels;
    int64_t count;
    job *jobs; /* all jobs of the first kernel by rank, then those of the next */
    int64_t job_count;
    _Atomic int64_t next;
} build;

/* ---- one job ---- */

static muster_status refuse_language(const job *j, mst_language language) {
    const bool cuda = language == MST_LANGUAGE_CUDA;
    if (!(j->plan->needs & (cuda ? MST_NEEDS_OPENCL : MST_NEEDS_CUDA))) return MUSTER_OK;
    return mst_error(MUSTER_UNAVAILABLE, "expected a device for %s, as the flags say, received one for %s", cuda ? "OpenCL" : "CUDA",
                     cuda ? "CUDA" : "OpenCL");
}

static muster_status build_open_program(job *j, const char *source) {
    const mst_kernel_plan *plan = j->plan;
    const mst_device_program_table *programs = j->device->program;
    mst_program_parameter parameters[MUSTER_KERNEL_PARAMETERS_MAX];
    int64_t threads[MUSTER_KERNEL_WARM_MAX + 1] = {MST_KERNEL_THREADS};
    const mst_code_source dialect = {"cluda.h", mst_dialect(j->result->language)};
    const mst_program_kernel kernel = {.name = plan->name,
                                       .parameters = parameters,
                                       .parameter_count = plan->parameter_count,
                                       .local = mst_takes_shared(plan->source, plan->name)};
    mst_program_request request = {.code = {.name = plan->name, .text = source, .sources = &dialect, .count = 1},
                                   .kernels = &kernel,
                                   .kernel_count = 1,
                                   .needs = plan->needs,
                                   .warm_threads = threads,
                                   .warm_count = 1};
    for (int32_t i = 0; i < plan->parameter_count; i++) {
        parameters[i] = (mst_program_parameter){mst_type_bytes(plan->parameters[i])};
        request.needs |= mst_type_needs(plan->parameters[i]);
    }
    for (int32_t i = 0; i < plan->thread_count; i++)
        if (plan->threads[i] != MST_KERNEL_THREADS) threads[request.warm_count++] = plan->threads[i];
    MUSTER_TRY(programs->open(j->device, &request, &j->result->program, &j->log));
    return programs->limits(j->device, j->result->program, 0, &j->result->limits);
}

static muster_status build_run_job(job *j) {
    mst_device *device = j->device;
    if (!device->program)
        return mst_error(MUSTER_UNAVAILABLE, "expected a device that compiles kernels, received one of the backend \"%s\"",
                         device->table->backend);
    MUSTER_TRY(device->program->language(device, &j->result->language));
    MUSTER_TRY(refuse_language(j, j->result->language));
    const char *text = j->plan->source;
    j->result->loops =
        j->result->language == MST_LANGUAGE_OPENCL && (mst_has_word(text, "MUSTER_EACH") || mst_has_word(text, "MUSTER_EACH_2"));
    mst_string source = {0};
    muster_status status = mst_string_print(&source, "#include \"cluda.h\"\n%s", j->plan->source);
    if (status == MUSTER_OK) status = build_open_program(j, source.data);
    mst_string_free(&source);
    return status;
}

static void *build_run_jobs(void *argument) {
    build *b = argument;
    for (int64_t i = atomic_fetch_add(&b->next, 1); i < b->job_count; i = atomic_fetch_add(&b->next, 1)) {
        job *j = &b->jobs[i];
        j->status = build_run_job(j);
        if (j->status != MUSTER_OK) mst_error_save(j->message);
    }
    return NULL;
}

/* This thread runs the jobs that no other thread takes. */
static void build_run_all(build *b) {
    pthread_t threads[THREADS];
    int started = 0;
    const sigset_t before = mst_signals_block(); /* signals are for the program's own threads */
    while (started < THREADS && started + 1 < b->job_count && pthread_create(&threads[started], NULL, build_run_jobs, b) == 0) started++;
    mst_signals_restore(&before);
    build_run_jobs(b);
    for (int i = 0; i < started; i++) pthread_join(threads[i], NULL);
}

/* ---- what the compilers said ---- */

/* A log that several devices have in common is shown once. */
static muster_status build_add_log(mst_string *log, const build *b, const job *jobs) {
    for (int32_t r = 0; r < b->runtime->size; r++) {
        bool shown = !jobs[r].log || !*jobs[r].log;
        for (int32_t s = 0; s < r && !shown; s++) shown = jobs[s].log && strcmp(jobs[s].log, jobs[r].log) == 0;
        if (shown) continue;
        MUSTER_TRY(mst_string_print(log, "kernel '%s' on %s", jobs[r].plan->name, jobs[r].device->name));
        for (int32_t s = r + 1; s < b->runtime->size; s++)
            if (jobs[s].log && strcmp(jobs[s].log, jobs[r].log) == 0) MUSTER_TRY(mst_string_print(log, ", %s", jobs[s].device->name));
        MUSTER_TRY(mst_string_print(log, ":\n%s%s", jobs[r].log, jobs[r].log[strlen(jobs[r].log) - 1] == '\n' ? "" : "\n"));
    }
    return MUSTER_OK;
}

/* The failure is the source's, not the machine's. */
static bool build_blames_source(const job *j) {
    return j->log && *j->log && j->status != MUSTER_OUT_OF_MEMORY && j->status != MUSTER_UNAVAILABLE && j->status != MUSTER_DEVICE_LOST &&
           j->status != MUSTER_BAD_STATE;
}

static muster_status build_report_failure(const build *b, const job *j) {
    char device[MST_DEVICE_TEXT];
    mst_runtime_device_text(b->runtime, (int32_t)((j - b->jobs) % b->runtime->size), device);
    if (!build_blames_source(j))
        return mst_error(j->status, "%s: kernel '%.100s' on device %s: %s", b->where, j->plan->name, device, j->message);
    int length;
    const char *first = mst_log_first(j->log, &length);
    return mst_error(MUSTER_INVALID_ARGUMENT, "%s: kernel '%.100s' on device %s: expected source that compiles, received: %.*s", b->where,
                     j->plan->name, device, length < 250 ? length : 250, first);
}

/* The first job that failed decides. This thread's log becomes that of all jobs. */
static muster_status build_report(const build *b) {
    const job *failed = NULL;
    for (int64_t i = 0; i < b->job_count && !failed; i++)
        if (b->jobs[i].status != MUSTER_OK) failed = &b->jobs[i];
    if (!failed) return MUSTER_OK;
    mst_string log = {0};
    for (int64_t k = 0; k < b->count; k++)
        if (build_add_log(&log, b, b->jobs + k * b->runtime->size) != MUSTER_OK) break; /* the rest of the log is left out */
    mst_create_log_set(log.data);
    return build_report_failure(b, failed);
}

/* ---- the kernels ---- */

static void build_free_kernel(muster_kernel *kernel) {
    muster_runtime *runtime = kernel->object.runtime;
    for (int32_t r = 0; kernel->devices && r < runtime->size; r++) {
        mst_device *device = runtime->devices[r];
        if (kernel->devices[r].program) device->program->close(device, kernel->devices[r].program);
    }
    mst_free(kernel->devices);
    mst_free(kernel->parameters);
    mst_free(kernel->log);
    mst_free(kernel->name);
    mst_object_retire(&kernel->object, sizeof *kernel);
}

static void build_destroy_kernel(mst_object *object) {
    mst_runtime_remove(object);
    build_free_kernel((muster_kernel *)object);
}

static muster_status build_make_kernel(build *b, int64_t index) {
    const mst_kernel_plan *plan = &b->plans[index];
    MUSTER_TRY(mst_check_declared(b->where, plan));
    const int64_t bytes = (plan->parameter_count ? plan->parameter_count : 1) * (int64_t)sizeof *plan->parameters;
    muster_kernel *kernel = b->kernels[index] = mst_alloc(sizeof *kernel);
    if (!kernel) return mst_out_of_memory(b->where, sizeof *kernel);
    kernel->object.runtime = b->runtime;
    kernel->object.kind = "kernel";
    kernel->object.destroy = build_destroy_kernel;
    kernel->name = mst_strdup(plan->name);
    kernel->parameters = mst_alloc((size_t)bytes);
    kernel->devices = mst_alloc((size_t)b->runtime->size * sizeof *kernel->devices);
    if (!kernel->name || !kernel->parameters || !kernel->devices)
        return mst_out_of_memory(b->where, bytes + b->runtime->size * (int64_t)sizeof *kernel->devices);
    kernel->parameter_count = plan->parameter_count;
    if (plan->parameter_count > 0) memcpy(kernel->parameters, plan->parameters, (size_t)bytes);
    for (int32_t r = 0; r < b->runtime->size; r++)
        b->jobs[index * b->runtime->size + r] = (job){.plan = plan, .device = b->runtime->devices[r], .result = &kernel->devices[r]};
    return MUSTER_OK;
}

static muster_status build_keep_log(const build *b, int64_t index) {
    mst_string log = {0};
    muster_status status = build_add_log(&log, b, b->jobs + index * b->runtime->size);
    if (status == MUSTER_OK)
        b->kernels[index]->log = log.data;
    else
        mst_string_free(&log);
    return status;
}

static muster_status build_make_all(build *b) {
    for (int64_t i = 0; i < b->count; i++) MUSTER_TRY(build_make_kernel(b, i));
    build_run_all(b);
    MUSTER_TRY(build_report(b));
    for (int64_t i = 0; i < b->count; i++) MUSTER_TRY(build_keep_log(b, i));
    for (int64_t i = 0; i < b->count; i++)
        MUSTER_TRY(mst_runtime_add_newest(b->runtime, &b->kernels[i]->object, "kernel", b->kernels[i]->name, b->where));
    return MUSTER_OK;
}

muster_status mst_kernels_build(muster_runtime *runtime, const char *where, const mst_kernel_plan *plans, int64_t count,
                                muster_kernel **kernels) {
    build b = {.runtime = runtime, .where = where, .plans = plans, .kernels = kernels, .count = count, .job_count = count * runtime->size};
    for (int64_t i = 0; i < count; i++) kernels[i] = NULL;
    MUSTER_TRY(mst_pool_enter(runtime->pool, where, 0));
    b.jobs = mst_alloc((size_t)b.job_count * sizeof *b.jobs);
    muster_status status = b.jobs ? build_make_all(&b) : mst_out_of_memory(where, b.job_count * (int64_t)sizeof *b.jobs);
    for (int64_t i = 0; b.jobs && i < b.job_count; i++) mst_free(b.jobs[i].log);
    mst_free(b.jobs);
    for (int64_t i = 0; status != MUSTER_OK && i < count; i++) {
        if (kernels[i]) build_destroy_kernel(&kernels[i]->object);
        kernels[i] = NULL;
    }
    mst_pool_leave(runtime->pool);
    return status;
}
