/* Counts the GPUs, and finds one by its id. */
#include "cuda_device_private.h"
#include "nvrtc_api_private.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

enum { LEAST_MAJOR = 7 }; /* of the compute capability */

/* True if this machine looks as if it had an NVIDIA GPU. */
static bool has_signs(void) {
    static const char *const signs[] = {"/dev/nvidiactl", "/proc/driver/nvidia/version", "/dev/dxg"};
    for (size_t i = 0; i < sizeof signs / sizeof *signs; i++) {
        if (access(signs[i], F_OK) == 0) return true;
    }
    return false;
}

static muster_status count_devices(const mst_cuda_api *api, int32_t *count) {
    int found = 0;
    MUSTER_TRY(mst_cuda_error(api, api->cuDeviceGetCount(&found), "cuDeviceGetCount", NULL));
    *count = found < MST_CUDA_DEVICES ? found : MST_CUDA_DEVICES;
    return MUSTER_OK;
}

static muster_status capability_of(const mst_cuda_api *api, mst_cu_device device, mst_device_facts *facts) {
    int major = 0, minor = 0;
    MUSTER_TRY(mst_cuda_error(api, api->cuDeviceGetAttribute(&major, MST_CU_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device),
                              "cuDeviceGetAttribute", NULL));
    MUSTER_TRY(mst_cuda_error(api, api->cuDeviceGetAttribute(&minor, MST_CU_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device),
                              "cuDeviceGetAttribute", NULL));
    facts->major = major;
    facts->minor = minor;
    return MUSTER_OK;
}

/* Kernels take their parameters by reference (__grid_constant__), which the compiler has from
 * compute capability 7.0 on. */
muster_status mst_cuda_check_capability(const char *label, const char *model, int32_t major, int32_t minor) {
    if (major >= LEAST_MAJOR) return MUSTER_OK;
    return mst_error(MUSTER_UNSUPPORTED, "%s (%.47s): expected a GPU of compute capability %d.0 or later, received one of %d.%d", label,
                     model, LEAST_MAJOR, (int)major, (int)minor);
}

static muster_status check_device(const mst_cuda_api *api, int32_t ordinal) {
    mst_cu_device device;
    mst_device_facts facts = {0};
    char model[48] = "", label[16];
    snprintf(label, sizeof label, "cuda:%d", (int)ordinal);
    MUSTER_TRY(mst_cuda_error(api, api->cuDeviceGet(&device, ordinal), "cuDeviceGet", label));
    MUSTER_TRY(mst_cuda_error(api, api->cuDeviceGetName(model, (int)sizeof model, device), "cuDeviceGetName", label));
    MUSTER_TRY(capability_of(api, device, &facts));
    return mst_cuda_check_capability(label, model, facts.major, facts.minor);
}

static void notice_old(void) {
    static _Atomic bool said;
    char reason[MST_MESSAGE_SIZE], text[MST_MESSAGE_SIZE];
    if (atomic_exchange(&said, true)) return;
    mst_error_save(reason);
    snprintf(text, sizeof text, "%.400s: this GPU and those behind it are not used", reason);
    mst_cuda_add_notice(text);
}

/* *count becomes the number of GPUs before the first that is too old: CUDA lists the fastest first.
 * Fails if that is none. Any other failure is left to the open. */
static muster_status leave_out_old(const mst_cuda_api *api, int32_t *count) {
    char before[MST_MESSAGE_SIZE];
    mst_error_save(before);
    for (int32_t i = 0; i < *count; i++) {
        const muster_status status = check_device(api, i);
        if (status == MUSTER_OK) continue;
        if (status == MUSTER_UNSUPPORTED && i == 0) return status;
        if (status == MUSTER_UNSUPPORTED) {
            notice_old();
            *count = i;
        }
        (void)mst_error_restore(MUSTER_OK, before);
    }
    return MUSTER_OK;
}

static muster_status count_usable(int32_t *count) {
    const mst_cuda_api *api;
    const mst_cublas_api *blas;
    const mst_nvrtc_api *nvrtc;
    MUSTER_TRY(mst_cuda_api_get(&api));
    MUSTER_TRY(count_devices(api, count));
    if (*count == 0)
        return mst_error(MUSTER_UNAVAILABLE, "the CUDA driver finds no GPU (CUDA_VISIBLE_DEVICES hides those that it does not name)");
    MUSTER_TRY(leave_out_old(api, count));
    MUSTER_TRY(mst_cublas_api_get(&blas));
    return mst_nvrtc_api_get(&nvrtc);
}

void mst_cuda_probe(mst_device_probe *found) {
    char before[MST_MESSAGE_SIZE];
    mst_error_save(before);
    *found = (mst_device_probe){.expected = has_signs()};
    if (count_usable(&found->count) == MUSTER_OK) return;
    found->count = 0;
    mst_error_save(found->reason);
    (void)mst_error_restore(MUSTER_OK, before);
}

/* ---- names ---- */

static muster_status find_ordinal(const char *id, int32_t count, int32_t *ordinal) {
    char *end = NULL;
    errno = 0;
    long value = strtol(id, &end, 10);
    if (!isdigit((unsigned char)id[0]) || *end != '\0' || errno != 0)
        return mst_error(
            MUSTER_INVALID_ARGUMENT,
            "muster_runtime_open: devices: expected a GPU as \"cuda@\" with an ordinal, a UUID (\"GPU-...\", \"MIG-...\") or a PCI "
            "id (\"0000:3b:00.0\"), received \"%.100s\"",
            id);
    if (value >= count)
        return mst_error(MUSTER_OUT_OF_RANGE,
                         "muster_runtime_open: devices: expected a GPU from 0 to %d, received \"%.100s\": this process sees %d",
                         (int)count - 1, id, (int)count);
    *ordinal = (int32_t)value;
    return MUSTER_OK;
}

/* "12345678-1234-1234-1234-123456789abc": what follows the prefix, "GPU-" or "MIG-". */
static void write_uuid(const mst_cu_uuid *uuid, char text[64]) {
    int length = 0;
    for (int i = 0; i < 16; i++) {
        const bool dash = i == 4 || i == 6 || i == 8 || i == 10;
        length += snprintf(text + length, (size_t)(64 - length), "%s%02x", dash ? "-" : "", (unsigned char)uuid->bytes[i]);
    }
}

static muster_status uuid_of(const mst_cuda_api *api, int32_t ordinal, char text[64]) {
    mst_cu_device device;
    mst_cu_uuid uuid;
    MUSTER_TRY(mst_cuda_error(api, api->cuDeviceGet(&device, ordinal), "cuDeviceGet", NULL));
    MUSTER_TRY(mst_cuda_error(api, api->cuDeviceGetUuid_v2(&uuid, device), "cuDeviceGetUuid_v2", NULL));
    write_uuid(&uuid, text);
    return MUSTER_OK;
}

/* The driver has no attribute for it. Its name of a MIG instance is that of the GPU with the
 * instance's profile, "NVIDIA A100-SXM4-40GB MIG 1g.5gb". */
static bool is_mig(const char *model) { return strstr(model, " MIG ") != NULL; }

/* nvidia-smi writes the UUID of a MIG instance with the prefix "MIG-", and CUDA programs that know
 * only the 16 bytes write "GPU-": both are taken for both. */
static bool has_uuid_prefix(const char *id) { return (strncasecmp(id, "GPU-", 4) == 0 || strncasecmp(id, "MIG-", 4) == 0) && id[4]; }

static muster_status find_uuid(const mst_cuda_api *api, const char *id, int32_t count, int32_t *ordinal) {
    int32_t found = 0;
    for (int32_t i = 0; i < count; i++) {
        char text[64];
        MUSTER_TRY(uuid_of(api, i, text));
        if (strncasecmp(text, id + 4, strlen(id + 4)) != 0) continue;
        *ordinal = i;
        found++;
    }
    if (found == 1) return MUSTER_OK;
    return mst_error(
        MUSTER_INVALID_ARGUMENT,
        "muster_runtime_open: devices: expected the UUID of a GPU or MIG instance that this process sees, received \"%.100s\", "
        "which %s",
        id, found == 0 ? "none has" : "begins those of several");
}

static muster_status pci_of(const mst_cuda_api *api, mst_cu_device device, char text[32]) {
    return mst_cuda_error(api, api->cuDeviceGetPCIBusId(text, 32, device), "cuDeviceGetPCIBusId", NULL);
}

/* The MIG instances of a GPU share its PCI id, of which the driver finds the first. */
static muster_status find_pci(const mst_cuda_api *api, const char *id, int32_t count, int32_t *ordinal) {
    mst_cu_device wanted, device;
    mst_cu_result result = api->cuDeviceGetByPCIBusId(&wanted, id);
    if (result == MST_CU_INVALID_DEVICE || result == MST_CU_INVALID_VALUE)
        return mst_error(MUSTER_INVALID_ARGUMENT,
                         "muster_runtime_open: devices: expected the PCI id of a GPU of this machine, received \"%.100s\"", id);
    MUSTER_TRY(mst_cuda_error(api, result, "cuDeviceGetByPCIBusId", NULL));
    char wanted_id[32], device_id[32];
    int32_t found = 0, place = -1;
    MUSTER_TRY(pci_of(api, wanted, wanted_id));
    for (int32_t i = 0; i < count; i++) {
        MUSTER_TRY(mst_cuda_error(api, api->cuDeviceGet(&device, i), "cuDeviceGet", NULL));
        MUSTER_TRY(pci_of(api, device, device_id));
        if (strcmp(device_id, wanted_id) != 0) continue;
        place = i;
        found++;
    }
    if (found == 1) *ordinal = place;
    if (found == 1) return MUSTER_OK;
    if (found > 1)
        return mst_error(MUSTER_INVALID_ARGUMENT,
                         "muster_runtime_open: devices: expected the PCI id of one device, received \"%.100s\", which %d MIG instances "
                         "share: an ordinal or a UUID (\"MIG-...\") tells them apart",
                         id, (int)found);
    return mst_error(MUSTER_INVALID_ARGUMENT,
                     "muster_runtime_open: devices: expected the PCI id of a GPU that this process sees, received \"%.100s\"", id);
}

/* Asks the driver, which needs no context for any of it. */
static muster_status facts_of(const mst_cuda_api *api, int32_t ordinal, mst_device_facts *facts) {
    mst_cu_device device;
    size_t total = 0;
    char model[256] = "", uuid[64];
    MUSTER_TRY(mst_cuda_error(api, api->cuDeviceGet(&device, ordinal), "cuDeviceGet", NULL));
    MUSTER_TRY(mst_cuda_error(api, api->cuDeviceGetName(model, (int)sizeof model, device), "cuDeviceGetName", NULL));
    MUSTER_TRY(mst_cuda_error(api, api->cuDeviceTotalMem_v2(&total, device), "cuDeviceTotalMem_v2", NULL));
    MUSTER_TRY(capability_of(api, device, facts));
    MUSTER_TRY(uuid_of(api, ordinal, uuid));
    snprintf(facts->name, sizeof facts->name, "cuda:%d %.47s", (int)ordinal, model);
    snprintf(facts->uuid, sizeof facts->uuid, "%s%.40s", is_mig(model) ? "MIG-" : "GPU-", uuid);
    facts->memory_total = (int64_t)total;
    return MUSTER_OK;
}

muster_status mst_cuda_get_facts(int32_t ordinal, mst_device *device, mst_device_facts *facts) {
    const mst_cuda_api *api;
    *facts = (mst_device_facts){.memory_total = -1, .memory_free = -1};
    MUSTER_TRY(mst_cuda_api_get(&api));
    MUSTER_TRY(facts_of(api, ordinal, facts));
    if (!device) return MUSTER_OK;
    mst_cuda_describe_blas(device, facts->blas, sizeof facts->blas);
    mst_cuda_read_free(device, &facts->memory_free);
    return MUSTER_OK;
}

muster_status mst_cuda_find(const char *id, int32_t *ordinal) {
    const mst_cuda_api *api;
    int32_t count = 0;
    *ordinal = -1;
    MUSTER_TRY(mst_cuda_api_get(&api));
    MUSTER_TRY(count_devices(api, &count));
    if (count == 0)
        return mst_error(MUSTER_UNAVAILABLE,
                         "muster_runtime_open: devices: expected a GPU, received \"%.100s\": the CUDA driver finds none", id);
    if (has_uuid_prefix(id)) return find_uuid(api, id, count, ordinal);
    if (strchr(id, ':')) return find_pci(api, id, count, ordinal);
    return find_ordinal(id, count, ordinal);
}
