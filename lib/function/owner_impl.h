/* For modules that make functions of their own: what such a function runs. */
#ifndef MST_OWNER_IMPL_H
#define MST_OWNER_IMPL_H

#include "muster/function.h"

/* *user = the `user` of a function whose body is `body`, and no call of the runtime runs until
 * mst_function_leave. Errors: INVALID_ARGUMENT (another body; the message expects `what`),
 * BAD_STATE (a closed runtime). */
muster_status mst_function_enter(muster_function *function, muster_body body, const char *where, const char *what, void **user);
/* For functions whose workers compute values together: the body runs without rows, too, and what it
 * computes then is collected, and updates variables, as with rows. Errors: as of
 * muster_function_set_runs_without_rows. */
muster_status mst_function_count_without_rows(muster_function *function);
void mst_function_leave(muster_function *function);

#endif
