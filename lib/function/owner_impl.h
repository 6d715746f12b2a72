/* For modules that make functions of their own: what such a function runs. */
#ifndef MST_OWNER_IMPL_H
#define MST_OWNER_IMPL_H

#include "muster/function.h"

#include <stdbool.h>

/* *user = the `user` of a function whose body is `body`, and no call of the runtime runs until
 * mst_function_leave. Errors: INVALID_ARGUMENT (another body; the message expects `what`),
 * BAD_STATE (a closed runtime). */
muster_status mst_function_enter(muster_function *function, muster_body body, const char *where, const char *what, void **user);
/* For functions whose workers compute values together: the body runs without rows, too, and what it
 * computes then is collected, and updates variables, as with rows. Errors: as of
 * muster_function_set_runs_without_rows. */
muster_status mst_function_count_without_rows(muster_function *function);
void mst_function_leave(muster_function *function);

/* Called at the end of each call whose body has run on any worker of any process, in the thread
 * that makes the call, when no worker runs and outputs are complete or given up. With several
 * processes all call it with the same status. Returns `status`, perhaps with a longer message. */
typedef muster_status (*mst_function_ended)(void *user, muster_status status);
void mst_function_set_ended(muster_function *function, mst_function_ended ended);
/* The gathered output has as many rows as the call, so that another number is refused before any
 * worker runs. */
void mst_function_set_output_rows(muster_function *function, int64_t output);
/* Sets the end of the message for an output of another dtype: it says what the caller can do. The
 * library keeps the pointer `hint`, so that it must be a literal. */
void mst_function_set_dtype_hint(muster_function *function, const char *hint);

/* Inside a body: has each process rows of its own in this call? Then only the workers know how many
 * each of them has. */
bool mst_worker_rows_are_own(const muster_worker *worker);

/* Inside a body: *user = the `user` of another function of its runtime, whose body is `body`. It
 * stays as long as the body runs, since the end of a function waits for running calls. Errors:
 * INVALID_ARGUMENT (NULL, another runtime), UNSUPPORTED (another body; the message expects `what`),
 * BAD_STATE (outside a body, a function that has been destroyed). */
muster_status mst_function_inside(const muster_worker *worker, const muster_function *function, muster_body body, const char *where,
                                  const char *what, void **user);
/* Inside a body: the tensor of a variable that its function has declared, to be written too if
 * `written`. Errors: INVALID_ARGUMENT (the message begins with `where`, and says what the body does
 * with the variable: "runs", and `name`, which may be NULL), BAD_STATE (outside a body). */
muster_status mst_function_inside_variable(muster_worker *worker, const muster_variable *variable, bool written, const char *where,
                                           const char *does, const char *name, muster_tensor *tensor);

#endif
