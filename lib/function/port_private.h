/* The description of a function: its inputs, its outputs, and the variables that it uses. */
#ifndef MST_PORT_PRIVATE_H
#define MST_PORT_PRIVATE_H

#include "muster/function.h"
#include "variable_impl.h"

/* An input or an output. */
typedef struct mst_port {
    char *name;
    muster_dtype dtype;
    int32_t ndim;
    int32_t mode;  /* muster_input_mode without its flags, or muster_collect_mode */
    bool host;     /* MUSTER_INPUT_HOST: the body reads the input in host memory */
    bool strided;  /* MUSTER_STRIDED: the body takes the caller's strides */
    bool has_rows; /* a gathered output: it has the rows of the call, neither more nor fewer */
    uint32_t hash; /* of the name */
    int32_t ways;  /* with several processes: muster_source of an input, muster_target of an output */
} mst_port;

/* A variable that the function reads, writes or updates. */
typedef struct mst_use {
    muster_variable *variable;
    bool read, sliceable, written, updated; /* written: by the body, in place */
    muster_collect_mode mode;               /* of the update */
} mst_use;

#endif
