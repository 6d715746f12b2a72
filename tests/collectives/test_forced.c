/* What is asked for by name is what serves: an all_reduce by each of them, and who served it.
 * MUSTER_COLLECTIVE_ALGORITHM adds a name, as tests/adding does. */
#include "collectives_values.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RANKS = 3, COUNT = 1000 };

static muster_status forced_task(muster_worker *w, void *argument) {
    const char *name = argument;
    const mst_member *member = &mst_worker_communicator(w)->members[w->rank];
    muster_tensor x = values_make(w, COUNT, w->rank, 1);
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
    static const char *const names[] = {"reference", "inline", "direct"};
    const char *added = getenv("MUSTER_COLLECTIVE_ALGORITHM");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) run(names[i]);
    if (added && *added) run(added);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(what_is_asked_for_by_name_serves)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
