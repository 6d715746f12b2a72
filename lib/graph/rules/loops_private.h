/* The rules as single loops over f32 and f64, for CPU cores. The numbers between the gradient and
 * the new parameter stay in the processor, where a group would write them to the cache and read
 * them again. Each operation rounds as in the rule's text, in its order, so the bits are those of
 * the group. */
#ifndef MST_RULE_LOOPS_PRIVATE_H
#define MST_RULE_LOOPS_PRIVATE_H

#include "op_impl.h"

#include <stdbool.h>

enum { MST_RULE_LOOP_STATES = 2 };

/* The numbers of a rule, those that it has. `rate` is the factor before the gradient or the moment:
 * for adam and adamax it has the corrections in it. */
typedef struct mst_rule_numbers {
    double rate, momentum, beta1, beta2, rho, epsilon;
} mst_rule_numbers;

/* Where the vectors of a call lie. A loop updates the parameter and the states in place. With two
 * gradients it adds them, and writes the new values to `copy`, too: if past_cache, by stores that
 * bypass the cache, after which the caller calls mst_stream_fence. They do not overlap. */
typedef struct mst_rule_vectors {
    const void *gradients[2];
    void *parameter, *copy;
    bool past_cache;
    void *states[MST_RULE_LOOP_STATES];
} mst_rule_vectors;

typedef void (*mst_rule_loop)(const mst_rule_numbers *numbers, const mst_rule_vectors *vectors, int64_t n);
typedef struct mst_rule_loops {
    mst_rule_loop single;    /* of gradients[0], without a copy */
    mst_rule_loop pair;      /* of both gradients, with a copy */
    mst_rule_loop streaming; /* the same past the cache */
} mst_rule_loops;

/* By muster_update_rule. */
extern const mst_rule_loops mst_rule_loops_f32[], mst_rule_loops_f64[];

/* The rule of one parameter in an instance. */
typedef struct mst_rule_use {
    mst_rule_loops loops;
    mst_rule_numbers numbers;
    const muster_tensor *rate; /* a scalar on the host, read by each call; NULL: a number */
} mst_rule_use;

struct mst_graph_program;
struct mst_pass_rule;
/* in: the operands of the rule's group, of which scalars have their memory when it runs. false: the
 * rule is more than a loop. */
bool mst_rule_loop_find(const struct mst_graph_program *program, const struct mst_pass_rule *rule, const muster_tensor *const *in,
                        mst_rule_use *use);
void mst_rule_loop_run(const mst_rule_use *use, const mst_rule_vectors *vectors, int64_t count);

#endif
