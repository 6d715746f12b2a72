/* The clocks of processes, compared by rounds: whatever a round takes, and however late a process
 * is, what each one read before it came earlier than what any other reads after it. */
#include "clocks_private.h"

/* The first rounds may wait for a process that comes late. Some of the later ones are quick. */
enum { CLOCKS_ROUNDS = 9 };

/* before: this round; after: the round before. */
typedef struct clock_times {
    int64_t before, after;
} clock_times;

static int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }
static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

muster_status mst_clocks_compare(mst_nodes *nodes, int64_t (*now)(void *user), void *user, mst_clock_bounds *bounds) {
    clock_times here = {0, 0};
    int64_t before_the_last = 0;
    *bounds = (mst_clock_bounds){INT64_MIN, INT64_MAX};
    for (int32_t i = 0; i < CLOCKS_ROUNDS; i++) {
        here.before = now(user);
        mst_round round = {.where = "muster_runtime_open",
                           .text = "muster_runtime_open",
                           .signature = 3,
                           .rank = -1,
                           .payload = &here,
                           .payload_bytes = sizeof here};
        MUSTER_TRY(mst_nodes_begin(nodes, &round));
        here.after = now(user);
        const clock_times *first = round.all; /* of process 0 */
        bounds->most = smaller(bounds->most, here.after - first->before);
        if (i > 0) bounds->least = larger(bounds->least, before_the_last - first->after);
        before_the_last = here.before;
    }
    if (nodes->process == 0) *bounds = (mst_clock_bounds){0, 0};
    return MUSTER_OK;
}

int64_t mst_clock_ahead(const mst_clock_bounds *bounds) {
    if (bounds->least <= 0 && bounds->most >= 0) return 0;
    return bounds->least + (bounds->most - bounds->least) / 2;
}
