/* Inputs and outputs of a call that lie in the memory of a device, where host code cannot read. A
 * worker that can address the memory uses it directly. The others get the rows through the host
 * copy, which is host memory with a place for all rows of the tensor. Tensors of host devices need
 * none of this: every worker treats them as the caller's own memory. */
#ifndef MST_PLACE_PRIVATE_H
#define MST_PLACE_PRIVATE_H

#include "call_private.h"

/* How a rank gets at the memory: through the host copy; its device copies from and to the memory;
 * or the body gets the memory itself. */
enum { MST_ACCESS_BY_HOST, MST_ACCESS_COPY, MST_ACCESS_IN_PLACE };

struct mst_place {
    muster_tensor tensor; /* as passed; no tensor: this one is in host memory, or is not wanted */
    mst_store host_copy;  /* page-locked memory of the device `host_copy_rank`, for all elements, contiguous */
    int32_t host_copy_rank;
    bool fetched;   /* the host copy has all rows of this call */
    int8_t *access; /* [size] of the runtime */
};

/* `index` counts the inputs and then the outputs. NULL: the tensor is in host memory. */
static inline const mst_place *mst_plan_place(const mst_plan *plan, int64_t index) {
    return __builtin_expect(plan->placed, 0) && plan->places[index].tensor.dtype ? &plan->places[index] : NULL;
}
static inline const mst_place *mst_input_place(const mst_call *call, int64_t input) { return mst_plan_place(&call->function->plan, input); }
static inline const mst_place *mst_output_place(const mst_call *call, int64_t output) {
    return mst_plan_place(&call->function->plan, call->function->input_count + output);
}
/* Does a body on this device read or write the tensor where it is? place: of the tensor. */
static inline bool mst_used_in_place(const mst_place *place, const mst_device *device, int32_t rank) {
    return place ? place->access[rank] == MST_ACCESS_IN_PLACE : mst_device_is_host(device);
}

/* Begins a plan: forgets the places of the plan before. */
void mst_places_reset(mst_plan *plan);
/* Checks the memory of a tensor of the call that is not host memory. Host code that reads the plan
 * finds the host copy in its place, of which mst_place_fetch, mst_places_fetch and
 * mst_place_reserve set the address. planned: the tensor in the plan. */
muster_status mst_place_check(muster_function *function, const char *where, int64_t index, muster_tensor *planned);
/* Copies all rows of an input that is not in host memory to its host copy, as a process needs that
 * sends them to others. Between mst_plan_make and the run. */
muster_status mst_place_fetch(const mst_call *call, int64_t input, const char *where);
/* The same for all other inputs, and only the rows that ranks read through the host copy. */
muster_status mst_places_fetch(const mst_call *call, const char *where);
/* After the run. reserve: makes the host copy of an output, whose address the plan then has.
 * deliver: copies rows [begin, end) of the host copy to the tensor (ndim 0: everything). */
muster_status mst_place_reserve(const mst_call *call, int64_t output, const char *where);
muster_status mst_place_deliver(const mst_call *call, int64_t output, int64_t begin, int64_t end, const char *where);
/* Frees what the places of the function own. */
void mst_places_free(muster_function *function);

/* On the worker: fills rank->in[input] with positions [begin, end) of a placed input that the rank
 * does not read through the host copy; a broadcast input is taken as a whole. */
muster_status mst_place_stage(mst_call *call, muster_worker *worker, int64_t input, const muster_selection *selection, int64_t begin,
                              int64_t end);

#endif
