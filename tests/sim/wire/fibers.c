/* Fibers: the processes of a launch take turns on stacks of their own. */
#include "wire_fibers.h"

#include "../user_switch.h"
#include "clock_impl.h"
#include "status_impl.h"
#include "wire_clock_private.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>
#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#endif

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { FIBER_STACK = 512 << 10 };
#else
enum { FIBER_STACK = 128 << 10 };
#endif
enum { FIBER_PS = 1000, FIBER_YIELD_NS = 10000 };
static const int64_t fiber_most_ns = 3600 * INT64_C(1000000000);

typedef struct fiber {
    user_stack stack;
    char *memory;
    int64_t wakes; /* in the time of its process */
    int32_t late;
    bool begun;
    char message[MST_MESSAGE_SIZE]; /* the last error of its process */
    void *checker;                  /* what ThreadSanitizer knows of it */
} fiber;

/* What runs now: the functions that the library calls lead here. */
static struct {
    wire_launch *launch;
    wire_fibers *fibers;
    fiber all[WIRE_FIBERS_MOST];
    user_stack driver;
    void *checker;
    int32_t current; /* the process whose fiber runs; -1: none */
    bool up;         /* the time is up */
} fibers_now = {.current = -1};

int32_t wire_fibers_process(void) { return fibers_now.current; }

int64_t wire_fibers_now_ns(void) {
    return wire_fibers_epoch_ns + wire_clock_time(fibers_now.launch, fibers_now.current < 0 ? -1 : fibers_now.current) / FIBER_PS;
}

/* ---- switching ---- */

static void fibers_checker(void *checker) {
#if defined(__SANITIZE_THREAD__)
    __tsan_switch_to_fiber(checker, 0);
#else
    (void)checker;
#endif
}

static void fibers_leave(fiber *f) {
    mst_error_save(f->message);
    fibers_checker(fibers_now.checker);
    user_stack_switch(&f->stack, &fibers_now.driver);
    mst_error_restore(MUSTER_OK, f->message);
}

static void fibers_begin(void) {
    wire_fibers *fibers = fibers_now.fibers;
    const int32_t p = fibers_now.current;
    mst_error_restore(MUSTER_OK, "");
    fibers->body(fibers->user, p);
    fibers->over_ns[p] = wire_fibers_now_ns();
    fibers->over[p] = true;
    fibers_leave(&fibers_now.all[p]);
    abort(); /* nobody goes on with a fiber that is over */
}

void wire_fibers_sleep(int64_t ns) {
    const int32_t p = fibers_now.current;
    fiber *f = &fibers_now.all[p];
    fibers_now.fibers->rested++;
    if (fibers_now.fibers->rests) fibers_now.fibers->rests(fibers_now.fibers->user, p);
    f->wakes = wire_clock_time(fibers_now.launch, p) + ns * FIBER_PS;
    wire_clock_push(fibers_now.launch, (wire_event){.time = f->wakes, .kind = WIRE_EVENT_WAKE, .process = p});
    fibers_leave(f);
}

/* ---- what the library calls ---- */

int64_t __real_mst_now_ns(void);
int64_t __wrap_mst_now_ns(void);
int64_t __wrap_mst_now_ns(void) { return fibers_now.current < 0 ? __real_mst_now_ns() : wire_fibers_now_ns(); }

int __real_nanosleep(const struct timespec *time, struct timespec *left);
int __wrap_nanosleep(const struct timespec *time, struct timespec *left);
int __wrap_nanosleep(const struct timespec *time, struct timespec *left) {
    if (fibers_now.current < 0) return __real_nanosleep(time, left);
    wire_fibers_sleep((time->tv_sec * INT64_C(1000000000) + time->tv_nsec) * fibers_now.all[fibers_now.current].late);
    return 0;
}

int __real_sched_yield(void);
int __wrap_sched_yield(void);
int __wrap_sched_yield(void) {
    if (fibers_now.current < 0) return __real_sched_yield();
    wire_fibers_sleep(fibers_now.fibers->yield_ns ? fibers_now.fibers->yield_ns : FIBER_YIELD_NS);
    return 0;
}

/* ---- driving ---- */

static bool fibers_step(void *user, int32_t p) {
    wire_fibers *fibers = user;
    fiber *f = &fibers_now.all[p];
    if (fibers->over[p] || fibers_now.up) return true;
    if (wire_clock_time(fibers_now.launch, p) < f->wakes) return false;
    if (!f->begun && !user_stack_make(&f->stack, f->memory, FIBER_STACK, fibers_begin)) abort();
    f->begun = true;
    fibers_now.current = p;
    fibers_checker(f->checker);
    user_stack_switch(&fibers_now.driver, &f->stack);
    fibers_now.current = -1;
    return fibers->over[p];
}

static void fibers_time_is_up(void *user) {
    (void)user;
    fibers_now.up = true;
    for (int32_t p = 0; p < fibers_now.launch->options.processes; p++) wire_clock_continue(fibers_now.launch, p);
}

static bool fibers_prepare(wire_launch *launch, const wire_fibers *fibers) {
    bool right = true;
    for (int32_t p = 0; p < launch->options.processes; p++) {
        fiber *f = &fibers_now.all[p];
        *f = (fiber){.memory = aligned_alloc(64, FIBER_STACK), .late = 1};
        right &= f->memory != NULL;
        if (fibers->late > 1) f->late = 1 + (int32_t)(wire_random(launch) % (uint64_t)fibers->late);
#if defined(__SANITIZE_THREAD__)
        f->checker = __tsan_create_fiber(0);
#endif
    }
#if defined(__SANITIZE_THREAD__)
    fibers_now.checker = __tsan_get_current_fiber();
#endif
    return right;
}

bool wire_fibers_run(wire_launch *launch, wire_fibers *fibers) {
    const int32_t processes = launch->options.processes;
    char message[MST_MESSAGE_SIZE];
    if (processes > WIRE_FIBERS_MOST || !launch->clock) return false;
    memset(fibers->over, 0, sizeof fibers->over);
    memset(fibers->over_ns, 0, sizeof fibers->over_ns);
    fibers->rested = 0;
    fibers_now.launch = launch;
    fibers_now.fibers = fibers;
    fibers_now.up = false;
    const bool right = fibers_prepare(launch, fibers);
    mst_error_save(message);
    wire_drive drive = {.step = fibers_step, .user = fibers, .idle_calls = 1, .most_steps = INT64_MAX};
    wire_clock_at(launch, (fibers->most_ns ? fibers->most_ns : fiber_most_ns) * FIBER_PS, fibers_time_is_up, fibers);
    if (right) wire_clock_drive(launch, &drive);
    mst_error_restore(MUSTER_OK, message);
    for (int32_t p = 0; p < processes; p++) {
#if defined(__SANITIZE_THREAD__)
        __tsan_destroy_fiber(fibers_now.all[p].checker);
#endif
        free(fibers_now.all[p].memory);
    }
    return right;
}
