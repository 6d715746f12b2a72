/* muster-bench CASE [--json FILE] [--rounds N] [--quick] [--row TEXT]: measures Muster beside its limit and its peers. */
#include "bench.h"

#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    bool (*run)(const bench_options *);
} cases[] = {{"dispatch", bench_dispatch}, {"call", bench_call}, {"train", bench_train}};

static int usage(const char *problem) {
    fprintf(stderr,
            "muster-bench: %s\nusage: muster-bench dispatch|call|train [--json FILE] [--rounds N] [--quick] [--row TEXT]\n"
            "--row: only the rows with TEXT in their name\n"
            "MUSTER_BENCH_PYTHON: the Python interpreters to look for NumPy and PyTorch in, separated by colons\n",
            problem);
    return 2;
}

int main(int argc, char **argv) {
    bench_options options = {0};
    int32_t chosen = -1;
    for (int32_t i = 0; argc > 1 && i < (int32_t)(sizeof cases / sizeof *cases); i++)
        if (strcmp(argv[1], cases[i].name) == 0) chosen = i;
    if (chosen < 0) return usage("expected a case");
    for (int i = 2; i < argc; i++) {
        if (strcmp(argv[i], "--quick") == 0) options.quick = true;
        else if (strcmp(argv[i], "--json") == 0 && i + 1 < argc) options.json = argv[++i];
        else if (strcmp(argv[i], "--row") == 0 && i + 1 < argc) options.row = argv[++i];
        else if (strcmp(argv[i], "--rounds") == 0 && i + 1 < argc && (options.rounds = atoi(argv[i + 1])) > 0) i++;
        else return usage("an option that is none, or lacks its value");
    }
    bench_machine_init();
    if (!bench_json_open(options.json, cases[chosen].name)) return 1;
    bench_say("%s", bench_machine());
    bool ok = cases[chosen].run(&options);
    if (!bench_json_close()) {
        fprintf(stderr, "muster-bench: %s: could not be written\n", options.json);
        ok = false;
    }
    return ok ? 0 : 1;
}
