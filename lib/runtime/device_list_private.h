/* The text that lists a runtime's devices: "host:4,discrete:2", a backend alone, or a backend with
 * the ids of its devices as in "cuda@0+2". */
#ifndef MST_DEVICE_LIST_PRIVATE_H
#define MST_DEVICE_LIST_PRIVATE_H

#include "pool_impl.h"

enum { MST_DEVICES_MAX = 1024, MST_DEVICE_ID = 64 };

/* One device that the text asks for. cpu: the CPU to which its worker is pinned; -1: none. */
typedef struct mst_device_request {
    const mst_device_table *table;
    int32_t ordinal; /* its place among the devices of its backend */
    const char *id;  /* the id, pointing into the text; NULL: the text gives none, and the ordinal counts */
    int32_t id_length;
    int32_t cpu;
} mst_device_request;

/* Reads `text` into requests[MST_DEVICES_MAX], which keep pointers into it. Opens no device. A
 * backend named alone means one host device per core, all GPUs, or one device of any other backend.
 * source: where the text comes from, for messages. cores: the CPU of each core, core_count of
 * them. */
muster_status mst_device_list_read(const char *text, const char *source, const int32_t *cores, int32_t core_count,
                                   mst_device_request *requests, int32_t *count);
/* The devices that a runtime opens if the user names none: those of the first backend whose
 * hardware this machine has, else the host's. *unused grows by one line for each backend that was
 * passed over (mst_alloc*). *plural names the hardware of the first backend that this machine seems
 * to have but cannot use, and missed->reason says why it cannot; NULL: there is none. */
muster_status mst_device_list_default(const char **text, mst_device_probe *missed, const char **plural, char **unused);
/* pinning.c. Claims the CPUs of the requests for this runtime: those that no other runtime of the
 * process has, as long as there are some. Errors: OUT_OF_MEMORY. */
struct muster_runtime;
muster_status mst_runtime_claim_cpus(struct muster_runtime *runtime, const int32_t *cores, int32_t core_count, mst_device_request *requests,
                                     int32_t count);
/* Opens the device and sets its name. */
muster_status mst_device_request_open(const mst_device_request *request, const mst_device_settings *settings, mst_device **device);

#endif
