/* The device text of a runtime: "host:4,far:2", a backend alone, or one with the ids of devices as in
 * "gpu@0+2". */
#ifndef MST_DEVICE_LIST_IMPL_H
#define MST_DEVICE_LIST_IMPL_H

#include "pool_impl.h"

enum { MST_DEVICES_MAX = 1024, MST_DEVICE_ID = 64 };

/* One device that the text asks for. cpu: where its worker is to be pinned, -1: nowhere. */
typedef struct mst_device_request {
    const mst_device_table *table;
    int32_t ordinal; /* among the devices of its backend */
    const char *id;  /* in the text; NULL: the ordinal */
    int32_t id_length;
    int32_t cpu;
} mst_device_request;

/* Reads `text` into requests[MST_DEVICES_MAX], which keep pointing into it; nothing is opened. A
 * backend alone means as many host devices as there are cores, all GPUs, one device of any other.
 * source: where the text comes
 * from, for messages. cores: the CPU of each core, core_count of them. */
muster_status mst_device_list_read(const char *text, const char *source, const int32_t *cores, int32_t core_count,
                                   mst_device_request *requests, int32_t *count);
/* What a runtime opens that was told nothing: the devices of the first backend whose hardware this
 * machine has, else the host's. *unused: grows by a line for each backend that was passed over
 * (mst_alloc*). *plural: what the machine should have and cannot use, for the reason in *missed, of
 * the first such backend; NULL: nothing. */
muster_status mst_device_list_default(const char **text, mst_device_probe *missed, const char **plural, char **unused);
/* Opens what was asked for, and names it. */
muster_status mst_device_request_open(const mst_device_request *request, mst_device **device);

#endif
