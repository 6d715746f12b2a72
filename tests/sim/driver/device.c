/* The machine and its devices. */
#include "driver_impl.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DRIVER_VERSION = 13000 };

mst_cu_result cuInit(unsigned int flags) {
    DRIVER_ENTER(cuInit);
    return flags ? MST_CU_INVALID_VALUE : sim_initialize();
}

mst_cu_result cuDriverGetVersion(int *version) {
    DRIVER_ENTER(cuDriverGetVersion);
    if (!version) return MST_CU_INVALID_VALUE;
    *version = DRIVER_VERSION;
    return MST_CU_SUCCESS;
}

mst_cu_result cuDeviceGetCount(int *count) {
    DRIVER_ENTER(cuDeviceGetCount);
    if (!sim_device_count()) return MST_CU_NOT_INITIALIZED;
    if (!count) return MST_CU_INVALID_VALUE;
    *count = sim_device_count();
    return MST_CU_SUCCESS;
}

static mst_cu_result check_device(mst_cu_device device, const void *result) {
    if (!sim_device_count()) return MST_CU_NOT_INITIALIZED;
    if (!result) return MST_CU_INVALID_VALUE;
    return device < 0 || device >= sim_device_count() ? MST_CU_INVALID_DEVICE : MST_CU_SUCCESS;
}

mst_cu_result cuDeviceGet(mst_cu_device *device, int ordinal) {
    DRIVER_ENTER(cuDeviceGet);
    mst_cu_result checked = check_device(ordinal, device);
    if (!checked) *device = ordinal;
    return checked;
}

mst_cu_result cuDeviceGetName(char *name, int length, mst_cu_device device) {
    DRIVER_ENTER(cuDeviceGetName);
    mst_cu_result checked = check_device(device, name);
    if (checked || length <= 0) return checked ? checked : MST_CU_INVALID_VALUE;
    snprintf(name, (size_t)length, "%s", sim_state.devices[device].name);
    return MST_CU_SUCCESS;
}

mst_cu_result cuDeviceGetUuid_v2(mst_cu_uuid *uuid, mst_cu_device device) {
    DRIVER_ENTER(cuDeviceGetUuid_v2);
    mst_cu_result checked = check_device(device, uuid);
    if (!checked) memcpy(uuid->bytes, sim_state.devices[device].uuid, sizeof uuid->bytes);
    return checked;
}

mst_cu_result cuDeviceGetPCIBusId(char *id, int length, mst_cu_device device) {
    DRIVER_ENTER(cuDeviceGetPCIBusId);
    mst_cu_result checked = check_device(device, id);
    if (checked || length < 13) return checked ? checked : MST_CU_INVALID_VALUE;
    snprintf(id, (size_t)length, "%s", sim_state.devices[device].pci);
    return MST_CU_SUCCESS;
}

/* "domain:bus:device.function", or without domain or function; in hexadecimal, either case. */
static bool parse_pci(const char *id, unsigned *domain, unsigned *bus, unsigned *device) {
    unsigned function = 0;
    char rest;
    *domain = 0;
    if (sscanf(id, "%x:%x:%x.%x%c", domain, bus, device, &function, &rest) == 4) return function == 0;
    *domain = 0;
    return sscanf(id, "%x:%x.%x%c", bus, device, &function, &rest) == 3 && function == 0;
}

mst_cu_result cuDeviceGetByPCIBusId(mst_cu_device *device, const char *id) {
    DRIVER_ENTER(cuDeviceGetByPCIBusId);
    unsigned asked[3], ours[3];
    if (!sim_device_count()) return MST_CU_NOT_INITIALIZED;
    if (!device || !id || !parse_pci(id, &asked[0], &asked[1], &asked[2])) return MST_CU_INVALID_VALUE;
    for (int i = 0; i < sim_device_count(); i++) {
        parse_pci(sim_state.devices[i].pci, &ours[0], &ours[1], &ours[2]);
        if (memcmp(asked, ours, sizeof ours) != 0) continue;
        *device = i;
        return MST_CU_SUCCESS;
    }
    return MST_CU_INVALID_DEVICE;
}

/* By the numbers of CUdevice_attribute; what a GPU of compute capability 9.0 answers, as far as it
 * matters here. */
static const struct {
    unsigned attribute;
    int value;
} attributes[] = {
    {1, 1024}, /* MAX_THREADS_PER_BLOCK */
    {2, 1024},
    {3, 1024},
    {4, 64}, /* MAX_BLOCK_DIM_X, Y, Z */
    {5, 0x7fffffff},
    {6, 65535},
    {7, 65535},                    /* MAX_GRID_DIM_X, Y, Z */
    {8, SIM_SHARED_BYTES},         /* MAX_SHARED_MEMORY_PER_BLOCK */
    {10, 32},                      /* WARP_SIZE */
    {12, 65536},                   /* MAX_REGISTERS_PER_BLOCK */
    {13, 1000000},                 /* CLOCK_RATE, kHz */
    {19, 1},                       /* CAN_MAP_HOST_MEMORY */
    {20, 0},                       /* COMPUTE_MODE */
    {31, 1},                       /* CONCURRENT_KERNELS */
    {34, 0},                       /* PCI_DEVICE_ID */
    {40, 2},                       /* ASYNC_ENGINE_COUNT */
    {41, 1},                       /* UNIFIED_ADDRESSING */
    {83, 1},                       /* MANAGED_MEMORY */
    {97, SIM_SHARED_OPT_IN_BYTES}, /* MAX_SHARED_MEMORY_PER_BLOCK_OPTIN */
    {99, 1},                       /* HOST_REGISTER_SUPPORTED */
    {113, 1},                      /* READ_ONLY_HOST_REGISTER_SUPPORTED */
    {115, 1},                      /* MEMORY_POOLS_SUPPORTED */
};
enum {
    MULTIPROCESSOR_COUNT = 16,
    PCI_BUS_ID = 33,
    CAPABILITY_MAJOR = 75,
    CAPABILITY_MINOR = 76,
    CONCURRENT_MANAGED_ACCESS = 89,
    ATTRIBUTES_END = 150
};

mst_cu_result cuDeviceGetAttribute(int *value, unsigned int attribute, mst_cu_device device) {
    DRIVER_ENTER(cuDeviceGetAttribute);
    mst_cu_result checked = check_device(device, value);
    if (checked || attribute == 0 || attribute >= ATTRIBUTES_END) return checked ? checked : MST_CU_INVALID_VALUE;
    *value = 0;
    for (size_t i = 0; i < sizeof attributes / sizeof *attributes; i++)
        if (attributes[i].attribute == attribute) *value = attributes[i].value;
    if (attribute == MULTIPROCESSOR_COUNT) *value = sim_state.options.multiprocessors;
    if (attribute == CONCURRENT_MANAGED_ACCESS) *value = !sim_state.options.exclusive_managed;
    if (attribute == MST_CU_ATTRIBUTE_COMPUTE_MODE && sim_state.options.prohibited) *value = MST_CU_COMPUTE_MODE_PROHIBITED;
    if (attribute == PCI_BUS_ID) *value = sim_device_bus(device);
    if (attribute == CAPABILITY_MAJOR) *value = sim_state.options.capability[device] / 10;
    if (attribute == CAPABILITY_MINOR) *value = sim_state.options.capability[device] % 10;
    return MST_CU_SUCCESS;
}

mst_cu_result cuDeviceTotalMem_v2(size_t *bytes, mst_cu_device device) {
    DRIVER_ENTER(cuDeviceTotalMem_v2);
    mst_cu_result checked = check_device(device, bytes);
    if (!checked) *bytes = sim_state.options.memory;
    return checked;
}

mst_cu_result cuDeviceCanAccessPeer(int *can, mst_cu_device device, mst_cu_device peer) {
    DRIVER_ENTER(cuDeviceCanAccessPeer);
    mst_cu_result checked = check_device(device, can);
    if (!checked) checked = check_device(peer, can);
    if (!checked) *can = sim_peer_possible(device, peer);
    return checked;
}
