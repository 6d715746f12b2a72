/* For modules that make functions of their own: what such a function runs. */
#ifndef MST_OWNER_IMPL_H
#define MST_OWNER_IMPL_H

#include "muster/function.h"

/* *user = the `user` of a function whose body is `body`, and no call of the runtime runs until
 * mst_function_leave. Errors: INVALID_ARGUMENT (another body; the message expects `what`),
 * BAD_STATE (a closed runtime). */
muster_status mst_function_enter(muster_function *function, muster_body body, const char *where, const char *what, void **user);
void mst_function_leave(muster_function *function);

#endif
