/* Programs that forget to wait, for ThreadSanitizer to report; each ends with 0 where it has
 * nothing to say. By the first argument:
 *   read      page-locked memory is read while a copy to it may be queued
 *   write     page-locked memory is written while a copy from it may be queued
 *   streams   two streams use one allocation without an event between them
 *   kernels   the same by kernels of the user's
 *   waited    the same with all that is needed: no race
 * The streams have long done their work when the mistake is made: it is the order that is missing,
 * not the time. */
#include "contract_program.h"
#include "machine_support.h"

#include <unistd.h>

/* One thread, that writes the allocation's first word. */
static mst_cu_result run_kernel(mst_cu_stream stream, mst_cu_address address) {
    static mst_cu_function function;
    if (!function) function = program_function(program_load("extern \"C\" __global__ void mark(int *to) { *to += 1; }\n"), "mark");
    return cu.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, (void *[]){&address}, NULL);
}

int main(int count, char **arguments) {
    mst_cu_address address;
    mst_cu_stream second;
    mst_cu_event event;
    unsigned char *host;
    const char *what = count > 1 ? arguments[1] : "";
    if (machine_open() || contract_setup(NULL)) return 1;
    if (cu.cuMemAlloc_v2(&address, 4096) || cu.cuMemHostAlloc((void **)&host, 4096, 0)) return 1;
    if (cu.cuStreamCreate(&second, MST_CU_STREAM_NON_BLOCKING) || cu.cuEventCreate(&event, MST_CU_EVENT_DISABLE_TIMING)) return 1;
    bool waits = strcmp(what, "waited") == 0, kernels = strcmp(what, "kernels") == 0;
    if ((waits || kernels) && run_kernel(gpu.stream, address)) return 1;
    memset(host, 1, 4096);
    if (cu.cuMemcpyHtoDAsync_v2(address, host, 4096, gpu.stream)) return 1;
    if (waits && cu.cuStreamSynchronize(gpu.stream)) return 1;
    usleep(200000);
    if (waits || strcmp(what, "write") == 0) host[7] = 2;
    if (waits && (cu.cuEventRecord(event, gpu.stream) || cu.cuStreamWaitEvent(second, event, 0))) return 1;
    if (waits || strcmp(what, "streams") == 0) {
        if (cu.cuMemsetD8Async(address, 3, 4096, second)) return 1;
    }
    if ((waits || kernels) && run_kernel(second, address)) return 1;
    if (waits && cu.cuStreamSynchronize(second)) return 1;
    if (cu.cuMemcpyDtoHAsync_v2(host, address, 4096, strcmp(what, "streams") == 0 || waits ? second : gpu.stream)) return 1;
    if (waits && cu.cuStreamSynchronize(second)) return 1;
    usleep(200000);
    volatile int seen = waits || strcmp(what, "read") == 0 ? host[9] : 0;
    (void)seen;
    return cu.cuStreamSynchronize(gpu.stream) || cu.cuStreamSynchronize(second) ? 1 : 0;
}
