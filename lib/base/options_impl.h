/* Option structures, which begin with size_t struct_size and only grow: the caller may have been
 * built against an older header or a newer one. */
#ifndef MST_OPTIONS_IMPL_H
#define MST_OPTIONS_IMPL_H

#include "status_impl.h"

#include <stddef.h>

/* What both know of `given` goes over the defaults in options[size]; what only the caller knows
 * must be zero. given NULL: the defaults stay. where: the public function; init: the function that
 * sets struct_size; for messages. */
muster_status mst_options_read(const char *where, const char *init, const void *given, void *options, size_t size);

#endif
