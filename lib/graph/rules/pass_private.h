/* Updates of parameters in one pass. In a distributed graph the exchange of the gradients, the rule
 * and the new values on every device are one collective (core/apply_request_impl.h), at the end of
 * a run: what fails before leaves parameters and states as they were. The rule is a group, which
 * runs on the part of the sum that is in the cache. */
#ifndef MST_PASS_PRIVATE_H
#define MST_PASS_PRIVATE_H

#include "../program_private.h"
#include "communicator_impl.h"
#include "rules_private.h"

/* What an operand or a result of the rule's group is. */
typedef enum mst_pass_kind { MST_PASS_GRADIENT, MST_PASS_PARAMETER, MST_PASS_STATE, MST_PASS_SCALAR } mst_pass_kind;
typedef struct mst_pass_value {
    int8_t kind;   /* mst_pass_kind */
    int32_t index; /* of a state: its number in the entry; of a scalar: its number in the graph */
} mst_pass_value;

/* The rule of one parameter. */
typedef struct mst_pass_rule {
    int32_t entry;     /* the number in the graph's table of rules */
    int32_t group;     /* the number in the program */
    int32_t parameter; /* the number of the variable */
    int32_t clip;      /* the number of the norm by which its gradient is clipped; -1: it is not */
    int32_t states[MST_UPDATE_RULE_STATES];
    mst_pass_value operands[MST_GROUP_OPERANDS], results[MST_GROUP_RESULTS];
} mst_pass_rule;

/* The rules whose gradients have one dtype: one vector of gradients. */
typedef struct mst_pass_vector {
    int32_t first, count;               /* its rules */
    int64_t shared;                     /* elements of the shared vector */
    int32_t first_bucket, bucket_count; /* in bucket_ends; none: it is not divided */
} mst_pass_vector;

typedef struct mst_pass {
    mst_pass_rule *rules; /* sorted by the dtype of the gradients; with buckets, then by the order of the steps that make them */
    int32_t count;
    /* [rules][devices] where the states of the rule's parameter begin in the vector of all states
     * of a device; 0 where it has none of them */
    int64_t *first_states;
    mst_pass_vector *vectors;
    int32_t vector_count;
    int64_t *bucket_ends; /* of all vectors: where each bucket ends in its shared vector */
    int32_t bucket_count;
    /* [clip_count] of the calls of muster_graph_minimise that clip: the largest norm of the
     * gradients of a call */
    double *norms;
    int32_t clip_count;
} mst_pass;

/* A bucket of an instance. */
struct mst_pass_bucket {
    int32_t vector, bucket; /* the numbers of the vector, and of the bucket in it */
    int32_t step;           /* behind which it begins; -1: before the first */
};

static inline muster_dtype mst_pass_dtype(const mst_graph_program *program, const mst_pass_rule *rule) {
    return program->graph->rules->entries[rule->entry].parameter->type.dtype;
}
static inline const mst_graph_port *mst_pass_port(const mst_graph_program *program, const mst_pass_rule *rule) {
    return &program->graph->updates.items[program->graph->rules->entries[rule->entry].update];
}
/* Is the gradient a partial sum, so that each device updates a piece, and writes it everywhere? */
static inline bool mst_pass_is_shared(const mst_graph_program *program, const mst_pass_rule *rule) {
    return mst_pass_port(program, rule)->node->distribution.kind == MST_PARTIAL;
}

/* pass_buckets.c. The elements of the parameter. */
int64_t mst_pass_parameter_count(const mst_graph_program *program, const mst_pass_rule *rule);
/* How the shared vector is divided: the portions of the devices follow from it. */
mst_apply_layout mst_pass_layout(const mst_graph_program *program, const mst_pass_vector *vector);
/* pass_run.c. Begins the sums of a bucket, or its whole updates where these are eager. */
muster_status mst_pass_bucket_run(muster_worker *worker, const mst_graph_program *program, mst_instance *instance,
                                  const mst_pass_bucket *bucket);

/* pass_clip.c: clipping. The gradients are summed first, and stay on the device that updates them.
 * Each device has the squares of its portion; their sums, over the devices in the order of their
 * ranks, are the same bits everywhere, and so are the factors. */
typedef struct mst_pass_norms {
    const mst_graph_program *program;
    const mst_pass_rule *rules; /* of the segments for which a function is called */
    muster_tensor squares;      /* [clip_count] f64: of this device */
    muster_tensor factors[2];   /* [clip_count] f32, f64 */
    /* On devices, the squares of each part, [rules + 1] f64, while they are made. */
    muster_tensor parts;
    int32_t part_count, clip;
} mst_pass_norms;
muster_status mst_pass_norms_begin(muster_worker *worker, const mst_graph_program *program, mst_pass_norms *norms);
/* A function of the phase SUM on the host, and of mst_worker_apply_visit on devices, where it adds
 * to norms->parts those that are clipped by norms->clip. */
muster_status mst_pass_square(void *norms, muster_worker *worker, const mst_apply_part *part);
/* On a device, after mst_pass_square for all parts of a norm. */
muster_status mst_pass_squares_end(muster_worker *worker, mst_pass_norms *norms);
/* All devices together: the factors. */
muster_status mst_pass_factors_find(muster_worker *worker, mst_pass_norms *norms);
/* Multiplies the sums of a part by their factor, where they lie. */
muster_status mst_pass_scale(muster_worker *worker, const mst_pass_norms *norms, int32_t clip, const mst_apply_part *part);

#endif
