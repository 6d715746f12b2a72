/* Copies between host and device, staged and direct, in both queues. */
#include "base_await.h"
#include "cuda_fixture.h"

#include <pthread.h>
#include <stdatomic.h>

enum { MIB = 1 << 20, LARGE = 11 * MIB + 12345 };

static void travel(mst_device *device, int64_t bytes, int seed) {
    unsigned char *in = patterned(bytes, seed), *out = malloc((size_t)bytes);
    unsigned char *a = allocated(device, bytes), *b = allocated(device, bytes);
    assert_ok(device->memory->copy_in(device, a, in, bytes));
    memset(in, 0xAA, (size_t)bytes); /* staged: free again at once */
    assert_ok(device->memory->copy(device, b, a, bytes));
    assert_ok(device->memory->copy_out(device, out, b, bytes));
    assert_ok(device->table->synchronize(device));
    check_pattern(out, bytes, seed);
    device->memory->release(device, a);
    device->memory->release(device, b);
    free(in);
    free(out);
}

static void bytes_travel_in_across_and_out(void **state) {
    const int64_t sizes[] = {1, 3, 4096, MIB - 1, MIB, MIB + 1, 4 * MIB, LARGE};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) travel(*state, sizes[i], (int)i);
    assert_int_equal(muster_sim_waits(), 0); /* the driver never waited for us */
}

/* ---- staging buffers, which are used again ---- */

/* A thread that lets the queues go on once the issuing thread asks for an event, or has ended. */
typedef struct releaser {
    pthread_t thread;
    uint64_t asked; /* how often an event was asked for before */
    _Atomic bool ended;
    bool waited; /* the issuing thread has asked for an event */
} releaser;

static void *release_when_asked(void *argument) {
    releaser *r = argument;
    TEST_AWAIT(atomic_load(&r->ended) || muster_sim_calls("cuEventQuery") != r->asked, 0);
    r->waited = muster_sim_calls("cuEventQuery") != r->asked;
    muster_sim_release();
    return NULL;
}

/* From here on the queues of the device that makes the next call of `symbol` stand still. */
static void begin_stall(releaser *r, const char *symbol) {
    *r = (releaser){.asked = muster_sim_calls("cuEventQuery")};
    muster_sim_inject_queue_stall(symbol, 1, 0);
    assert_int_equal(pthread_create(&r->thread, NULL, release_when_asked, r), 0);
}

static void end_stall(releaser *r) {
    atomic_store(&r->ended, true);
    assert_int_equal(pthread_join(r->thread, NULL), 0);
    assert_true(r->waited);
}

/* More bytes than all staging buffers hold, while the queues stand still: no buffer is filled again
 * before the device has read it. */
static void a_chunk_is_filled_again_only_when_it_was_read(void **state) {
    mst_device *device = *state;
    for (int queue = 0; queue < 2; queue++) {
        unsigned char *in = patterned(LARGE, 4 + queue), *out = malloc(LARGE);
        void *block = allocated(device, LARGE);
        releaser r;
        begin_stall(&r, "cuMemcpyHtoDAsync_v2");
        assert_ok(queue == 0 ? device->memory->copy_in(device, block, in, LARGE) : device->queue->copy_in_async(device, block, in, LARGE));
        end_stall(&r);
        assert_ok(device->table->synchronize(device));
        assert_ok(device->memory->copy_out(device, out, block, LARGE));
        assert_ok(device->table->synchronize(device));
        check_pattern(out, LARGE, 4 + queue);
        device->memory->release(device, block);
        free(in);
        free(out);
    }
}

/* The same of copies out: no buffer is delivered before the device has written it. */
static void a_slot_is_delivered_only_when_it_was_written(void **state) {
    mst_device *device = *state;
    unsigned char *in = patterned(LARGE, 6), *out = calloc(1, LARGE);
    void *block = allocated(device, LARGE);
    releaser r;
    assert_ok(device->memory->copy_in(device, block, in, LARGE));
    assert_ok(device->table->synchronize(device));
    begin_stall(&r, "cuMemcpyDtoHAsync_v2");
    assert_ok(device->memory->copy_out(device, out, block, LARGE));
    end_stall(&r);
    assert_ok(device->table->synchronize(device));
    check_pattern(out, LARGE, 6);
    device->memory->release(device, block);
    free(in);
    free(out);
}

static void copies_of_nothing_are_legal(void **state) {
    mst_device *device = *state;
    assert_ok(device->memory->copy_in(device, NULL, NULL, 0));
    assert_ok(device->queue->copy_in_async(device, NULL, NULL, 0));
    assert_ok(device->memory->copy(device, NULL, NULL, 0));
    assert_ok(device->memory->copy_out(device, NULL, NULL, 0));
    assert_ok(device->table->synchronize(device));
}

static void many_small_copies_keep_their_order(void **state) {
    mst_device *device = *state;
    enum { COUNT = 1000 };
    int32_t out[COUNT];
    int32_t *place = allocated(device, COUNT * sizeof *place);
    for (int32_t i = 0; i < COUNT; i++) {
        int32_t value = -1 - i;
        assert_ok(device->memory->copy_in(device, place + i % 7, &value, sizeof value));
        value = i;
        assert_ok(device->memory->copy_in(device, place + i, &value, sizeof value));
    }
    for (int32_t i = 0; i < COUNT; i++) assert_ok(device->memory->copy_out(device, &out[i], place + i, sizeof out[i]));
    assert_ok(device->table->synchronize(device));
    for (int32_t i = 7; i < COUNT; i++) assert_int_equal(out[i], i);
    for (int32_t i = 0; i < 7; i++) assert_true(out[i] < -COUNT + 7);
    device->memory->release(device, place);
}

static void steady_work_allocates_nothing(void **state) {
    mst_device *device = *state;
    unsigned char *host = patterned(5 * MIB, 1);
    void *block = allocated(device, 5 * MIB);
    int64_t before = mst_memory_count();
    for (int i = 0; i < 5; i++) {
        assert_ok(device->memory->copy_in(device, block, host, 5 * MIB));
        assert_ok(device->memory->copy_out(device, host, block, 5 * MIB));
        assert_ok(device->table->synchronize(device));
    }
    assert_int_equal(mst_memory_count(), before);
    device->memory->release(device, block);
    free(host);
}

static void memory_that_the_program_locked_is_not_staged(void **state) {
    mst_device *device = *state;
    unsigned char *host = patterned(MIB, 3);
    void *block = allocated(device, MIB);
    assert_ok(device->queue->enter(device));
    assert_int_equal(driver()->cuMemHostRegister_v2(host, MIB, 1), 0);
    uint64_t before = muster_sim_calls("cuMemcpyHtoDAsync_v2");
    assert_ok(device->memory->copy_in(device, block, host, MIB));
    assert_ok(device->memory->copy_in(device, block, host, MIB - 1));
    assert_int_equal(muster_sim_calls("cuMemcpyHtoDAsync_v2"), before + 2);
    assert_ok(device->memory->copy_out(device, host, block, MIB));
    assert_ok(device->table->synchronize(device));
    check_pattern(host, MIB, 3);
    assert_int_equal(driver()->cuMemHostUnregister(host), 0);
    device->queue->leave(device);
    device->memory->release(device, block);
    free(host);
}

/* ---- the copy queue ---- */

static void an_async_copy_and_an_event_make_the_data_usable(void **state) {
    mst_device *device = *state;
    unsigned char *in = patterned(LARGE, 9), *out = malloc(LARGE);
    unsigned char *place = allocated(device, LARGE);
    assert_ok(device->queue->copy_in_async(device, place, in, LARGE));
    mst_device_event *copied = NULL;
    assert_ok(mst_device_event_create(device, &copied));
    assert_ok(mst_device_event_record(copied, MST_QUEUE_COPY));
    assert_ok(mst_device_event_wait(device, MST_QUEUE_COMPUTE, copied));
    assert_ok(device->memory->copy_out(device, out, place, LARGE));
    assert_ok(device->table->synchronize(device));
    check_pattern(out, LARGE, 9);
    mst_device_event_destroy(copied);
    device->memory->release(device, place);
    free(in);
    free(out);
}

static void sync_waits_for_both_queues(void **state) {
    mst_device *device = *state;
    unsigned char *in = NULL, out[64];
    assert_ok(device->host_memory->allocate(device, sizeof out, (void **)&in));
    unsigned char *place = allocated(device, sizeof out);
    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < 64; i++) in[i] = pattern_at(i, round);
        assert_ok(device->queue->copy_in_async(device, place, in, 64));
        assert_ok(device->table->synchronize(device));
        memset(in, 0, 64); /* locked: was read by the queue itself */
        assert_ok(device->memory->copy_out(device, out, place, 64));
        assert_ok(device->table->synchronize(device));
        check_pattern(out, 64, round);
    }
    device->memory->release(device, place);
    device->host_memory->release(device, in);
}

/* The reader was issued before the release, the asynchronous copy lands in the same memory after
 * it. */
static void an_async_copy_waits_for_work_on_the_memory_before(void **state) {
    mst_device *device = *state;
    unsigned char first[256], second[256], out[256];
    for (int i = 0; i < 256; i++) {
        first[i] = pattern_at(i, 1);
        second[i] = pattern_at(i, 2);
    }
    void *kept = allocated(device, 256), *others = allocated(device, 256);
    for (int round = 0; round < 20; round++) {
        void *old = allocated(device, 256);
        assert_ok(device->memory->copy_in(device, old, first, 256));
        assert_ok(device->table->synchronize(device));
        for (int i = 0; i < 10; i++) /* time for the asynchronous copy to come too early */
            assert_ok(device->memory->copy(device, others, kept, 256));
        assert_ok(device->memory->copy(device, kept, old, 256));
        device->memory->release(device, old);
        void *fresh = allocated(device, 256);
        assert_ptr_equal(fresh, old);
        /* later work that it need not wait for */
        if (round % 2) assert_ok(device->memory->copy(device, others, kept, 1));
        assert_ok(device->queue->copy_in_async(device, fresh, second, 256));
        assert_ok(device->memory->copy_out(device, out, kept, 256));
        assert_ok(device->table->synchronize(device));
        check_pattern(out, 256, 1);
        device->memory->release(device, fresh);
    }
    device->memory->release(device, kept);
    device->memory->release(device, others);
}

/* The other way round: the asynchronous copy was issued before the release, COMPUTE writes after
 * it. */
static void compute_waits_for_async_copies_into_the_memory_before(void **state) {
    mst_device *device = *state;
    unsigned char first[256], second[256], out[256];
    for (int i = 0; i < 256; i++) {
        first[i] = pattern_at(i, 1);
        second[i] = pattern_at(i, 2);
    }
    for (int round = 0; round < 50; round++) {
        void *old = allocated(device, 256);
        assert_ok(device->queue->copy_in_async(device, old, first, 256));
        device->memory->release(device, old);
        void *fresh = allocated(device, 256);
        assert_ptr_equal(fresh, old);
        assert_ok(device->memory->copy_in(device, fresh, second, 256));
        assert_ok(device->table->synchronize(device));
        assert_ok(device->memory->copy_out(device, out, fresh, 256));
        assert_ok(device->table->synchronize(device));
        check_pattern(out, 256, 2);
        device->memory->release(device, fresh);
    }
}

static void a_failed_copy_is_told_at_once_and_the_next_one_works(void **state) {
    mst_device *device = *state;
    int in = 5, out = 0;
    void *place = allocated(device, sizeof in);
    muster_sim_inject("cuMemcpyHtoDAsync_v2", 1, MST_CU_INVALID_VALUE);
    assert_refused(device->memory->copy_in(device, place, &in, sizeof in), MUSTER_SYSTEM,
                   "cuda:0: CUDA: cuMemcpyHtoDAsync_v2: expected success, received CUDA_ERROR_INVALID_VALUE");
    muster_sim_inject("cuMemcpyDtoHAsync_v2", 1, MST_CU_INVALID_VALUE);
    assert_refused(device->memory->copy_out(device, &out, place, sizeof out), MUSTER_SYSTEM, "cuMemcpyDtoHAsync_v2");
    muster_sim_inject("cuMemcpyDtoDAsync_v2", 1, MST_CU_INVALID_VALUE);
    assert_refused(device->memory->copy(device, place, place, sizeof out), MUSTER_SYSTEM, "cuMemcpyDtoDAsync_v2");
    assert_ok(device->memory->copy_in(device, place, &in, sizeof in));
    assert_ok(device->memory->copy_out(device, &out, place, sizeof out));
    assert_ok(device->table->synchronize(device));
    assert_int_equal(out, 5);
    device->memory->release(device, place);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        CASE(bytes_travel_in_across_and_out),
        CASE(a_chunk_is_filled_again_only_when_it_was_read),
        CASE(a_slot_is_delivered_only_when_it_was_written),
        CASE(copies_of_nothing_are_legal),
        CASE(many_small_copies_keep_their_order),
        CASE(steady_work_allocates_nothing),
        CASE(memory_that_the_program_locked_is_not_staged),
        CASE(an_async_copy_and_an_event_make_the_data_usable),
        CASE(sync_waits_for_both_queues),
        CASE(an_async_copy_waits_for_work_on_the_memory_before),
        CASE(compute_waits_for_async_copies_into_the_memory_before),
        CASE(a_failed_copy_is_told_at_once_and_the_next_one_works),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
