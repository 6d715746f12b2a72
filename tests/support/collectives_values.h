/* Short tests of collectives: tensors whose values are sequences, on whatever device the worker
 * drives, and pools of every kind to run them on. */
#ifndef COLLECTIVES_VALUES_H
#define COLLECTIVES_VALUES_H

#include "base_check.h"
#include "collectives_pool.h"

/* count i64 on the worker's device: first, first + step, first + 2 step, ... */
muster_tensor values_make(muster_worker *w, int64_t count, int64_t first, int64_t step);
/* USER with the first element that is another. */
muster_status values_expect(muster_worker *w, muster_tensor tensor, int64_t first, int64_t step);
/* The same for a part of it. */
muster_status values_expect_part(muster_worker *w, muster_tensor tensor, int64_t begin, int64_t end, int64_t first, int64_t step);

/* A copy of a host tensor on the worker's device, and whether one there has the same bytes. */
muster_tensor values_copy(muster_worker *w, muster_tensor host);
muster_status values_same(muster_worker *w, muster_tensor tensor, muster_tensor host);

/* The task succeeds on pools of `least` to 9 host devices, and on discrete and mixed ones. */
void values_run_on_all(mst_task task, void *argument, int32_t least);
/* On this many host devices. */
void values_run_on(mst_task task, void *argument, int32_t host);
/* It fails on host devices with `code` and a message that holds `text`; after which the pool
 * works. */
void values_refused_on(mst_task task, void *argument, int32_t host, int64_t fail_after_ns, muster_status code, const char *text);

/* Inside a task: an error with the condition as its sentence. */
#define VALUES_REQUIRE(condition)                                                                                               \
    do {                                                                                                                        \
        if (!(condition))                                                                                                       \
            return mst_error(MUSTER_USER, "%s:%d: rank %d: not so: %s", __FILE__, __LINE__, muster_worker_rank(w), #condition); \
    } while (0)
/* The call is refused with `code` and a message that holds `text`. */
#define VALUES_REFUSED(call, code, text) MUSTER_TRY(values_refused(call, code, text, #call))
muster_status values_refused(muster_status received, muster_status expected, const char *text, const char *call);

#endif
