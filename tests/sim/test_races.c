/* The check for races inside of kernels: what it finds and what it lets pass, and that the threads
 * of a block are interleaved. */
#include "contract_program.h"
#include "machine_support.h"

enum { WORDS = 4096 };

static int begin(void **state) {
    muster_sim_check_races(5);
    return machine_begin(state);
}

static int end(void **state) {
    muster_sim_check_races(0);
    return machine_end(state);
}

/* Kernels of one program: (int *to, int *other), both of WORDS words that are 0. */
static const char text[] =
    "#define KERNEL(name) extern \"C\" __global__ void name(int *to, int *other)\n"
    "#define T threadIdx.x\n"
    "#define N blockDim.x\n"
    "#define ME (blockIdx.x * blockDim.x + threadIdx.x)\n"
    "KERNEL(shared_and_barrier) {\n"
    "    __shared__ int s[1024];\n"
    "    for (int i = 0; i < 3; i++) { s[T] = i; __syncthreads(); to[ME] += s[(T + 1) % N]; __syncthreads(); }\n"
    "}\n"
    "KERNEL(shared_without_barrier) { __shared__ int s[1024]; s[T] = T; to[ME] = s[(T + 1) % N]; }\n"
    "KERNEL(shared_one_barrier_in_a_loop) {\n"
    "    __shared__ int s[1024];\n"
    "    for (int i = 0; i < 3; i++) { s[T] = i; __syncthreads(); to[ME] += s[(T + 1) % N]; }\n"
    "}\n"
    "KERNEL(first_thread_alone) { __shared__ int s; if (T == 0) s = 7; __syncthreads(); to[ME] = s; }\n"
    "KERNEL(every_thread_the_same) { __shared__ int s; s = 7; __syncthreads(); to[ME] = s; }\n"
    "KERNEL(bytes_beside_each_other) { __shared__ char s[1024]; s[T] = T; __syncthreads(); to[ME] = s[N - 1 - T]; }\n"
    "KERNEL(words_that_overlap) { *(short *)((char *)to + 2 * ME) = 1; ((char *)to)[2 * ME + 2] = 1; }\n"
    "KERNEL(warp_barrier) { __shared__ int s[1024]; s[T] = T; __syncwarp(); to[ME] = s[T ^ 1]; }\n"
    "KERNEL(warp_barrier_for_another_warp) { __shared__ int s[1024]; s[T] = T; __syncwarp(); to[ME] = s[T ^ 32]; }\n"
    "KERNEL(half_a_warp) {\n"
    "    __shared__ int s[1024];\n"
    "    s[T] = T; __syncwarp(T % 32 < 16 ? 0xffffu : 0xffff0000u); to[ME] = s[T ^ 1];\n"
    "}\n"
    "KERNEL(half_a_warp_for_the_other) {\n"
    "    __shared__ int s[1024];\n"
    "    s[T] = T; __syncwarp(T % 32 < 16 ? 0xffffu : 0xffff0000u); to[ME] = s[T ^ 16];\n"
    "}\n"
    "KERNEL(shuffles) {\n"
    "    __shared__ int s[1024];\n"
    "    s[T] = T; int v = __shfl_xor_sync(0xffffffffu, (int)T, 1); to[ME] = v + s[T ^ 1];\n"
    "}\n"
    "KERNEL(read_by_all) { to[ME] = other[0] + other[ME]; }\n"
    "KERNEL(written_by_the_next_block) { to[ME] = 1; if (T == 0) other[ME] = to[(ME + N) % (N * gridDim.x)]; }\n"
    "KERNEL(written_by_all_blocks) { if (T == 0) to[0] = 1; }\n"
    "KERNEL(third_reader) { int v = other[3]; to[ME] = v; if (ME == N + 40) other[3] = v + 1; }\n"
    "KERNEL(atomics) { atomicAdd(&to[3], 1); atomicMax(&to[4], (int)ME); }\n"
    "KERNEL(atomics_in_shared_memory) {\n"
    "    __shared__ int s;\n"
    "    if (T == 0) s = 0; __syncthreads(); atomicAdd(&s, 1); __syncthreads(); to[ME] = s;\n"
    "}\n"
    "KERNEL(atomic_and_read) { atomicAdd(&to[3], 1); if (ME == 5) other[0] = to[3]; }\n"
    "KERNEL(atomic_and_write) { if (ME == 5) to[3] = 1; else atomicAdd(&to[3], 1); }\n"
    "KERNEL(last_block) {\n"
    "    __shared__ int last;\n"
    "    if (T == 0) { to[blockIdx.x] = 1; __threadfence(); last = atomicAdd(&other[0], 1) == (int)gridDim.x - 1; }\n"
    "    __syncthreads();\n"
    "    if (last && T == 0) { __threadfence(); int sum = 0; for (int i = 0; i < gridDim.x; i++) sum += to[i]; other[1] = sum; }\n"
    "}\n"
    "__device__ int global;\n"
    "KERNEL(global_variable) { if (T == 0) global = (int)blockIdx.x; }\n"
    "KERNEL(lost_updates) { to[0] = to[0] + 1; }\n"
    "KERNEL(order_of_threads) { to[atomicAdd(&other[0], 1)] = ME; }\n";

static mst_cu_address to, other;

static void prepare(void) {
    static const int zeros[WORDS];
    to = program_memory(zeros, sizeof zeros);
    other = program_memory(zeros, sizeof zeros);
}

static void run(mst_cu_module module, const char *name, unsigned blocks, unsigned threads) {
    assert_done(program_launch(program_function(module, name), blocks, threads, 0, (void *[]){&to, &other}));
    assert_done(cu.cuStreamSynchronize(gpu.stream));
}

/* ---- what is found ---- */
static void races_are_found_and_order_is_not_reported(void **state) {
    static const struct {
        const char *name, *report; /* NULL: none */
    } cases[] = {
        {"shared_and_barrier", NULL},
        {"shared_without_barrier", "shared memory"},
        {"shared_one_barrier_in_a_loop", "shared memory"},
        {"first_thread_alone", NULL},
        {"every_thread_the_same", "writes the byte"},
        {"bytes_beside_each_other", NULL},
        {"words_that_overlap", "device memory"},
        {"warp_barrier", NULL},
        {"warp_barrier_for_another_warp", "shared memory"},
        {"half_a_warp", NULL},
        {"half_a_warp_for_the_other", "shared memory"},
        {"shuffles", NULL},
        {"read_by_all", NULL},
        {"written_by_the_next_block", "device memory"},
        {"written_by_all_blocks", "writes the byte"},
        {"third_reader", "device memory"},
        {"atomics", NULL},
        {"atomics_in_shared_memory", NULL},
        {"atomic_and_read", "atomic operation"},
        {"atomic_and_write", "atomic operation"},
        {"last_block", NULL},
        {"global_variable", "writes the byte"},
    };
    (void)state;
    mst_cu_module module = program_load(text);
    int count = 0;
    prepare();
    for (uint64_t seed = 1; seed <= 5; seed++)
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++, count++) {
            muster_sim_check_races(seed);
            run(module, cases[i].name, 4, 96);
            const char *found = muster_sim_hazards();
            if (!cases[i].report && *found) fail_msg("seed %d: %s: expected no report, received %s", (int)seed, cases[i].name, found);
            if (cases[i].report && (!strstr(found, ": race: ") || !strstr(found, cases[i].name) || !strstr(found, cases[i].report)))
                fail_msg("seed %d: %s: expected a race (%s), received \"%s\"", (int)seed, cases[i].name, cases[i].report, found);
            assert_int_equal(muster_sim_hazard_count(), cases[i].report ? 1 : 0); /* the first of a launch */
            muster_sim_hazards_clear();
        }
    assert_int_equal(count, 5 * 22);
}

static void one_thread_and_one_launch_after_another_are_no_race(void **state) {
    (void)state;
    mst_cu_module module = program_load(text);
    prepare();
    run(module, "lost_updates", 1, 1);
    run(module, "shared_without_barrier", 3, 1);
    run(module, "written_by_all_blocks", 1, 64);
    run(module, "written_by_all_blocks", 1, 64);
    assert_int_equal(muster_sim_hazard_count(), 0);
}

static void a_report_names_both_threads(void **state) {
    (void)state;
    mst_cu_module module = program_load("extern \"C\" __global__ void pair(int *to, int *other) {\n"
                                        "    if (blockIdx.x == 1 && (threadIdx.x == 3 || threadIdx.x == 40)) to[5] = 1;\n"
                                        "}\n");
    prepare();
    run(module, "pair", 2, 64);
    const char *found = muster_sim_hazards();
    if (!strstr(found, "device 0: kernel pair: race: thread ") || !strstr(found, " of block 1 writes the byte at ") ||
        !strstr(found, "thread 3 of block 1") || !strstr(found, "thread 40 of block 1") || !strstr(found, "(device memory)"))
        fail_msg("%s", found);
    muster_sim_hazards_clear();
}

/* ---- the order of the threads ---- */
static int updates(mst_cu_module module, uint64_t seed) {
    int sum = 0;
    prepare();
    muster_sim_check_races(seed);
    run(module, "lost_updates", 1, 256);
    muster_sim_hazards_clear();
    program_read(&sum, to, sizeof sum);
    return sum;
}

static void threads_are_interleaved_between_two_accesses(void **state) {
    (void)state;
    mst_cu_module module = program_load(text);
    int first = updates(module, 1), different = 0;
    for (uint64_t seed = 2; seed <= 6; seed++) different += updates(module, seed) != first;
    assert_true(first > 0 && first < 256);
    assert_true(different > 0);
    assert_int_equal(updates(module, 1), first); /* the seed is all that it depends on */
    muster_sim_check_races(0);
    assert_int_equal(updates(module, 0), 256); /* one after another */
}

static void threads_and_blocks_come_in_another_order_with_each_seed(void **state) {
    static int orders[3][512];
    const uint64_t seeds[3] = {1, 1, 2};
    (void)state;
    mst_cu_module module = program_load(text);
    for (int i = 0; i < 3; i++) {
        prepare();
        muster_sim_check_races(seeds[i]);
        run(module, "order_of_threads", 8, 64);
        program_read(orders[i], to, sizeof orders[i]);
        bool seen[512] = {false}, sorted = true;
        for (int j = 0; j < 512; j++) {
            assert_in_range(orders[i][j], 0, 511);
            assert_false(seen[orders[i][j]]);
            seen[orders[i][j]] = true;
            sorted &= orders[i][j] == j;
        }
        assert_false(sorted);
        assert_int_not_equal(orders[i][0] / 64, orders[i][511] / 64);
    }
    assert_memory_equal(orders[0], orders[1], sizeof orders[0]);
    assert_memory_not_equal(orders[0], orders[2], sizeof orders[0]);
    assert_int_equal(muster_sim_hazard_count(), 0);
}

/* What else the machine finds, it finds in a launch that is checked, too. */
static void illegal_accesses_and_lonely_barriers_are_found(void **state) {
    (void)state;
    mst_cu_module module = program_load("extern \"C\" __global__ void behind(int *to, int *other) { to[4096 + threadIdx.x] = 1; }\n"
                                        "extern \"C\" __global__ void apart(int *to, int *other) {\n"
                                        "    if (threadIdx.x == 40) __syncwarp(); else __syncthreads();\n"
                                        "}\n");
    prepare();
    assert_done(program_launch(program_function(module, "apart"), 1, 64, 0, (void *[]){&to, &other}));
    assert_code(cu.cuStreamSynchronize(gpu.stream), MST_CU_LAUNCH_FAILED);
    assert_non_null(strstr(muster_sim_hazards(), "wait at different barriers"));
    machine_begin(state);
    module = program_load("extern \"C\" __global__ void behind(int *to, int *other) { to[4096 + threadIdx.x] = 1; }\n");
    prepare();
    assert_done(program_launch(program_function(module, "behind"), 1, 64, 0, (void *[]){&to, &other}));
    assert_code(cu.cuStreamSynchronize(gpu.stream), MST_CU_ILLEGAL_ADDRESS);
    assert_non_null(strstr(muster_sim_hazards(), "kernel behind: illegal write of 4 bytes"));
    muster_sim_hazards_clear();
}

#define race_test(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void) {
    const struct CMUnitTest tests[] = {
        race_test(races_are_found_and_order_is_not_reported),
        race_test(one_thread_and_one_launch_after_another_are_no_race),
        race_test(a_report_names_both_threads),
        race_test(threads_are_interleaved_between_two_accesses),
        race_test(threads_and_blocks_come_in_another_order_with_each_seed),
        race_test(illegal_accesses_and_lonely_barriers_are_found),
    };
    if (machine_open()) return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
