#include "muster_case.h"

bool bench_muster_ok(muster_status status, const char *what) {
    if (status == MUSTER_OK) return true;
    bench_log("%s: %s: %s", what, muster_status_name(status), muster_last_error());
    return false;
}

muster_runtime *bench_muster_open(int32_t devices) {
    char text[32];
    snprintf(text, sizeof text, "host:%d", devices);
    muster_runtime_options options;
    muster_runtime_options_init(&options);
    options.devices = text;
    muster_runtime *runtime = NULL;
    return bench_muster_ok(muster_runtime_open(&options, &runtime), "muster") ? runtime : NULL;
}

void bench_muster_add(bench_row *row, const char *name, void *self, bool (*block)(void *, const bench_block *, double *, int64_t *)) {
    char again[BENCH_NAME];
    snprintf(again, sizeof again, "%s, again", name);
    bench_add(row, BENCH_MUSTER, name, self, block, NULL);
    bench_add(row, BENCH_MUSTER_AGAIN, again, self, block, NULL);
}
