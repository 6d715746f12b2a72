#include "fork_join.h"

#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

typedef struct member {
    bench_fork_join *team;
    pthread_t thread;
    int32_t cpu;
} member;

struct bench_fork_join {
    _Alignas(128) _Atomic uint32_t epoch;
    _Alignas(128) _Atomic uint32_t missing;
    _Alignas(128) _Atomic bool quit;
    int32_t helpers, threads;
    member members[64];
};

static void sleep_while(_Atomic uint32_t *word, uint32_t value) { syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0); }
static void wake(_Atomic uint32_t *word, int count) { syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, count, NULL, NULL, 0); }

static void *helper_main(void *self) {
    member *mine = self;
    bench_fork_join *team = mine->team;
    if (mine->cpu >= 0)
        bench_pin(mine->cpu);
    else
        bench_unpin();
    for (uint32_t seen = 0;; seen++) {
        while (atomic_load(&team->epoch) == seen) sleep_while(&team->epoch, seen);
        if (atomic_load(&team->quit)) return NULL;
        if (atomic_fetch_sub(&team->missing, 1) == 1) wake(&team->missing, 1);
    }
}

static void fork_join(bench_fork_join *team) {
    atomic_store(&team->missing, (uint32_t)team->threads - 1);
    atomic_fetch_add(&team->epoch, 1);
    wake(&team->epoch, INT_MAX);
    for (uint32_t missing; (missing = atomic_load(&team->missing)) != 0;) sleep_while(&team->missing, missing);
}

bench_fork_join *bench_fork_join_open(int32_t threads, bool pinned) {
    bench_fork_join *team = aligned_alloc(128, sizeof *team);
    if (!team) return NULL;
    *team = (bench_fork_join){.threads = threads};
    for (int32_t i = 1; i < threads && i < 64; i++) {
        member *next = &team->members[team->helpers];
        *next = (member){.team = team, .cpu = pinned ? bench_cpu(i % bench_cores()) : -1};
        if (pthread_create(&next->thread, NULL, helper_main, next) != 0) {
            bench_fork_join_close(team);
            return NULL;
        }
        team->helpers++;
    }
    return team;
}

void bench_fork_join_close(void *self) {
    bench_fork_join *team = self;
    atomic_store(&team->quit, true);
    atomic_fetch_add(&team->epoch, 1);
    wake(&team->epoch, INT_MAX);
    for (int32_t i = 0; i < team->helpers; i++) pthread_join(team->members[i].thread, NULL);
    free(team);
}

bool bench_fork_join_block(void *self, const bench_block *block, double *ns, int64_t *wrong) {
    (void)wrong;
    BENCH_TIME(block, ns, fork_join(self));
    return true;
}
