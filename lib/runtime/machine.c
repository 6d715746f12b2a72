/* What the machine has beside devices: libraries and thresholds, as their users find them. */
#include "muster/machine.h"

#include "library_facts_impl.h"
#include "mpi/mpi_impl.h"
#include "nccl/nccl_impl.h"
#include "onednn/onednn_impl.h"
#include "options_impl.h"
#include "thresholds_impl.h"
#include "topology_impl.h"

#include <inttypes.h>
#include <stdio.h>

/* The driver stands before what needs it. */
static const struct machine_library {
    const char *name, *work;
    void (*get_facts)(mst_library_facts *facts);
} libraries[] = {
    {"OpenBLAS", "products of matrices on CPU devices", mst_blas_get_facts},
    {"oneDNN", "convolutions on CPU devices", mst_onednn_get_facts},
    {"hwloc", "which CPUs share a core", mst_topology_get_hwloc_facts},
    {"OpenCL", "kernels of the program on CPU devices", mst_opencl_get_facts},
    {"CUDA driver", "GPUs", mst_cuda_get_driver_facts},
    {"NVRTC", "compiles the code of GPUs", mst_cuda_get_nvrtc_facts},
    {"cuBLAS", "products of matrices on GPUs", mst_cuda_get_cublas_facts},
    {"cuDNN", "convolutions on GPUs", mst_cuda_get_cudnn_facts},
    {"NCCL", "collectives between GPUs", mst_nccl_get_facts},
    {"MPI shim", "several processes", mst_mpi_get_facts},
};
enum { LIBRARIES = sizeof libraries / sizeof *libraries };

static muster_status machine_refuse_index(const char *where, int32_t count, int32_t index) {
    return mst_error(MUSTER_OUT_OF_RANGE, "%s: index: expected 0 to %" PRId32 ", received %" PRId32, where, count - 1, index);
}

int32_t muster_library_count(void) { return LIBRARIES; }

muster_status muster_library_get_info(int32_t index, muster_library_info *info) {
    static const char where[] = "muster_library_get_info";
    char before[MST_MESSAGE_SIZE];
    if (!info) return mst_error_null(where, "info", "the address of a struct");
    if (index < 0 || index >= LIBRARIES) return machine_refuse_index(where, LIBRARIES, index);
    mst_library_facts facts = {.found = false};
    mst_error_save(before);
    libraries[index].get_facts(&facts);
    (void)mst_error_restore(MUSTER_OK, before);
    muster_library_info known = {.struct_size = sizeof known, .found = facts.found};
    snprintf(known.name, sizeof known.name, "%s", libraries[index].name);
    snprintf(known.work, sizeof known.work, "%s", libraries[index].work);
    snprintf(known.version, sizeof known.version, "%s", facts.version);
    snprintf(known.path, sizeof known.path, "%s", facts.path);
    snprintf(known.text, sizeof known.text, "%s", facts.text);
    return mst_result_write(where, "info", "muster_library_info", &known, sizeof known, info);
}

int32_t muster_threshold_count(void) { return mst_thresholds_count(); }

muster_status muster_threshold_get_info(int32_t device, int32_t index, muster_threshold_info *info) {
    static const char where[] = "muster_threshold_get_info";
    muster_device_info on = {.struct_size = sizeof on};
    if (!info) return mst_error_null(where, "info", "the address of a struct");
    if (index < 0 || index >= mst_thresholds_count()) return machine_refuse_index(where, mst_thresholds_count(), index);
    MUSTER_TRY(muster_device_get_info(device, &on));
    mst_threshold_fact fact;
    MUSTER_TRY(mst_thresholds_get_fact(on.name, 10 * on.capability_major + on.capability_minor, index, &fact));
    muster_threshold_info known = {.struct_size = sizeof known, .bytes = fact.bytes};
    snprintf(known.name, sizeof known.name, "%s", fact.name);
    snprintf(known.kind, sizeof known.kind, "%s", fact.kind);
    snprintf(known.source, sizeof known.source, "%s", fact.source);
    return mst_result_write(where, "info", "muster_threshold_info", &known, sizeof known, info);
}
