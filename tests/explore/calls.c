/* What the shim puts in the place of compare-and-swap, the futex, mutexes and the clock: operations
 * of the modelled machine. */
#include "machine_private.h"

#include <linux/futex.h>
#include <pthread.h>
#include <stdarg.h>
#include <sys/syscall.h>
#include <time.h>

bool explore_compare_exchange(int order, void *address, size_t size, void *expected, uint64_t value) {
    uint64_t wanted = 0, before;
    memcpy(&wanted, expected, size);
    before = explore_operation(EXPLORE_COMPARE_EXCHANGE, order, address, size, value, wanted);
    memcpy(expected, &before, size);
    return before == wanted;
}

long explore_syscall(long number, ...);
long explore_syscall(long number, ...) {
    va_list arguments;
    va_start(arguments, number);
    uint32_t *word = va_arg(arguments, uint32_t *);
    int what = va_arg(arguments, int);
    uint32_t value = va_arg(arguments, uint32_t);
    const struct timespec *time = va_arg(arguments, const struct timespec *);
    va_end(arguments);
    if (number != SYS_futex) machine_broken("a system call other than futex");
    if ((what & FUTEX_CMD_MASK) == FUTEX_WAKE)
        return (long)explore_operation(EXPLORE_FUTEX_WAKE, __ATOMIC_SEQ_CST, word, sizeof(*word), value, 0);
    int64_t timeout = time ? (int64_t)time->tv_sec * 1000000000 + time->tv_nsec : -1;
    return (long)explore_operation(EXPLORE_FUTEX_WAIT, __ATOMIC_SEQ_CST, word, sizeof(*word), (uint64_t)timeout, value);
}

int explore_mutex(pthread_mutex_t *mutex, bool lock);
int explore_mutex(pthread_mutex_t *mutex, bool lock) {
    explore_operation(lock ? EXPLORE_LOCK : EXPLORE_UNLOCK, __ATOMIC_SEQ_CST, mutex, sizeof(uint64_t), 0, 0);
    return 0;
}

/* A condition is a number that each signal changes; a wait sleeps while it has the number that it
 * read before it released the mutex. */
int explore_condition_wait(pthread_cond_t *condition, pthread_mutex_t *mutex);
int explore_condition_wait(pthread_cond_t *condition, pthread_mutex_t *mutex) {
    const uint64_t number = explore_operation(EXPLORE_LOAD, __ATOMIC_SEQ_CST, condition, sizeof(uint32_t), 0, 0);
    explore_mutex(mutex, false);
    explore_operation(EXPLORE_FUTEX_WAIT, __ATOMIC_SEQ_CST, condition, sizeof(uint32_t), (uint64_t)-1, number);
    return explore_mutex(mutex, true);
}

int explore_condition_signal(pthread_cond_t *condition);
int explore_condition_signal(pthread_cond_t *condition) {
    explore_operation(EXPLORE_ADD, __ATOMIC_SEQ_CST, condition, sizeof(uint32_t), 1, 0);
    explore_operation(EXPLORE_FUTEX_WAKE, __ATOMIC_SEQ_CST, condition, sizeof(uint32_t), 1, 0);
    return 0;
}

int64_t mst_now_ns(void);
/* Never 0, which is no time to pool_device.c. */
int64_t mst_now_ns(void) { return 1 + machine_world.now; }
