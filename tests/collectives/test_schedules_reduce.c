/* Reductions between processes, on the simulated wire: all algorithms give the bits of a fold in
 * the order of the processes. */
#include "base_check.h"
#include "base_seed.h"
#include "collectives_moves.h"
#include "collectives_oracle.h"

#include <stdlib.h>
#include <string.h>

/* Scratch memory so small that chunks are small, too, and there are many of them. */
enum { SMALL_SCRATCH = 96 * 1024 };

static void fill(moves *m, const mst_move *move) {
    for (int32_t p = 0; p < m->size; p++)
        oracle_fill(move->dtype, m->from[p], m->from_bytes[p] / muster_dtype_size(move->dtype), moves_random(m) >> 8);
}

/* Elements [begin, end) of the result are at the beginning of process p's output. */
static void check(const moves *m, const mst_move *move, int32_t p, int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i++)
        if (!moves_folded(m, move, (void *const *)m->from, i, m->to[p], i - begin))
            fail_msg("%s by %s of %lld %s between %d processes: element %lld of process %d", mst_move_kind_name(move->kind),
                     mst_move_algorithm_name(m->schedules[0].algorithm), (long long)move->count, muster_dtype_name(move->dtype),
                     (int)m->size, (long long)i, (int)p);
}

static void run_all_reduce(moves *m, mst_move move, bool in_place) {
    int64_t bytes[MOVES_MOST];
    for (int32_t p = 0; p < m->size; p++) bytes[p] = move.count * muster_dtype_size(move.dtype);
    moves_memory(m, bytes, bytes);
    fill(m, &move);
    move.kind = MST_MOVE_ALL_REDUCE;
    moves_run(m, &move, in_place, move.algorithm);
    for (int32_t p = 0; p < m->size; p++) {
        if (p) assert_memory_equal(m->to[p], m->to[0], (size_t)bytes[0]);
    }
    check(m, &move, 0, 0, move.count);
}

static void run_reduce(moves *m, mst_move move, bool in_place) {
    int64_t from_bytes[MOVES_MOST], to_bytes[MOVES_MOST];
    for (int32_t p = 0; p < m->size; p++) {
        from_bytes[p] = move.count * muster_dtype_size(move.dtype);
        to_bytes[p] = p == move.root ? from_bytes[p] : 0;
    }
    moves_memory(m, from_bytes, to_bytes);
    fill(m, &move);
    move.kind = MST_MOVE_REDUCE;
    for (int32_t p = 0; p < m->size; p++) {
        m->moves[p] = move;
        m->moves[p].from = m->from[p];
        m->moves[p].to = p == move.root ? m->to[p] : NULL;
    }
    if (in_place) {
        memcpy(m->to[move.root], m->from[move.root], (size_t)from_bytes[move.root]);
        m->moves[move.root].from = m->to[move.root];
    }
    moves_drive(m, move.algorithm);
    check(m, &move, move.root, 0, move.count);
}

static void run_reduce_scatter(moves *m, mst_move move) {
    const int64_t size = muster_dtype_size(move.dtype);
    int64_t from_bytes[MOVES_MOST], to_bytes[MOVES_MOST], at = 0, left = move.count;
    for (int32_t p = 0; p < m->size; p++) { /* uneven parts, some of them empty */
        const int64_t part = p == m->size - 1 ? left : p % 3 == 1 ? 0 : left * (int64_t)(moves_random(m) % 64) / 100;
        to_bytes[p] = part * size;
        from_bytes[p] = move.count * size;
        left -= part;
    }
    moves_memory(m, from_bytes, to_bytes);
    fill(m, &move);
    move.kind = MST_MOVE_REDUCE_SCATTER;
    move.bytes = to_bytes;
    moves_run(m, &move, false, move.algorithm);
    for (int32_t p = 0; p < m->size; p++) {
        check(m, &move, p, at, at + to_bytes[p] / size);
        at += to_bytes[p] / size;
    }
}

static const mst_move_algorithm algorithms[] = {MST_MOVE_EXCHANGE, MST_MOVE_CHAIN, MST_MOVE_GATHER_FOLD};
enum { ALGORITHMS = sizeof algorithms / sizeof *algorithms };

static wire_launch_options options_of(int64_t number) {
    return (wire_launch_options){.seed = test_seed() + (uint64_t)number, .lazy = number & 1, .eager_bytes = number & 2 ? -1 : 0};
}

static void test_sizes(void **state) {
    (void)state;
    static moves m;
    int64_t cases = 0;
    for (int32_t size = 1; size <= 9; size++) {
        wire_launch_options options = options_of(size);
        moves_open(&m, size, &options, SMALL_SCRATCH);
        for (int a = 0; a < ALGORITHMS; a++) {
            /* A chunk of the exchange, in elements. */
            const int64_t chunk = (SMALL_SCRATCH - 65536) / (2 * size) / 64 * 64 / 4;
            const int64_t counts[] = {0, 1, 7, 64, 1000, chunk - 1, chunk, chunk + 1, chunk * size + 5, 4 * chunk + 3};
            for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
                mst_move move = {.algorithm = algorithms[a], .dtype = MUSTER_F32, .op = MUSTER_SUM, .count = counts[i]};
                run_all_reduce(&m, move, false);
                run_all_reduce(&m, move, true);
                move.root = (int32_t)i % size;
                run_reduce(&m, move, i & 1);
                if (algorithms[a] == MST_MOVE_EXCHANGE) run_reduce_scatter(&m, move);
            }
        }
        cases += m.cases;
        moves_close(&m);
    }
    assert_int_equal(cases, 9 * (3 * 10 * 3 + 10));
}

static void test_dtypes_and_operations(void **state) {
    (void)state;
    static moves m;
    int64_t cases = 0, pairs = 0;
    for (int32_t size = 2; size <= 5; size++) {
        wire_launch_options options = options_of(size);
        moves_open(&m, size, &options, 0);
        for (muster_dtype dtype = MUSTER_F16; dtype <= MUSTER_BOOL; dtype++)
            for (muster_reduction op = MUSTER_SUM; op <= MUSTER_AVG; op++) {
                static const double scales[] = {0.5, 0.25, 0.125, 1.0 / 3, 0.1};
                if (!oracle_defines(op, dtype)) continue;
                pairs++;
                for (int a = 0; a < ALGORITHMS; a++) {
                    mst_move move = {.algorithm = algorithms[a], .dtype = dtype, .op = op, .count = 333};
                    if (op == MUSTER_AVG) move.scales = scales;
                    move.kind = MST_MOVE_ALL_REDUCE;
                    const bool half = dtype == MUSTER_F16 || dtype == MUSTER_BF16;
                    assert_int_equal(mst_schedule_serves(&m.schedules[0], &move, algorithms[a]), algorithms[a] != MST_MOVE_CHAIN || !half);
                    if (!mst_schedule_serves(&m.schedules[0], &move, algorithms[a])) continue;
                    run_all_reduce(&m, move, a & 1);
                }
            }
        cases += m.cases;
        moves_close(&m);
    }
    assert_int_equal(pairs, 4 * ORACLE_REDUCTIONS);
    assert_int_equal(cases, 4 * (3 * ORACLE_REDUCTIONS - 10));
}

/* Larger than a slab, with chunks of the usual size. */
static void test_large(void **state) {
    (void)state;
    static moves m;
    for (int32_t size = 2; size <= 3; size++) {
        wire_launch_options options = options_of(size);
        moves_open(&m, size, &options, 0);
        for (int a = 0; a < ALGORITHMS; a++) {
            mst_move move = {
                .algorithm = algorithms[a], .dtype = MUSTER_F32, .op = MUSTER_SUM, .count = (9 << 20) / 4 / (size == 3 ? 4 : 1) + 3};
            run_all_reduce(&m, move, a & 1);
        }
        assert_int_equal(m.cases, ALGORITHMS);
        moves_close(&m);
    }
}

/* Sums of f16 are made in f32: 40000 + 40000 - 60000 is 20000, and 40000 + 40000 is infinite only
 * when it is rounded at the end. */
static void test_halves_do_not_overflow_on_their_way(void **state) {
    (void)state;
    static moves m;
    static const float values[] = {40000, 40000, -60000};
    static const uint16_t halves[] = {0x78e2, 0x78e2, 0xfb53}; /* nearest: 40000, 40000, -60000 */
    wire_launch_options options = options_of(5);
    moves_open(&m, 3, &options, 0);
    const int64_t bytes[] = {20, 20, 20};
    for (int a = 0; a < ALGORITHMS; a++) {
        if (algorithms[a] == MST_MOVE_CHAIN) continue;
        moves_memory(&m, bytes, bytes);
        for (int32_t p = 0; p < 3; p++)
            for (int i = 0; i < 10; i++) memcpy(m.from[p] + 2 * i, &halves[p], 2);
        const mst_move move = {.kind = MST_MOVE_ALL_REDUCE, .algorithm = algorithms[a], .dtype = MUSTER_F16, .op = MUSTER_SUM, .count = 10};
        moves_run(&m, &move, false, algorithms[a]);
        for (int32_t p = 0; p < 3; p++)
            for (int i = 0; i < 10; i++) assert_true(oracle_value(MUSTER_F16, m.to[p], i) == values[0] + values[1] + values[2]);
    }
    assert_int_equal(m.cases, 2);
    moves_close(&m);
}

typedef struct shards {
    const float *values; /* [shards][count] */
    int64_t count;
    int32_t shards;
} shards;

static void add_shards(void *user, void *sum, int64_t first, int64_t count, bool begin) {
    const shards *s = user;
    for (int32_t j = 0; j < s->shards; j++)
        for (int64_t i = 0; i < count; i++) {
            const float v = s->values[j * s->count + first + i];
            ((float *)sum)[i] = begin && !j ? v : ((float *)sum)[i] + v;
        }
}

/* A left fold over shards of which processes have different numbers: the bits do not depend on who
 * has them. */
static void test_chain_folds_shards_in_their_order(void **state) {
    (void)state;
    enum { COUNT = 20011, SHARDS = 7 };
    static const int32_t layouts[][5] = {{7}, {3, 4}, {1, 5, 1}, {2, 2, 2, 1}, {1, 1, 1, 1, 3}};
    static moves m;
    float *values = malloc(sizeof *values * COUNT * SHARDS), *expected = calloc(COUNT, sizeof *expected);
    assert_true(values && expected);
    oracle_fill(MUSTER_F32, values, (int64_t)COUNT * SHARDS, test_seed());
    for (int32_t j = 0; j < SHARDS; j++)
        for (int32_t i = 0; i < COUNT; i++) expected[i] = j ? expected[i] + values[j * COUNT + i] : values[i];
    for (int32_t size = 1; size <= 5; size++) {
        wire_launch_options options = options_of(size);
        moves_open(&m, size, &options, 0);
        shards parts[5];
        int64_t bytes[MOVES_MOST];
        for (int32_t p = 0, at = 0; p < size; at += layouts[size - 1][p++]) {
            parts[p] = (shards){values + at * COUNT, COUNT, layouts[size - 1][p]};
            bytes[p] = COUNT * 4;
        }
        moves_memory(&m, bytes, bytes);
        for (int32_t p = 0; p < size; p++)
            m.moves[p] = (mst_move){.kind = MST_MOVE_ALL_REDUCE,
                                    .dtype = MUSTER_F32,
                                    .op = MUSTER_SUM,
                                    .count = COUNT,
                                    .to = m.to[p],
                                    .fold = add_shards,
                                    .user = &parts[p]};
        moves_drive(&m, MST_MOVE_CHAIN);
        for (int32_t p = 0; p < size; p++) assert_memory_equal(m.to[p], expected, COUNT * 4);
        assert_int_equal(m.cases, 1);
        moves_close(&m);
    }
    free(values);
    free(expected);
}

/* What is written at the head of each file. */
static void test_messages_and_bytes(void **state) {
    (void)state;
    static moves m;
    for (int32_t size = 2; size <= 8; size++) {
        wire_launch_options options = options_of(0);
        moves_open(&m, size, &options, 0);
        const int64_t count = 1024 * size, n = count * 4;
        mst_move move = {.algorithm = MST_MOVE_EXCHANGE, .dtype = MUSTER_F32, .op = MUSTER_SUM, .count = count};
        run_all_reduce(&m, move, false);
        assert_int_equal(moves_messages(&m), 2 * size * (size - 1));
        assert_int_equal(moves_bytes(&m), 2 * n * (size - 1));
        move.algorithm = MST_MOVE_CHAIN;
        run_all_reduce(&m, move, true);
        assert_int_equal(moves_bytes(&m), 2 * n * (size - 1));
        move.algorithm = MST_MOVE_GATHER_FOLD;
        run_all_reduce(&m, move, true);
        assert_int_equal(moves_bytes(&m), size * n * (size - 1));
        assert_int_equal(m.cases, 3);
        moves_close(&m);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_dtypes_and_operations),
        cmocka_unit_test(test_large),
        cmocka_unit_test(test_halves_do_not_overflow_on_their_way),
        cmocka_unit_test(test_chain_folds_shards_in_their_order),
        cmocka_unit_test(test_messages_and_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
