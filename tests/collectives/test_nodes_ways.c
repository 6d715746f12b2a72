/* Which collectives go by the MPI's own: the file of MUSTER_NODES_TABLE, which of its rows fits,
 * and what collectives do then, on the wire between threads, which has such collectives. */
#include "base_check.h"
#include "base_pace.h"
#include "base_seed.h"
#include "collectives_node_cases.h"
#include "collectives_nodes.h"
#include "collectives_spans.h"
#include "core/transport_private.h"
#include "nodes/slabs_private.h"
#include "nodes/ways_private.h"
#include "wire_launch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char path[64];

static void write_file(const char *text) {
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
}

static int make_file(void **state) {
    (void)state;
    snprintf(path, sizeof path, "/tmp/muster-ways-%d", (int)getpid());
    return setenv("MUSTER_NODES_TABLE", path, 1);
}
static int remove_file(void **state) {
    (void)state;
    unlink(path);
    return unsetenv("MUSTER_NODES_TABLE");
}

static const char all_by_mpi[] = "MST_NODES_WAY(mpi, \"any\", any_hosts, all_reduce, 0, 0, 1, 1000)\n"
                                 "MST_NODES_WAY(mpi, \"any\", any_hosts, reduce_scatter, 0, 0, 1, 1000)\n"
                                 "MST_NODES_WAY(mpi, \"any\", any_hosts, broadcast, 0, 0, 1, 1000)\n"
                                 "MST_NODES_WAY(mpi, \"any\", any_hosts, all_gather, 0, 0, 1, 1000)\n";
enum { TRIED = 10 }; /* collectives by which each open finds out whether all get the same bits */

/* ---- the file ---- */

static void wrong_files_are_refused_with_line_and_column(void **state) {
    (void)state;
    static const struct {
        const char *text;
        int line, column;
        const char *expected, *received;
    } cases[] = {
        {"x", 1, 1, "a row MST_NODES_WAY(...)", "x"},
        {"/* one */\n\n  MST_NODES_WAY mpi", 3, 17, "(", "mpi"},
        {"MST_NODES_WAY(fast, \"any\"", 1, 15, "mpi or own", "fast, \"any\""},
        {"MST_NODES_WAY(mpi \"any\"", 1, 19, "a comma", "\"any\""},
        {"MST_NODES_WAY(mpi, any", 1, 20, "the name of an MPI in quotation marks, or \"any\"", "any"},
        {"MST_NODES_WAY(mpi, \"\", ", 1, 21, "the name of an MPI in quotation marks, or \"any\"", "\", "},
        {"MST_NODES_WAY(mpi, \"Open MPI", 1, 21, "the name of an MPI in quotation marks, or \"any\"", "Open MPI"},
        {"MST_NODES_WAY(mpi, \"any\", here, ", 1, 27, "one_host, several_hosts or any_hosts", "here, "},
        {"MST_NODES_WAY(mpi, \"any\", one_host, all_to_all, ", 1, 37, "all_reduce, reduce_scatter, broadcast or all_gather",
         "all_to_all, "},
        {"MST_NODES_WAY(mpi, \"any\", one_host, all_reduce, -1, ", 1, 49, "a number of bytes", "-1, "},
        {"MST_NODES_WAY(mpi, \"any\", one_host, all_reduce, 1, 9223372036854775808, ", 1, 52, "a number of bytes", "9223372036854775808, "},
        {"MST_NODES_WAY(mpi, \"any\", one_host, all_reduce, 1, 2, 0, ", 1, 55, "a number of processes, at least 1 and that before it",
         "0, "},
        {"\nMST_NODES_WAY(mpi, \"any\", one_host, all_reduce, 1, 2, 3, 2)", 2, 58, "a number of processes, at least 1 and that before it",
         "2)"},
        {"MST_NODES_WAY(mpi, \"any\", one_host, all_reduce, 1, 2, 3, 4", 1, 59, ")", ""},
        {"MST_NODES_WAY(mpi, \"any\", one_host, all_reduce, 1, 2, 3, 4) 5", 1, 61, "nothing behind the row", "5"},
    };
    mst_nodes_ways *ways = NULL;
    char expected[MST_MESSAGE_SIZE];
    int32_t met = 0;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++, met++) {
        write_file(cases[i].text);
        assert_int_equal(mst_ways_open(&ways), MUSTER_INVALID_ARGUMENT);
        snprintf(
            expected, sizeof expected,
            "muster_runtime_open: the environment's MUSTER_NODES_TABLE: expected a table of ways between processes, received '%s': line "
            "%d, column %d: expected %s, received \"%s\"",
            path, cases[i].line, cases[i].column, cases[i].expected, cases[i].received);
        assert_string_equal(muster_last_error(), expected);
        assert_null(ways);
    }
    assert_int_equal(met, 15);
}

static void a_file_that_cannot_be_read_or_is_too_long_is_refused(void **state) {
    (void)state;
    mst_nodes_ways *ways = NULL;
    setenv("MUSTER_NODES_TABLE", "/no/such/file", 1);
    assert_int_equal(mst_ways_open(&ways), MUSTER_INVALID_ARGUMENT);
    assert_non_null(strstr(muster_last_error(), "received '/no/such/file': No such file or directory"));
    setenv("MUSTER_NODES_TABLE", path, 1);
    for (int32_t rows = 128; rows <= 129; rows++) {
        FILE *file = fopen(path, "w");
        for (int32_t i = 0; i < rows; i++) fputs("MST_NODES_WAY(own, \"any\", one_host, all_reduce, 1, 2, 3, 4)\n", file);
        fclose(file);
        assert_int_equal(mst_ways_open(&ways), rows == 128 ? MUSTER_OK : MUSTER_INVALID_ARGUMENT);
        if (rows == 128) mst_free(ways);
    }
    assert_non_null(strstr(muster_last_error(), "line 129, column 1: expected no more than 128 rows"));
    FILE *file = fopen(path, "w");
    for (int32_t i = 0; i < 256 * 1024; i++) fputc('\n', file);
    fclose(file);
    assert_int_equal(mst_ways_open(&ways), MUSTER_INVALID_ARGUMENT);
    assert_non_null(strstr(muster_last_error(), "expected a text of less than 256 KiB"));
}

static void no_file_and_an_empty_name_are_the_same(void **state) {
    (void)state;
    char text[MST_WAYS_TEXT];
    const char *none[] = {NULL, ""};
    for (int i = 0; i < 2; i++) {
        mst_nodes nodes = {.ways = NULL};
        none[i] ? setenv("MUSTER_NODES_TABLE", none[i], 1) : unsetenv("MUSTER_NODES_TABLE");
        assert_ok(mst_ways_open(&nodes.ways));
        assert_string_equal(mst_nodes_ways_text(&nodes, text), "no file");
        assert_int_equal(nodes.ways->of_file, 0);
        mst_free(nodes.ways);
    }
    setenv("MUSTER_NODES_TABLE", path, 1);
}

/* ---- which row fits ---- */

/* A launch of an MPI with this name. */
static bool by_mpi(const char *name, int32_t hosts, int32_t processes, mst_move_kind kind, int64_t bytes) {
    const muster_wire_table table = {.name = name};
    mst_wire wire = {.table = &table};
    mst_nodes nodes = {.wire = &wire, .hosts = hosts, .processes = processes};
    assert_ok(mst_ways_open(&nodes.ways));
    assert_false(mst_ways_by_mpi(&nodes, kind, bytes)); /* no row fits before the hosts are known */
    mst_ways_fit(&nodes);
    const bool found = mst_ways_by_mpi(&nodes, kind, bytes);
    mst_free(nodes.ways);
    return found;
}

static void the_first_row_that_fits_is_taken(void **state) {
    (void)state;
    write_file("/* ours between 100 and 200 bytes,\n"
               " * the MPI's from 50 on */\n"
               "MST_NODES_WAY(own, \"Open MPI\", one_host, all_reduce, 100, 200, 2, 4) /* measured */\r\n"
               " MST_NODES_WAY( mpi , \"Open MPI\" ,any_hosts,all_reduce , 50 , 0 ,2 ,4 ) \n"
               "MST_NODES_WAY(mpi, \"MPICH 4.0\", several_hosts, broadcast, 1, 10, 1, 8)"); /* and no end of a line */
    static const struct {
        const char *name;
        int32_t hosts, processes;
        mst_move_kind kind;
        int64_t bytes;
        bool expected;
    } cases[] = {
        {"Open MPI 4.1.4", 1, 2, MST_MOVE_ALL_REDUCE, 49, false},
        {"Open MPI 4.1.4", 1, 2, MST_MOVE_ALL_REDUCE, 50, true},
        {"Open MPI 4.1.4", 1, 2, MST_MOVE_ALL_REDUCE, 99, true},
        {"Open MPI 4.1.4", 1, 2, MST_MOVE_ALL_REDUCE, 100, false},
        {"Open MPI 4.1.4", 1, 4, MST_MOVE_ALL_REDUCE, 200, false},
        {"Open MPI 4.1.4", 1, 4, MST_MOVE_ALL_REDUCE, 201, true},
        {"Open MPI 4.1.4", 2, 4, MST_MOVE_ALL_REDUCE, 150, true},
        {"Open MPI 4.1.4", 1, 4, MST_MOVE_ALL_REDUCE, INT64_MAX, true},
        {"Open MPI 4.1.4", 1, 1, MST_MOVE_ALL_REDUCE, 50, false},
        {"Open MPI 4.1.4", 1, 5, MST_MOVE_ALL_REDUCE, 50, false},
        {"Open MPI 4.1.4", 1, 2, MST_MOVE_REDUCE_SCATTER, 50, false},
        {"Open MPIx", 1, 2, MST_MOVE_ALL_REDUCE, 50, false},
        {"Open MPI", 1, 2, MST_MOVE_ALL_REDUCE, 50, true},
        {"MPICH 4.0.2", 2, 8, MST_MOVE_BROADCAST, 10, true},
        {"MPICH 4.0.2", 2, 8, MST_MOVE_BROADCAST, 11, false},
        {"MPICH 4.0.2", 2, 8, MST_MOVE_BROADCAST, 0, false},
        {"MPICH 4.0.2", 1, 8, MST_MOVE_BROADCAST, 10, false},
        {"MPICH 4.00", 2, 8, MST_MOVE_BROADCAST, 10, false},
        {"Intel MPI 2021", 2, 8, MST_MOVE_BROADCAST, 10, false},
    };
    int32_t met = 0;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++, met++)
        if (by_mpi(cases[i].name, cases[i].hosts, cases[i].processes, cases[i].kind, cases[i].bytes) != cases[i].expected)
            fail_msg("case %zu", i);
    assert_int_equal(met, 19);
}

static void different_files_have_different_hashes(void **state) {
    (void)state;
    char texts[2][MST_WAYS_TEXT];
    static const char *const files[] = {"/* a */", "/* b */"};
    for (int i = 0; i < 2; i++) {
        mst_nodes nodes = {.ways = NULL};
        write_file(files[i]);
        assert_ok(mst_ways_open(&nodes.ways));
        mst_nodes_ways_text(&nodes, texts[i]);
        mst_free(nodes.ways);
    }
    assert_non_null(strstr(texts[0], "a file with hash "));
    assert_string_not_equal(texts[0], texts[1]);
}

/* ---- collectives ---- */

static int64_t collectives_of(const spans_launch *launch) { return wire_launch_count(launch->wire).collectives; }

static void run_launch(const int32_t *counts, int32_t processes, int64_t expected) {
    spans_launch launch;
    write_file(all_by_mpi);
    spans_open(&launch, &(spans_options){.counts = counts, .processes = processes});
    node_case_list list = node_cases_all(launch.total, true);
    node_cases_progress p = {.list = &list};
    assert_ok(spans_run(&launch, node_cases_run, &p));
    assert_int_equal(p.entered, list.count * launch.total);
    assert_int_equal(list.count, test_kept(NODE_CASES_SMALL, node_cases_one_in()) + test_kept(NODE_CASES_LARGE, node_cases_large_one_in()));
    if (node_cases_one_in() > 1) /* a sample of the cases */
        assert_true(collectives_of(&launch) > expected / 5);
    else
        assert_int_equal(collectives_of(&launch), expected);
    free(list.cases);
    spans_close(&launch);
}

/* 1000 elements travel inside the arrival, but for those of 8 bytes: of i64 with 4 operations, of
 * u64 with sum and product, of f64 with sum and average, out of place and in place, is 16, also
 * of reduce_scatter; 2 broadcasts of each of 3 dtypes; f64 axpy, and momentum twice. Of the large
 * ones f32 goes in pieces of 480 KiB: 5 of all_reduce, axpy and each momentum; of reduce_scatter
 * and all_gather as many bytes from each process, and of a broadcast in pieces of that size. bf16
 * is not summed by the MPI. An all_gather of one element, which only one process has, does not
 * travel inside the arrival, of any of 12 dtypes, out of place and in place; nor one of 5 elements
 * of 8 bytes, where one process has 2 of them and the other 3. */
enum { SMALL_BY_MPI = 16 + 16 + 6 + 1 + 2, LARGE_SUMS = 5 + 5 + 2 * 5 };

static void every_collective_by_the_mpi(void **state) {
    (void)state;
    run_launch((const int32_t[]){1, 1}, 2, TRIED + SMALL_BY_MPI + LARGE_SUMS + 5 + (9 + 5) + (5 + 3) + 12 * 2 + 3 * 2);
}

static void every_collective_of_two_by_two_by_the_mpi(void **state) {
    (void)state;
    if (!test_is_full()) return; /* as test_nodes.c runs it by Muster's ways */
    run_launch((const int32_t[]){2, 2}, 2, TRIED + SMALL_BY_MPI + LARGE_SUMS + 5 + (9 + 5) + (5 + 3) + 12 * 2);
}

/* ---- what does not go by it ---- */

typedef struct one_sum {
    muster_dtype dtype;
    muster_reduction op;
    bool in_part;
} one_sum;

static muster_status sum_task(muster_worker *w, void *argument) {
    enum { COUNT = 5000 };
    const one_sum *sum = argument;
    const int64_t count = COUNT;
    muster_communicator *part = NULL;
    if (sum->in_part) MUSTER_TRY(muster_worker_split(w, NULL, 0, 0, &part));
    void *values = calloc(COUNT, 8);
    const muster_tensor x = muster_tensor_make(sum->dtype, values, 1, &count);
    muster_status status = muster_worker_all_reduce(w, part, sum->op, x, x);
    free(values);
    if (part && status == MUSTER_OK) status = muster_worker_release(w, part);
    return status;
}

/* The collectives of the MPI behind those of the open. */
static int64_t by_mpi_of(const spans_options *options, one_sum sum) {
    spans_launch launch;
    write_file(all_by_mpi);
    spans_open(&launch, options);
    assert_int_equal(collectives_of(&launch), TRIED);
    assert_ok(spans_run(&launch, sum_task, &sum));
    const int64_t count = collectives_of(&launch) - TRIED;
    spans_close(&launch);
    return count;
}

static void what_the_mpi_does_not_promise_goes_by_muster(void **state) {
    (void)state;
    static const int32_t counts[] = {1, 2};
    const spans_options plain = {.counts = counts, .processes = 2}, ordered = {.counts = counts, .processes = 2, .fixed_order = true},
                        named = {.counts = counts, .processes = 2, .algorithm = "hierarchical"};
    assert_int_equal(by_mpi_of(&plain, (one_sum){.dtype = MUSTER_F32, .op = MUSTER_SUM}), 1);
    assert_int_equal(by_mpi_of(&plain, (one_sum){.dtype = MUSTER_I32, .op = MUSTER_MAX}), 1);
    assert_int_equal(by_mpi_of(&plain, (one_sum){.dtype = MUSTER_F32, .op = MUSTER_MAX}), 0); /* NaN */
    assert_int_equal(by_mpi_of(&plain, (one_sum){.dtype = MUSTER_U32, .op = MUSTER_MAX}), 0); /* MPICH 4.0.2 has them wrong */
    assert_int_equal(by_mpi_of(&plain, (one_sum){.dtype = MUSTER_F16, .op = MUSTER_SUM}), 0);
    assert_int_equal(by_mpi_of(&plain, (one_sum){.dtype = MUSTER_BOOL, .op = MUSTER_MAX}), 0);
    assert_int_equal(by_mpi_of(&plain, (one_sum){.dtype = MUSTER_F32, .op = MUSTER_SUM, .in_part = true}), 0);
    assert_int_equal(by_mpi_of(&ordered, (one_sum){.dtype = MUSTER_F32, .op = MUSTER_SUM}), 0);
    assert_int_equal(by_mpi_of(&named, (one_sum){.dtype = MUSTER_F32, .op = MUSTER_SUM}), 0);
}

/* The MPI would add halves up in another dtype than Muster promises, and knows no weights of
 * averages. What has no wire dtype goes by it as before. */
static void what_has_a_wire_dtype_goes_by_muster(void **state) {
    (void)state;
    static const int32_t counts[] = {1, 2};
    static const muster_dtype wires[] = {MUSTER_F16, MUSTER_BF16};
    int32_t cases = 0;
    for (int32_t i = 0; i < 2; i++) {
        const spans_options halves = {.counts = counts, .processes = 2, .wire_dtype = wires[i]};
        for (muster_dtype dtype = MUSTER_F16; dtype <= MUSTER_F32; dtype++)
            for (int32_t average = 0; average < 2; average++, cases++)
                assert_int_equal(by_mpi_of(&halves, (one_sum){.dtype = dtype, .op = average ? MUSTER_AVG : MUSTER_SUM}), 0);
        assert_int_equal(by_mpi_of(&halves, (one_sum){.dtype = MUSTER_F64, .op = MUSTER_SUM}), 1);
        assert_int_equal(by_mpi_of(&halves, (one_sum){.dtype = MUSTER_I32, .op = MUSTER_MAX}), 1);
        cases += 2;
    }
    assert_int_equal(cases, 2 * (3 * 2 + 2));
}

/* How many messages a sum of f32 by the MPI takes besides it. */
static int64_t sent_beside(int32_t processes_per_host) {
    static const int32_t counts[] = {1, 1};
    spans_launch launch;
    write_file(all_by_mpi);
    spans_open(&launch, &(spans_options){.counts = counts, .processes = 2, .processes_per_host = processes_per_host});
    const int64_t before = wire_launch_count(launch.wire).sent;
    assert_ok(spans_run(&launch, sum_task, &(one_sum){.dtype = MUSTER_F32, .op = MUSTER_SUM}));
    const int64_t sent = wire_launch_count(launch.wire).sent - before;
    assert_int_equal(collectives_of(&launch), TRIED + 1);
    spans_close(&launch);
    return sent;
}

/* Behind a collective of the MPI on a network each process sends the others one message that is
 * matched: log2 of their number many. On a busy machine a process may wait so long that it asks the
 * other, which takes two more: then once more. */
static void on_several_hosts_an_arrival_follows(void **state) {
    (void)state;
    int64_t more = 0;
    for (int32_t turn = 0; turn < 20 && more != 2; turn++) more = sent_beside(1) - sent_beside(2);
    assert_int_equal(more, 2);
}

/* ---- an MPI that is not as it should be ---- */

/* An MPI whose sums of floats differ between its processes. */
static void different_bits_are_passed_over(void **state) {
    (void)state;
    static const int32_t counts[] = {1, 1, 1};
    spans_launch launch;
    char text[2048];
    write_file(all_by_mpi);
    spans_open(&launch, &(spans_options){.counts = counts, .processes = 3, .different_bits = true});
    for (int32_t p = 0; p < 3; p++) {
        const size_t length = mst_nodes_ways_describe(launch.process[p].nodes, text, sizeof text);
        assert_int_equal(length, strlen(text));
        assert_non_null(strstr(text, "; but all_reduces of floats by Muster, since it gives processes different bits\n"));
        assert_string_equal(launch.process[p].log,
                            "MPI's own sums of floats have different bits in different processes: Muster's take their "
                            "place\n");
    }
    assert_ok(spans_run(&launch, sum_task, &(one_sum){.dtype = MUSTER_F32, .op = MUSTER_SUM}));
    assert_int_equal(collectives_of(&launch), TRIED);
    assert_ok(spans_run(&launch, sum_task, &(one_sum){.dtype = MUSTER_I32, .op = MUSTER_SUM}));
    assert_int_equal(collectives_of(&launch), TRIED + 1);
    spans_close(&launch);
}

/* No collective of the MPI can be left: its memory stays, and the communicator does without from
 * then on, because an MPI orders them by their calls. */
static void a_deadline_in_one_ends_their_use(void **state) {
    (void)state;
    static const int32_t counts[] = {1, 1};
    spans_launch launch;
    write_file(all_by_mpi);
    spans_open(&launch, &(spans_options){
                            .counts = counts, .processes = 2, .fail_after_ns = test_patience(1000000000), .stalled_collective = TRIED + 2});
    const int64_t leaked = mst_slabs_leaked();
    one_sum sum = {.dtype = MUSTER_F32, .op = MUSTER_SUM};
    assert_ok(spans_run(&launch, sum_task, &sum));
    assert_int_equal(collectives_of(&launch), TRIED + 1);
    assert_int_equal(spans_run(&launch, sum_task, &sum), MUSTER_TIMEOUT);
    assert_non_null(strstr(launch.process[0].message, "in all_reduce for process"));
    assert_string_equal(launch.process[0].message, launch.process[1].message);
    for (int32_t turn = 0; turn < 3; turn++) assert_ok(spans_run(&launch, sum_task, &sum));
    assert_int_equal(collectives_of(&launch), TRIED + 1);
    assert_true(mst_slabs_leaked() > leaked);
    spans_close(&launch);
}

static void note_nothing(nodes_test *test, mst_nodes *nodes, int32_t process) { (void)test, (void)nodes, (void)process; }

static void a_file_that_asks_for_what_the_mpi_lacks_is_refused(void **state) {
    (void)state;
    static nodes_test test;
    test = (nodes_test){.launch_options = {.processes = 3, .no_collectives = true}, .on_lost = 1, .body = note_nothing};
    write_file(all_by_mpi);
    nodes_run(&test);
    for (int32_t p = 0; p < 3; p++) {
        assert_int_equal(test.notes[p], 1);
        assert_int_equal(test.status[p][0], MUSTER_UNSUPPORTED);
        assert_non_null(strstr(test.message[p][0],
                               "MUSTER_NODES_TABLE: expected a collective that the MPI has, received all_reduce: \"simulated "
                               "wire\" has none"));
    }
}

/* All processes refuse when one of them cannot read its file. */
static void a_wrong_file_is_refused_in_all_processes(void **state) {
    (void)state;
    static nodes_test test;
    test = (nodes_test){.launch_options = {.processes = 2}, .on_lost = 1, .body = note_nothing};
    write_file("x");
    nodes_run(&test);
    for (int32_t p = 0; p < 2; p++) {
        assert_int_equal(test.notes[p], 1);
        assert_int_equal(test.status[p][0], MUSTER_INVALID_ARGUMENT);
        assert_non_null(strstr(test.message[p][0], "line 1, column 1: expected a row MST_NODES_WAY(...), received \"x\""));
    }
}

/* ---- the description ---- */

static const char *described(const char *file, char text[2048]) {
    const muster_wire_table table = {.name = "Open MPI 4.1.4"};
    mst_wire wire = {.table = &table};
    mst_nodes nodes = {.wire = &wire, .hosts = 1, .processes = 2};
    write_file(file);
    assert_ok(mst_ways_open(&nodes.ways));
    nodes.ways->count = nodes.ways->of_file; /* without the library's */
    mst_ways_fit(&nodes);
    const size_t length = mst_nodes_ways_describe(&nodes, text, 2048);
    assert_int_equal(length, strlen(text));
    mst_free(nodes.ways);
    return text;
}

static void the_description_has_the_rows_that_apply(void **state) {
    (void)state;
    char text[2048], expected[400], rows[20 * 80 + 1] = "";
    snprintf(
        expected, sizeof expected,
        "collectives of the MPI itself: all_reduce of 1 to 2 bytes by Muster, broadcast of at least 3 bytes by it (2 of the file %s)\n",
        path);
    assert_string_equal(described("MST_NODES_WAY(own, \"any\", one_host, all_reduce, 1, 2, 1, 2)\n"
                                  "MST_NODES_WAY(mpi, \"MPICH\", one_host, all_gather, 1, 2, 1, 2)\n"
                                  "MST_NODES_WAY(mpi, \"Open MPI\", one_host, broadcast, 3, 0, 1, 2)\n",
                                  text),
                        expected);
    for (int i = 0; i < 20; i++) strcat(rows, "MST_NODES_WAY(own, \"any\", one_host, all_reduce, 1, 2, 1, 2)\n");
    assert_non_null(strstr(described(rows, text), " more rows (20 of the file "));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wrong_files_are_refused_with_line_and_column),
        cmocka_unit_test(a_file_that_cannot_be_read_or_is_too_long_is_refused),
        cmocka_unit_test(no_file_and_an_empty_name_are_the_same),
        cmocka_unit_test(the_first_row_that_fits_is_taken),
        cmocka_unit_test(different_files_have_different_hashes),
        cmocka_unit_test(every_collective_by_the_mpi),
        cmocka_unit_test(every_collective_of_two_by_two_by_the_mpi),
        cmocka_unit_test(what_the_mpi_does_not_promise_goes_by_muster),
        cmocka_unit_test(what_has_a_wire_dtype_goes_by_muster),
        cmocka_unit_test(on_several_hosts_an_arrival_follows),
        cmocka_unit_test(different_bits_are_passed_over),
        cmocka_unit_test(a_deadline_in_one_ends_their_use),
        cmocka_unit_test(a_file_that_asks_for_what_the_mpi_lacks_is_refused),
        cmocka_unit_test(a_wrong_file_is_refused_in_all_processes),
        cmocka_unit_test(the_description_has_the_rows_that_apply),
    };
    return cmocka_run_group_tests(tests, make_file, remove_file);
}
