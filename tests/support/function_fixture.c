#include "function_fixture.h"

#include "base_plain.h"
#include "base_seed.h"
#include "device_discrete.h"

#include <stdlib.h>
#include <string.h>

const char *const fixture_backends[] = {"host", "discrete", NULL};

static void no_log(void *user, muster_log_level level, const char *line) { (void)user, (void)level, (void)line; }

static muster_runtime *open_with(const char *backend, int count, int shards, const char *nodes) {
    char devices[32];
    muster_runtime_options options;
    muster_runtime *runtime = NULL;
    assert_ok(mst_discrete_register());
    muster_runtime_options_init(&options);
    snprintf(devices, sizeof devices, "%s:%d", backend, count);
    options.devices = devices;
    options.log = no_log;
    options.nodes = nodes;
    options.logical_shards = shards ? shards : -1;
    assert_ok(muster_runtime_open(&options, &runtime));
    assert_int_equal(muster_runtime_size(runtime), count);
    return runtime;
}

muster_runtime *fixture_open(const char *backend, int count) { return open_with(backend, count, 0, NULL); }
muster_runtime *fixture_open_shards(const char *backend, int count, int shards) { return open_with(backend, count, shards, NULL); }
muster_runtime *fixture_open_alone(const char *backend, int count) { return open_with(backend, count, 0, "none"); }

void fixture_close(muster_runtime *runtime) { assert_ok(muster_runtime_close(runtime)); }

void fixture_assert_ok(muster_status status, const char *what, const char *file, int line) {
    if (status == MUSTER_OK) return;
    print_error("%s: %s: %s\n", what, muster_status_name(status), muster_last_error());
    _fail(file, line);
}

void fixture_assert_refused(muster_status status, muster_status code, const char *part, const char *what, const char *file, int line) {
    if (status == code && test_says(muster_last_error(), part)) return;
    print_error("%s: expected %s with \"%s\", received %s: %s\n", what, muster_status_name(code), part, muster_status_name(status),
                status ? muster_last_error() : "");
    _fail(file, line);
}

uint32_t fixture_random(uint64_t *state, uint32_t bound) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((*state >> 33) % bound);
}

uint64_t fixture_seed(void) {
    const uint64_t seed = test_seed();
    print_message("seed %llu\n", (unsigned long long)seed);
    return seed;
}

int fixture_rounds(int usual, int full) { return test_is_full() ? full : usual; }
