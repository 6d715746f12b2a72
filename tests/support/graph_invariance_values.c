#include "device_discrete.h"
#include "graph_invariance_private.h"

#include <math.h>
#include <stdlib.h>

enum { RUNTIMES = 24 };

/* ---- runtimes ---- */

static struct {
    char devices[64];
    int32_t shards;
    muster_runtime *runtime;
} opened[RUNTIMES];

muster_runtime *devices_open_shards(const char *devices, int32_t shards) {
    int32_t i = 0;
    muster_runtime_options options;
    assert_ok(mst_discrete_register());
    for (; i < RUNTIMES && opened[i].runtime; i++)
        if (strcmp(opened[i].devices, devices) == 0 && opened[i].shards == shards) return opened[i].runtime;
    assert_true(i < RUNTIMES);
    strcpy(opened[i].devices, devices);
    opened[i].shards = shards;
    muster_runtime_options_init(&options);
    options.devices = devices;
    options.logical_shards = shards;
    assert_ok(muster_runtime_open(&options, &opened[i].runtime));
    return opened[i].runtime;
}

muster_runtime *devices_open(const char *devices) { return devices_open_shards(devices, 0); }

int devices_close(void **state) {
    (void)state;
    for (int32_t i = 0; i < RUNTIMES; i++) {
        if (muster_runtime_close(opened[i].runtime) != MUSTER_OK) return 1;
        opened[i].runtime = NULL;
    }
    return 0;
}

/* ---- elements ---- */

double invariance_element(uint64_t seed, invariance_kind kind, int64_t place) {
    uint64_t x = seed * 0x9e3779b97f4a7c15u + (uint64_t)place * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 31) * 0x94d049bb133111ebu;
    x ^= x >> 29;
    switch (kind) {
    case WHOLES:
        return (double)(x % 7) - 3;
    case LABELS:
        return (double)(x % 3);
    case COUNTER:
        return 7;
    default:
        return (double)(x >> 11) * 0x1p-52 - 1;
    }
}

muster_dtype invariance_dtype(invariance_kind kind, muster_dtype dtype) {
    return kind == LABELS ? MUSTER_I32 : kind == COUNTER ? MUSTER_I64 : dtype;
}

double invariance_read(const void *memory, muster_dtype dtype, int64_t i) {
    switch (dtype) {
    case MUSTER_F64:
        return ((const double *)memory)[i];
    case MUSTER_F32:
        return (double)((const float *)memory)[i];
    case MUSTER_I64:
        return (double)((const int64_t *)memory)[i];
    case MUSTER_I32:
        return ((const int32_t *)memory)[i];
    case MUSTER_BOOL:
        return ((const uint8_t *)memory)[i];
    default:
        fail_msg("dtype %d", (int)dtype);
        return 0;
    }
}

void invariance_write(void *memory, muster_dtype dtype, int64_t i, double value) {
    if (dtype == MUSTER_F64)
        ((double *)memory)[i] = value;
    else if (dtype == MUSTER_F32)
        ((float *)memory)[i] = (float)value;
    else if (dtype == MUSTER_I64)
        ((int64_t *)memory)[i] = (int64_t)value;
    else
        ((int32_t *)memory)[i] = (int32_t)value;
}

/* ---- the list ---- */

void invariance_add(invariance_values *values, const void *memory, muster_dtype dtype, int64_t count) {
    if (values->count + count > values->capacity) {
        values->capacity = 2 * (values->count + count) + 64;
        values->items = realloc(values->items, (size_t)values->capacity * sizeof *values->items);
        assert_non_null(values->items);
    }
    if (values->value_count == values->value_capacity) {
        values->value_capacity = 2 * values->value_capacity + 16;
        values->ends = realloc(values->ends, (size_t)values->value_capacity * sizeof *values->ends);
        assert_non_null(values->ends);
    }
    for (int64_t i = 0; i < count; i++) values->items[values->count++] = invariance_read(memory, dtype, i);
    values->ends[values->value_count++] = values->count;
}

void invariance_free(invariance_values *values) {
    free(values->items);
    free(values->ends);
    *values = (invariance_values){.items = NULL};
}

double invariance_distance(const invariance_values *a, const invariance_values *b) {
    double worst = 0;
    if (a->value_count != b->value_count || a->count != b->count) return (double)INFINITY;
    for (int32_t v = 0; v < a->value_count; v++) {
        double largest = 1, distance = 0;
        if (a->ends[v] != b->ends[v]) return (double)INFINITY;
        for (int64_t i = v ? a->ends[v - 1] : 0; i < a->ends[v]; i++) {
            const double x = a->items[i], y = b->items[i];
            if (isnan(x) && isnan(y)) continue;
            if (isnan(x) || isnan(y) || (isinf(x) || isinf(y))) {
                if (x != y) return (double)INFINITY;
                continue;
            }
            distance = fmax(distance, fabs(x - y));
            largest = fmax(largest, fabs(x));
        }
        worst = fmax(worst, distance / largest);
    }
    return worst;
}
