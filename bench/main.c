/* muster-bench CASE [options]: measures Muster beside its limit and its peers. */
#include "bench.h"
#include "kernels_start.h"

#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    bool (*run)(const bench_options *);
} cases[] = {{"dispatch", bench_dispatch},
             {"call", bench_call},
             {"train", bench_train},
             {"graph", bench_graph},
             {"collectives", bench_collectives},
             {"nodes", bench_nodes},
             {"gpu", bench_gpu_case},
             {"server", bench_server},
             {"operations", bench_operations},
             {"loops", bench_loops},
             {"models", bench_models},
             {"networks", bench_networks},
             /* the last one is a part of `kernels`, in a process of its own */
             {"kernels", bench_kernels},
             {"kernels-start", bench_kernels_start}};

static int usage(const char *problem) {
    fprintf(stderr,
            "muster-bench: %s\nusage: muster-bench "
            "dispatch|call|train|graph|collectives|nodes|gpu|server|operations|loops|models|networks|kernels "
            "[--json FILE] "
            "[--rounds N] "
            "[--quick] [--row TEXT]\n"
            "--row: only the rows with TEXT in their name\n"
            "operations: [--list]: print the names of the operations, measure nothing\n"
            "collectives: [-b BYTES] [-e BYTES] [-f FACTOR] [-n CALLS] [-w CALLS] [--ranks 2,4] [--op all_reduce,...] [--no-peers]\n"
            "             [--plot FILE.svg]\n"
            "nodes: the same, with --ranks processes and [--mpi openmpi,mpich] [--schedules]; starts mpirun itself\n"
            "-b, -e: sizes from, to (with K, M, G); -f: times; -n, -w: timed operations and those before them, of each round\n"
            "MUSTER_BENCH_PYTHON: the Python interpreters to look for NumPy, JAX and PyTorch in, separated by colons\n",
            problem);
    return 2;
}

/* "64K"; -1: no size. */
static int64_t read_size(const char *text) {
    char *end;
    double size = strtod(text, &end);
    if (end == text || !(size > 0)) return -1;
    for (const char *unit = "kmg"; *unit; unit++) {
        size *= 1024;
        if ((*end | 0x20) == *unit && !end[1]) return size < 1e15 ? (int64_t)size : -1;
    }
    return !*end && size / 1073741824 < 1e15 ? (int64_t)(size / 1073741824) : -1;
}

/* An option with a value. */
static bool set_option(bench_options *options, const char *name, char *value) {
    if (strcmp(name, "--json") == 0) return (options->json = value) != NULL;
    if (strcmp(name, "--row") == 0) return (options->row = value) != NULL;
    if (strcmp(name, "--plot") == 0) return (options->plot = value) != NULL;
    if (strcmp(name, "--op") == 0) return (options->ops = value) != NULL;
    if (strcmp(name, "--mpi") == 0) return (options->mpi = value) != NULL;
    if (strcmp(name, "--ranks") == 0) return (options->ranks = value) != NULL;
    if (strcmp(name, "--rounds") == 0) return (options->rounds = atoi(value)) > 0;
    if (strcmp(name, "-b") == 0) return (options->begin = read_size(value)) > 0;
    if (strcmp(name, "-e") == 0) return (options->end = read_size(value)) > 0;
    if (strcmp(name, "-f") == 0) return (options->factor = atof(value)) > 1;
    if (strcmp(name, "-n") == 0) return (options->calls = atoi(value)) > 0;
    if (strcmp(name, "-w") == 0) return (options->warm = atoi(value)) >= 0;
    return false;
}

int main(int argc, char **argv) {
    bench_options options = {.calls = -1, .warm = -1};
    int32_t chosen = -1;
    for (int32_t i = 0; argc > 1 && i < (int32_t)(sizeof cases / sizeof *cases); i++)
        if (strcmp(argv[1], cases[i].name) == 0) chosen = i;
    if (chosen < 0) return usage("expected a case");
    for (int i = 2; i < argc; i++) {
        if (strcmp(argv[i], "--quick") == 0)
            options.quick = true;
        else if (strcmp(argv[i], "--no-peers") == 0)
            options.no_peers = true;
        else if (strcmp(argv[i], "--schedules") == 0 && cases[chosen].run == bench_nodes)
            options.schedules = true;
        else if (strcmp(argv[i], "--list") == 0 && cases[chosen].run == bench_operations)
            options.list = true;
        else if (i + 1 >= argc || !set_option(&options, argv[i], argv[i + 1]))
            return usage("an option that is none, or lacks its value");
        else
            i++;
    }
    bench_machine_init();
    if (!bench_json_open(options.json, cases[chosen].name)) return 1;
    if (!options.list) bench_log("%s", bench_machine());
    bool ok = cases[chosen].run(&options);
    (void)bench_limits_print();
    if (!bench_json_close()) {
        fprintf(stderr, "muster-bench: %s: could not be written\n", options.json);
        ok = false;
    }
    return ok ? 0 : 1;
}
