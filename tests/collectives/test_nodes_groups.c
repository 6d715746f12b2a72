/* Groups over several processes whose messages need what another rank does first: each of these
 * programs ends in one process, so it ends in several, wherever the ranks are. */
#include "base_check.h"
#include "base_pace.h"
#include "collectives_spans.h"
#include "memory_impl.h"

#include <string.h>

static muster_tensor vector(void *data, int64_t count) { return muster_tensor_make(MUSTER_F32, data, 1, &count); }

static muster_status expect(muster_worker *w, const char *what, float received, float expected) {
    return received == expected
               ? MUSTER_OK
               : mst_error(MUSTER_USER, "rank %d, %s: expected %g, received %g", spans_rank(w), what, (double)expected, (double)received);
}

static muster_status send(muster_worker *w, int32_t to, float value) { return muster_worker_send(w, NULL, to, 1, vector(&value, 1)); }
static muster_status receive(muster_worker *w, int32_t from, float expected) {
    float value = -1;
    MUSTER_TRY(muster_worker_recv(w, NULL, from, 1, vector(&value, 1)));
    return expect(w, "recv", value, expected);
}
static muster_status sum(muster_worker *w, muster_communicator *part, float expected) {
    float value = (float)spans_rank(w);
    MUSTER_TRY(muster_worker_all_reduce(w, part, MUSTER_SUM, vector(&value, 1), vector(&value, 1)));
    return expect(w, "sum", value, expected);
}

/* Rank 0's group needs a message of rank 1, which comes before the one that rank 2 waits for. */
static muster_status receive_and_send(muster_worker *w, void *argument) {
    float in = -1, out = 7;
    (void)argument;
    switch (spans_rank(w)) {
    case 0:
        MUSTER_TRY(muster_worker_group_begin(w, NULL));
        MUSTER_TRY(muster_worker_recv(w, NULL, 1, 1, vector(&in, 1)));
        MUSTER_TRY(muster_worker_send(w, NULL, 2, 1, vector(&out, 1)));
        MUSTER_TRY(muster_worker_group_end(w, NULL));
        return expect(w, "group", in, 5);
    case 1:
        MUSTER_TRY(send(w, 0, 5));
        return send(w, 2, 6);
    default:
        MUSTER_TRY(receive(w, 1, 6));
        return receive(w, 0, 7);
    }
}

/* Both messages come to rank 0, and each may be the first. */
static muster_status receive_two(muster_worker *w, int32_t first) {
    const int32_t second = 3 - first;
    float in[3] = {-1, -1, -1};
    if (spans_rank(w) == 0) {
        MUSTER_TRY(muster_worker_group_begin(w, NULL));
        MUSTER_TRY(muster_worker_recv(w, NULL, first, 1, vector(&in[first], 1)));
        MUSTER_TRY(muster_worker_recv(w, NULL, second, 1, vector(&in[second], 1)));
        MUSTER_TRY(muster_worker_group_end(w, NULL));
        MUSTER_TRY(expect(w, "from 1", in[1], 1));
        return expect(w, "from 2", in[2], 2);
    }
    if (spans_rank(w) == first) {
        MUSTER_TRY(send(w, 0, (float)first));
        return send(w, second, 9);
    }
    MUSTER_TRY(receive(w, first, 9));
    return send(w, 0, (float)second);
}
static muster_status receive_near_first(muster_worker *w, void *argument) { return (void)argument, receive_two(w, 1); }
static muster_status receive_far_first(muster_worker *w, void *argument) { return (void)argument, receive_two(w, 2); }

/* Rank 2 enters the collective of rank 1's group only when it has the message of that group. */
static muster_status send_and_sum(muster_worker *w, void *argument) {
    float x = 1, out = 8;
    (void)argument;
    if (spans_rank(w) == 1) {
        MUSTER_TRY(muster_worker_group_begin(w, NULL));
        MUSTER_TRY(muster_worker_send(w, NULL, 2, 1, vector(&out, 1)));
        MUSTER_TRY(muster_worker_all_reduce(w, NULL, MUSTER_SUM, vector(&x, 1), vector(&x, 1)));
        MUSTER_TRY(muster_worker_group_end(w, NULL));
        return expect(w, "sum of the group", x, 3);
    }
    if (spans_rank(w) == 2) MUSTER_TRY(receive(w, 1, 8));
    return sum(w, NULL, 3);
}

/* The same, and rank 0 waits for rank 2 in another communicator meanwhile. */
static muster_status send_beside_a_part(muster_worker *w, void *argument) {
    muster_communicator *part;
    (void)argument;
    MUSTER_TRY(muster_worker_split(w, NULL, spans_rank(w) % 2, 0, &part));
    if (spans_rank(w) == 0) MUSTER_TRY(sum(w, part, 2));
    if (spans_rank(w) == 2) {
        MUSTER_TRY(receive(w, 1, 8));
        MUSTER_TRY(sum(w, part, 2));
    }
    MUSTER_TRY(muster_worker_release(w, part));
    if (spans_rank(w) == 2) return sum(w, NULL, 3);
    return spans_rank(w) == 1 ? send_and_sum(w, NULL) : sum(w, NULL, 3);
}

static void run(mst_task task, const int32_t *counts, int32_t processes) {
    spans_launch launch;
    spans_open(&launch, &(spans_options){.counts = counts, .processes = processes, .fail_after_ns = test_patience(10000000000)});
    for (int32_t turn = 0; turn < 3; turn++) assert_ok(spans_run(&launch, task, NULL));
    spans_close(&launch);
}

static void test_groups_that_wait(void **state) {
    static const mst_task tasks[] = {receive_and_send, receive_near_first, receive_far_first, send_and_sum, send_beside_a_part};
    static const int32_t layouts[][3] = {{2, 1, 0}, {1, 2, 0}, {1, 1, 1}};
    int32_t cases = 0;
    (void)state;
    for (size_t t = 0; t < sizeof tasks / sizeof *tasks; t++)
        for (size_t l = 0; l < sizeof layouts / sizeof *layouts; l++, cases++) run(tasks[t], layouts[l], layouts[l][2] ? 3 : 2);
    assert_int_equal(cases, 15);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_groups_that_wait)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
