/* Kernels of the program's own on CPU devices (OpenCL), hwloc and an MPI in one process, MPI first
 * or last: what the processes of four_suite.py run. Prints which of their libraries are in the
 * process. */
#include <muster/muster.h>

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N = 1000, THREADS = 16, GROUPS = 4 };

static const char text[] = "KERNEL void twice(GLOBAL_MEM ga_float *x, ga_size n, GLOBAL_MEM ga_float *y) {\n"
                           "    MUSTER_EACH(i, n) y[i] = 2 * x[i];\n"
                           "}\n";

static void check(muster_status status) {
    if (status == MUSTER_OK) return;
    printf("%s: %s\n", muster_status_name(status), muster_last_error());
    exit(1);
}

static muster_status twice(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    muster_tensor y;
    MUSTER_TRY(muster_worker_scratch(w, MUSTER_F32, 1, in[0].shape, &y));
    const muster_argument arguments[] = {muster_argument_buffer(in[0]), muster_argument_size((uint64_t)in[0].shape[0]),
                                         muster_argument_buffer(y)};
    const muster_grid grid = {.dims = 1, .groups = {GROUPS}, .threads = {THREADS}};
    MUSTER_TRY(muster_kernel_launch(w, user, &grid, arguments, 3));
    return muster_sum(w, y, out[0]);
}

/* A runtime with one device for each of `ranks` in all, and a call of the kernel. */
static void run(const char *nodes, int32_t ranks) {
    static float x[N];
    float total = 0;
    const int32_t parameters[] = {MUSTER_PARAMETER_BUFFER, MUSTER_PARAMETER_SIZE, MUSTER_PARAMETER_BUFFER};
    muster_runtime_options options;
    muster_runtime *runtime;
    muster_kernel *kernel;
    muster_function *f;
    muster_runtime_options_init(&options);
    options.devices = "host:1";
    options.nodes = nodes;
    check(muster_runtime_open(&options, &runtime));
    check(muster_kernel_create(runtime, "twice", text, parameters, 3, NULL, &kernel));
    check(muster_function_create(runtime, "twice", twice, kernel, &f));
    check(muster_function_input(f, "x", MUSTER_F32, 1, MUSTER_SCATTER));
    check(muster_function_output(f, "sum", MUSTER_F32, 0, MUSTER_SUM));
    for (int i = 0; i < N; i++) x[i] = (float)(i % 10);
    check(muster_function_call(f, (muster_tensor[]){muster_f32(x, N)}, 1, (muster_tensor[]){muster_f32(&total)}, 1, NULL));
    printf("nodes %s: %d ranks, sum %g\n", nodes, muster_runtime_size(runtime), (double)total);
    if (muster_runtime_size(runtime) != ranks || total != 9000) exit(1);
    check(muster_runtime_close(runtime));
}

static void print_libraries(void) {
    static const char *const names[] = {"muster-mpi-", "libmpi.so", "libmpich.so", "libOpenCL.so", "libpocl", "libhwloc.so"};
    bool found[sizeof names / sizeof *names] = {false};
    char line[4096];
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps && fgets(line, sizeof line, maps))
        for (size_t i = 0; i < sizeof names / sizeof *names; i++) found[i] |= strstr(line, names[i]) != NULL;
    if (maps) fclose(maps);
    char all[200] = "";
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (found[i]) strcat(strcat(all, " "), names[i]);
    printf("libraries:%s\n", all); /* one write, also where MPI has taken the buffer of stdout away */
}

static int threads(void) {
    int number = -1;
    char line[256];
    FILE *status = fopen("/proc/self/status", "r");
    while (status && fgets(line, sizeof line, status))
        if (sscanf(line, "Threads: %d", &number) == 1) break;
    if (status) fclose(status);
    return number;
}

static muster_status nothing(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    (void)w, (void)in, (void)out, (void)user;
    return MUSTER_OK;
}

/* One process that is not asked to join any: two devices have a thread each, and there is no MPI.
 * */
static int alone(void) {
    muster_runtime_options options;
    muster_runtime *runtime;
    muster_function *f;
    muster_runtime_options_init(&options);
    options.devices = "host:2";
    const int before = threads();
    check(muster_runtime_open(&options, &runtime));
    check(muster_function_create(runtime, "nothing", nothing, NULL, &f));
    for (int i = 0; i < 100; i++) check(muster_function_call(f, NULL, 0, NULL, 0, NULL));
    printf("threads: %d, with a runtime %d\n", before, threads());
    check(muster_runtime_close(runtime));
    print_libraries();
    return 0;
}

int main(int count, char **arguments) {
    setvbuf(stdout, NULL, _IOLBF, 1 << 14);
    if (count > 1 && !strcmp(arguments[1], "alone")) return alone();
    const bool mpi_first = count > 1 && !strcmp(arguments[1], "mpi_first");
    run(mpi_first ? "mpi" : "none", mpi_first ? 2 : 1);
    run(mpi_first ? "none" : "mpi", mpi_first ? 1 : 2);
    print_libraries();
    return 0;
}
