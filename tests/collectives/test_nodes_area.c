/* The areas in which processes exchange: however many ranks there are, each has a cache line, so
 * that a round of every schedule moves something and stays inside of its area. */
#include "base_check.h"
#include "nodes/nodes_transport_private.h"

static void test_each_rank_has_a_line(void **state) {
    enum { BYTES = 480 * 1024 };
    static const struct {
        int32_t processes, hosts, size;
        int64_t expected;
    } rows[] = {
        {1, 1, 1, BYTES},         {2, 2, 2, BYTES},       {3, 3, 3, 3 * BYTES},    {8, 1, 8, BYTES},
        {8, 2, 8, 8 * BYTES},     {7680, 1, 7680, BYTES}, {7681, 1, 7681, 491584}, {65536, 1, 65536, 4194304},
        {9, 9, 61440, 8 * BYTES}, {9, 9, 61441, 3932224}, {2, 1, 7681, 491584},    {2, 2, 65536, 4194304},
    };
    int32_t compared = 0;
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++, compared++) {
        mst_nodes nodes = {.processes = rows[i].processes, .hosts = rows[i].hosts};
        const mst_rank_span span = {.nodes = &nodes, .processes = rows[i].processes, .size = rows[i].size};
        const int64_t area = mst_nodes_area_bytes(&span);
        if (area != rows[i].expected || area / rows[i].size < MST_CACHE_LINE)
            fail_msg("%d ranks in %d processes: %lld bytes", (int)rows[i].size, (int)rows[i].processes, (long long)area);
    }
    assert_int_equal(compared, 12);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_each_rank_has_a_line)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
