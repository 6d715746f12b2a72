/* Runtimes of several processes: ranks, names, and what all of them must agree on when they
 * open. */
#include "device_discrete.h"
#include "nodes/nodes_impl.h"
#include "pool_impl.h"
#include "runtime_impl.h"
#include "runtime_launch.h"
#include "topology_impl.h"

#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

/* The devices of each process. */
typedef struct layout {
    int32_t processes, devices[LAUNCH_PROCESSES];
} layout;
static const layout layouts[] = {{2, {1, 1}}, {2, {2, 1}}, {2, {1, 3}}, {3, {1, 2, 1}}, {4, {1, 1, 1, 1}}};
enum { LAYOUTS = sizeof layouts / sizeof *layouts };

static muster_status open_layout(const launch_process *p, const layout *l, muster_runtime **runtime) {
    char devices[16];
    snprintf(devices, sizeof devices, "host:%d", (int)l->devices[p->process]);
    const muster_runtime_options options = launch_options(devices);
    return muster_runtime_open(&options, runtime);
}

static int32_t first_of(const layout *l, int32_t process) {
    int32_t first = 0;
    for (int32_t i = 0; i < process; i++) first += l->devices[i];
    return first;
}

static void launch_layout(const layout *l, launch_body body) {
    launch_run(&(wire_launch_options){.processes = l->processes, .processes_per_host = 2}, body, (void *)(uintptr_t)l);
}

/* ---- ranks ---- */

static void count_through(launch_process *p) {
    const layout *l = p->context;
    muster_runtime *runtime;
    launch_ok(p, open_layout(p, l, &runtime));
    launch_check(p, muster_runtime_processes(runtime) == l->processes);
    launch_check(p, muster_runtime_process(runtime) == p->process);
    launch_check(p, muster_runtime_size(runtime) == first_of(l, l->processes));
    for (int32_t i = 0; i <= l->processes; i++) launch_check(p, muster_runtime_first_rank(runtime, i) == first_of(l, i));
    launch_check(p, muster_runtime_first_rank(runtime, -1) == -1);
    launch_check(p, muster_runtime_first_rank(runtime, l->processes + 1) == -1);
    launch_check(p, muster_runtime_hosts(runtime) == (l->processes + 1) / 2);
    for (int32_t i = 0; i < l->processes; i++) launch_check(p, strcmp(muster_runtime_host(runtime, i), i < 2 ? "host0" : "host1") == 0);
    launch_check(p, muster_runtime_host(runtime, -1) == NULL && muster_runtime_host(runtime, l->processes) == NULL);
    for (int32_t rank = 0; rank < muster_runtime_size(runtime); rank++)
        launch_check(p, strncmp(muster_runtime_device(runtime, rank), "host", 4) == 0);
    launch_check(p, muster_runtime_device(runtime, muster_runtime_size(runtime)) == NULL);
    launch_ok(p, muster_runtime_close(runtime));
}

static void ranks_count_through_the_processes(void **state) {
    (void)state;
    int cases = 0;
    for (; cases < LAYOUTS; cases++) launch_layout(&layouts[cases], count_through);
    assert_int_equal(cases, 5);
}

static muster_status note_ranks(muster_worker *worker, void *argument) {
    int32_t(*seen)[3] = argument;
    seen[worker->rank][0] = muster_worker_rank(worker);
    seen[worker->rank][1] = muster_worker_size(worker);
    seen[worker->rank][2] = muster_worker_process(worker);
    return MUSTER_OK;
}

static void workers_know_their_ranks(launch_process *p) {
    const layout *l = p->context;
    const int32_t first = first_of(l, p->process), total = first_of(l, l->processes);
    int32_t seen[4][3] = {0};
    muster_runtime *runtime;
    launch_ok(p, open_layout(p, l, &runtime));
    launch_ok(p, mst_pool_enter(runtime->pool, "test", 0));
    for (int repeat = 0; repeat < 2; repeat++) {
        launch_ok(p, mst_pool_run(runtime->pool, note_ranks, seen));
        for (int32_t r = 0; r < l->devices[p->process]; r++)
            launch_check(p, seen[r][0] == first + r && seen[r][1] == total && seen[r][2] == p->process);
        launch_ok(p, mst_pool_run_single(runtime->pool, note_ranks, seen)); /* rank 0 of 1 in each process */
        launch_check(p, seen[0][0] == 0 && seen[0][1] == 1 && seen[0][2] == p->process);
    }
    mst_pool_leave(runtime->pool);
    launch_ok(p, muster_runtime_close(runtime));
}

static void a_worker_has_a_rank_among_those_of_all_processes(void **state) {
    (void)state;
    for (int i = 0; i < LAYOUTS; i++) launch_layout(&layouts[i], workers_know_their_ranks);
}

static muster_status fail_on_the_last(muster_worker *worker, void *argument) {
    (void)argument;
    return worker->rank == worker->size - 1 ? muster_fail(MUSTER_USER, "no more") : MUSTER_OK;
}

static void fail_with_rank(launch_process *p) {
    const layout *l = p->context;
    char place[32];
    muster_runtime *runtime;
    launch_ok(p, open_layout(p, l, &runtime));
    launch_ok(p, mst_pool_enter(runtime->pool, "test", 0));
    snprintf(place, sizeof place, "no more (rank %d)", (int)first_of(l, p->process + 1) - 1);
    launch_refused(p, mst_pool_run(runtime->pool, fail_on_the_last, NULL), MUSTER_USER, place);
    launch_check(p, mst_pool_failed_rank(runtime->pool) == first_of(l, p->process + 1) - 1);
    launch_check(p, mst_pool_run_single(runtime->pool, fail_on_the_last, NULL) == MUSTER_USER);
    launch_check(p, strcmp(muster_last_error(), "no more") == 0);
    mst_pool_leave(runtime->pool);
    launch_ok(p, muster_runtime_close(runtime));
}

static void a_failure_names_the_rank_among_all(void **state) {
    (void)state;
    for (int i = 0; i < LAYOUTS; i++) launch_layout(&layouts[i], fail_with_rank);
}

/* ---- names ---- */

static void use_names(launch_process *p) {
    muster_runtime *runtime;
    muster_device_info info = {.struct_size = sizeof info};
    int32_t rank = -1;
    const int32_t own = p->process == 0 ? 1 : 2, other = p->process == 0 ? 2 : 0;
    char remote[80];
    snprintf(remote, sizeof remote, "which has ranks %s, received %d of process %d (", p->process == 0 ? "0 to 1" : "2 to 2", (int)other,
             1 - (int)p->process);
    launch_ok(p, open_layout(p, p->context, &runtime));
    launch_ok(p, muster_runtime_find_device(runtime, own == 1 ? "1" : "2", &rank));
    launch_check(p, rank == own);
    launch_refused(p, muster_runtime_find_device(runtime, other == 2 ? "2" : "0", &rank), MUSTER_INVALID_ARGUMENT, remote);
    launch_refused(p, muster_runtime_find_device(runtime, "3", &rank), MUSTER_INVALID_ARGUMENT, p->process == 0 ? "0 ('host" : "2 ('host");
    launch_ok(p, muster_runtime_name_device(runtime, "mine", own));
    launch_refused(p, muster_runtime_name_device(runtime, "theirs", other), MUSTER_INVALID_ARGUMENT, remote);
    launch_refused(p, muster_runtime_name_device(runtime, "theirs", 3), MUSTER_OUT_OF_RANGE, "rank: expected 0 to 2, received 3");
    launch_ok(p, muster_runtime_find_device(runtime, "mine", &rank));
    launch_check(p, rank == own);
    launch_ok(p, muster_runtime_find_device(runtime, NULL, &rank));
    launch_check(p, rank == muster_runtime_first_rank(runtime, p->process));
    launch_ok(p, muster_runtime_get_device_info(runtime, own, &info));
    launch_check(p, strcmp(info.name, muster_runtime_device(runtime, own)) == 0);
    launch_refused(p, muster_runtime_get_device_info(runtime, other, &info), MUSTER_INVALID_ARGUMENT, remote);
    launch_refused(p, muster_runtime_get_device_info(runtime, 3, &info), MUSTER_OUT_OF_RANGE, "rank: expected 0 to 2, received 3");
    launch_ok(p, muster_runtime_close(runtime));
}

static void a_device_of_another_process_is_refused_naming_it(void **state) {
    (void)state;
    launch_layout(&layouts[1], use_names);
}

static void use_tensors(launch_process *p) {
    muster_runtime *runtime;
    muster_tensor tensor;
    int32_t rank = -1;
    launch_ok(p, open_layout(p, p->context, &runtime));
    const int32_t first = muster_runtime_first_rank(runtime, p->process);
    launch_ok(p, muster_runtime_tensor_create(runtime, NULL, MUSTER_F32, 1, (int64_t[]){3}, &tensor));
    launch_check(p, tensor.device == 0); /* in its process */
    launch_ok(p, muster_runtime_infer_device(runtime, &tensor, 1, &rank));
    launch_check(p, rank == first);
    launch_refused(p, muster_runtime_tensor_create(runtime, first ? "0" : "2", MUSTER_F32, 1, (int64_t[]){3}, &tensor),
                   MUSTER_INVALID_ARGUMENT, "expected a device of this process");
    launch_ok(p, muster_runtime_close(runtime));
}

static void a_tensor_counts_its_device_in_its_process(void **state) {
    (void)state;
    launch_layout(&layouts[1], use_tensors);
}

/* ---- what must be equal ---- */

typedef struct difference {
    muster_runtime_options options[2];
    const char *texts[3]; /* which all messages hold */
} difference;

static void open_different(launch_process *p) {
    const difference *d = p->context;
    muster_runtime *runtime = NULL;
    for (int i = 0; i < 3; i++)
        launch_refused(p, muster_runtime_open(&d->options[p->process], &runtime), MUSTER_INVALID_ARGUMENT, d->texts[i]);
    launch_check(p, runtime == NULL);
}

static void what_differs_is_refused_everywhere_with_both_values(void **state) {
    (void)state;
    muster_runtime_options base = launch_options("host:1"), shards2 = base, shards4 = base, inlined = base, direct = base, lost = base,
                           f16 = base, bf16 = base, discrete4 = base;
    assert_int_equal(mst_discrete_register(), MUSTER_OK);
    discrete4.devices = "discrete:1";
    discrete4.logical_shards = 4;
    shards2.logical_shards = 2;
    shards4.logical_shards = 4;
    inlined.collective_algorithm = "inline";
    direct.collective_algorithm = "direct";
    lost.on_lost = MUSTER_LOST_ERROR;
    f16.wire_dtype = MUSTER_F16;
    bf16.wire_dtype = MUSTER_BF16;
    const difference differences[] = {
        {{shards2, shards4}, {"logical_shards", "'2' in process 0 (host host0)", "'4' in process 1 (host host0)"}},
        {{base, shards4}, {"logical_shards", "'0' in process 0 (host host0)", "'4' in process 1 (host host0)"}},
        {{shards4, discrete4}, {"backends", "'host' in process 0 (host host0)", "'discrete' in process 1 (host host0)"}},
        {{inlined, direct}, {"collective_algorithm", "'inline' in process 0", "'direct' in process 1"}},
        {{base, lost}, {"on_lost", "'0' in process 0", "'1' in process 1"}},
        {{base, f16}, {"wire_dtype", "'f32' in process 0 (host host0)", "'f16' in process 1 (host host0)"}},
        {{f16, bf16}, {"wire_dtype", "'f16' in process 0 (host host0)", "'bf16' in process 1 (host host0)"}},
    };
    int cases = 0;
    for (; cases < (int)(sizeof differences / sizeof *differences); cases++)
        launch_run(&(wire_launch_options){.processes = 2}, open_different, (void *)(uintptr_t)&differences[cases]);
    assert_int_equal(cases, 7);
}

static void open_with_a_failure(launch_process *p) {
    const difference *d = p->context;
    muster_runtime *runtime = NULL;
    for (int i = 0; i < 3 && d->texts[i]; i++)
        launch_refused(p, muster_runtime_open(&d->options[p->process], &runtime), MUSTER_INVALID_ARGUMENT, d->texts[i]);
    launch_check(p, runtime == NULL);
}

/* A wrong option is found before the processes meet, wrong devices before they join, a wrong number
 * of shards and an unknown algorithm behind it. */
static void a_failure_of_one_process_is_one_of_all(void **state) {
    (void)state;
    muster_runtime_options right = launch_options("host:1"), option = right, device = launch_options("abacus"), shards = right,
                           wire = right;
    option.tf32 = 7;
    shards.logical_shards = 3;
    wire.wire_dtype = MUSTER_I32;
    const difference failures[] = {
        {{right, option}, {"options: tf32: expected", "received 7", NULL}},
        {{option, right}, {"options: tf32: expected", NULL, NULL}},
        {{right, device}, {"abacus", "expected one of the backends", NULL}},
        {{device, right}, {"abacus", NULL, NULL}},
        {{right, wire}, {"options: wire_dtype: expected", "received 8 (i32)", NULL}},
        {{shards, shards}, {"logical_shards: expected a multiple", "received 3 logical shards for 2 devices", NULL}},
    };
    int cases = 0;
    for (; cases < (int)(sizeof failures / sizeof *failures); cases++)
        launch_run(&(wire_launch_options){.processes = 2}, open_with_a_failure, (void *)(uintptr_t)&failures[cases]);
    assert_int_equal(cases, 6);
}

static void open_with_shards(launch_process *p) {
    const layout *l = p->context;
    char devices[16];
    muster_runtime *runtime;
    snprintf(devices, sizeof devices, "host:%d", (int)l->devices[p->process]);
    muster_runtime_options options = launch_options(devices);
    options.logical_shards = 12;
    launch_ok(p, muster_runtime_open(&options, &runtime));
    launch_check(p, strstr(muster_runtime_description(runtime),
                           first_of(l, l->processes) == 3 ? "logical shards: 12, 4 on each device" : "logical shards: 12, "));
    launch_ok(p, muster_runtime_close(runtime));
}

static void the_devices_of_all_processes_divide_the_logical_shards(void **state) {
    (void)state;
    for (int i = 0; i < LAYOUTS; i++) launch_layout(&layouts[i], open_with_shards);
}

/* ---- several runtimes, the description, the end ---- */

static void open_two(launch_process *p) {
    static const layout first = {2, {1, 2}}, second = {2, {2, 2}};
    muster_runtime *runtimes[2];
    launch_ok(p, open_layout(p, &first, &runtimes[0]));
    launch_ok(p, open_layout(p, &second, &runtimes[1]));
    launch_check(p, muster_runtime_size(runtimes[0]) == 3 && muster_runtime_size(runtimes[1]) == 4);
    launch_ok(p, muster_runtime_close(runtimes[1]));
    launch_ok(p, muster_runtime_close(runtimes[0]));
}

static void the_second_runtime_belongs_to_the_second_of_the_others(void **state) {
    (void)state;
    launch_run(&(wire_launch_options){.processes = 2}, open_two, NULL);
}

static void read_description(launch_process *p) {
    muster_runtime *runtime;
    launch_ok(p, open_layout(p, p->context, &runtime));
    launch_check(p, strstr(muster_runtime_description(runtime),
                           p->process == 0 ? "processes: 2 on 1 host; this is process 0, on host host0, with ranks 0 to 0 of 4\n"
                                           : "processes: 2 on 1 host; this is process 1, on host host0, with ranks 1 to 3 of 4\n"));
    launch_check(p, strstr(muster_runtime_description(runtime), "messages between processes: "));
    launch_ok(p, muster_runtime_close(runtime));
}

static void the_description_says_which_process_this_is(void **state) {
    (void)state;
    launch_layout(&layouts[2], read_description);
}

static void read_wire_dtype(launch_process *p) {
    muster_runtime_options options = launch_options("host:1");
    muster_runtime *runtime;
    options.wire_dtype = *(const muster_dtype *)p->context;
    launch_ok(p, muster_runtime_open(&options, &runtime));
    const char *said = strstr(muster_runtime_description(runtime), ", sums and averages of f32 in ");
    if (options.wire_dtype == MUSTER_F32)
        launch_check(p, !said);
    else
        launch_check(p, said && strstr(said, options.wire_dtype == MUSTER_F16 ? " in f16\n" : " in bf16\n"));
    launch_ok(p, muster_runtime_close(runtime));
}

/* f32 is what sums travel in anyway. */
static void the_description_says_the_wire_dtype(void **state) {
    (void)state;
    for (muster_dtype dtype = MUSTER_F16; dtype <= MUSTER_F32; dtype++)
        launch_run(&(wire_launch_options){.processes = 2}, read_wire_dtype, &dtype);
}

static void trace_at_close(launch_process *p) {
    muster_runtime_options options = launch_options("host:1");
    muster_runtime *runtime;
    options.trace = p->context;
    launch_ok(p, muster_runtime_open(&options, &runtime));
    launch_ok(p, muster_runtime_close(runtime));
}

static void a_trace_has_the_number_of_its_process(void **state) {
    (void)state;
    char folder[] = "/tmp/muster-nodes-XXXXXX", path[64];
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/%%n", folder);
    launch_run(&(wire_launch_options){.processes = 2}, trace_at_close, path);
    /* the second traced runtime of a program writes FILE.1 */
    int found = 0;
    for (int i = 0; i < 4; i++) {
        snprintf(path, sizeof path, "%s/%d%s", folder, i / 2, i % 2 ? ".1" : "");
        FILE *file = fopen(path, "r");
        if (!file) continue;
        char text[8192] = "", track[32];
        assert_true(fread(text, 1, sizeof text - 1, file) > 0);
        fclose(file);
        snprintf(track, sizeof track, "\"rank %d host", i / 2);
        assert_non_null(strstr(text, track));
        assert_int_equal(remove(path), 0);
        found++;
    }
    assert_int_equal(found, 2);
    assert_int_equal(rmdir(folder), 0);
}

static void open_by_default(launch_process *p) {
    int32_t cores[1024], *sizes = p->context;
    const int32_t count = mst_topology_cores(cores, 1024);
    muster_runtime_options options = launch_options(NULL);
    muster_runtime *runtime;
    launch_ok(p, muster_runtime_open(&options, &runtime));
    sizes[p->process] = muster_runtime_first_rank(runtime, p->process + 1) - muster_runtime_first_rank(runtime, p->process);
    const int32_t least = count < p->processes ? 1 : count / p->processes;
    launch_check(p, sizes[p->process] == least || sizes[p->process] == least + 1);
    launch_ok(p, muster_runtime_close(runtime));
}

static void the_processes_of_a_host_share_its_cores(void **state) {
    (void)state;
    int32_t cores[1024], sizes[LAUNCH_PROCESSES];
    const int32_t count = mst_topology_cores(cores, 1024);
    int cases = 0;
    for (int32_t processes = 2; processes <= LAUNCH_PROCESSES; processes++, cases++) {
        launch_run(&(wire_launch_options){.processes = processes}, open_by_default, sizes);
        int32_t sum = 0;
        for (int32_t p = 0; p < processes; p++) sum += sizes[p];
        assert_int_equal(sum, count < processes ? processes : count);
    }
    assert_int_equal(cases, 3);
}

/* Two hosts do not share: each process has all cores that it sees. */
static void open_alone_on_its_host(launch_process *p) {
    int32_t cores[1024];
    muster_runtime_options options = launch_options(NULL);
    muster_runtime *runtime;
    launch_ok(p, muster_runtime_open(&options, &runtime));
    launch_check(p, muster_runtime_size(runtime) == 2 * mst_topology_cores(cores, 1024));
    launch_ok(p, muster_runtime_close(runtime));
}

static void processes_of_different_hosts_share_nothing(void **state) {
    (void)state;
    launch_run(&(wire_launch_options){.processes = 2, .processes_per_host = 1}, open_alone_on_its_host, NULL);
}

/* Two workers fit two CPUs, and four do not: then nobody spins, in whichever process. */
static void open_crowded(launch_process *p) {
    const int32_t cpus = mst_topology_allowed(), *crowded = p->context;
    char devices[16];
    snprintf(devices, sizeof devices, "host:%d", (int)(*crowded ? cpus : cpus / 2));
    muster_runtime_options options = launch_options(devices);
    muster_runtime *runtime;
    options.spin_ns = 1000;
    launch_ok(p, muster_runtime_open(&options, &runtime));
    launch_check(p, mst_pool_settings(runtime->pool)->spin_ns == (*crowded ? 0 : 1000));
    launch_check(p, runtime->nodes->spin_ns == (*crowded ? 0 : 1000)); /* those for other processes too */
    launch_ok(p, muster_runtime_close(runtime));
}

static void all_workers_of_a_host_decide_whether_waits_spin(void **state) {
    (void)state;
    if (mst_topology_allowed() < 2) return; /* one CPU is crowded by two processes in any case */
    for (int32_t crowded = 0; crowded < 2; crowded++) launch_run(&(wire_launch_options){.processes = 2}, open_crowded, &crowded);
}

static void abort_launch(launch_process *p) {
    muster_runtime *runtime;
    const muster_runtime_options options = launch_options("host:1");
    launch_ok(p, muster_runtime_open(&options, &runtime));
    if (p->process == 1) (void)muster_runtime_abort(runtime, 77);
    for (;;) pause();
}

static void abort_ends_the_launch_with_its_code(void **state) {
    (void)state;
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        launch_run(&(wire_launch_options){.processes = 2}, abort_launch, NULL);
        _exit(1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 77);
}

static void one_process_has_all_ranks(void **state) {
    (void)state;
    const muster_runtime_options options = launch_options("host:3");
    muster_runtime *runtime;
    assert_ok(muster_runtime_open(&options, &runtime));
    assert_null(runtime->nodes);
    assert_int_equal(muster_runtime_processes(runtime), 1);
    assert_int_equal(muster_runtime_process(runtime), 0);
    assert_int_equal(muster_runtime_first_rank(runtime, 0), 0);
    assert_int_equal(muster_runtime_first_rank(runtime, 1), 3);
    assert_int_equal(muster_runtime_first_rank(runtime, 2), -1);
    assert_int_equal(muster_runtime_hosts(runtime), 1);
    assert_true(strlen(muster_runtime_host(runtime, 0)) > 0);
    assert_null(muster_runtime_host(runtime, 1));
    assert_null(strstr(muster_runtime_description(runtime), "processes:"));
    assert_ok(muster_runtime_close(runtime));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_count_through_the_processes),
        cmocka_unit_test(a_worker_has_a_rank_among_those_of_all_processes),
        cmocka_unit_test(a_failure_names_the_rank_among_all),
        cmocka_unit_test(a_device_of_another_process_is_refused_naming_it),
        cmocka_unit_test(a_tensor_counts_its_device_in_its_process),
        cmocka_unit_test(what_differs_is_refused_everywhere_with_both_values),
        cmocka_unit_test(a_failure_of_one_process_is_one_of_all),
        cmocka_unit_test(the_devices_of_all_processes_divide_the_logical_shards),
        cmocka_unit_test(the_second_runtime_belongs_to_the_second_of_the_others),
        cmocka_unit_test(the_description_says_which_process_this_is),
        cmocka_unit_test(the_description_says_the_wire_dtype),
        cmocka_unit_test(a_trace_has_the_number_of_its_process),
        cmocka_unit_test(the_processes_of_a_host_share_its_cores),
        cmocka_unit_test(processes_of_different_hosts_share_nothing),
        cmocka_unit_test(all_workers_of_a_host_decide_whether_waits_spin),
        cmocka_unit_test(abort_ends_the_launch_with_its_code),
        cmocka_unit_test(one_process_has_all_ranks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
