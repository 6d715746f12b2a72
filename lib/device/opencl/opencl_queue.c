/* The OpenCL part of one device: its queue, and waiting for it. */
#include "clock_impl.h"
#include "opencl_state_private.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

/* No polls without a pause: the kernel's thread may be waiting for this CPU, and launches then took
 * twice as long. */
enum {
    /* polls that yield the CPU: a small kernel takes 30 us, and a sleep at least 50 us */
    YIELD_NS = 200 * 1000,
    SLEEP_NS = 20 * 1000,     /* then sleeps from here ... */
    SLEEP_MAX_NS = 50 * 1000, /* ... to here */
};

/* ---- the device ---- */

/* guards all slots: several threads may open programs of one device */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static muster_status make_device(mst_device *head, int32_t ordinal, mst_opencl_device **made) {
    const mst_opencl *cl;
    MUSTER_TRY(mst_opencl_get(&cl));
    mst_opencl_device *device = mst_alloc(sizeof *device);
    if (!device) return mst_out_of_memory("OpenCL: device", sizeof *device);
    *device =
        (mst_opencl_device){.cl = cl, .name = head->name, .device = cl->devices[ordinal % cl->count], .head = head, .process = getpid()};
    mst_cl_result result = MST_CL_SUCCESS;
    device->queue = cl->api->clCreateCommandQueue(cl->context, device->device, 0, &result);
    if (result != MST_CL_SUCCESS) {
        mst_free(device);
        return mst_opencl_error(result, "clCreateCommandQueue", head->name);
    }
    *made = device;
    return MUSTER_OK;
}

muster_status mst_opencl_device_of(mst_device *head, mst_opencl_slot *slot, mst_opencl_device **device) {
    MUSTER_TRY(mst_opencl_probe()); /* also refuses a program that is opened after OpenCL was switched off */
    pthread_mutex_lock(&lock);
    muster_status status = slot->device ? MUSTER_OK : make_device(head, slot->ordinal, &slot->device);
    *device = slot->device;
    pthread_mutex_unlock(&lock);
    return status;
}

bool mst_opencl_may_release(const mst_opencl_device *device) { return !device->head->lost && device->process == getpid(); }

/* Not mst_alloc, because it is never freed. */
void mst_opencl_keep(void *object) {
    static struct kept {
        struct kept *next;
        void *object;
    } * all;
    struct kept *one = object ? malloc(sizeof *one) : NULL;
    if (!one) return;
    pthread_mutex_lock(&lock);
    *one = (struct kept){all, object};
    all = one;
    pthread_mutex_unlock(&lock);
}

void mst_opencl_end(mst_opencl_slot *slot) {
    mst_opencl_device *device = slot->device;
    slot->device = NULL;
    if (!device) return;
    if (mst_opencl_may_release(device)) {
        if (device->last) (void)device->cl->api->clReleaseEvent(device->last);
        (void)device->cl->api->clReleaseCommandQueue(device->queue);
    } else {
        mst_opencl_keep(device->last);
        mst_opencl_keep(device->queue);
    }
    mst_free(device);
}

/* ---- waiting ---- */

static void back_off(int64_t waited_ns, int64_t *sleep_ns) {
    if (waited_ns < YIELD_NS) {
        sched_yield();
    } else {
        nanosleep(&(struct timespec){.tv_nsec = *sleep_ns}, NULL);
        *sleep_ns = *sleep_ns * 2 < SLEEP_MAX_NS ? *sleep_ns * 2 : SLEEP_MAX_NS;
    }
}

muster_status mst_opencl_wait(mst_device *head, mst_opencl_slot *slot) {
    mst_opencl_device *device = slot->device;
    if (!device || !device->last) return MUSTER_OK;
    const mst_opencl_api *api = device->cl->api;
    int64_t begin = 0, sleep_ns = SLEEP_NS;
    MUSTER_TRY(MST_CL(device->cl, head->name, clFlush, device->queue));
    for (;;) {
        int32_t state = MST_CL_COMPLETE;
        MUSTER_TRY(MST_CL(device->cl, head->name, clGetEventInfo, device->last, MST_CL_EVENT_EXECUTION_STATUS, sizeof state, &state, NULL));
        if (state <= MST_CL_COMPLETE) { /* below 0: an error */
            (void)api->clReleaseEvent(device->last);
            device->last = NULL;
            return state == MST_CL_COMPLETE ? MUSTER_OK : mst_opencl_error(state, "a kernel", head->name);
        }
        if (begin == 0) begin = mst_now_ns();
        if (head->interrupt) MUSTER_TRY(head->interrupt(head->interrupt_user));
        back_off(mst_now_ns() - begin, &sleep_ns);
    }
}
