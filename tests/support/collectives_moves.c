#include "collectives_moves.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base_check.h"
#include "collectives_oracle.h"
#include "memory_impl.h"

enum { BEHIND = 192, PATTERN = 0x5a, TURNS = 20000000 };

uint64_t moves_random(moves *m) {
    uint64_t z = m->random += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    return z ^ z >> 27;
}

void moves_open(moves *m, int32_t size, const wire_launch_options *options, int64_t scratch_bytes) {
    *m = (moves){.size = size, .random = options->seed};
    wire_launch_options all = *options;
    all.processes = size;
    m->launch = wire_launch_create(&all);
    assert_non_null(m->launch);
    const muster_wire_table *table = wire_launch_table(m->launch);
    muster_wire *states[MOVES_MOST];
    muster_wire_request requests[MOVES_MOST];
    for (int32_t p = 0; p < size; p++) {
        wire_launch_join(m->launch, p);
        assert_int_equal(table->open(0, 0, &states[p], &requests[p]), MUSTER_WIRE_OK);
    }
    wire_launch_join(NULL, 0);
    for (int32_t p = 0; p < size; p++) {
        for (int32_t done = 0; !done;) assert_int_equal(table->test(states[p], &requests[p], &done, NULL), MUSTER_WIRE_OK);
        m->wires[p] = wire_launch_wrap(m->launch, states[p]);
        m->channels[p] = (mst_channel){.wire = m->wires[p], .lane = 1, .size = size, .rank = p};
        assert_ok(mst_schedule_prepare(&m->schedules[p], &m->channels[p], 0, scratch_bytes));
    }
}

static void moves_free(moves *m) {
    for (int32_t p = 0; p < m->size; p++) {
        free(m->from[p]);
        free(m->to[p]);
        m->from[p] = m->to[p] = NULL;
    }
}

void moves_close(moves *m) {
    const wire_launch_counts counts = wire_launch_count(m->launch);
    assert_int_equal(counts.messages + counts.requests, 0);
    for (int32_t p = 0; p < m->size; p++) {
        mst_schedule_free(&m->schedules[p]);
        m->wires[p]->close(m->wires[p], MST_WIRE_FREE);
    }
    moves_free(m);
    wire_launch_destroy(m->launch);
}

void moves_memory(moves *m, const int64_t *from_bytes, const int64_t *to_bytes) {
    moves_free(m);
    for (int32_t p = 0; p < m->size; p++) {
        m->from_bytes[p] = from_bytes[p];
        m->to_bytes[p] = to_bytes[p];
        m->from[p] = aligned_alloc(64, (size_t)(from_bytes[p] + BEHIND) / 64 * 64 + 64);
        m->to[p] = aligned_alloc(64, (size_t)(to_bytes[p] + BEHIND) / 64 * 64 + 64);
        assert_true(m->from[p] && m->to[p]);
        for (int64_t i = 0; i < from_bytes[p]; i++) m->from[p][i] = (char)(moves_random(m) >> 40);
        memset(m->from[p] + from_bytes[p], PATTERN, BEHIND);
        memset(m->to[p], PATTERN, (size_t)to_bytes[p] + BEHIND);
    }
}

static void moves_check_behind(const moves *m) {
    for (int32_t p = 0; p < m->size; p++)
        for (int i = 0; i < BEHIND; i++) {
            assert_int_equal(m->from[p][m->from_bytes[p] + i], PATTERN);
            assert_int_equal(m->to[p][m->to_bytes[p] + i], PATTERN);
        }
}

void moves_drive(moves *m, mst_move_algorithm served) {
    bool done[MOVES_MOST] = {false};
    int32_t count = 0;
    const int64_t allocated = mst_memory_count();
    for (int32_t p = 0; p < m->size; p++) assert_ok(mst_schedule_begin(&m->schedules[p], &m->moves[p]));
    for (int64_t turn = 0; turn < TURNS && count < m->size; turn++) {
        const int32_t p = (int32_t)(moves_random(m) % (uint64_t)m->size);
        if (done[p]) continue;
        const mst_progress progress = mst_schedule_progress(&m->schedules[p]);
        if (progress > MST_PROGRESS_DONE) fail_msg("process %d: %s", (int)p, muster_last_error());
        done[p] = progress == MST_PROGRESS_DONE;
        count += done[p];
    }
    const mst_move *move = &m->moves[0];
    if (count < m->size)
        fail_msg("%s by %s between %d processes does not end", mst_move_kind_name(move->kind), mst_move_algorithm_name(served),
                 (int)m->size);
    assert_int_equal(mst_memory_count(), allocated);
    const wire_launch_counts counts = wire_launch_count(m->launch);
    assert_int_equal(counts.messages + counts.requests, 0);
    for (int32_t p = 0; p < m->size; p++) {
        assert_int_equal(m->schedules[p].algorithm, served);
        assert_false(mst_schedule_in_flight(&m->schedules[p]));
    }
    moves_check_behind(m);
    m->cases++;
}

void moves_run(moves *m, const mst_move *move, bool in_place, mst_move_algorithm served) {
    for (int32_t p = 0; p < m->size; p++) {
        m->moves[p] = *move;
        m->moves[p].to = m->to[p];
        m->moves[p].from = in_place ? m->to[p] : m->from[p];
        if (in_place && m->from_bytes[p]) memcpy(m->to[p], m->from[p], (size_t)m->from_bytes[p]);
    }
    moves_drive(m, served);
}

int64_t moves_messages(const moves *m) {
    int64_t sum = 0;
    for (int32_t p = 0; p < m->size; p++) sum += m->schedules[p].sent_messages;
    return sum;
}

int64_t moves_bytes(const moves *m) {
    int64_t sum = 0;
    for (int32_t p = 0; p < m->size; p++) sum += m->schedules[p].sent_bytes;
    return sum;
}

/* ---- the fold ---- */

/* A number rounded to a float of so many bits of fraction, whose smallest normal number is 2^least
 * and whose exponents go up to `most`: to nearest, ties to even. */
static double moves_round(double x, int fraction, int least, int most) {
    int exponent;
    if (x == 0 || !isfinite(x)) return x;
    frexp(x, &exponent);
    const int quantum = (exponent - 1 > least ? exponent - 1 : least) - fraction;
    const double rounded = ldexp(nearbyint(ldexp(x, -quantum)), quantum);
    return fabs(rounded) >= ldexp(1, most + 1) ? copysign(INFINITY, x) : rounded;
}

static double moves_rounded(muster_dtype dtype, double x) {
    if (dtype == MUSTER_F16) return moves_round(x, 10, -14, 15);
    if (dtype == MUSTER_BF16) return moves_round(x, 7, -126, 127);
    return x;
}

static double moves_float_step(muster_dtype dtype, muster_reduction op, double a, double v) {
    if (op == MUSTER_MAX) return a > v ? a : v;
    if (op == MUSTER_MIN) return a < v ? a : v;
    if (dtype == MUSTER_F64) return op == MUSTER_PROD ? a * v : a + v;
    const float x = (float)a, y = (float)v;
    volatile float result = op == MUSTER_PROD ? x * y : x + y;
    return result;
}

/* An average adds in f64, and keeps the sum in the compute dtype. */
static double moves_average_step(muster_dtype dtype, double a, double scaled) {
    const double sum = a + scaled;
    return dtype == MUSTER_F64 ? sum : (double)(float)sum;
}

bool moves_folded(const moves *m, const mst_move *move, void *const *inputs, int64_t i, const void *received, int64_t at) {
    const muster_dtype dtype = move->dtype;
    const size_t size = (size_t)muster_dtype_size(dtype);
    if (dtype > MUSTER_F64 || dtype == MUSTER_DTYPE_NONE) {
        void *parts[MOVES_MOST];
        uint64_t expected = 0;
        for (int32_t p = 0; p < m->size; p++) parts[p] = (char *)inputs[p] + (size_t)i * size;
        oracle_whole(move->op, dtype, parts, m->size, &expected, 1);
        return !memcmp(&expected, (const char *)received + (size_t)at * size, size);
    }
    double sum = 0;
    for (int32_t p = 0; p < m->size; p++) {
        const double v = oracle_value(dtype, inputs[p], i);
        if (move->scales)
            sum = moves_average_step(dtype, p ? sum : 0, move->scales[p] * v);
        else
            sum = p ? moves_float_step(dtype, move->op, sum, v) : v;
    }
    return moves_rounded(dtype, sum) == oracle_value(dtype, received, at);
}
