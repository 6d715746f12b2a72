/* What is asked for by name is what serves: an all_reduce by each of them, and who served it.
 * MUSTER_COLLECTIVE_ALGORITHM adds a name, as tests/adding does. */
#include "collectives_values.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RANKS = 3, COUNT = 1000 };

static muster_status forced_task(muster_worker *w, void *argument) {
    const char *name = argument;
    const muster_communicator *all = mst_worker_communicator(w);
    const mst_member *member = &all->members[mst_communicator_rank(all, w)];
    muster_tensor x = values_make(w, COUNT, muster_worker_rank(w), 1);
    MUSTER_TRY(muster_worker_all_reduce(w, NULL, MUSTER_SUM, x, x));
    MUSTER_TRY(values_expect(w, x, RANKS * (RANKS - 1) / 2, RANKS));
    const bool algorithm = member->served_algorithm && strcmp(member->served_algorithm, name) == 0;
    const bool transport = member->served_transport && strcmp(member->served_transport, name) == 0;
    if (algorithm || transport) return MUSTER_OK;
    return mst_error(MUSTER_USER, "expected \"%s\" to serve, received %s by %s", name,
                     member->served_algorithm ? member->served_algorithm : "no algorithm",
                     member->served_transport ? member->served_transport : "no transport");
}

static void run(const char *name) {
    collectives_pool c;
    collectives_open_with(&c, RANKS, 0, name, 60LL * 1000000000);
    assert_ok(collectives_run(&c, forced_task, (void *)(uintptr_t)name));
    printf("served by %s\n", name);
    collectives_close(&c);
}

static void what_is_asked_for_by_name_serves(void **state) {
    (void)state;
    static const char *const host[] = {"reference", "inline", "direct"}, *const nodes[] = {"naive", "flat", "two_dimensional"};
    const char *added = getenv("MUSTER_COLLECTIVE_ALGORITHM");
    const bool several = processes_count() > 1 && processes_count() <= RANKS;
    for (size_t i = 0; i < sizeof host / sizeof *host; i++) run(several ? nodes[i] : host[i]);
    if (added && *added) run(added);
}

/* ---- the edge of a slot ---- */

/* An uneven exchange of bytes in which each rank sends `bytes` bytes: 1 to the first rank, 2 to the
 * second, the others to the last. */
static muster_status exchange_task(muster_worker *w, void *argument) {
    const int64_t bytes = *(int64_t *)argument, sent[RANKS] = {1, 2, bytes - 3};
    const int64_t part = sent[muster_worker_rank(w)], received[RANKS] = {part, part, part}, count = RANKS * part;
    const int64_t before = muster_worker_rank(w) == 0   ? 0
                           : muster_worker_rank(w) == 1 ? 1
                                                        : 3; /* elements that a sender sends to ranks before this one */
    muster_tensor x, y;
    MUSTER_TRY(muster_worker_scratch(w, MUSTER_U8, 1, &bytes, &x));
    MUSTER_TRY(muster_worker_scratch(w, MUSTER_U8, 1, &count, &y));
    uint8_t *from = muster_tensor_address(x), *to = muster_tensor_address(y);
    for (int64_t i = 0; i < bytes; i++) from[i] = (uint8_t)(i * 7 + muster_worker_rank(w) * 50);
    for (int64_t i = 0; i < count; i++) to[i] = 0xA5;
    MUSTER_TRY(muster_worker_all_to_all_uneven(w, NULL, x, sent, y, received));
    for (int64_t i = 0; i < count; i++) {
        const uint8_t wanted = (uint8_t)((before + i % part) * 7 + i / part * 50);
        if (to[i] != wanted)
            return mst_error(MUSTER_USER, "%lld bytes: rank %d, byte %lld: expected %d, received %d", (long long)bytes,
                             muster_worker_rank(w), (long long)i, wanted, to[i]);
    }
    return MUSTER_OK;
}

/* The slot holds the input and behind it both arrays of counts. With one byte more the algorithm
 * `inline` does not serve, even if it is requested by name. */
static void the_counts_of_an_uneven_exchange_need_room_in_the_slot(void **state) {
    (void)state;
    enum { SLOT = 16384, COUNTS = RANKS * 8, LARGEST = SLOT - 2 * COUNTS };
    static const struct {
        int64_t bytes;
        const char *server;
    } cases[] = {{LARGEST - 1, "inline"},          {LARGEST, "inline"}, {LARGEST + 1, "direct"}, {LARGEST + COUNTS, "direct"},
                 {LARGEST + COUNTS + 1, "direct"}, {SLOT, "direct"},    {SLOT + 1, "direct"}};
    collectives_pool c;
    collectives_open_with(&c, RANKS, 0, "inline", 60LL * 1000000000);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int64_t bytes = cases[i].bytes;
        assert_ok(collectives_run(&c, exchange_task, &bytes));
        for (int32_t r = 0; r < RANKS; r++) assert_string_equal(c.communicator->members[r].served_algorithm, cases[i].server);
    }
    collectives_close(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(what_is_asked_for_by_name_serves),
                                       cmocka_unit_test(the_counts_of_an_uneven_exchange_need_room_in_the_slot)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
