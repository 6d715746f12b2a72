/* A program with an allocator of its own: all memory of the library comes from there, all goes back
 * when everything is closed, and each allocation may fail. */
#include "embedding.h"

#include <stdatomic.h>

typedef struct program_allocator {
    _Atomic int64_t allocations, live, bytes, fail_at;
} program_allocator;
static program_allocator memory;

static void *program_allocate(void *user, size_t bytes, size_t alignment) {
    program_allocator *m = user;
    if (atomic_fetch_add(&m->allocations, 1) + 1 == atomic_load(&m->fail_at)) return NULL;
    unsigned char *block = aligned_alloc(alignment, bytes);
    if (!block) return NULL;
    memset(block, 0xA5, bytes);
    atomic_fetch_add(&m->live, 1);
    atomic_fetch_add(&m->bytes, (int64_t)bytes);
    return block;
}

static void program_release(void *user, void *block, size_t bytes, size_t alignment) {
    program_allocator *m = user;
    (void)alignment;
    memset(block, 0x5A, bytes); /* what is read after its end is not what it was */
    free(block);
    atomic_fetch_sub(&m->live, 1);
    atomic_fetch_sub(&m->bytes, (int64_t)bytes);
}

static void set_memory(void) {
    muster_allocator_options options;
    muster_allocator_options_init(&options);
    options.allocate = program_allocate;
    options.release = program_release;
    options.user = &memory;
    assert_ok(muster_allocator_set(&options));
}

static void all_memory_comes_from_the_program_and_goes_back(void **state) {
    (void)state;
    embedded e = {.kernels = false};
    muster_buffer *buffer;
    const int64_t many = 1 << 20;
    for (int round = 0; round < 2; round++) {
        set_memory();
        memory.allocations = 0;
        assert_int_equal(memory.live, 0);
        embedded_open(&e);
        embedded_call(&e);
        embedded_server(&e);
        embedded_reports(&e);
        const int64_t bytes = memory.bytes;
        assert_ok(muster_buffer_create(MUSTER_F32, 1, 1, &buffer));
        assert_ok(muster_buffer_set_length(buffer, many));
        assert_true(memory.bytes >= bytes + 4 * many);
        assert_refused(muster_allocator_set(NULL), MUSTER_BAD_STATE, "expected no memory of the library in use, received");
        embedded_close(&e);
        assert_refused(muster_allocator_set(NULL), MUSTER_BAD_STATE, "in use"); /* the buffer belongs to no runtime */
        muster_buffer_destroy(buffer);
        assert_true(memory.allocations > 100);
        assert_int_equal(mst_memory_live(), 0);
        assert_ok(muster_allocator_set(NULL));
        assert_int_equal(memory.live, 0);
        assert_int_equal(memory.bytes, 0);
    }
    const int64_t allocations = memory.allocations;
    embedded_open(&e);
    embedded_call(&e);
    embedded_close(&e);
    assert_int_equal(memory.allocations, allocations);
}

static muster_status add_rows(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    (void)user;
    return muster_sum(w, in[0], out[0]);
}

static muster_status use_runtime(muster_runtime *runtime, float *sum) {
    float x[8] = {1, 2, 3, 4, 5, 6, 7, 8}, start = 1;
    const muster_tensor value = muster_f32(&start, 1), input = muster_f32(x, 8), output = muster_f32(sum);
    muster_function *f;
    muster_variable *v;
    muster_pending *pending;
    muster_server *server;
    muster_client *client;
    MUSTER_TRY(muster_variable_create(runtime, "v", value, &v));
    MUSTER_TRY(muster_function_create(runtime, "f", add_rows, NULL, &f));
    MUSTER_TRY(muster_function_input(f, "x", MUSTER_F32, 1, MUSTER_SCATTER));
    MUSTER_TRY(muster_function_output(f, "y", MUSTER_F32, 0, MUSTER_SUM));
    MUSTER_TRY(muster_function_call_async(f, &input, 1, &output, 1, NULL, &pending));
    MUSTER_TRY(muster_pending_wait(&pending));
    MUSTER_TRY(muster_server_create(runtime, "server", &value, 1, NULL, &server));
    MUSTER_TRY(muster_client_open(server, &client));
    const muster_status status = muster_client_receive(client, 0, value, NULL);
    const muster_status closed = muster_client_close(client);
    return status ? status : closed;
}

static muster_status whole_life(float *sum) {
    muster_runtime_options options;
    muster_runtime *runtime;
    muster_runtime_options_init(&options);
    options.devices = "host:3";
    options.log = embedded_silence;
    MUSTER_TRY(muster_runtime_open(&options, &runtime));
    const muster_status status = use_runtime(runtime, sum);
    const muster_status closed = muster_runtime_close(runtime);
    return status ? status : closed;
}

static void each_allocation_of_the_program_may_fail(void **state) {
    (void)state;
    float sum = 0;
    set_memory();
    memory.allocations = 0;
    assert_ok(whole_life(&sum));
    const int64_t allocations = memory.allocations;
    assert_true(allocations > 50 && sum == 36);
    for (int64_t k = 1; k <= allocations; k++) {
        memory.allocations = 0;
        memory.fail_at = k;
        const muster_status status = whole_life(&sum);
        memory.fail_at = 0;
        if (status != MUSTER_OUT_OF_MEMORY)
            fail_msg("allocation %lld of %lld failed: expected OUT_OF_MEMORY, received %s", (long long)k, (long long)allocations,
                     muster_status_name(status));
        if (mst_memory_live() != 0) fail_msg("allocation %lld: %lld blocks leaked", (long long)k, (long long)mst_memory_live());
        assert_ok(muster_allocator_set(NULL));
        assert_int_equal(memory.live, 0);
        set_memory();
    }
    sum = 0;
    assert_ok(whole_life(&sum));
    assert_true(sum == 36);
    assert_ok(muster_allocator_set(NULL));
    assert_int_equal(memory.live, 0);
    print_message("%lld allocations failed\n", (long long)allocations);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_memory_comes_from_the_program_and_goes_back),
        cmocka_unit_test(each_allocation_of_the_program_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
