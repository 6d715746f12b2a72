/* One process of 2 to 8 goes wrong, in virtual time on the simulated wire: eight kinds at five
 * places, drawn by seed. Every other process comes to its end within the deadlines, all return the
 * same, whole sentences name the right rank, process and host, and the next call is right where it
 * is promised. */
#include "base_check.h"
#include "base_seed.h"
#include "wire_faults/cells.h"
#include "wire_faults/said.h"

#include <stdio.h>
#include <stdlib.h>

enum { MS = 1000000, LONGEST_MS = 4000 };

/* ---- the cells ---- */

typedef struct cell_row {
    cell_kind kind;
    cell_place place;
    enum { BRIEF = 1, LONG = 2, EVER = 4 } lasts; /* which of them are drawn */
} cell_row;

/* Left out: a process refuses at the begin only, and what it passes is compared at the begin and at
 * the end; collectives compare for themselves, in suites of theirs. A process fails in its
 * body only. */
static const cell_row rows[] = {
    {CELL_KILLED, CELL_BEGIN, EVER},
    {CELL_KILLED, CELL_TRANSFER, EVER},
    {CELL_KILLED, CELL_ARRIVAL, EVER},
    {CELL_KILLED, CELL_DATA, EVER},
    {CELL_KILLED, CELL_END, EVER},
    {CELL_DIES, CELL_BEGIN, EVER},
    {CELL_DIES, CELL_TRANSFER, EVER},
    {CELL_DIES, CELL_ARRIVAL, EVER},
    {CELL_DIES, CELL_DATA, EVER},
    {CELL_DIES, CELL_END, EVER},
    {CELL_STOPPED, CELL_BEGIN, BRIEF | LONG | EVER},
    {CELL_STOPPED, CELL_TRANSFER, BRIEF | LONG | EVER},
    {CELL_STOPPED, CELL_ARRIVAL, BRIEF | LONG | EVER},
    {CELL_STOPPED, CELL_DATA, BRIEF | LONG | EVER},
    {CELL_STOPPED, CELL_END, BRIEF | LONG | EVER},
    {CELL_CUT, CELL_BEGIN, BRIEF | LONG | EVER},
    {CELL_CUT, CELL_TRANSFER, BRIEF | LONG | EVER},
    {CELL_CUT, CELL_ARRIVAL, BRIEF | LONG | EVER},
    {CELL_CUT, CELL_DATA, BRIEF | LONG | EVER},
    {CELL_CUT, CELL_END, BRIEF | LONG | EVER},
    {CELL_EXITS, CELL_BEGIN, EVER},
    {CELL_EXITS, CELL_TRANSFER, EVER},
    {CELL_EXITS, CELL_ARRIVAL, EVER},
    {CELL_EXITS, CELL_DATA, EVER},
    {CELL_EXITS, CELL_END, EVER},
    {CELL_REFUSES, CELL_BEGIN, BRIEF},
    {CELL_FAILS, CELL_ARRIVAL, BRIEF},
    {CELL_FAILS, CELL_DATA, BRIEF},
    {CELL_FAILS, CELL_END, BRIEF},
    {CELL_DIFFERS, CELL_BEGIN, BRIEF},
    {CELL_DIFFERS, CELL_END, BRIEF},
};
enum { ROWS = sizeof rows / sizeof *rows };

static uint64_t next(uint64_t *random) { /* splitmix64 */
    uint64_t z = *random += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static int32_t below(uint64_t *random, int32_t bound) { return (int32_t)(next(random) % (uint64_t)bound); }

static int32_t draw_ms(uint64_t *random, const cell_row *row) {
    int32_t lasts;
    do lasts = 1 << below(random, 3);
    while (!((int32_t)row->lasts & lasts));
    if (lasts == EVER) return CELL_EVER_MS;
    return lasts == BRIEF ? 20 + below(random, 130) : 600 + below(random, 200);
}

static cell draw(const cell_row *row, uint64_t seed) {
    static const mst_move_algorithm algorithms[] = {MST_MOVE_RING, MST_MOVE_BRUCK};
    static const int64_t bytes[] = {40, 1000, 4096, 9000};
    uint64_t random = seed;
    cell c = {.kind = row->kind, .place = row->place, .seed = seed, .processes = 2 + below(&random, CELL_MOST - 1)};
    c.victim = below(&random, c.processes);
    c.other = (c.victim + 1 + below(&random, c.processes - 1)) % c.processes;
    c.call = 1 + below(&random, 2);
    c.inside = below(&random, 2) ? 0 : 1 + below(&random, 12);
    c.ms = draw_ms(&random, row);
    c.on_lost = below(&random, 4) ? MST_LOST_ERROR : MST_LOST_ABORT;
    c.late = 1 + below(&random, 8);
    c.bytes = bytes[below(&random, 4)];
    c.algorithm = algorithms[below(&random, 2)];
    for (int32_t p = 0; p < c.processes; p++) c.hosts[p] = (char)('0' + below(&random, 10));
    return c;
}

/* ---- what must be seen ---- */

static const char *const kinds[CELL_KINDS] = {"killed", "dies", "stopped", "cut", "exits", "refuses", "fails", "differs"};
static const char *const places[CELL_PLACES + 1] = {"begin", "transfer", "arrival", "data", "end", "after"};

static void print_run(const cell_run *run) {
    const cell *c = &run->cell;
    print_message(
        "%s at %s, process %d (and %d) of %d, call %d, inside %d, %d ms, on_lost %d, late %d, %d bytes by %s, hosts %s, seed %llu, "
        "struck at %s at %lld ms\n",
        kinds[c->kind], places[c->place], c->victim, c->other, c->processes, c->call, c->inside, c->ms, c->on_lost, c->late, (int)c->bytes,
        mst_move_algorithm_name(c->algorithm), c->hosts, (unsigned long long)c->seed, places[run->struck],
        (long long)(run->struck_ns / MS));
    for (int32_t p = 0; p < c->processes; p++) {
        const cell_seen *seen = &run->seen[p];
        print_message("process %d: open %s, %s at %lld ms\n", (int)p, muster_status_name(seen->opened.status),
                      seen->over ? "over" : "not over", (long long)(seen->over_ns / MS));
        for (int32_t call = 0; call < CELL_CALLS; call++)
            for (int32_t place = 0; place < CELL_PLACES; place++) {
                const cell_note *note = &seen->notes[call][place];
                if (note->noted)
                    print_message("  call %d %s: %s %s\n", (int)call + 1, places[place], muster_status_name(note->status), note->message);
            }
        if (seen->log[0]) print_message("  log: %s", seen->log);
    }
}

#define EXPECT(run, condition, ...) \
    do {                            \
        if (!(condition)) {         \
            print_run(run);         \
            fail_msg(__VA_ARGS__);  \
        }                           \
    } while (0)

static bool is_gone(const cell_run *run, int32_t p) {
    const cell *c = &run->cell;
    return p == c->victim && run->struck_ns && (c->kind == CELL_KILLED || c->kind == CELL_DIES || c->kind == CELL_EXITS);
}

/* What a call has come to in a process: its last note but those inside of the call. */
static const cell_note *outcome(const cell_run *run, int32_t p, int32_t call) {
    const cell_note *notes = run->seen[p].notes[call - 1];
    static const cell_note none = {.status = MUSTER_OK};
    if (notes[CELL_END].noted) return &notes[CELL_END];
    if (notes[CELL_TRANSFER].noted && notes[CELL_TRANSFER].status != MUSTER_OK) return &notes[CELL_TRANSFER];
    return notes[CELL_BEGIN].noted ? &notes[CELL_BEGIN] : &none;
}

/* Is it promised that the launch goes on? */
static bool is_survivable(const cell_run *run) {
    if (run->cell.ms == CELL_EVER_MS) return false;
    for (int32_t p = 0; p < run->cell.processes; p++)
        if (outcome(run, p, run->cell.call)->status == MUSTER_NODE_LOST) return false;
    return true;
}

/* The statuses that all may return together: bits. */
#define BIT(status) (UINT64_C(1) << (status))
static uint64_t allowed(const cell_run *run) {
    const cell *c = &run->cell;
    const uint64_t lost = BIT(MUSTER_NODE_LOST), late = BIT(MUSTER_TIMEOUT), right = BIT(MUSTER_OK), aborted = BIT(MUSTER_SYSTEM);
    const bool spans = (c->inside || c->kind == CELL_CUT) && c->place < CELL_END; /* who is ahead is at the next place already */
    switch (c->kind) {
    case CELL_KILLED:
        return c->inside && c->place == CELL_END ? lost | right : lost;
    case CELL_EXITS:
        if (c->place == CELL_BEGIN) return BIT(MUSTER_BAD_STATE);
        return c->inside && c->place == CELL_END ? aborted | right : aborted;
    case CELL_REFUSES:
        return BIT(MUSTER_SHAPE_MISMATCH);
    case CELL_FAILS:
        return BIT(MUSTER_USER);
    case CELL_DIFFERS:
        return BIT(MUSTER_INVALID_ARGUMENT);
    default:
        break;
    }
    const uint64_t lasting = c->kind == CELL_DIES ? aborted : right;
    uint64_t status = 0;
    if (c->ms < CELL_DEADLINE_MS) return right;
    if (c->kind == CELL_CUT) status |= right; /* the two may have nothing to say to each other */
    /* Where a link is cut, its other end may still be at the place where the victim was. */
    for (int32_t place = (int32_t)c->place - (c->kind == CELL_CUT); place <= (int32_t)c->place + spans; place++) {
        if (place == CELL_BEGIN) status |= late;
        /* Two searches must name one that stops, which takes longer than a long pause. */
        if (place == CELL_TRANSFER) status |= c->ms < CELL_EVER_MS ? right : lost;
        if (place == CELL_ARRIVAL || place == CELL_DATA) status |= c->ms < CELL_EVER_MS ? late : lost;
        if (place == CELL_ARRIVAL || place == CELL_DATA) status |= c->kind == CELL_CUT ? late : 0;
        if (place == CELL_END) status |= lasting;
    }
    if (c->inside && c->place == CELL_END) status |= right;
    return status;
}

static void judge_call(const cell_run *run) {
    const cell *c = &run->cell;
    const uint64_t set = allowed(run);
    /* In the midst of a round some have all messages and go on, and others have not. */
    const bool in_part = c->kind == CELL_CUT || (c->inside && (c->place == CELL_BEGIN || c->place == CELL_END) && c->kind <= CELL_EXITS);
    muster_status first = MUSTER_OK;
    bool has = false;
    for (int32_t p = 0; p < c->processes; p++) {
        if (is_gone(run, p) || (p == c->victim && !is_survivable(run))) continue;
        const cell_note *note = outcome(run, p, c->call);
        muster_status status = note->status;
        if (c->on_lost == MST_LOST_ABORT && status == MUSTER_SYSTEM && set & BIT(MUSTER_NODE_LOST)) status = MUSTER_NODE_LOST;
        EXPECT(run, set >> status & 1, "process %d: %s is not expected", (int)p, muster_status_name(status));
        EXPECT(run, status != MUSTER_OK || run->seen[p].right[c->call - 1], "process %d: OK, but what has moved is wrong", (int)p);
        EXPECT(run, !has || status == first || in_part, "process %d: %s, others %s", (int)p, muster_status_name(status),
               muster_status_name(first));
        EXPECT(run, cells_said(run, p, c->call, note), "process %d: not what it should say: %s", (int)p, note->message);
        first = status;
        has = true;
        for (int32_t place = CELL_ARRIVAL; place <= CELL_DATA; place++)
            EXPECT(run, cells_said(run, p, c->call, &run->seen[p].notes[c->call - 1][place]), "process %d, %s: not what it should say: %s",
                   (int)p, places[place], run->seen[p].notes[c->call - 1][place].message);
    }
}

/* When a process is lost, all learn of it that can be reached: what returns later returns
 * NODE_LOST. */
static void judge_lost(const cell_run *run) {
    enum { SPREADS_MS = 50 };
    const cell *c = &run->cell;
    int64_t lost_ns = 0;
    for (int32_t p = 0; p < c->processes; p++) {
        const int64_t returned_ns = run->seen[p].returned_ns[c->call - 1];
        if (outcome(run, p, c->call)->status == MUSTER_NODE_LOST && returned_ns > lost_ns) lost_ns = returned_ns;
    }
    if (!lost_ns || c->on_lost == MST_LOST_ABORT) return;
    for (int32_t p = 0; p < c->processes; p++)
        for (int32_t call = c->call + 1; call <= CELL_CALLS; call++) {
            const bool apart = c->kind == CELL_CUT && (p == c->victim || p == c->other);
            if (is_gone(run, p) || apart || run->seen[p].returned_ns[call - 1] < lost_ns + (int64_t)SPREADS_MS * MS) continue;
            EXPECT(run, outcome(run, p, call)->status == MUSTER_NODE_LOST, "process %d, call %d: expected NODE_LOST, received %s", (int)p,
                   (int)call, muster_status_name(outcome(run, p, call)->status));
        }
}

/* The calls before, and those after. */
static void judge_others(const cell_run *run) {
    const cell *c = &run->cell;
    for (int32_t p = 0; p < c->processes; p++) {
        for (int32_t call = 1; call <= CELL_CALLS; call++) {
            const cell_note *note = outcome(run, p, call);
            const bool promised = call < c->call || (is_survivable(run) && call > c->call);
            if (call == c->call || is_gone(run, p)) continue;
            if (promised)
                EXPECT(run, run->seen[p].notes[call - 1][CELL_END].noted && note->status == MUSTER_OK && run->seen[p].right[call - 1],
                       "process %d: call %d is not right: %s %s", (int)p, (int)call, muster_status_name(note->status), note->message);
            else if (p != c->victim || c->kind == CELL_CUT)
                EXPECT(run, cells_said(run, p, call, note), "process %d, call %d: not what it should say: %s", (int)p, (int)call,
                       note->message);
        }
        /* One that goes on when the others have closed says so of them. */
        if (p != c->victim || is_survivable(run)) EXPECT(run, cells_log_said(run, p), "process %d: not what it should log", (int)p);
    }
}

static int64_t longest_ms;

static void judge_ends(const cell_run *run) {
    const cell *c = &run->cell;
    for (int32_t p = 0; p < c->processes; p++) {
        if (is_gone(run, p)) continue;
        EXPECT(run, run->seen[p].opened.noted && run->seen[p].opened.status == MUSTER_OK, "process %d has not opened", (int)p);
        EXPECT(run, run->seen[p].over && run->seen[p].closed, "process %d does not come to its end", (int)p);
        if (!run->struck_ns || p == c->victim) continue;
        const muster_status status = outcome(run, p, c->call)->status; /* a body may take as long as it likes, so it is waited for */
        const bool waited = status == MUSTER_OK || (status == MUSTER_SYSTEM && c->kind == CELL_DIES);
        const int64_t from = run->struck_ns + (waited ? (int64_t)c->ms * MS : 0), ms = (run->seen[p].returned_ns[c->call - 1] - from) / MS;
        if (ms > longest_ms) longest_ms = ms;
        EXPECT(run, ms < LONGEST_MS, "process %d: the call returns after %lld ms", (int)p, (long long)ms);
        EXPECT(run, run->seen[p].over_ns - from < (int64_t)(3 * LONGEST_MS + c->ms) * MS, "process %d ends after %lld ms", (int)p,
               (long long)((run->seen[p].over_ns - from) / MS));
    }
}

static void judge(const cell_run *run) {
    const cell *c = &run->cell;
    judge_ends(run);
    judge_call(run);
    judge_lost(run);
    judge_others(run);
    if (c->kind == CELL_KILLED && c->on_lost == MST_LOST_ERROR) EXPECT(run, run->aborted < 0, "the launch was aborted");
}

/* ---- the suite ---- */

static void test_seeds(void **state) {
    (void)state;
#ifdef MUSTER_TEST_SANITIZED
    const int32_t seeds = test_is_full() ? 2000 : 2 * ROWS;
#else
    const int32_t seeds = test_is_full() ? 10000 : 400;
#endif
    int32_t struck = 0, struck_of[ROWS] = {0};
    int64_t rested = 0;
    cell_run *run = calloc(1, sizeof *run);
    for (int32_t i = 0; i < seeds; i++) {
        const cell_row *row = &rows[i % ROWS];
        run->cell = draw(row, test_seed() * 1000003 + (uint64_t)i);
        assert_true(cell_do(run));
        judge(run);
        rested += run->rested;
        struck += run->struck_ns != 0;
        struck_of[i % ROWS] += run->struck_ns != 0;
    }
    print_message("%d cells, %d of which were struck, the longest call %lld ms, %lld sleeps\n", (int)seeds, (int)struck,
                  (long long)longest_ms, (long long)rested);
    assert_in_range(struck, seeds / 2, seeds);
    for (int32_t r = 0; r < ROWS; r++) /* the other kinds, and who exits before the call begins, need no moment at which they strike */
        if (!struck_of[r] && (rows[r].kind <= CELL_CUT || (rows[r].kind == CELL_EXITS && rows[r].place != CELL_BEGIN)))
            fail_msg("row %d (%s, %s): expected a cell that is struck, received none", (int)r, kinds[rows[r].kind], places[rows[r].place]);
    free(run);
}

/* MUSTER_CELL=3:17 repeats the cell of row 3 with the seed 17, and prints it. */
static void test_one(void **state) {
    (void)state;
    const char *text = getenv("MUSTER_CELL");
    if (!text) return;
    cell_run *run = calloc(1, sizeof *run);
    run->cell = draw(&rows[atoi(text) % ROWS], strtoull(strchr(text, ':') + 1, NULL, 10));
    assert_true(cell_do(run));
    print_run(run);
    judge(run);
    free(run);
}

int main(void) {
    setenv("MUSTER_WIRE_MEMORY", "262144", 1);
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_one), cmocka_unit_test(test_seeds)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
