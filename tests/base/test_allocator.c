/* The allocator of the program: each block goes back to the one that gave it, with its size. */
#include "base_check.h"
#include "muster/allocator.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

/* A program's allocator that counts, and knows what it has given by a record beside each block. */
typedef struct counting {
    _Atomic int64_t allocated, released, bytes, wrong;
    int64_t fail_from;       /* from this allocation on NULL is given; 0: never */
    int64_t misaligned_from; /* the same, with blocks at 16 bytes past a multiple of 64 */
    int ended;               /* calls of the destroy function */
} counting;

typedef struct record {
    void *block;
    size_t bytes;
} record;
enum { RECORDS = 4096 };
static record records[RECORDS];
static pthread_mutex_t records_lock = PTHREAD_MUTEX_INITIALIZER;

static record *record_of(void *block) {
    for (int i = 0; i < RECORDS; i++)
        if (records[i].block == block) return &records[i];
    return NULL;
}

static void *counting_allocate(void *user, size_t bytes, size_t alignment) {
    counting *c = user;
    const int64_t number = atomic_fetch_add(&c->allocated, 1) + 1;
    if (alignment != 64 || bytes % 64 != 0 || bytes < 128) c->wrong++;
    if (c->fail_from && number >= c->fail_from) {
        atomic_fetch_add(&c->released, 1);
        return NULL;
    }
    char *block = aligned_alloc(64, bytes + 64);
    memset(block, 0xA5, bytes + 64);
    if (c->misaligned_from && number >= c->misaligned_from) block += 16;
    pthread_mutex_lock(&records_lock);
    *record_of(NULL) = (record){block, bytes};
    pthread_mutex_unlock(&records_lock);
    c->bytes += (int64_t)bytes;
    return block;
}

static void counting_release(void *user, void *block, size_t bytes, size_t alignment) {
    counting *c = user;
    pthread_mutex_lock(&records_lock);
    record *known = record_of(block);
    if (!known || known->bytes != bytes || alignment != 64) c->wrong++;
    if (known) *known = (record){0};
    pthread_mutex_unlock(&records_lock);
    atomic_fetch_add(&c->released, 1);
    c->bytes -= (int64_t)bytes;
    free((void *)((uintptr_t)block / 64 * 64));
    sched_yield(); /* to threads that allocate while the allocator changes */
}

static void counting_end(void *user) { ((counting *)user)->ended++; }

static muster_allocator_options options_of(counting *c) {
    muster_allocator_options options;
    muster_allocator_options_init(&options);
    options.allocate = counting_allocate;
    options.release = counting_release;
    options.user = c;
    options.destroy = counting_end;
    return options;
}

/* Sets the allocator and forgets the trials that setting makes. */
static void use(counting *c) {
    const muster_allocator_options options = options_of(c);
    assert_ok(muster_allocator_set(&options));
    assert_int_equal(c->allocated, c->released);
    assert_true(c->allocated > 0);
    c->allocated = c->released = 0;
}

static void check_balance(const counting *c) {
    assert_int_equal(c->allocated, c->released);
    assert_int_equal(c->bytes, 0);
    assert_int_equal(c->wrong, 0);
}

static void blocks_come_from_the_program_and_go_back(void **state) {
    (void)state;
    counting c = {0};
    void *blocks[300];
    use(&c);
    for (size_t i = 0; i < 300; i++) {
        blocks[i] = i % 2 ? mst_alloc(i) : mst_alloc_uninitialised(i);
        assert_non_null(record_of((char *)blocks[i] - 64));
        assert_int_equal((uintptr_t)blocks[i] % 64, 0);
        for (size_t b = 0; i % 2 && b < i; b++) assert_int_equal(((char *)blocks[i])[b], 0);
        memset(blocks[i], 0x5A, i);
    }
    assert_int_equal(c.allocated, 300);
    assert_int_equal(c.released, 0);
    for (size_t i = 0; i < 300; i++) mst_free(blocks[(i * 7) % 300]);
    check_balance(&c);
    assert_int_equal(c.ended, 0);
    assert_ok(muster_allocator_set(NULL));
    assert_int_equal(c.ended, 1);
    void *plain = mst_alloc(8);
    assert_non_null(plain);
    mst_free(plain);
    assert_int_equal(c.allocated, 300);
}

static void a_block_in_use_refuses_another_allocator(void **state) {
    (void)state;
    counting first = {0}, second = {0};
    const muster_allocator_options options = options_of(&second);
    void *block = mst_alloc(1);
    assert_refused(muster_allocator_set(&options), MUSTER_BAD_STATE,
                   "muster_allocator_set: expected no memory of the library in use, received 1 blocks");
    assert_int_equal(second.ended, 1);
    mst_free(block);
    use(&first);
    block = mst_alloc(1);
    assert_refused(muster_allocator_set(&options), MUSTER_BAD_STATE, "received 1 blocks");
    assert_refused(muster_allocator_set(NULL), MUSTER_BAD_STATE, "received 1 blocks");
    assert_int_equal(second.ended, 2);
    assert_int_equal(first.ended, 0);
    mst_free(block);
    check_balance(&first);
    check_balance(&second);
    use(&second); /* without a detour over malloc */
    assert_int_equal(first.ended, 1);
    mst_free(mst_alloc(1));
    assert_int_equal(second.allocated, 1);
    assert_ok(muster_allocator_set(NULL));
    check_balance(&second);
}

/* 1, 255, 256 and 257 retired blocks; all of them are kept until others push them out. */
static void retired_blocks_go_back_before_the_allocator_changes(void **state) {
    (void)state;
    const int64_t counts[] = {1, 255, 256, 257};
    for (int i = 0; i < 4; i++) {
        counting c = {0};
        use(&c);
        for (int64_t k = 0; k < counts[i]; k++) mst_retire(mst_alloc(8));
        assert_int_equal(c.allocated, counts[i]);
        assert_int_equal(c.released, counts[i] > 256 ? counts[i] - 256 : 0);
        assert_int_equal(mst_memory_live(), 0);
        void *block = mst_alloc(8);
        assert_refused(muster_allocator_set(NULL), MUSTER_BAD_STATE, "received 1 blocks");
        assert_int_equal(c.released, counts[i] > 256 ? counts[i] - 256 : 0); /* refused: nothing has changed */
        mst_free(block);
        assert_ok(muster_allocator_set(NULL));
        check_balance(&c);
    }
}

static void an_allocator_that_has_nothing_is_refused_or_out_of_memory(void **state) {
    (void)state;
    for (int64_t from = 1; from <= 3; from++) { /* the trials */
        counting c = {.fail_from = from};
        const muster_allocator_options options = options_of(&c);
        assert_refused(muster_allocator_set(&options), MUSTER_OUT_OF_MEMORY, "bytes of memory, received NULL");
        assert_int_equal(c.allocated, from);
        assert_int_equal(c.ended, 1);
        check_balance(&c);
    }
    counting c = {0};
    use(&c);
    c.fail_from = 2;
    void *block = mst_alloc(8);
    assert_non_null(block);
    assert_null(mst_alloc(8));
    assert_null(mst_alloc_uninitialised(8));
    assert_null(mst_alloc_uninitialised(SIZE_MAX - MST_CACHE_LINE)); /* the header does not fit */
    assert_int_equal(c.allocated, 3);
    assert_int_equal(mst_memory_live(), 1);
    mst_free(block);
    assert_ok(muster_allocator_set(NULL));
    check_balance(&c);
}

static void misaligned_blocks_are_given_back(void **state) {
    (void)state;
    for (int64_t from = 1; from <= 3; from++) {
        counting c = {.misaligned_from = from};
        const muster_allocator_options options = options_of(&c);
        assert_refused(muster_allocator_set(&options), MUSTER_INVALID_ARGUMENT,
                       "allocate: expected an address that is a multiple of the alignment 64, received 0x");
        assert_int_equal(c.allocated, from);
        check_balance(&c);
    }
    counting c = {0};
    use(&c);
    c.misaligned_from = 1;
    assert_null(mst_alloc(8));
    assert_int_equal(c.allocated, 1);
    check_balance(&c);
    assert_int_equal(mst_memory_live(), 0);
    assert_ok(muster_allocator_set(NULL));
}

static void half_an_allocator_is_refused(void **state) {
    (void)state;
    counting c = {0};
    muster_allocator_options options = options_of(&c);
    options.allocate = NULL;
    assert_refused(muster_allocator_set(&options), MUSTER_INVALID_ARGUMENT, "muster_allocator_set: options: allocate: expected");
    options = options_of(&c);
    options.release = NULL;
    assert_refused(muster_allocator_set(&options), MUSTER_INVALID_ARGUMENT, "muster_allocator_set: options: release: expected");
    assert_int_equal(c.ended, 2);
    options.allocate = NULL; /* malloc, with a user that ends when another allocator comes */
    assert_ok(muster_allocator_set(&options));
    assert_int_equal(c.ended, 2);
    assert_ok(muster_allocator_set(NULL));
    assert_int_equal(c.ended, 3);
    assert_int_equal(c.allocated, 0);
    options.struct_size = 9;
    assert_refused(muster_allocator_set(&options), MUSTER_INVALID_ARGUMENT, "received 9");
    assert_int_equal(c.ended, 3);
}

/* ---- threads ---- */

enum { THREADS = 4, CHANGES = 300 };
static _Atomic bool enough;

static void *allocate_often(void *unused) {
    (void)unused;
    for (int i = 0; !enough; i++) {
        char *block = mst_alloc((size_t)i % 200);
        if (!block) abort();
        if (i % 3 == 0)
            mst_retire(block);
        else
            mst_free(block);
        sched_yield(); /* without a block */
    }
    return NULL;
}

/* One thread changes between two allocators as often as it can; every block finds its way back. */
static void changing_while_others_allocate_mixes_nothing(void **state) {
    (void)state;
    counting c[2] = {{0}, {0}};
    pthread_t threads[THREADS];
    int64_t changes = 0, refusals = 0;
    for (int i = 0; i < THREADS; i++) assert_int_equal(pthread_create(&threads[i], NULL, allocate_often, NULL), 0);
    for (int turn = 0; changes < CHANGES; turn = !turn) {
        const muster_allocator_options options = options_of(&c[turn]);
        const muster_status status = muster_allocator_set(&options);
        if (status != MUSTER_OK && status != MUSTER_BAD_STATE) abort();
        *(status == MUSTER_OK ? &changes : &refusals) += 1;
    }
    enough = true;
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    assert_ok(muster_allocator_set(NULL));
    assert_int_equal(c[0].ended + c[1].ended, changes + refusals);
    for (int i = 0; i < 2; i++) check_balance(&c[i]);
    assert_int_equal(mst_memory_live(), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_come_from_the_program_and_go_back),
        cmocka_unit_test(a_block_in_use_refuses_another_allocator),
        cmocka_unit_test(retired_blocks_go_back_before_the_allocator_changes),
        cmocka_unit_test(an_allocator_that_has_nothing_is_refused_or_out_of_memory),
        cmocka_unit_test(misaligned_blocks_are_given_back),
        cmocka_unit_test(half_an_allocator_is_refused),
        cmocka_unit_test(changing_while_others_allocate_mixes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
