/* How long schedules take on the simulated wire, by LogGP: exactly what a calculation by hand
 * gives. */
#include "base_check.h"
#include "collectives_moves.h"
#include "wire_clock.h"

#include <stdlib.h>

/* L, o, g and G of about InfiniBand FDR, in picoseconds. */
enum { L = 1300000, O = 110000, GAP = 50000, BYTE = 170, MOST = 1024 };

static int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }
/* From a send to when its receiver can use it. */
static int64_t message(int64_t bytes) { return L + 2 * O + bytes * BYTE; }
/* Between two messages that a process sends. */
static int64_t between(int64_t bytes) { return larger(O, bytes * BYTE + GAP); }
/* The last message of a move is done, for its sender, when it knows that it has been matched; that
 * is L after it is there, and its receiver needs O only. */
enum { LAST = L - O };

typedef struct fleet {
    int32_t size;
    mst_channel *channels;
    mst_schedule *schedules;
} fleet;

static bool fleet_step(void *user, int32_t p) {
    const fleet *f = user;
    const mst_progress progress = mst_schedule_progress(&f->schedules[p]);
    assert_true(progress <= MST_PROGRESS_DONE);
    return progress == MST_PROGRESS_DONE;
}

/* The time of the move, in which every process has `bytes` bytes, or its part of all_to_all and
 * reduce_scatter. Addresses are the same in all processes: the data does not matter. */
static int64_t time_of(int32_t size, mst_move_kind kind, mst_move_algorithm algorithm, int64_t bytes) {
    fleet f = {size, calloc((size_t)size, sizeof *f.channels), calloc((size_t)size, sizeof *f.schedules)};
    wire_launch *launch = wire_launch_create(&(wire_launch_options){.processes = size, .eager_bytes = 1 << 30});
    mst_wire **wires = calloc((size_t)size, sizeof(mst_wire *));
    int64_t *parts = calloc((size_t)size, sizeof *parts);
    char *from = aligned_alloc(64, (size_t)(bytes * size + 63) / 64 * 64), *to = aligned_alloc(64, (size_t)(bytes * size + 63) / 64 * 64);
    assert_true(launch && f.channels && f.schedules && wires && parts && from && to);
    for (int64_t i = 0; i < bytes * size; i++) from[i] = to[i] = 0;
    assert_true(wire_clock_start(launch, &(wire_clock_options){.latency = L, .overhead = O, .gap = GAP, .byte = BYTE}));
    assert_true(wire_clock_open(launch, wires));
    for (int32_t p = 0; p < size; p++) parts[p] = bytes;
    const bool reduces = kind <= MST_MOVE_REDUCE;
    const mst_move move = {.kind = kind,
                           .algorithm = algorithm,
                           .dtype = MUSTER_F32,
                           .op = MUSTER_SUM,
                           .bytes = parts,
                           .send_bytes = parts,
                           .from = kind == MST_MOVE_BROADCAST ? NULL : from,
                           .to = to,
                           .count = reduces ? bytes * (kind == MST_MOVE_REDUCE_SCATTER ? size : 1) / 4 : bytes};
    for (int32_t p = 0; p < size; p++) {
        f.channels[p] = (mst_channel){.wire = wires[p], .lane = 1, .size = size, .rank = p};
        assert_ok(mst_schedule_prepare(&f.schedules[p], &f.channels[p], 1u << algorithm | 1u << MST_MOVE_EXCHANGE, 0));
        assert_ok(mst_schedule_begin(&f.schedules[p], &move));
    }
    wire_drive drive = {.step = fleet_step, .user = &f, .idle_calls = bytes > 65536 ? 64 : 4};
    assert_int_equal(wire_clock_drive(launch, &drive), WIRE_ALL_OVER);
    const int64_t time = wire_clock_time(launch, -1);
    for (int32_t p = 0; p < size; p++) {
        mst_schedule_free(&f.schedules[p]);
        wires[p]->close(wires[p], MST_WIRE_FREE);
    }
    assert_int_equal(wire_launch_count(launch).messages + wire_launch_count(launch).requests, 0);
    wire_launch_destroy(launch);
    free(wires);
    free(parts);
    free(from);
    free(to);
    free(f.channels);
    free(f.schedules);
    return time;
}

enum { N = 6400 /* bytes: one chunk of every schedule, and whole cache lines in every slice up to 4 */ };

static void test_one_chunk(void **state) {
    (void)state;
    for (int32_t m = 2; m <= 9; m++) {
        assert_int_equal(time_of(m, MST_MOVE_ALL_GATHER, MST_MOVE_RING, N), (m - 1) * message(N) + LAST);
        assert_int_equal(time_of(m, MST_MOVE_SCATTER, MST_MOVE_DIRECT, N), (m - 2) * between(N) + message(N) + LAST);
        assert_int_equal(time_of(m, MST_MOVE_GATHER, MST_MOVE_DIRECT, N), (m - 2) * between(N) + message(N) + LAST);
        assert_int_equal(time_of(m, MST_MOVE_ALL_TO_ALL, MST_MOVE_DIRECT, N), (m - 2) * between(N) + message(N) + LAST);
        assert_int_equal(time_of(m, MST_MOVE_REDUCE_SCATTER, MST_MOVE_EXCHANGE, N), (m - 2) * between(N) + message(N) + LAST);
        assert_int_equal(time_of(m, MST_MOVE_ALL_REDUCE, MST_MOVE_EXCHANGE, (int64_t)N * m),
                         2 * ((m - 2) * between(N) + message(N)) + LAST);
        assert_int_equal(time_of(m, MST_MOVE_ALL_REDUCE, MST_MOVE_CHAIN, 4096), 2 * (m - 1) * message(4096) + LAST);
    }
    /* Of 2^k members the last one is the deepest, by first children. */
    for (int32_t m = 2, depth = 1; m <= 16; m *= 2, depth++)
        assert_int_equal(time_of(m, MST_MOVE_BROADCAST, MST_MOVE_TREE, 1000), depth * message(1000) + LAST);
    /* The second step of Bruck's algorithm takes two messages around the end of the
     * concatenation. */
    assert_int_equal(time_of(2, MST_MOVE_ALL_GATHER, MST_MOVE_BRUCK, N), message(N) + LAST);
    assert_int_equal(time_of(4, MST_MOVE_ALL_GATHER, MST_MOVE_BRUCK, N), message(N) + between(N) + message(N) + LAST);
    assert_int_equal(time_of(4, MST_MOVE_ALL_REDUCE, MST_MOVE_GATHER_FOLD, N), message(N) + between(N) + message(N) + LAST);
}

/* With many chunks: at most the formula at the head of each file, and not less than the bytes
 * need. */
static void test_many_chunks(void **state) {
    (void)state;
    enum { LARGE = 4 << 20, CHAIN_CHUNK = 256 * 1024 };
    for (int32_t m = 2; m <= 9; m += 7) {
        const int64_t chunks = LARGE / CHAIN_CHUNK;
        int64_t time = time_of(m, MST_MOVE_ALL_REDUCE, MST_MOVE_CHAIN, LARGE);
        assert_in_range(time, (int64_t)LARGE * BYTE, 2 * (m - 1) * message(CHAIN_CHUNK) + (chunks - 1) * 2 * between(CHAIN_CHUNK) + LAST);
        time = time_of(m, MST_MOVE_ALL_REDUCE, MST_MOVE_EXCHANGE, LARGE);
        assert_in_range(time, 2 * (int64_t)LARGE / m * (m - 1) * BYTE, 2.1 * LARGE / m * (m - 1) * BYTE + 4 * message(CHAIN_CHUNK));
        time = time_of(m, MST_MOVE_BROADCAST, MST_MOVE_TREE, LARGE);
        const int64_t depth = m == 2 ? 1 : 3;
        assert_in_range(time, (int64_t)LARGE * BYTE,
                        (chunks - 1) * 2 * between(CHAIN_CHUNK) + depth * (message(CHAIN_CHUNK) + between(CHAIN_CHUNK)) + LAST);
        time = time_of(m, MST_MOVE_ALL_GATHER, MST_MOVE_RING, LARGE / m);
        assert_in_range(time, (int64_t)LARGE / m * (m - 1) * BYTE, 1.02 * LARGE / m * (m - 1) * BYTE + m * message(CHAIN_CHUNK));
    }
}

/* C chunks one behind the other, on a wire that is never idle: the last one leaves C - 1 gaps after
 * the first. */
static int64_t stream(int64_t chunks, int64_t bytes) { return (chunks - 1) * between(bytes) + message(bytes); }

/* What is pipelined exactly: chunks follow each other without a pause, and what comes is passed on
 * while more comes. */
static void test_chunks_follow_each_other(void **state) {
    (void)state;
    enum { CHUNK = 256 * 1024, PIECE = 64 * 1024, PIECES = 16 };
    for (int64_t c = 2; c <= 8; c *= 2) {
        assert_int_equal(time_of(2, MST_MOVE_BROADCAST, MST_MOVE_TREE, c * CHUNK), stream(c, CHUNK) + LAST);
        assert_int_equal(time_of(2, MST_MOVE_SCATTER, MST_MOVE_DIRECT, c * CHUNK), stream(c, CHUNK) + LAST);
        assert_int_equal(time_of(2, MST_MOVE_GATHER, MST_MOVE_DIRECT, c * CHUNK), stream(c, CHUNK) + LAST);
        assert_int_equal(time_of(2, MST_MOVE_ALL_TO_ALL, MST_MOVE_DIRECT, c * CHUNK), stream(c, CHUNK) + LAST);
        for (int32_t m = 2; m <= 5; m++)
            assert_int_equal(time_of(m, MST_MOVE_ALL_GATHER, MST_MOVE_RING, c * CHUNK), stream((m - 1) * c, CHUNK) + LAST);
    }
    /* exchange: results leave while values do, on the wire that they share. Scratch memory has room
     * for two chunks of each other member. */
    for (int32_t m = 2; m <= 4; m++)
        for (int64_t c = 2; c <= 8; c *= 2) {
            const int64_t chunk = (MST_SCRATCH_BYTES - 2 * MST_FOLD_BYTES) / (2 * m);
            assert_int_equal(chunk % 64, 0);
            assert_int_equal(time_of(m, MST_MOVE_ALL_REDUCE, MST_MOVE_EXCHANGE, m * c * chunk), stream(2 * (m - 1) * c, chunk) + LAST);
        }
    /* gather: what fits into scratch memory twice is one segment, here of two messages. */
    const int64_t segment = (MST_SCRATCH_BYTES - 2 * MST_FOLD_BYTES) / 2;
    assert_int_equal(time_of(2, MST_MOVE_ALL_REDUCE, MST_MOVE_GATHER_FOLD, segment), between(CHUNK) + message(segment - CHUNK) + LAST);
    /* chain: the sum of a chunk goes back while the next one comes. */
    assert_int_equal(time_of(2, MST_MOVE_ALL_REDUCE, MST_MOVE_CHAIN, PIECES * PIECE), stream(PIECES, PIECE) + message(PIECE) + LAST);
}

/* More than 8 members, more than 4 KiB: a member sends when root's message without bytes has come,
 * which is one message more before the first part; the others are on their way meanwhile. */
static void test_credits(void **state) {
    (void)state;
    enum { PART = 8192 };
    for (int32_t m = 10; m <= 12; m++)
        assert_int_equal(time_of(m, MST_MOVE_GATHER, MST_MOVE_DIRECT, PART), message(0) + (m - 2) * between(PART) + message(PART) + LAST);
}

/* As many as the simulation is asked for. */
static void test_many_processes(void **state) {
    (void)state;
    assert_int_equal(time_of(128, MST_MOVE_BROADCAST, MST_MOVE_TREE, 1000), 7 * message(1000) + LAST);
    assert_int_equal(time_of(64, MST_MOVE_ALL_REDUCE, MST_MOVE_EXCHANGE, 64 * 1024), 2 * (62 * between(1024) + message(1024)) + LAST);
    assert_int_equal(time_of(32, MST_MOVE_ALL_GATHER, MST_MOVE_RING, 512), 31 * message(512) + LAST);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_chunk), cmocka_unit_test(test_many_chunks),    cmocka_unit_test(test_chunks_follow_each_other),
        cmocka_unit_test(test_credits),   cmocka_unit_test(test_many_processes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
