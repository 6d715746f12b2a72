/* What a body that launches CUDA work of its own asks of its worker, on several GPUs and on virtual
 * devices. */
#include "muster/cuda.h"

#include "../device/cuda_fixture.h"
#include "pool_impl.h"

enum { WORKERS = 4, BYTES = 5000 };

static void ignore(void *user, muster_log_level level, const char *line) { (void)user, (void)level, (void)line; }

static mst_pool *pool_of(mst_device *const *devices, int32_t count) {
    mst_pool *pool = NULL;
    const mst_pool_options options = {.warn_after_ns = -1, .fail_after_ns = -1, .dedicated_rank0 = true, .log = ignore};
    assert_ok(mst_pool_create(&options, devices, count, &pool));
    return pool;
}

typedef struct seen {
    void *stream, *blas;
    int32_t device;
    mst_cu_context context;
} seen;

/* The program's own work: a copy in the worker's stream, between two of the worker's operations. */
static muster_status copy_by_hand(muster_worker *worker, void *argument) {
    seen *mine = (seen *)argument + worker->rank;
    *mine = (seen){muster_worker_cuda_stream(worker), muster_worker_cublas(worker), muster_worker_cuda_device(worker), NULL};
    const mst_cuda_api *api = NULL;
    MUSTER_TRY(mst_cuda_api_get(&api));
    if (api->cuCtxGetCurrent(&mine->context) != 0) return muster_fail(MUSTER_USER, "no context");
    mst_device *device = worker->device;
    void *a = NULL, *b = NULL;
    unsigned char in[BYTES], out[BYTES];
    for (int i = 0; i < BYTES; i++) in[i] = pattern_at(i, worker->rank);
    MUSTER_TRY(device->memory->allocate(device, BYTES, &a));
    MUSTER_TRY(device->memory->allocate(device, BYTES, &b));
    MUSTER_TRY(device->memory->copy_in(device, a, in, BYTES));
    if (api->cuMemcpyDtoDAsync_v2((mst_cu_address)(uintptr_t)b, (mst_cu_address)(uintptr_t)a, BYTES, mine->stream) != 0)
        return muster_fail(MUSTER_USER, "the copy failed");
    MUSTER_TRY(device->memory->copy_out(device, out, b, BYTES));
    MUSTER_TRY(device->table->synchronize(device));
    device->memory->release(device, a);
    device->memory->release(device, b);
    return memcmp(in, out, BYTES) == 0 ? MUSTER_OK : muster_fail(MUSTER_USER, "other bytes came out");
}

static void run_on(const char *const *ids) {
    new_machine(&(muster_sim_options){.devices = 4, .longest_delay = 50});
    mst_device *devices[WORKERS];
    seen found[WORKERS];
    memset(found, 0, sizeof found);
    for (int i = 0; i < WORKERS; i++) devices[i] = opened(ids[i]);
    mst_pool *pool = pool_of(devices, WORKERS);
    for (int round = 0; round < 10; round++) assert_ok(mst_pool_run(pool, copy_by_hand, found));
    for (int i = 0; i < WORKERS; i++) {
        assert_ptr_equal(found[i].stream, mst_cuda_stream(devices[i]));
        assert_ptr_equal(found[i].blas, mst_cuda_blas(devices[i]));
        assert_int_equal(found[i].device, atoi(ids[i]));
        assert_non_null(found[i].context);
    }
    mst_pool_destroy(pool);
    for (int i = 0; i < WORKERS; i++) closed(devices[i]);
    check_machine();
}

static void each_worker_has_the_stream_of_its_gpu(void **state) {
    (void)state;
    run_on((const char *const[]){"3", "1", "0", "2"});
}

static void virtual_devices_have_streams_of_their_own(void **state) {
    (void)state;
    run_on((const char *const[]){"0", "0", "0", "0"});
}

static muster_status ask(muster_worker *worker, void *argument) {
    *(seen *)argument = (seen){muster_worker_cuda_stream(worker), muster_worker_cublas(worker), muster_worker_cuda_device(worker), NULL};
    return MUSTER_OK;
}

static void without_a_gpu_there_is_none_of_it(void **state) {
    (void)state;
    mst_device *host = NULL;
    seen found = {&found, &found, 0, NULL};
    assert_ok(mst_host_device_table.open(&mst_host_device_table, "0", &host));
    mst_pool *pool = pool_of(&host, 1);
    assert_ok(mst_pool_run(pool, ask, &found));
    assert_null(found.stream);
    assert_null(found.blas);
    assert_int_equal(found.device, -1);
    mst_pool_destroy(pool);
    host->table->close(host);
    assert_null(muster_worker_cuda_stream(NULL));
    assert_null(muster_worker_cublas(NULL));
    assert_int_equal(muster_worker_cuda_device(NULL), -1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_worker_has_the_stream_of_its_gpu),
        cmocka_unit_test(virtual_devices_have_streams_of_their_own),
        cmocka_unit_test(without_a_gpu_there_is_none_of_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
