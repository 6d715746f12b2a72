/* What moves between processes without being combined, and the MPI's own collectives, on the
 * simulated wire: every byte comes to its place. */
#include "base_check.h"
#include "base_seed.h"
#include "collectives_moves.h"
#include "collectives_oracle.h"

#include <string.h>

enum { CHUNK = MST_MESSAGE_BYTES, SHAPES = 9 };

static wire_launch_options options_of(int64_t number) {
    return (wire_launch_options){.seed = test_seed() + (uint64_t)number, .lazy = number & 1, .eager_bytes = number & 2 ? -1 : 0};
}

/* The bytes of the part of process p, in shape `shape`: equal ones, uneven ones, one that has
 * all. */
static int64_t part_bytes(int shape, int32_t p, int32_t size) {
    static const int64_t equal[] = {0, 1, 333, 5000, CHUNK};
    if (shape < 5) return equal[shape];
    if (shape == 5) return p % 3 == 1 ? 0 : 17 * p + 1;
    if (shape == 6) return p == size - 1 ? 2 * CHUNK + 1 : 0;
    if (shape == 7) return p == 0 ? CHUNK - 1 : p == 1 ? CHUNK + 1 : 4097 - p;
    return 4096 + p % 2;
}

static int64_t fill_parts(int shape, int32_t size, int64_t *bytes) {
    int64_t sum = 0;
    for (int32_t p = 0; p < size; p++) sum += bytes[p] = part_bytes(shape, p, size);
    return sum;
}

static void run_all_gather(moves *m, mst_move_algorithm algorithm, int shape, bool in_place) {
    int64_t bytes[MOVES_MOST], to_bytes[MOVES_MOST], offset = 0;
    const int64_t all = fill_parts(shape, m->size, bytes);
    for (int32_t p = 0; p < m->size; p++) to_bytes[p] = all;
    moves_memory(m, bytes, to_bytes);
    const mst_move move = {.kind = MST_MOVE_ALL_GATHER, .algorithm = algorithm, .bytes = bytes};
    for (int32_t p = 0; p < m->size; p++) {
        m->moves[p] = move;
        m->moves[p].to = m->to[p];
        m->moves[p].from = in_place ? NULL : m->from[p];
        if (in_place && bytes[p]) memcpy(m->to[p] + offset, m->from[p], (size_t)bytes[p]);
        offset += bytes[p];
    }
    moves_drive(m, algorithm);
    for (int32_t q = 0; q < m->size; q++) {
        offset = 0;
        for (int32_t p = 0; p < m->size; offset += bytes[p++]) assert_memory_equal(m->to[q] + offset, m->from[p], (size_t)bytes[p]);
    }
}

static void run_gather(moves *m, int shape, int32_t root, bool in_place) {
    int64_t bytes[MOVES_MOST], to_bytes[MOVES_MOST] = {0}, offset = 0;
    to_bytes[root] = fill_parts(shape, m->size, bytes);
    moves_memory(m, bytes, to_bytes);
    for (int32_t p = 0; p < m->size; p++) {
        m->moves[p] =
            (mst_move){.kind = MST_MOVE_GATHER, .root = root, .bytes = bytes, .from = m->from[p], .to = p == root ? m->to[p] : NULL};
        if (p == root && in_place) {
            if (bytes[p]) memcpy(m->to[p] + offset, m->from[p], (size_t)bytes[p]);
            m->moves[p].from = NULL;
        }
        offset += bytes[p];
    }
    moves_drive(m, MST_MOVE_DIRECT);
    offset = 0;
    for (int32_t p = 0; p < m->size; offset += bytes[p++]) assert_memory_equal(m->to[root] + offset, m->from[p], (size_t)bytes[p]);
}

static void run_scatter(moves *m, int shape, int32_t root, bool in_place) {
    int64_t bytes[MOVES_MOST], from_bytes[MOVES_MOST] = {0}, offset = 0;
    from_bytes[root] = fill_parts(shape, m->size, bytes);
    moves_memory(m, from_bytes, bytes);
    for (int32_t p = 0; p < m->size; p++)
        m->moves[p] = (mst_move){.kind = MST_MOVE_SCATTER,
                                 .root = root,
                                 .bytes = bytes,
                                 .from = p == root ? m->from[p] : NULL,
                                 .to = p == root && in_place ? NULL : m->to[p]};
    moves_drive(m, MST_MOVE_DIRECT);
    for (int32_t p = 0; p < m->size; offset += bytes[p++])
        if (p != root || !in_place) assert_memory_equal(m->to[p], m->from[root] + offset, (size_t)bytes[p]);
}

static void run_all_to_all(moves *m, int shape) {
    static int64_t table[MOVES_MOST][MOVES_MOST], turned[MOVES_MOST][MOVES_MOST];
    int64_t from_bytes[MOVES_MOST] = {0}, to_bytes[MOVES_MOST] = {0};
    for (int32_t p = 0; p < m->size; p++)
        for (int32_t q = 0; q < m->size; q++) {
            table[p][q] = turned[q][p] = part_bytes(shape, (p + q) % m->size, m->size) + (shape > 4 ? 3 * p : 0);
            from_bytes[p] += table[p][q];
            to_bytes[q] += table[p][q];
        }
    moves_memory(m, from_bytes, to_bytes);
    for (int32_t p = 0; p < m->size; p++)
        m->moves[p] =
            (mst_move){.kind = MST_MOVE_ALL_TO_ALL, .send_bytes = table[p], .bytes = turned[p], .from = m->from[p], .to = m->to[p]};
    moves_drive(m, MST_MOVE_DIRECT);
    int64_t at[MOVES_MOST] = {0};
    for (int32_t q = 0; q < m->size; q++) {
        int64_t offset = 0;
        for (int32_t p = 0; p < m->size; p++) {
            assert_memory_equal(m->to[q] + offset, m->from[p] + at[p], (size_t)table[p][q]);
            offset += table[p][q];
            at[p] += table[p][q];
        }
    }
}

static void test_parts(void **state) {
    (void)state;
    static moves m;
    int64_t cases = 0;
    for (int32_t size = 1; size <= 9; size++) {
        const wire_launch_options options = options_of(size);
        moves_open(&m, size, &options, 0);
        for (int shape = 0; shape < SHAPES; shape++) {
            for (int in_place = 0; in_place < 2; in_place++) {
                run_all_gather(&m, MST_MOVE_RING, shape, in_place);
                run_all_gather(&m, MST_MOVE_BRUCK, shape, in_place);
                run_gather(&m, shape, (shape + in_place) % size, in_place);
                run_scatter(&m, shape, (shape + in_place) % size, in_place);
            }
            run_all_to_all(&m, shape);
        }
        cases += m.cases;
        moves_close(&m);
    }
    assert_int_equal(cases, 9 * SHAPES * 9);
}

/* So many that root takes some of them after others. */
static void test_credits(void **state) {
    (void)state;
    static moves m;
    wire_launch_options options = options_of(3);
    moves_open(&m, 23, &options, 0);
    for (int shape = 0; shape < SHAPES; shape++) {
        if (shape == 4) continue; /* 23 x 256 KiB */
        run_gather(&m, shape, shape, false);
        int64_t credits = 0;
        for (int32_t p = 0; p < 23; p++) credits += p != shape && part_bytes(shape, p, 23) > 4096;
        int64_t messages = 0;
        for (int32_t p = 0; p < 23; p++) messages += p == shape ? 0 : (part_bytes(shape, p, 23) + CHUNK - 1) / CHUNK;
        assert_int_equal(moves_messages(&m), messages + credits);
        run_scatter(&m, shape, shape, true);
        run_all_to_all(&m, shape);
    }
    assert_int_equal(m.cases, 3 * (SHAPES - 1));
    moves_close(&m);
}

static void run_broadcast(moves *m, mst_move_algorithm algorithm, int64_t count, int32_t root) {
    int64_t from_bytes[MOVES_MOST] = {0}, bytes[MOVES_MOST];
    from_bytes[root] = count;
    for (int32_t p = 0; p < m->size; p++) bytes[p] = count;
    moves_memory(m, from_bytes, bytes);
    const mst_move move = {.kind = MST_MOVE_BROADCAST, .algorithm = algorithm, .root = root, .count = count};
    moves_run(m, &move, true, algorithm);
    for (int32_t p = 0; p < m->size; p++) assert_memory_equal(m->to[p], m->from[root], (size_t)count);
}

static void test_broadcast(void **state) {
    (void)state;
    static const int64_t counts[] = {0, 1, 8191, 8192, 8193, 100000, CHUNK, 3 * CHUNK + 1};
    enum { COUNTS = sizeof counts / sizeof *counts };
    static moves m;
    int64_t cases = 0;
    for (int32_t size = 1; size <= 9; size++) {
        const wire_launch_options options = options_of(size);
        moves_open(&m, size, &options, 0);
        for (int i = 0; i < COUNTS; i++)
            for (int32_t root = 0; root < size; root++) {
                run_broadcast(&m, MST_MOVE_TREE, counts[i], root);
                assert_int_equal(moves_bytes(&m), counts[i] * (size - 1));
            }
        cases += m.cases;
        moves_close(&m);
    }
    assert_int_equal(cases, 45 * COUNTS);
}

/* Twice as many as chunks are tested and begun in one turn, and a last move after larger ones. */
static void test_many(void **state) {
    (void)state;
    static moves m;
    const wire_launch_options options = options_of(5);
    moves_open(&m, MOVES_MOST, &options, 0);
    for (int shape = 1; shape < 4; shape++) {
        run_all_gather(&m, MST_MOVE_RING, shape, false);
        run_all_gather(&m, MST_MOVE_BRUCK, shape, false);
        run_all_to_all(&m, shape);
    }
    run_broadcast(&m, MST_MOVE_TREE, 3 * CHUNK, 7);
    run_broadcast(&m, MST_MOVE_TREE, 3, 8);
    assert_int_equal(m.cases, 11);
    moves_close(&m);
}

static void run_mpi_all_reduce(moves *m, muster_dtype dtype, muster_reduction op, bool any_order) {
    enum { COUNT = 100 };
    int64_t bytes[MOVES_MOST];
    for (int32_t p = 0; p < m->size; p++) bytes[p] = COUNT * muster_dtype_size(dtype);
    const mst_move move = {
        .kind = MST_MOVE_ALL_REDUCE, .algorithm = MST_MOVE_MPI, .dtype = dtype, .op = op, .count = COUNT, .any_order = any_order};
    const bool compares = op == MUSTER_MAX || op == MUSTER_MIN;
    const bool is_unsigned = dtype == MUSTER_U8 || dtype == MUSTER_U32 || dtype == MUSTER_U64;
    const bool integer = dtype > MUSTER_F64 && dtype != MUSTER_BOOL && op != MUSTER_AVG && !(is_unsigned && compares);
    const bool sum = (dtype == MUSTER_F32 || dtype == MUSTER_F64) && op == MUSTER_SUM && any_order;
    assert_int_equal(mst_schedule_serves(&m->schedules[0], &move, MST_MOVE_MPI), integer || sum);
    if (!integer && !sum) {
        assert_int_equal(mst_schedule_begin(&m->schedules[0], &move), MUSTER_UNSUPPORTED);
        return;
    }
    moves_memory(m, bytes, bytes);
    for (int32_t p = 0; p < m->size; p++) oracle_fill(dtype, m->from[p], COUNT, (uint64_t)p);
    moves_run(m, &move, false, MST_MOVE_MPI);
    for (int32_t p = 0; p < m->size; p++)
        for (int64_t i = 0; i < COUNT; i++) assert_true(moves_folded(m, &move, (void *const *)m->from, i, m->to[p], i));
}

static void test_collectives_of_the_mpi(void **state) {
    (void)state;
    static moves m;
    const wire_launch_options options = options_of(0);
    moves_open(&m, 4, &options, 0);
    for (muster_dtype dtype = MUSTER_F16; dtype <= MUSTER_BOOL; dtype++)
        for (muster_reduction op = MUSTER_SUM; op <= MUSTER_AVG; op++)
            if (oracle_defines(op, dtype)) {
                run_mpi_all_reduce(&m, dtype, op, false);
                run_mpi_all_reduce(&m, dtype, op, true);
            }
    assert_int_equal(m.cases, 2 * (7 * 4 - 3 * 2) + 2);
    for (int shape = 0; shape < SHAPES; shape++) run_all_gather(&m, MST_MOVE_MPI, shape, shape & 1);
    run_broadcast(&m, MST_MOVE_MPI, 12345, 2);
    assert_int_equal(m.cases, 2 * (7 * 4 - 3 * 2) + 2 + SHAPES + 1);
    assert_int_equal(wire_launch_count(m.launch).collectives, m.cases);
    assert_int_equal(m.schedules[1].served[MST_MOVE_MPI], m.cases);
    /* Not on a channel that is not the only one of its processes. */
    const mst_move move = {.kind = MST_MOVE_BROADCAST, .count = 1};
    m.channels[0].lane = 2;
    assert_false(mst_schedule_serves(&m.schedules[0], &move, MST_MOVE_MPI));
    m.channels[0].lane = 1;
    moves_close(&m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parts),
        cmocka_unit_test(test_credits),
        cmocka_unit_test(test_broadcast),
        cmocka_unit_test(test_many),
        cmocka_unit_test(test_collectives_of_the_mpi),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
