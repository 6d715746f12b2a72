/* Recurrent layers and the nodes of their steps: the declarations that both use. */
#ifndef MST_OPERATORS_RECURRENT_PRIVATE_H
#define MST_OPERATORS_RECURRENT_PRIVATE_H

#include "composite_private.h"
#include "recurrent/recurrent_impl.h"

enum { ROWS_AXIS, STEPS_AXIS, LAST_AXIS, LAYER_AXES }; /* of x, and of the gates */

#endif
