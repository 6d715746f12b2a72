/* Takes the place of the compiler's <stdatomic.h> when the scheduler's files are compiled for the
 * explorer: every atomic operation becomes a call, and with it a point where another thread may
 * run. `const` in place of `_Atomic`: a write that goes round these functions does not compile. */
#ifndef EXPLORE_STDATOMIC_H
#define EXPLORE_STDATOMIC_H

#include "operation.h"

#define _Atomic const

typedef enum {
    memory_order_relaxed = __ATOMIC_RELAXED,
    memory_order_consume = __ATOMIC_CONSUME,
    memory_order_acquire = __ATOMIC_ACQUIRE,
    memory_order_release = __ATOMIC_RELEASE,
    memory_order_acq_rel = __ATOMIC_ACQ_REL,
    memory_order_seq_cst = __ATOMIC_SEQ_CST
} memory_order;

#define EXPLORE_TYPE(p) __typeof__(*(p) + 0)
#define EXPLORE_OPERATION(kind, order, p, v) \
    ((EXPLORE_TYPE(p))explore_operation(kind, order, (void *)(uintptr_t)(p), sizeof(*(p)), (uint64_t)(v), 0))

#define atomic_load_explicit(p, order) EXPLORE_OPERATION(EXPLORE_LOAD, order, p, 0)
#define atomic_store_explicit(p, v, order) ((void)EXPLORE_OPERATION(EXPLORE_STORE, order, p, v))
#define atomic_fetch_add_explicit(p, v, order) EXPLORE_OPERATION(EXPLORE_ADD, order, p, v)
#define atomic_fetch_sub_explicit(p, v, order) EXPLORE_OPERATION(EXPLORE_ADD, order, p, -(uint64_t)(v))
#define atomic_fetch_or_explicit(p, v, order) EXPLORE_OPERATION(EXPLORE_OR, order, p, v)
#define atomic_fetch_and_explicit(p, v, order) EXPLORE_OPERATION(EXPLORE_AND, order, p, v)
#define atomic_exchange_explicit(p, v, order) EXPLORE_OPERATION(EXPLORE_EXCHANGE, order, p, v)
#define atomic_compare_exchange_strong_explicit(p, e, v, order, failure) \
    explore_compare_exchange(order, (void *)(uintptr_t)(p), sizeof(*(p)), (e), (uint64_t)(v))
/* The weak form does not fail without a reason here: its loops are written for that anyway. */
#define atomic_compare_exchange_weak_explicit atomic_compare_exchange_strong_explicit
/* The project uses no fences: ThreadSanitizer cannot follow them, and the explorer does not,
 * either. */
#define atomic_thread_fence(order) _Static_assert(0, "no fences")

#define atomic_load(p) atomic_load_explicit(p, memory_order_seq_cst)
#define atomic_store(p, v) atomic_store_explicit(p, v, memory_order_seq_cst)
#define atomic_fetch_add(p, v) atomic_fetch_add_explicit(p, v, memory_order_seq_cst)
#define atomic_fetch_sub(p, v) atomic_fetch_sub_explicit(p, v, memory_order_seq_cst)
#define atomic_fetch_or(p, v) atomic_fetch_or_explicit(p, v, memory_order_seq_cst)
#define atomic_fetch_and(p, v) atomic_fetch_and_explicit(p, v, memory_order_seq_cst)
#define atomic_exchange(p, v) atomic_exchange_explicit(p, v, memory_order_seq_cst)
#define atomic_compare_exchange_strong(p, e, v) atomic_compare_exchange_strong_explicit(p, e, v, memory_order_seq_cst, memory_order_seq_cst)
#define atomic_compare_exchange_weak(p, e, v) atomic_compare_exchange_strong_explicit(p, e, v, memory_order_seq_cst, memory_order_seq_cst)

#endif
