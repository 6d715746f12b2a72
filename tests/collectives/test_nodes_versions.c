/* A process of a launch that runs another version of Muster, with other headers of its messages:
 * every process refuses to open, whether it has met such a message itself or not. So does every
 * process refuse a call in which one of them receives a message with a header of another kind. */
#include "base_pace.h"
#include "collectives_nodes.h"

#include <stddef.h>
#include <string.h>

static const int64_t close_grace_ns = 200000000;

enum {
    SENDS = 256,
    MESSAGE = 2048,
    MAGIC_AT = offsetof(mst_arrival_header, magic),
    CONTROL_MAGIC_AT = offsetof(mst_control_message, magic)
};

/* What a process sends: it stays until the launch has ended, as the wire may read it as long. */
typedef struct sender {
    mst_wire *wire;
    muster_wire_table table;
    int32_t count;
    char messages[SENDS][MESSAGE];
} sender;
static sender senders[NODES_MOST];
static int32_t odd;             /* the process with the other version */
static _Atomic int32_t only_to; /* the process that alone receives what is changed; -1: all others do; -2: none does */
static _Atomic int32_t changed;

static void change(char *message, int64_t bytes, size_t at, uint32_t magic) {
    uint32_t word;
    if (bytes < (int64_t)(at + sizeof word)) return;
    memcpy(&word, message + at, sizeof word);
    if (word != magic) return;
    word++;
    memcpy(message + at, &word, sizeof word);
    atomic_fetch_add(&changed, 1);
}

/* Between the two versions neither knows the headers of the other. */
static const void *translated(sender *own, const void *from, int64_t bytes, int32_t to) {
    const int32_t only = atomic_load(&only_to);
    if ((own->wire->process == odd) == (to == odd) || only == -2) return from;
    if (only >= 0 && (own->wire->process != odd || to != only)) return from;
    assert_true(own->count < SENDS && bytes <= MESSAGE);
    char *message = memcpy(own->messages[own->count++], from, (size_t)bytes);
    change(message, bytes, MAGIC_AT, MST_ARRIVAL_MAGIC);
    if (only < 0) change(message, bytes, CONTROL_MAGIC_AT, MST_CONTROL_MAGIC);
    return message;
}

static _Thread_local sender *own_sender; /* a process is one thread here */

static int32_t send_translated(muster_wire *wire, const void *from, int64_t bytes, int32_t to, int32_t tag, muster_wire_request *request) {
    sender *own = own_sender;
    return own->table.send(wire, translated(own, from, bytes, to), bytes, to, tag, request);
}

static int32_t send_matched_translated(muster_wire *wire, const void *from, int64_t bytes, int32_t to, int32_t tag,
                                       muster_wire_request *request) {
    sender *own = own_sender;
    return own->table.send_matched(wire, translated(own, from, bytes, to), bytes, to, tag, request);
}

static bool open_translated(mst_wire **wire) {
    static muster_wire_table tables[NODES_MOST];
    if (!wire_launch_open(wire)) return false;
    sender *own = own_sender = &senders[(*wire)->process];
    muster_wire_table *table = &tables[(*wire)->process];
    own->wire = *wire;
    own->table = *table = *(*wire)->table;
    own->count = 0;
    table->send = send_translated;
    table->send_matched = send_matched_translated;
    (*wire)->table = table;
    return true;
}

static void never(nodes_test *test, mst_nodes *nodes, int32_t process) { nodes_note(test, process, MUSTER_OK), (void)nodes; }

static void refused_by_all(int32_t processes) {
    nodes_test test = {.launch_options = {.processes = processes},
                       .close_grace_ns = test_patience(close_grace_ns),
                       .on_lost = MST_LOST_ERROR,
                       .body = never,
                       .open = open_translated};
    atomic_store(&changed, 0);
    atomic_store(&only_to, -1);
    nodes_run(&test);
    assert_true(atomic_load(&changed) > 0);
    for (int32_t p = 0; p < processes; p++) {
        const char *message = test.message[p][0];
        if (test.notes[p] != 1 || test.status[p][0] != MUSTER_SYSTEM ||
            strncmp(message, "muster_runtime_open: an arrival: process ", 41) != 0 ||
            !strstr(message, " that are no header of this version of Muster: do all processes run the same one?"))
            fail_msg("process %d of %d, another version in %d: %s: %s", (int)p, (int)processes, (int)odd,
                     muster_status_name(test.status[p][0]), message);
    }
}

static void test_all_refuse(void **state) {
    (void)state;
    int32_t launches = 0;
    for (int32_t processes = 2; processes <= NODES_MOST; processes++)
        for (odd = 0; odd < processes; odd++, launches++) refused_by_all(processes);
    assert_int_equal(launches, 2 + 3 + 4 + 5);
}

/* From the second call on, process 1 sends process 0 arrivals that are none. */
static void call_twice(nodes_test *test, mst_nodes *nodes, int32_t process) {
    nodes_call(test, nodes, "the first", MUSTER_OK);
    await_barrier_wait(&test->barrier);
    if (process == 0) atomic_store(&only_to, 0);
    await_barrier_wait(&test->barrier);
    nodes_call(test, nodes, "the second", MUSTER_OK);
}

/* The process that has received such a message returns; the others, which have not seen it, return
 * too, and not at their deadlines, of which they have none. */
static void test_all_learn_of_it(void **state) {
    (void)state;
    int32_t launches = 0;
    for (int32_t processes = 2; processes <= NODES_MOST; processes++, launches++) {
        nodes_test test = {.launch_options = {.processes = processes},
                           .close_grace_ns = test_patience(close_grace_ns),
                           .on_lost = MST_LOST_ERROR,
                           .body = call_twice,
                           .open = open_translated};
        odd = 1;
        atomic_store(&changed, 0);
        atomic_store(&only_to, -2);
        nodes_run(&test);
        assert_true(atomic_load(&changed) > 0);
        nodes_expect(&test, 0, processes - 1, 0, MUSTER_OK, "");
        for (int32_t p = 0; p < processes; p++) {
            const int32_t last = test.notes[p] - 1; /* one that has begun the call learns of it at its end */
            if (last < 2 || (p == 0 && last > 2) || test.status[p][last] != MUSTER_SYSTEM ||
                !strstr(test.message[p][last], "that are no header of this version"))
                fail_msg("process %d of %d: %d notes, %s: %s", (int)p, (int)processes, (int)test.notes[p],
                         muster_status_name(test.status[p][last]), test.message[p][last]);
        }
    }
    assert_int_equal(launches, 4);
}

/* The same from the end of the second call on. */
static void end_otherwise(nodes_test *test, mst_nodes *nodes, int32_t process) {
    mst_round round = nodes_round("the second");
    nodes_call(test, nodes, "the first", MUSTER_OK);
    nodes_note(test, process, mst_nodes_begin(nodes, &round));
    await_barrier_wait(&test->barrier);
    if (process == 0) atomic_store(&only_to, 0);
    await_barrier_wait(&test->barrier);
    nodes_note(test, process, mst_nodes_end(nodes, &round));
}

/* A process whose end was complete has ended; the others do not wait for the one that cannot. */
static void test_all_learn_of_it_at_the_end(void **state) {
    (void)state;
    int32_t launches = 0, told = 0;
    for (int32_t processes = 3; processes <= NODES_MOST; processes += 2, launches++) {
        nodes_test test = {.launch_options = {.processes = processes},
                           .close_grace_ns = test_patience(close_grace_ns),
                           .on_lost = MST_LOST_ERROR,
                           .body = end_otherwise,
                           .open = open_translated};
        odd = 1;
        atomic_store(&changed, 0);
        atomic_store(&only_to, -2);
        nodes_run(&test);
        assert_true(atomic_load(&changed) > 0);
        nodes_expect(&test, 0, processes - 1, 2, MUSTER_OK, "");
        for (int32_t p = 0; p < processes; p++) {
            assert_int_equal(test.notes[p], 4);
            if (p > 0 && test.status[p][3] == MUSTER_OK) continue;
            if (test.status[p][3] != MUSTER_SYSTEM || !strstr(test.message[p][3], "that are no header of this version"))
                fail_msg("process %d of %d: %s: %s", (int)p, (int)processes, muster_status_name(test.status[p][3]), test.message[p][3]);
            told += p > 0;
        }
    }
    assert_int_equal(launches, 2);
    assert_true(told > 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_all_refuse), cmocka_unit_test(test_all_learn_of_it),
                                       cmocka_unit_test(test_all_learn_of_it_at_the_end)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
