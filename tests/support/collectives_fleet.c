/* A schedule's members in one thread. */
#include "collectives_fleet.h"

#include "base_check.h"

#include <stdlib.h>

/* For chunks of 4 KiB from each of a few members; of many members less. */
static int64_t fleet_scratch(int32_t size) { return size <= 64 ? 512 * 1024 : 128 * 1024 + 1024 * (int64_t)size; }

/* Bytes that member `from` gives to `to`, or, where parts belong to one member, that member's. */
static int64_t fleet_bytes(const fleet_plan *plan, int32_t from, int32_t to) {
    if (!plan->uneven) return plan->part;
    return plan->part / 16 * 4 * ((plan->kind == MST_MOVE_ALL_TO_ALL ? from + 2 * to : from) % 5);
}

static uint32_t fleet_value(const fleet_plan *plan, int32_t member, int64_t i) {
    const uint32_t word = (uint32_t)(member + 1) * 2654435761u + (uint32_t)i * 40503u;
    const float value = (float)(word % 100003u) / 7.0f - 5000.0f;
    uint32_t bits;
    memcpy(&bits, &value, 4);
    return plan->floats ? bits : word;
}

static uint32_t fleet_add(const fleet_plan *plan, uint32_t a, uint32_t b) {
    if (!plan->floats) return a + b;
    float x, y;
    memcpy(&x, &a, 4);
    memcpy(&y, &b, 4);
    x = x + y;
    memcpy(&a, &x, 4);
    return a;
}

/* Element i of the fold over all members. */
static uint32_t fleet_fold(const fleet_plan *plan, int64_t i) {
    uint32_t sum = fleet_value(plan, 0, i);
    for (int32_t m = 1; m < plan->size; m++) sum = fleet_add(plan, sum, fleet_value(plan, m, i));
    return sum;
}

void fleet_open(fleet *f, fleet_plan plan, mst_wire **wires) {
    const bool whole = plan.kind == MST_MOVE_ALL_REDUCE || plan.kind == MST_MOVE_REDUCE || plan.kind == MST_MOVE_BROADCAST;
    bool *left_out = f->left_out;
    *f = (fleet){.plan = plan, .wires = wires, .left_out = left_out, .room = (int64_t)plan.part * (whole ? 1 : plan.size) + 64};
    f->members = calloc((size_t)plan.size, sizeof *f->members);
    for (int32_t p = 0; p < plan.size; p++) {
        struct fleet_member *m = &f->members[p];
        m->channel = (mst_channel){.wire = wires[p], .lane = 1, .size = plan.size, .rank = p};
        m->bytes = calloc((size_t)plan.size * 2, sizeof *m->bytes);
        m->send_bytes = m->bytes + plan.size;
        for (int32_t i = 0; i < plan.size; i++) {
            m->bytes[i] = plan.kind == MST_MOVE_REDUCE_SCATTER && plan.uneven ? plan.part / 16 * 4 * (i % 5) : fleet_bytes(&plan, i, p);
            m->send_bytes[i] = fleet_bytes(&plan, p, i);
        }
        m->from = aligned_alloc(64, (size_t)(f->room + 63) / 64 * 64);
        m->to = aligned_alloc(64, (size_t)(f->room + 63) / 64 * 64);
        for (int64_t i = 0; i < f->room / 4; i++) ((uint32_t *)m->from)[i] = fleet_value(&plan, p, i);
        memset(m->to, 0xee, (size_t)f->room);
        if (plan.kind == MST_MOVE_BROADCAST && p == plan.root) memcpy(m->to, m->from, (size_t)f->room);
        m->move = (mst_move){.kind = plan.kind,
                             .algorithm = plan.algorithm,
                             .dtype = plan.floats ? MUSTER_F32 : MUSTER_I32,
                             .op = MUSTER_SUM,
                             .root = plan.root,
                             .count = plan.kind == MST_MOVE_BROADCAST ? plan.part : plan.part / 4,
                             .bytes = m->bytes,
                             .send_bytes = m->send_bytes,
                             .from = m->from,
                             .to = m->to};
        if (plan.kind == MST_MOVE_REDUCE_SCATTER) {
            m->move.count = 0;
            for (int32_t i = 0; i < plan.size; i++) m->move.count += m->bytes[i] / 4;
        }
        assert_ok(mst_schedule_prepare(&m->schedule, &m->channel, 1u << plan.algorithm, fleet_scratch(plan.size)));
    }
}

bool fleet_begin(fleet *f) {
    for (int32_t p = 0; p < f->plan.size; p++)
        if (mst_schedule_begin(&f->members[p].schedule, &f->members[p].move) != MUSTER_OK) return false;
    return true;
}

bool fleet_step(void *user, int32_t p) {
    fleet *f = user;
    struct fleet_member *m = &f->members[p];
    if (f->left_out && f->left_out[p]) return false;
    m->progress = mst_schedule_progress(&m->schedule);
    if (m->progress == MST_PROGRESS_FAILED) fail_msg("process %d: %s", (int)p, muster_last_error());
    if (m->progress == MST_PROGRESS_LOST) f->wires[p]->table->revoke(f->wires[p]->state);
    return m->progress != MST_PROGRESS_RUNNING;
}

void fleet_close(fleet *f) {
    for (int32_t p = 0; p < f->plan.size; p++) {
        f->members[p].schedule.busy = 0; /* nothing arrives any more, so there is nothing to leak on purpose */
        mst_schedule_free(&f->members[p].schedule);
        free(f->members[p].from);
        free(f->members[p].to);
        free(f->members[p].bytes);
    }
    free(f->members);
}

/* ---- what must come out ---- */

static int64_t check_words(const fleet *f, int32_t p, int64_t at, int64_t bytes, int32_t member, int64_t first) {
    int64_t wrong = 0;
    for (int64_t i = 0; i < bytes / 4; i++) {
        uint32_t word;
        memcpy(&word, f->members[p].to + at + i * 4, 4);
        wrong += word != (member < 0 ? fleet_fold(&f->plan, first + i) : fleet_value(&f->plan, member, first + i));
    }
    return wrong;
}

int64_t fleet_wrong(const fleet *f, int32_t p) {
    const fleet_plan *plan = &f->plan;
    const struct fleet_member *m = &f->members[p];
    int64_t end = 0, wrong = 0, before = 0;
    const bool rooted = plan->kind == MST_MOVE_REDUCE || plan->kind == MST_MOVE_GATHER;
    if (rooted && p != plan->root) return 0; /* it gets nothing, and its memory is not looked at */
    for (int32_t i = 0; i < p; i++) before += m->bytes[i] / 4;
    if (plan->kind == MST_MOVE_ALL_REDUCE || plan->kind == MST_MOVE_REDUCE) wrong = check_words(f, p, 0, end = plan->part, -1, 0);
    if (plan->kind == MST_MOVE_REDUCE_SCATTER) wrong = check_words(f, p, 0, end = m->bytes[p], -1, before);
    if (plan->kind == MST_MOVE_BROADCAST) wrong = check_words(f, p, 0, end = f->room, plan->root, 0);
    if (plan->kind == MST_MOVE_SCATTER) wrong = check_words(f, p, 0, end = m->bytes[p], plan->root, before);
    if (plan->kind == MST_MOVE_ALL_GATHER || plan->kind == MST_MOVE_GATHER || plan->kind == MST_MOVE_ALL_TO_ALL)
        for (int32_t from = 0; from < plan->size; from++) {
            int64_t first = 0;
            for (int32_t i = 0; i < p && plan->kind == MST_MOVE_ALL_TO_ALL; i++) first += fleet_bytes(plan, from, i) / 4;
            wrong += check_words(f, p, end, m->bytes[from], from, first);
            end += m->bytes[from];
        }
    if (plan->kind == MST_MOVE_BROADCAST) return p == plan->root ? 0 : wrong - 16; /* the last 64 bytes do not travel */
    for (; end < f->room; end++) wrong += m->to[end] != (char)0xee;
    return wrong;
}

wire_launch *fleet_launch(int32_t size, bool fault_tolerance, int64_t jitter, uint64_t seed, mst_wire **wires) {
    wire_launch *launch = wire_launch_create(&(wire_launch_options){.processes = size, .fault_tolerance = fault_tolerance, .seed = seed});
    const wire_clock_options clock = {.latency = FLEET_L, .overhead = FLEET_O, .gap = FLEET_GAP, .byte = FLEET_BYTE, .jitter = jitter};
    assert_true(wire_clock_start(launch, &clock));
    assert_true(wire_clock_open(launch, wires));
    return launch;
}

fleet_outcome fleet_run(fleet_plan plan, int64_t jitter, uint64_t seed) {
    fleet f = {.left_out = NULL};
    fleet_outcome result = {.served = true};
    mst_wire **wires = calloc((size_t)plan.size, sizeof *wires);
    wire_launch *launch = fleet_launch(plan.size, false, jitter, seed, wires);
    fleet_open(&f, plan, wires);
    result.served = fleet_begin(&f);
    if (result.served) {
        for (int32_t p = 0; seed && p < plan.size; p++)
            wire_clock_work(launch, p, (int64_t)(seed * 31 + (uint64_t)p * 77) % 97 * FLEET_L / 20);
        wire_drive drive = {.step = fleet_step, .user = &f, .idle_calls = seed ? 8 : 4};
        result.verdict = wire_clock_drive(launch, &drive);
        assert_int_equal(result.verdict, WIRE_ALL_OVER);
        result.time = wire_clock_time(launch, -1);
        for (int32_t p = 0; p < plan.size; p++)
            if (fleet_wrong(&f, p))
                fail_msg("%s by %s, %d processes, root %d, %d bytes: process %d is wrong in %lld places", mst_move_kind_name(plan.kind),
                         mst_move_algorithm_name(plan.algorithm), plan.size, plan.root, plan.part, (int)p, (long long)fleet_wrong(&f, p));
        const wire_launch_counts counts = wire_launch_count(launch);
        assert_int_equal(counts.messages, 0);
        assert_int_equal(counts.requests, 0);
    }
    fleet_close(&f);
    for (int32_t p = 0; p < plan.size; p++) wires[p]->close(wires[p], MST_WIRE_FREE);
    wire_launch_destroy(launch);
    free(wires);
    return result;
}

int32_t fleet_for_each_pair(fleet_plan plan, void (*function)(fleet_plan plan)) {
    int32_t pairs = 0;
    for (int32_t kind = 0; kind < MST_MOVE_KINDS; kind++)
        for (int32_t algorithm = 1; algorithm < MST_MOVE_ALGORITHMS; algorithm++) {
            plan.kind = (mst_move_kind)kind;
            plan.algorithm = (mst_move_algorithm)algorithm;
            fleet_plan small = plan;
            small.size = 2;
            small.root = 0;
            if (!fleet_run(small, 0, 0).served) continue;
            function(plan);
            pairs++;
        }
    return pairs;
}
