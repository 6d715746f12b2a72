/* A few thousand calls that fail by chance, each seed another set of them: whatever fails is told,
 * nothing is left, and the next device is right. */
#include "base_seed.h"
#include "cuda_fixture.h"

#ifdef MUSTER_TEST_SANITIZED
enum { SEEDS = 40, FULL_SEEDS = 400 };
#else
enum { SEEDS = 300, FULL_SEEDS = 3000 };
#endif
enum { BYTES = 3000000, STEPS = 12 };

static int64_t failures, losses;
static uint64_t current_seed;

/* Fails the test where a failure is not told in words of its own. */
static bool went_well(muster_status status) {
    if (status == MUSTER_OK) return true;
    failures++;
    if (strlen(muster_last_error()) < 10 || status == MUSTER_INTERNAL)
        fail_msg("seed %llu: %s: \"%s\"", (unsigned long long)current_seed, muster_status_name(status), muster_last_error());
    return false;
}

typedef struct scene {
    mst_device *device;
    unsigned char *in, *out;
    void *a, *b, *pinned;
    mst_device_event *computed, *copied;
} scene;

/* One of the things that a device is asked for. */
static bool do_step(scene *s, int step) {
    mst_device *device = s->device;
    const mst_device_table *table = device->table;
    const mst_gemm gemm = {.dtype = 3, .m = 8, .n = 8, .k = 8, .lda = 8, .ldb = 8, .ldc = 8, .alpha = 1, .a = s->a, .b = s->a, .c = s->b};
    bool flag = false;
    switch (step) {
    case 0:
        return went_well(table->memory->copy_in(device, s->a, s->in, BYTES));
    case 1:
        return went_well(table->memory->copy(device, s->b, s->a, BYTES));
    case 2:
        return went_well(mst_device_event_record(s->computed, MST_QUEUE_COMPUTE));
    case 3:
        return went_well(mst_device_event_wait(device, MST_QUEUE_COPY, s->computed));
    case 4:
        return went_well(table->queue->copy_in_async(device, s->a, s->in, BYTES));
    case 5:
        return went_well(mst_device_event_record(s->copied, MST_QUEUE_COPY));
    case 6:
        return went_well(mst_device_event_wait(device, MST_QUEUE_COMPUTE, s->copied));
    case 7:
        return went_well(table->code->gemm(device, &gemm));
    case 8:
        return went_well(table->queue->poll(device, &flag));
    case 9:
        return went_well(table->memory->reserve(device, BYTES * 4));
    case 10:
        return went_well(table->memory->copy_out(device, s->out, s->a, BYTES));
    default:
        return went_well(table->synchronize(device));
    }
}

static void play(scene *s) {
    const mst_device_table *table = s->device->table;
    bool allocated_a = went_well(table->memory->allocate(s->device, BYTES, &s->a)),
         allocated_b = went_well(table->memory->allocate(s->device, BYTES, &s->b));
    bool created = went_well(mst_device_event_create(s->device, &s->computed));
    created = went_well(mst_device_event_create(s->device, &s->copied)) && created;
    if (allocated_a && allocated_b && created) {
        int step = 0;
        memset(s->out, 0, BYTES);
        while (step < STEPS && do_step(s, step)) step++;
        if (step == STEPS)
            check_pattern(s->out, BYTES, 1);
        else
            (void)went_well(table->synchronize(s->device)); /* as a caller would: what follows relies on what failed */
    }
    if (went_well(table->host_memory->allocate(s->device, 100, &s->pinned))) table->host_memory->release(s->device, s->pinned);
    if (went_well(table->host_memory->pin(s->device, s->in, BYTES))) table->host_memory->unpin(s->device, s->in);
    mst_device_event_destroy(s->computed);
    mst_device_event_destroy(s->copied);
    table->memory->release(s->device, s->a);
    table->memory->release(s->device, s->b);
}

/* A lost device keeps what it has, and says so; memory that could not be pinned is noticed, too.
 * Nothing else may be. */
static void check_end(void) {
    char notice[MST_MESSAGE_SIZE];
    while (mst_cuda_take_notice(notice)) {
        if (strstr(notice, "could not be page-locked")) continue;
        if (!strstr(notice, "cuda:0 is closed, but it is lost")) fail_msg("seed %llu: %s", (unsigned long long)current_seed, notice);
        losses++;
    }
    check_machine();
}

static void run_seed(scene *s, uint64_t seed) {
    current_seed = seed;
    new_machine(&(muster_sim_options){.seed = seed, .longest_delay = 20});
    muster_sim_inject_random(seed, 0.01);
    if (seed % 4 == 0) muster_sim_inject_lost(NULL, 1 + seed * 37 % 300);
    if (went_well(mst_cuda_device_table.open(&mst_cuda_device_table, "0", &s->device))) {
        play(s);
        closed(s->device);
    }
    muster_sim_inject_clear();
    check_end();
}

static void calls_that_fail_by_chance_do_no_harm(void **state) {
    (void)state;
    scene s = {.in = patterned(BYTES, 1), .out = malloc(BYTES)};
    assert_non_null(s.out);
    const uint64_t first = test_seed(), seeds = test_is_full() ? FULL_SEEDS : SEEDS;
    for (uint64_t seed = first; seed < first + seeds; seed++) run_seed(&s, seed);
    free(s.in);
    free(s.out);
    print_message("%d seeds: %lld failures told, %lld devices lost\n", (int)seeds, (long long)failures, (long long)losses);
    assert_true(failures >= SEEDS / 2);
    assert_true(losses > 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(calls_that_fail_by_chance_do_no_harm)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
