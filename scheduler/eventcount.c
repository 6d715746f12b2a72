/* Waiting for a number: spin for a bounded time, then sleep on a futex. */
#include "eventcount_impl.h"

#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* How often the value is read between two checks of the clock and of the stop condition. */
enum { POLLS = 8 };
/* How long all yields of a wait may take. */
enum { YIELD_NS = 200000 };

void (*mst_wait_test_hook)(void) = NULL;

void mst_eventcount_notify(mst_eventcount *eventcount) {
    if (atomic_load(&eventcount->sleepers) == 0) return;
    atomic_fetch_add(&eventcount->generation, 1);
    syscall(SYS_futex, &eventcount->generation, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

void mst_counter_publish(mst_counter *counter, uint64_t value) {
    atomic_store(&counter->value, value);
    mst_eventcount_notify(&counter->eventcount);
}

static bool stopped(const mst_wait *wait) { return wait->stop && wait->stop(wait->context); }

/* true: the value was reached. */
static bool look_often(const _Atomic uint64_t *value, uint64_t target) {
    for (int32_t look = 0; look < POLLS; look++) {
        if (atomic_load(value) >= target) return true;
        mst_pause();
    }
    return false;
}

/* true: the value was reached. */
static bool spin(const _Atomic uint64_t *value, uint64_t target, const mst_wait *wait, int64_t spin_ns) {
    const double ticks_per_ns = mst_ticks_per_ns();
    const uint64_t limit = (uint64_t)((double)spin_ns * ticks_per_ns), start = mst_ticks();
    mst_spin_watch watch = {.last = start, .most = (uint64_t)(MST_SPIN_INTERRUPTED_NS * ticks_per_ns)};
    bool in_time, stop = false;
    do {
        in_time = look_often(value, target);
        stop = !in_time && stopped(wait);
        mst_spin_watch_read(&watch, mst_ticks());
    } while (!in_time && !stop && watch.last - start < limit);
    if (!in_time) in_time = atomic_load(value) >= target;
    if (!wait->spin) return in_time;
    if (watch.interrupted || (!in_time && !stop))
        mst_spin_wasted(wait->spin, watch.interrupted);
    else
        mst_spin_paid(wait->spin);
    return in_time;
}

/* Ends also when the CPU has been away for long: then it went to another program, which would take
 * it every time. */
static bool yield(const _Atomic uint64_t *value, uint64_t target, const mst_wait *wait) {
    uint64_t limit = (uint64_t)((double)YIELD_NS * mst_ticks_per_ns());
    uint64_t start = mst_ticks();
    for (int32_t given = 0; given < wait->yields && mst_ticks() - start < limit; given++) {
        sched_yield();
        if (atomic_load(value) >= target) return true;
        if (stopped(wait)) break;
    }
    return atomic_load(value) >= target;
}

/* remaining_ns: negative: none. A spurious return is fine: the caller checks again. */
static void futex_sleep(mst_eventcount *eventcount, uint32_t generation, int64_t remaining_ns) {
    struct timespec time = {remaining_ns / 1000000000, remaining_ns % 1000000000};
    syscall(SYS_futex, &eventcount->generation, FUTEX_WAIT_PRIVATE, generation, remaining_ns < 0 ? NULL : &time, NULL, 0);
}

static mst_wait_result sleep_until(mst_eventcount *eventcount, const _Atomic uint64_t *value, uint64_t target, const mst_wait *wait,
                                   int64_t left_ns) {
    int64_t deadline = left_ns < 0 ? -1 : mst_now_ns() + left_ns;
    mst_wait_result result;
    atomic_fetch_add(&eventcount->sleepers, 1);
    for (;;) {
        uint32_t generation = atomic_load(&eventcount->generation);
        if (stopped(wait)) {
            result = MST_STOPPED;
            break;
        }
        if (atomic_load(value) >= target) {
            result = MST_REACHED;
            break;
        }
        int64_t remaining = deadline < 0 ? -1 : deadline - mst_now_ns();
        if (deadline >= 0 && remaining <= 0) {
            result = MST_TIMED_OUT;
            break;
        }
        futex_sleep(eventcount, generation, remaining);
    }
    atomic_fetch_sub(&eventcount->sleepers, 1);
    /* A thread may publish the value and only then cause the early end of the wait. */
    return atomic_load(value) >= target ? MST_REACHED : result;
}

/* The rest of a wait that has spun for spin_ns in vain. The spin counts with its full length even
 * if an abort ended it: the sleep then checks for the abort first. */
static mst_wait_result sleep_after_spin(mst_eventcount *eventcount, const _Atomic uint64_t *value, uint64_t target, const mst_wait *wait,
                                        int64_t spin_ns) {
    const int64_t left_ns = wait->timeout_ns < 0 ? -1 : wait->timeout_ns - spin_ns;
    if (!wait->spin || wait->spin_ns == 0) return sleep_until(eventcount, value, target, wait, left_ns);
    const int64_t start_ns = mst_now_ns();
    const mst_wait_result result = sleep_until(eventcount, value, target, wait, left_ns);
    if (result != MST_TIMED_OUT) mst_spin_slept(wait->spin, spin_ns + mst_now_ns() - start_ns, wait->spin_ns);
    return result;
}

mst_wait_result mst_eventcount_wait(mst_eventcount *eventcount, const _Atomic uint64_t *value, uint64_t target, const mst_wait *wait) {
    if (__builtin_expect(mst_wait_test_hook != NULL, 0)) mst_wait_test_hook();
    if (atomic_load(value) >= target) return MST_REACHED;
    int64_t spin_ns = wait->spin ? mst_spin_ns(wait->spin, wait->spin_ns) : wait->spin_ns;
    if (wait->timeout_ns >= 0 && spin_ns > wait->timeout_ns) spin_ns = wait->timeout_ns;
    if (spin_ns > 0 && spin(value, target, wait, spin_ns)) return MST_REACHED;
    if (wait->yields > 0 && yield(value, target, wait)) return MST_REACHED;
    /* no time to sleep: nobody needs to know of this waiter */
    if (wait->timeout_ns >= 0 && wait->timeout_ns <= spin_ns) {
        bool stop = stopped(wait);
        return atomic_load(value) >= target ? MST_REACHED : stop ? MST_STOPPED : MST_TIMED_OUT;
    }
    return sleep_after_spin(eventcount, value, target, wait, spin_ns);
}
