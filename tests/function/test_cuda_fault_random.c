/* Lives of a small program in which foreign calls fail by chance, each seed another way: whatever
 * fails is told, nothing hangs, nothing is left, no result is wrong, and after some of them a life
 * without failures is right. Release runs 200 of them, the sanitizers 40, and all builds 6000 with
 * MUSTER_TEST_FULL=1. MUSTER_SEED=n begins at another seed. */
#include "base_seed.h"
#include "cuda_program.h"

#ifdef MUSTER_TEST_SANITIZED
enum { SEEDS = 40 };
#else
enum { SEEDS = 200 };
#endif
enum { FULL_SEEDS = 6000, PIECE = 20, SECONDS = 200 };
#define PATIENT_NS 30000000000LL
#define IMPATIENT_NS 60000000LL

typedef struct tally {
    _Atomic int64_t failed, lost, stalled, kept;
} tally;
static tally *total;

typedef struct piece {
    uint64_t first;
    int count;
} piece;

static void take_notices(apart *a) {
    char notice[MST_MESSAGE_SIZE];
    a->note[0] = '\0';
    while (mst_cuda_take_notice(notice)) strncat(a->note, notice, APART_TEXT - strlen(a->note) - 1);
}

static void check_left(apart *a, uint64_t seed, int64_t live) {
    if (mst_memory_live() != live)
        apart_wrong(a, "seed %llu: %lld blocks leaked", (unsigned long long)seed, (long long)(mst_memory_live() - live));
    if (!strstr(a->note, "its memory and handles are kept"))
        muster_sim_check_leaks();
    else
        total->kept++;
    if (muster_sim_hazard_count())
        apart_wrong(a, "seed %llu: the machine reports: %.2000s", (unsigned long long)seed, muster_sim_hazards());
}

/* Of each call. A third of the lives seldom comes to its end; in the others failures are 4 and 16
 * times rarer, so that what comes late in a life meets them too. */
static double probability(uint64_t seed, int way) { return (way == 0 ? 0.0008 : 0.0015) / (double)(1 << 2 * ((seed / 7 + 1) % 3)); }

static void live_by_chance(apart *a, program *p, uint64_t seed, int way) {
    const bool stalls = seed % 64 == 3;
    char message[MST_MESSAGE_SIZE] = "";
    program_machine(seed);
    const int64_t live = mst_memory_live();
    p->fail_after_ns = stalls ? IMPATIENT_NS : PATIENT_NS;
    muster_sim_inject_random(seed, probability(seed, way));
    if (seed % 8 == 1) muster_sim_inject_lost(NULL, 1 + seed * 37 % 1500);
    /* it ends: some calls wait for the queues, and nobody can end that wait */
    if (stalls) muster_sim_inject_queue_stall(NULL, 1 + seed * 53 % 1500, 3000);
    const muster_status status = program_live(p);
    if (status != MUSTER_OK) snprintf(message, sizeof message, "%s", muster_last_error());
    muster_sim_inject_clear();
    take_notices(a);
    total->failed += status != MUSTER_OK;
    total->lost += status == MUSTER_DEVICE_LOST;
    total->stalled += stalls && status != MUSTER_OK;
    if (strstr(message, "WRONG")) apart_wrong(a, "seed %llu: %s", (unsigned long long)seed, message);
    if (status != MUSTER_OK && strlen(message) < 10)
        apart_wrong(a, "seed %llu: %s: \"%s\"", (unsigned long long)seed, muster_status_name(status), message);
    if (stalls) muster_sim_hazards_clear(); /* a queue that stands still when it is destroyed has work */
    check_left(a, seed, live);
    snprintf(a->note, APART_TEXT, "seed %llu: %s: %s; %.1000s", (unsigned long long)seed, muster_status_name(status), message, p->log);
}

static void run_piece(apart *a, void *argument) {
    const piece *of = argument;
    const int way = of->first / PIECE % 2;
    program p = program_make(program_devices[way], PATIENT_NS);
    setenv("MUSTER_COLLECTIVE_ALGORITHM", program_ways[way], 1);
    for (int i = 0; i < of->count && !a->text[0]; i++) live_by_chance(a, &p, of->first + (uint64_t)i, way);
    program_machine(1);
    p.fail_after_ns = PATIENT_NS;
    if (program_live(&p) != MUSTER_OK)
        apart_wrong(a, "after the seeds from %llu on: %s", (unsigned long long)of->first, muster_last_error());
    program_free(&p);
}

static int failed_pieces;

static void end_piece(apart *a, void *argument) {
    if (!a->text[0]) return;
    failed_pieces++;
    print_error("MUSTER_SEED=%llu: %s\n    %s\n", (unsigned long long)((piece *)argument)->first, a->text, a->note);
}

static void what_fails_by_chance_does_no_harm(void **state) {
    (void)state;
    const uint64_t first = test_seed();
    const int seeds = test_is_full() ? FULL_SEEDS : SEEDS;
    static piece pieces[FULL_SEEDS / PIECE];
    apart_runs runs = {.seconds = SECONDS, .run = run_piece, .ended = end_piece};
    total = mmap(NULL, sizeof *total, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(total != MAP_FAILED);
    for (int i = 0; i < seeds / PIECE; i++) pieces[i] = (piece){first + (uint64_t)i * PIECE, PIECE};
    apart_run_all(&runs, pieces, sizeof *pieces, seeds / PIECE);
    print_message("seeds %llu to %llu: %lld lives failed, %lld of them by a lost device, %lld beside a queue that stood still\n",
                  (unsigned long long)first, (unsigned long long)first + (uint64_t)seeds - 1, (long long)total->failed,
                  (long long)total->lost, (long long)total->stalled);
    assert_int_equal(failed_pieces, 0);
    assert_true(total->failed >= seeds / 4 && total->lost > 0);
}

int main(void) {
    setenv("MUSTER_CACHE_DIR", "off", 1);
    setenv("MUSTER_DEVICE_MEMORY", "1048576", 1);
    const struct CMUnitTest tests[] = {cmocka_unit_test(what_fails_by_chance_does_no_harm)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
