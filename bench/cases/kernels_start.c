/* Start-up is measured in processes of their own, one for each time, since a library that is open
 * already, or a compiler that has run, would make the next kernel cheaper. Each makes KERNELS
 * kernels of different texts and launches every one once. Caches lie in a folder of the bench's
 * own, so that it is known what is in them. */
#include "kernels_start.h"

#include "kernels.h"
#include "opencl.h"

#include <ftw.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { KERNELS = 8, N = 64, TEXT = 600 };

/* ---- the measured process ---- */

/* A text that differs from the others in what it computes, so that no cache takes one for another:
 * one more number is added for each. */
static void make_text(char text[TEXT], const char *pattern, int32_t i) {
    const char *place = strstr(pattern, "y[i];") + 4;
    snprintf(text, TEXT, "%.*s + %d%s", (int)(place - pattern), pattern, (int)i, place);
}

static bool start_muster(double ns[KERNELS]) {
    static float x[N], y[N];
    muster_runtime *runtime = bench_muster_open(1);
    for (int32_t i = 0; runtime && i < KERNELS; i++) {
        muster_kernel *kernel;
        char text[TEXT];
        const muster_argument arguments[] = {muster_argument_float(MUSTER_F32, 1), muster_argument_buffer(muster_f32(x, N)),
                                             muster_argument_buffer(muster_f32(y, N)), muster_argument_size(N)};
        make_text(text, bench_kernels_dialect, i);
        const int64_t begin = bench_now_ns();
        if (!bench_muster_ok(muster_kernel_create(runtime, "scale_add", text, bench_kernels_parameters, 4, NULL, &kernel), "muster") ||
            !bench_muster_ok(muster_kernel_call_elements(kernel, N, 0, arguments, 4), "muster"))
            return false;
        ns[i] = (double)(bench_now_ns() - begin);
    }
    return runtime && bench_muster_ok(muster_runtime_close(runtime), "muster");
}

static bool start_opencl(double ns[KERNELS]) {
    static float x[N], y[N];
    bench_opencl *cl = NULL;
    for (int32_t i = 0; i < KERNELS; i++) {
        char text[TEXT];
        double once;
        int64_t wrong = 0;
        make_text(text, bench_kernels_opencl, i);
        const int64_t begin = bench_now_ns();
        if (!cl) cl = bench_opencl_open(1);
        if (!cl || !bench_opencl_build(cl, text, "scale_add")) return false;
        bench_opencl_job *job =
            bench_opencl_job_open((bench_opencl_job){.cl = cl, .a = 1, .x = x, .y = y, .n = N, .groups = 1, .threads = N, .launches = 1});
        if (!job || !bench_opencl_block(job, &(bench_block){0, 1, 0}, &once, &wrong)) return false;
        ns[i] = (double)(bench_now_ns() - begin);
        bench_opencl_job_close(job);
    }
    bench_opencl_close(cl);
    return true;
}

bool bench_kernels_start(const bench_options *options) {
    const char *who = getenv("MUSTER_BENCH_START");
    double ns[KERNELS], rest = 0;
    (void)options;
    (void)bench_ns_per_tick();
    if (!(who && strcmp(who, "opencl") == 0 ? start_opencl(ns) : start_muster(ns))) return false;
    for (int32_t i = 1; i < KERNELS; i++) rest += ns[i] / (KERNELS - 1);
    printf("started %.0f %.0f\n", ns[0], rest);
    return true;
}

/* ---- the rows ---- */

typedef struct starter {
    const char *who;
    char folder[64]; /* of the caches */
    bool cold;       /* the caches are emptied before each */
    bool rest;       /* the further kernels, not the first */
} starter;

static int remove_one(const char *path, const struct stat *status, int type, struct FTW *where) {
    (void)status, (void)type, (void)where;
    return remove(path);
}

static void empty(const char *folder) { (void)nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS); }

static bool run_process(const starter *s, double *ns) {
    char self[3000], command[4096], line[400];
    double first = 0, rest = 0;
    const ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    if (length <= 0) return false;
    self[length] = '\0';
    if (s->cold) empty(s->folder);
    (void)mkdir(s->folder, 0700);
    snprintf(command, sizeof command, "MUSTER_BENCH_START=%s MUSTER_CACHE_DIR='%s/muster' POCL_CACHE_DIR='%s/pocl' '%s' kernels-start",
             s->who, s->folder, s->folder, self);
    FILE *process = popen(command, "r");
    bool found = false;
    while (process && fgets(line, sizeof line, process)) {
        if (sscanf(line, "started %lf %lf", &first, &rest) == 2)
            found = true;
        else if (strstr(line, ": "))
            bench_log("%s", line);
    }
    *ns = s->rest ? rest : first;
    return process && pclose(process) == 0 && found;
}

static bool start_block(void *self, const bench_block *block, double *ns, int64_t *wrong) {
    const starter *s = self;
    double once;
    (void)wrong;
    bench_unpin(); /* the process would inherit it, and a compiler has threads */
    bool ok = true;
    for (int32_t i = -block->warm; i < block->calls && ok; i++) {
        ok = run_process(s, &once);
        if (i >= 0) ns[i] = once;
    }
    bench_pin(bench_cpu(0));
    return ok;
}

static bool start_row(const bench_options *options, const char *folder, const char *name, bool cold, bool rest) {
    bench_row row = {.block = {0, 1, 0}, .round_count = cold ? 3 : 11, .median = true};
    snprintf(row.name, sizeof row.name, "kernels: %s", name);
    if (!bench_wanted(options, row.name)) return true;
    starter starters[2] = {{.who = "opencl", .cold = cold, .rest = rest}, {.who = "muster", .cold = cold, .rest = rest}};
    bool ok = true;
    for (int i = 0; i < 2; i++) {
        double once;
        snprintf(starters[i].folder, sizeof starters[i].folder, "%s/%s", folder, starters[i].who);
        if (!cold) ok = run_process(&starters[i], &once) && ok; /* fills the caches */
    }
    bench_add(&row, BENCH_LIMIT, cold ? "bare OpenCL, nothing cached" : "bare OpenCL, its own cache", &starters[0], start_block, NULL);
    bench_add(&row, BENCH_MUSTER, "muster", &starters[1], start_block, NULL);
    if (!cold) bench_target_add(&row, BENCH_MEDIAN_NS, "muster", 100e6);
    return bench_run(&row, options) && ok;
}

bool bench_kernels_start_rows(const bench_options *options) {
    char folder[] = "/tmp/muster-bench-XXXXXX";
    if (!mkdtemp(folder)) {
        bench_log("not measured: start-up: no folder in /tmp");
        return true;
    }
    bool ok = start_row(options, folder, "the first kernel of a process, caches cold", true, false);
    ok = start_row(options, folder, "the first kernel of a process, caches warm", false, false) && ok;
    ok = start_row(options, folder, "each of the next 7, caches warm", false, true) && ok;
    empty(folder);
    return ok;
}
