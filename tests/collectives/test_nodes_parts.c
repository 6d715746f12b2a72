/* Over several processes: parts, messages, groups, members on devices, and what happens when ranks
 * do different things, fail, or stay away. */
#include "base_check.h"
#include "collectives_spans.h"

#include <stdio.h>
#include <string.h>

static const int32_t two_by_two[] = {2, 2};

static muster_tensor vector(void *data, int64_t count) { return muster_tensor_make(MUSTER_F32, data, 1, &count); }

static muster_status expect_place(muster_worker *w, const muster_communicator *part, int32_t rank, int32_t size) {
    const int32_t got = muster_communicator_rank(part, w), of = muster_communicator_size(part);
    return got == rank && of == size ? MUSTER_OK : mst_error(MUSTER_USER, "expected rank %d of %d, received %d of %d", rank, size, got, of);
}

/* ---- parts ---- */

/* Across processes, with the order reversed; inside of a process; of parts; with ranks of no
 * part. */
static muster_status split_task(muster_worker *w, void *argument) {
    const int32_t r = spans_rank(w), local = r / 2;
    muster_communicator *across, *inside, *half, *some;
    (void)argument;
    for (int32_t turn = 0; turn < 3; turn++) {
        MUSTER_TRY(muster_worker_split(w, NULL, r % 2, -r, &across));
        MUSTER_TRY(expect_place(w, across, r / 2 ? 0 : 1, 2));
        MUSTER_TRY(spans_expect_sum(w, across, r % 2 ? 4 : 2));
        MUSTER_TRY(muster_worker_split(w, NULL, local, r, &inside));
        MUSTER_TRY(expect_place(w, inside, r % 2, 2));
        MUSTER_TRY(spans_expect_sum(w, inside, local ? 5 : 1));
        MUSTER_TRY(muster_worker_split(w, across, 0, 0, &half));
        MUSTER_TRY(spans_expect_sum(w, half, r % 2 ? 4 : 2));
        MUSTER_TRY(muster_worker_split(w, NULL, r == 1 ? -1 : 7, r, &some));
        if ((r == 1) != (some == NULL)) return mst_error(MUSTER_USER, "rank %d: a part of the wrong ranks", r);
        if (some) MUSTER_TRY(spans_expect_sum(w, some, 5));
        MUSTER_TRY(muster_worker_release(w, half));
        MUSTER_TRY(muster_worker_release(w, across));
        MUSTER_TRY(muster_worker_release(w, inside));
        MUSTER_TRY(muster_worker_release(w, some));
    }
    return spans_expect_sum(w, NULL, 6);
}

/* The first and the last color: each part has a lane of its own, and lane 0 stays the runtime's. */
static muster_status color_task(muster_worker *w, void *argument) {
    const int32_t colors[] = {0, INT32_MAX - 1, INT32_MAX};
    muster_communicator *parts[3];
    (void)argument;
    for (int32_t i = 0; i < 3; i++) MUSTER_TRY(muster_worker_split(w, NULL, colors[i], 0, &parts[i]));
    for (int32_t i = 0; i < 3; i++) {
        MUSTER_TRY(spans_expect_sum(w, parts[i], 6));
        for (int32_t k = 0; k < i; k++)
            if (parts[i]->span->lane == parts[k]->span->lane)
                return mst_error(MUSTER_USER, "colors %d and %d have one lane", colors[i], colors[k]);
        if (parts[i]->span->lane < 2) return mst_error(MUSTER_USER, "color %d has lane %d", colors[i], parts[i]->span->lane);
    }
    for (int32_t i = 0; i < 3; i++) MUSTER_TRY(muster_worker_release(w, parts[i]));
    return MUSTER_OK;
}

static void test_every_color_has_a_lane(void **state) {
    (void)state;
    spans_launch launch;
    spans_open(&launch, &(spans_options){.counts = two_by_two, .processes = 2});
    for (int32_t call = 0; call < 3; call++) assert_ok(spans_run(&launch, color_task, NULL));
    spans_close(&launch);
}

static void test_parts(void **state) {
    (void)state;
    spans_launch launch;
    spans_open(&launch, &(spans_options){.counts = two_by_two, .processes = 2});
    assert_ok(spans_run(&launch, split_task, NULL));
    assert_ok(spans_run(&launch, split_task, NULL));
    spans_close(&launch);
}

/* ---- messages ---- */

enum { LONG = 100003 };

static muster_status message_task(muster_worker *w, void *argument) {
    static _Thread_local float sent[LONG], received[LONG];
    const int32_t r = spans_rank(w), size = spans_size(w);
    static const int64_t counts[] = {0, 1, 1000, LONG};
    (void)argument;
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        /* around the ring, one after the other */
        for (int64_t k = 0; k < counts[i]; k++) sent[k] = (float)(r * 1000 + k % 1000), received[k] = -1;
        if (r > 0) MUSTER_TRY(muster_worker_recv(w, NULL, r - 1, 5, vector(received, counts[i])));
        if (r < size - 1) MUSTER_TRY(muster_worker_send(w, NULL, r + 1, 5, vector(sent, counts[i])));
        for (int64_t k = 0; k < counts[i] && r > 0; k++)
            if (received[k] != (float)((r - 1) * 1000 + k % 1000)) return mst_error(MUSTER_USER, "rank %d: element %lld", r, (long long)k);
        /* everyone to everyone at once, two messages each, in a group */
        float out[SPANS_RANKS], in[2][SPANS_RANKS], sum = (float)r;
        MUSTER_TRY(muster_worker_group_begin(w, NULL));
        for (int32_t peer = 0; peer < size; peer++) {
            out[peer] = (float)(10 * r + peer);
            for (int32_t tag = 0; tag < 2; tag++) {
                MUSTER_TRY(muster_worker_recv(w, NULL, peer, 1 - tag, vector(&in[1 - tag][peer], 1)));
                MUSTER_TRY(muster_worker_send(w, NULL, peer, tag, vector(&out[peer], 1)));
            }
        }
        MUSTER_TRY(muster_worker_all_reduce(w, NULL, MUSTER_SUM, vector(&sum, 1), vector(&sum, 1)));
        MUSTER_TRY(muster_worker_group_end(w, NULL));
        for (int32_t peer = 0; peer < size; peer++)
            if (in[0][peer] != (float)(10 * peer + r) || in[1][peer] != in[0][peer] || sum != (float)(size * (size - 1) / 2))
                return mst_error(MUSTER_USER, "rank %d: from %d: %g and %g", r, peer, (double)in[0][peer], (double)in[1][peer]);
    }
    return MUSTER_OK;
}

static void test_messages(void **state) {
    (void)state;
    spans_launch launch;
    spans_open(&launch, &(spans_options){.counts = two_by_two, .processes = 2});
    assert_ok(spans_run(&launch, message_task, NULL));
    assert_true(spans_sent_bytes(&launch) > 4 * LONG);
    spans_close(&launch);
}

static muster_status other_tag_task(muster_worker *w, void *argument) {
    float x = 0;
    (void)argument;
    if (spans_rank(w) == 1) return muster_worker_send(w, NULL, 2, 3, vector(&x, 1));
    return spans_rank(w) == 2 ? muster_worker_recv(w, NULL, 1, 4, vector(&x, 1)) : MUSTER_OK;
}

static void test_another_tag(void **state) {
    (void)state;
    spans_launch launch;
    spans_open(&launch, &(spans_options){.counts = two_by_two, .processes = 2});
    assert_int_equal(spans_run(&launch, other_tag_task, NULL), MUSTER_INVALID_ARGUMENT);
    for (int32_t p = 0; p < 2; p++) {
        assert_non_null(strstr(launch.process[p].message, "rank 2 (process 1 (host host1)) expected 1 f32 with tag 4 from rank 1"));
        assert_non_null(strstr(launch.process[p].message, "waits to send 1 f32 with tag 3"));
    }
    assert_ok(spans_run(&launch, message_task, NULL));
    spans_close(&launch);
}

/* ---- members on devices ---- */

static muster_status device_task(muster_worker *w, void *argument) {
    const int64_t count = 1000, all = count * spans_size(w);
    float host[1000], gathered[SPANS_RANKS * 1000];
    const int32_t r = spans_rank(w), size = spans_size(w);
    (void)argument;
    muster_tensor x, y;
    MUSTER_TRY(muster_worker_scratch(w, MUSTER_F32, 1, &count, &x));
    MUSTER_TRY(muster_worker_scratch(w, MUSTER_F32, 1, &all, &y));
    for (int64_t i = 0; i < count; i++) host[i] = (float)(r + i);
    MUSTER_TRY(muster_worker_write(w, vector(host, count), x));
    MUSTER_TRY(muster_worker_all_gather(w, NULL, x, y));
    MUSTER_TRY(muster_worker_all_reduce(w, NULL, MUSTER_SUM, x, x));
    if (r == 3) MUSTER_TRY(muster_worker_send(w, NULL, 0, 1, x));
    if (r == 0) MUSTER_TRY(muster_worker_recv(w, NULL, 3, 1, x));
    MUSTER_TRY(muster_worker_read(w, x, vector(host, count)));
    MUSTER_TRY(muster_worker_read(w, y, vector(gathered, all)));
    for (int64_t i = 0; i < all; i++) {
        const float sum = (float)(size * (size - 1) / 2 + size * (i % count));
        if (gathered[i] != (float)(i / count + i % count) || host[i % count] != sum)
            return mst_error(MUSTER_USER, "rank %d: element %lld: %g, %g", r, (long long)i, (double)gathered[i], (double)host[i % count]);
    }
    return MUSTER_OK;
}

static void test_devices(void **state) {
    (void)state;
    for (int32_t discrete = 0; discrete <= 2; discrete++) {
        spans_launch launch;
        spans_open(&launch, &(spans_options){.counts = two_by_two, .processes = 2, .discrete = discrete});
        assert_ok(spans_run(&launch, device_task, NULL));
        spans_close(&launch);
    }
}

/* ---- failures ---- */

static muster_status mismatch_task(muster_worker *w, void *argument) {
    float x[4] = {0};
    (void)argument;
    return spans_rank(w) == 3 ? muster_worker_all_reduce(w, NULL, MUSTER_SUM, vector(x, 2), vector(x, 2))
                              : muster_worker_all_reduce(w, NULL, MUSTER_SUM, vector(x, 4), vector(x, 4));
}

static muster_status other_collective_task(muster_worker *w, void *argument) {
    float x[4] = {0};
    (void)argument;
    return spans_rank(w) < 2 ? muster_worker_barrier(w, NULL) : muster_worker_broadcast(w, NULL, 3, vector(x, 4), vector(x, 4));
}

static void expect_everywhere(spans_launch *launch, mst_task task, muster_status status, const char *text) {
    assert_int_equal(spans_run(launch, task, NULL), status);
    for (int32_t p = 0; p < launch->processes; p++) {
        assert_int_equal(launch->process[p].status, status);
        if (!strstr(launch->process[p].message, text))
            fail_msg("process %d: expected \"%s\", received \"%s\"", p, text, launch->process[p].message);
    }
}

static muster_status failing_task(muster_worker *w, void *argument) {
    (void)argument;
    if (spans_rank(w) == 2) return mst_error(MUSTER_USER, "rank 2 has had enough");
    return muster_worker_barrier(w, NULL);
}

static muster_status absent_task(muster_worker *w, void *argument) {
    (void)argument;
    return spans_rank(w) == 2 ? MUSTER_OK : muster_worker_barrier(w, NULL);
}

static void test_mismatches_and_failures(void **state) {
    (void)state;
    spans_launch launch;
    spans_open(&launch, &(spans_options){.counts = two_by_two, .processes = 2});
    for (int32_t turn = 0; turn < 2; turn++) {
        expect_everywhere(
            &launch, mismatch_task, MUSTER_INVALID_ARGUMENT,
            "muster_worker_all_reduce: collective mismatch: rank 3 (process 1 (host host1)) called all_reduce sum of 2 f32, rank "
            "0 (process 0 (host host0)) called all_reduce sum of 4 f32");
        expect_everywhere(&launch, other_collective_task, MUSTER_INVALID_ARGUMENT,
                          "rank 2 (process 1 (host host1)) called broadcast of 4 f32 from rank 3");
        expect_everywhere(&launch, failing_task, MUSTER_USER, "rank 2 has had enough");
        expect_everywhere(&launch, absent_task, MUSTER_INVALID_ARGUMENT,
                          "rank 2 returned without entering barrier, for which rank 3 waits");
        assert_ok(spans_run(&launch, message_task, NULL));
    }
    spans_close(&launch);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parts),    cmocka_unit_test(test_every_color_has_a_lane),
        cmocka_unit_test(test_messages), cmocka_unit_test(test_another_tag),
        cmocka_unit_test(test_devices),  cmocka_unit_test(test_mismatches_and_failures),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
