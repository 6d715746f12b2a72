/* The options and the variables of the environment that are checked at every open, whatever devices
 * it asks for: a wrong value must not wait for the machine on which it counts. */
#include "environment_impl.h"
#include "options_impl.h"
#include "runtime_impl.h"
#include "thresholds_impl.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char where[] = "muster_runtime_open";

/* Numbers up to here are at most 18 digits. */
static const int64_t most_bytes = 999999999999999999;

/* Variables of the backends, which only some machines read. */
static muster_status settings_check_environment(void) {
    const char *folder = mst_environment_get("MUSTER_CUDA_LIBRARIES"), *opencl = mst_environment_get("MUSTER_OPENCL_LIBRARY");
    int64_t number;
    bool is_set;
    if (folder && folder[0] != '/') return mst_environment_refuse("MUSTER_CUDA_LIBRARIES", "an absolute path");
    MUSTER_TRY(mst_environment_number("MUSTER_DEVICE_MEMORY", "a number of bytes", 0, most_bytes, &number, &is_set));
    MUSTER_TRY(mst_environment_number("MUSTER_TF32", "0 or 1", 0, 1, &number, &is_set));
    MUSTER_TRY(mst_environment_number("MUSTER_P2P", "0 or 1", 0, 1, &number, &is_set));
    if (opencl && strcmp(opencl, "none") != 0 && opencl[0] != '/')
        return mst_environment_refuse("MUSTER_OPENCL_LIBRARY", "an absolute path or \"none\"");
    return mst_thresholds_check();
}

static muster_status settings_check_flag(const char *name, int32_t value) {
    if (value == 0 || value == 1) return MUSTER_OK;
    return mst_error(MUSTER_INVALID_ARGUMENT, "%s: options: %s: expected 0 or 1, received %d", where, name, (int)value);
}

muster_status mst_runtime_check_settings(const muster_runtime_options *options) {
    MUSTER_TRY(settings_check_flag("keep_blas_threads", options->keep_blas_threads));
    MUSTER_TRY(settings_check_flag("no_pinning", options->no_pinning));
    if (options->logical_shards > MST_LOGICAL_SHARDS_MAX)
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: options: logical_shards: expected at most %d, received %d", where,
                         MST_LOGICAL_SHARDS_MAX, (int)options->logical_shards);
    if (options->tf32 > 1)
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: options: tf32: expected 0, 1 or a negative number, received %d", where,
                         (int)options->tf32);
    if (options->p2p > 1)
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: options: p2p: expected 0, 1 or a negative number, received %d", where,
                         (int)options->p2p);
    if (options->device_memory > most_bytes)
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: options: device_memory: expected at most %" PRId64 " bytes, received %" PRId64,
                         where, most_bytes, options->device_memory);
    if (options->on_lost != MUSTER_LOST_ABORT && options->on_lost != MUSTER_LOST_ERROR)
        return mst_error(MUSTER_INVALID_ARGUMENT,
                         "%s: options: on_lost: expected MUSTER_LOST_ABORT (0) or MUSTER_LOST_ERROR (1), received %d", where,
                         (int)options->on_lost);
    /* MPICH's are negative: their kind stands in the highest bits. */
    if (options->mpi_communicator < INT32_MIN + INT64_C(1) || options->mpi_communicator > INT32_MAX + INT64_C(1))
        return mst_error(
            MUSTER_INVALID_ARGUMENT,
            "%s: options: mpi_communicator: expected 1 + MPI_Comm_c2f of a communicator, which has 32 bits, or 0, received %" PRId64, where,
            options->mpi_communicator);
    return settings_check_environment();
}

static const int64_t default_warn_ns = 30LL * 1000000000, default_fail_ns = 600LL * 1000000000;

int64_t mst_runtime_warn_after(const muster_runtime_options *options) {
    return options->warn_after_ns == 0 ? default_warn_ns : options->warn_after_ns;
}
int64_t mst_runtime_fail_after(const muster_runtime_options *options) {
    return options->fail_after_ns == 0 ? default_fail_ns : options->fail_after_ns;
}

muster_status mst_runtime_read_shards(const muster_runtime_options *options, int32_t *shards) {
    char expected[32];
    int64_t number = options->logical_shards < 0 ? 0 : options->logical_shards;
    bool is_set;
    snprintf(expected, sizeof expected, "a number from 0 to %d", MST_LOGICAL_SHARDS_MAX);
    if (options->logical_shards == 0)
        MUSTER_TRY(mst_environment_number("MUSTER_LOGICAL_SHARDS", expected, 0, MST_LOGICAL_SHARDS_MAX, &number, &is_set));
    *shards = (int32_t)number;
    return MUSTER_OK;
}

muster_status mst_runtime_check_shards(const muster_runtime_options *options, int32_t devices, int32_t shards) {
    if (shards % devices == 0) return MUSTER_OK;
    return mst_error(MUSTER_INVALID_ARGUMENT,
                     "%s: %s: expected a multiple of the number of devices, received %d logical shards for %d devices", where,
                     options->logical_shards ? "logical_shards" : "the environment's MUSTER_LOGICAL_SHARDS", (int)shards, (int)devices);
}

/* ---- the wire dtype ---- */

static muster_status settings_wire_named(muster_dtype *dtype) {
    const char *text = mst_environment_get("MUSTER_WIRE_DTYPE");
    if (!text) return MUSTER_OK;
    for (*dtype = MUSTER_F16; *dtype <= MUSTER_F32; ++*dtype)
        if (strcmp(text, muster_dtype_name(*dtype)) == 0) return MUSTER_OK;
    return mst_environment_refuse("MUSTER_WIRE_DTYPE", "f16, bf16 or f32");
}

muster_status mst_runtime_read_wire(const muster_runtime_options *options, int32_t shards, muster_dtype *dtype) {
    *dtype = options->wire_dtype;
    if (*dtype == MUSTER_DTYPE_NONE) MUSTER_TRY(settings_wire_named(dtype));
    if (*dtype != MUSTER_DTYPE_NONE && *dtype != MUSTER_F16 && *dtype != MUSTER_BF16 && *dtype != MUSTER_F32)
        return mst_error(MUSTER_INVALID_ARGUMENT,
                         "%s: options: wire_dtype: expected MUSTER_F16, MUSTER_BF16, MUSTER_F32 or 0, received %d (%s)", where, (int)*dtype,
                         muster_dtype_name(*dtype));
    if (*dtype == MUSTER_F32) *dtype = MUSTER_DTYPE_NONE; /* in which they are computed */
    if (*dtype == MUSTER_DTYPE_NONE || shards == 0) return MUSTER_OK;
    return mst_error(MUSTER_INVALID_ARGUMENT,
                     "%s: %s: expected none in the reproducible mode (%d logical shards), whose sums are not rounded on their way between "
                     "processes, received %s",
                     where, options->wire_dtype ? "options: wire_dtype" : "the environment's MUSTER_WIRE_DTYPE", (int)shards,
                     muster_dtype_name(*dtype));
}

/* ---- spin ---- */

/* Idle workers spin this long before they sleep: waking a sleeping thread costs 5 to 60 us on
 * virtual machines, and calls are often a millisecond apart. OpenMP runtimes spin as long or
 * longer. */
enum { DEFAULT_SPIN_NS = 2000000 };

muster_status mst_runtime_spin_read(int64_t option_ns, mst_runtime_spin *spin) {
    bool is_set;
    *spin = (mst_runtime_spin){option_ns < 0 ? 0 : option_ns, "option spin_ns"};
    if (option_ns != 0) return MUSTER_OK;
    *spin = (mst_runtime_spin){DEFAULT_SPIN_NS, "default"};
    MUSTER_TRY(mst_environment_number("MUSTER_SPIN_NS", "a number of nanoseconds (0: never spin)", 0, INT64_MAX, &spin->ns, &is_set));
    if (is_set) spin->source = "the environment's MUSTER_SPIN_NS";
    return MUSTER_OK;
}

size_t mst_runtime_spin_describe(const mst_runtime_spin *spin, int64_t used_ns, char *text, size_t size) {
    if (used_ns > 0)
        snprintf(text, size, "spin: at most %lld ns before a wait sleeps, shorter after spins in vain (%s)\n", (long long)used_ns,
                 spin->source);
    else
        snprintf(text, size, "spin: never (%s)\n", spin->ns > 0 ? "more workers than allowed CPUs, or a real-time policy" : spin->source);
    return strlen(text);
}
