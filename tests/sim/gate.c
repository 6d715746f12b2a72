/* Threads sleep on futexes: a mutex and a condition variable would order what the real machine does
 * not. A bump that comes between the look and the sleep is seen by the kernel's compare; the short
 * sleep covers the processors on which relaxed accesses may pass each other. */
#include "state_impl.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

void sim_gate_bump(sim_gate *gate) {
    atomic_fetch_add_explicit(&gate->word, 1, memory_order_relaxed);
    syscall(SYS_futex, &gate->word, FUTEX_WAKE_PRIVATE, 0x7fffffff, NULL, NULL, 0);
}

void sim_gate_wait(sim_gate *gate, uint32_t seen) {
    struct timespec longest = {0, 20 * 1000 * 1000};
    syscall(SYS_futex, &gate->word, FUTEX_WAIT_PRIVATE, seen, &longest, NULL, 0);
}
