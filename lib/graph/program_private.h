/* A compiled graph, and its instances. A program is what the function's body runs; it is made once.
 * An instance is the program for certain shapes, strides and wanted outputs: the steps, the place
 * of every value in memory, ready to run. Each worker has its own instances. */
#ifndef MST_PROGRAM_PRIVATE_H
#define MST_PROGRAM_PRIVATE_H

#include "dialect_private.h"
#include "distribution/distribution_private.h"

/* Memory that a run brings along: one block of scratch memory, the inputs, the variables, the
 * outputs and the updates, numbered in this order. */
enum { MST_BASE_ARENA = 0, MST_BASE_NONE = -1 };

typedef struct mst_graph_program_step {
    const muster_expr *node;      /* of a group: its last */
    const mst_fused_group *group; /* NULL: the step computes one node */
    mst_tile_program *tile;       /* of a group on a CPU core */
    mst_fused_launch *launch;     /* of a group on a GPU */
    bool by_shard;                /* once for each logical shard of the worker */
    bool again;                   /* it makes values later than their first step, or again (recompute/recompute_private.h) */
    bool repeats;                 /* at least one of them again */
    struct mst_loop_run *loop;    /* of the loop over micro-batches (micro/micro_private.h) */
    int32_t copy_from;            /* >= 0: the step copies this value (a position) into an output or update */
    int32_t combines;             /* of a loop, a muster_reduction: the copied value is combined with those of earlier micro-batches */
    int32_t in_count, out_count;
    const muster_tensor **in; /* one for each operand */
    muster_tensor **out;      /* one for each result of the group, or MST_RESULTS; "no tensor": not wanted */
    void *state;              /* of the operator */
    uint64_t ticks;           /* what the last run took, of a timed program */
} mst_graph_program_step;

/* A value whose address changes with that of its base. */
typedef struct mst_place {
    muster_tensor *tensor;
    int64_t offset; /* in bytes, from the first element of the base */
} mst_place;

/* Memory of the block that nothing needs after a step. */
typedef struct mst_dead_range {
    int32_t step;
    int64_t offset, bytes;
} mst_dead_range;

typedef struct mst_pass_bucket mst_pass_bucket; /* rules/pass_private.h */

typedef struct mst_instance {
    int64_t used;             /* the clock of the last run */
    int64_t sizes[MST_SIZES]; /* of a distributed program: of the whole values */
    mst_sharing sharing;      /* of a distributed program */
    int64_t *row_edges;       /* of `sharing` */
    bool is_first;            /* of a loop: this micro-batch is the first */
    /* Shapes and strides for which it was made. */
    muster_tensor *given;   /* [inputs + variables] */
    muster_tensor *targets; /* [outputs + updates]; "no tensor": an output that is not wanted */
    int64_t arena_bytes;
    int64_t unlimited_bytes; /* what the block would need without memory_limit */
    int32_t repeated_steps;  /* that make values again */
    int64_t workspace_bytes; /* scratch memory that its steps took beside the block in the first run; -1: none; 0: there was no run */
    /* Where memory must not grow during a run, else 0: scratch memory that steps may take, and the
     * bytes of what is exchanged, for which a run has to ask the collectives once. */
    int64_t scratch_bytes, exchanged;
    muster_tensor none;     /* no tensor: for results that are not wanted */
    muster_tensor *tensors; /* by position */
    mst_graph_program_step *steps;
    int32_t step_count;
    mst_place *places;         /* grouped by base */
    int32_t *first_place;      /* [bases + 1] */
    char **addresses;          /* [bases]: where the base was in the last run */
    struct mst_pass_run *pass; /* [rules of the program's pass] */
    struct mst_apply_segment *segments;
    struct mst_apply_request *requests;    /* [vectors of the pass] of the run */
    struct mst_pass_context *pass_context; /* of the run */
    mst_pass_bucket *buckets;              /* [buckets of the pass] in the order in which they begin */
    int32_t next_bucket;                   /* of the run */
    int32_t begins_at;                     /* the step behind which the next bucket begins; -1: none does */
    bool *undefined;                       /* by rule: what a pass that failed says of the parameter */
    int32_t device;                        /* of the worker */
    mst_dead_range *dead;                  /* of a checked program */
    int32_t dead_count;
    mst_arena memory; /* holds all of it */
} mst_instance;

enum { MST_INSTANCES = 8 };
typedef struct mst_graph_program_rank {
    mst_instance *instances[MST_INSTANCES];
    mst_instance *last; /* of the last run */
    int64_t clock;
    int64_t largest_bytes;   /* of the blocks of all instances so far */
    muster_tensor *given;    /* [inputs + variables] of the run that is being made; behind them, in the same memory: */
    muster_tensor *updates;  /* [updates] where the run writes new values of variables */
    muster_tensor *replicas; /* [updates] that inside.c writes behind the run */
    mst_sharing sharing;     /* of a distributed program: of the last run */
    int64_t *row_edges;      /* [workers + 1], then those of the shards */
    int64_t call_rows;       /* of all workers of the call; 0 within the body of another function */
    bool *written;           /* by rule of the pass: this run has written the parameter, perhaps some elements only */
    bool running;            /* the steps run: an operator of the program must not run the same program */
    char padding[MST_CACHE_LINE];
} mst_graph_program_rank;

typedef struct mst_graph_program {
    mst_graph *graph;
    bool checked;              /* runs go through guard.c */
    bool distributed;          /* the workers share the values of one device */
    bool exchanges;            /* the workers meet in a run */
    bool overlaps;             /* the exchange of gradients begins beside the steps that make others */
    bool eager;                /* parameters are updated as soon as no later step needs them */
    bool rows_given;           /* inputs are scattered, so that every worker knows the rows of all */
    bool unfused;              /* compiling has failed, and succeeds without groups */
    bool unshared, all_rows;   /* all_rows: slices would give other values */
    bool *channels_last;       /* by id: the value lies so; NULL: none does. That of a loop is the outer program's */
    int64_t memory_limit;      /* of the block of intermediate values, in bytes; 0: none */
    atomic_bool limit_missed;  /* a block is larger, and the log says so */
    int8_t *phase;             /* by id: MST_PHASE_...; NULL: the program has no loop */
    struct mst_loop *loop;     /* over micro-batches; NULL: there is none */
    int32_t *given_of;         /* of the program of a loop: by id, the number of the value among those given to it; -1: it is made here */
    const int32_t *combined;   /* of the program of a loop: by position, the number of the output that is a partial value; else -1 */
    const muster_expr *placed; /* the first node that is placed on a device; NULL: none */
    mst_fused_group *groups;
    int32_t *group_of; /* by id: the number of the node's group, -1: it has none; NULL: there are no groups */
    int32_t group_count;
    mst_fused_program *fused; /* the groups on GPUs; NULL: there are none */
    muster_expr **order;      /* operands before what is made from them; the members of a group follow each other */
    int32_t count;
    int32_t *position;               /* by id; -1: not in the order */
    int32_t (*results)[MST_RESULTS]; /* by position: the positions of the other results; -1: none */
    int32_t input_count, variable_count, output_count, update_count, base_count;
    const char **titles; /* by position: names for traces, of step_names; NULL: no trace is wanted */
    struct mst_step_names *step_names;
    bool timed, observed; /* observed: it has titles, or is timed */
    mst_graph_program_rank *ranks;
    int32_t rank_count;
    struct mst_pass *pass;        /* updates that one pass makes; NULL: there are none */
    mst_fused_group *pass_groups; /* of the pass, until they are among the others */
} mst_graph_program;

/* A program with micro-batches has a loop, which is one of its steps. */
enum { MST_PHASE_NONE = -1, MST_PHASE_BEFORE = 0, MST_PHASE_LOOP = 1, MST_PHASE_AFTER = 2 };
static inline int32_t mst_program_phase(const mst_graph_program *p, const muster_expr *node) {
    return p->phase ? p->phase[node->id] : MST_PHASE_BEFORE;
}
/* The number of a value that a run is given, inputs first, then variables; -1: the program makes
 * it. */
static inline int32_t mst_program_given(const mst_graph_program *p, const muster_expr *node) {
    if (p->given_of) return p->given_of[node->id];
    if (mst_node_is(node, MST_OPERATOR_input)) return node->at;
    return mst_node_is(node, MST_OPERATOR_parameter) ? p->input_count + node->at : -1;
}
/* The operands of the node in this program: what is given has none. */
static inline int32_t mst_program_operands(const mst_graph_program *p, const muster_expr *node) {
    return p->given_of && p->given_of[node->id] >= 0 ? 0 : node->input_count;
}
static inline int32_t mst_program_group(const mst_graph_program *p, const muster_expr *node) {
    return p->group_of ? p->group_of[node->id] : -1;
}
static inline int32_t mst_base_input(const mst_graph_program *p, int32_t i) {
    (void)p;
    return 1 + i;
}
static inline int32_t mst_base_variable(const mst_graph_program *p, int32_t i) { return 1 + p->input_count + i; }
static inline int32_t mst_base_output(const mst_graph_program *p, int32_t i) { return 1 + p->input_count + p->variable_count + i; }
static inline int32_t mst_base_update(const mst_graph_program *p, int32_t i) {
    return 1 + p->input_count + p->variable_count + p->output_count + i;
}

enum { MST_MICRO_BATCHES = 1 << 20 };
/* compile_check.c. What the program wrote, before anything is made of it; then sizes that no input
 * has; operations that are placed on a device where they cannot be. Errors: INVALID_ARGUMENT,
 * UNSUPPORTED, the graph's first error. */
muster_status mst_compile_check_graph(const mst_graph *graph, const muster_graph_options *options);
/* Before the rules of the graph have made their updates: is it without an error, and is there such
 * a meaning? */
muster_status mst_compile_check_first(const mst_graph *graph, const muster_graph_options *options);
muster_status mst_compile_check_sizes(const mst_graph_program *program);
muster_status mst_compile_check_places(const mst_graph_program *program, muster_graph_meaning meaning);
/* The first node that is placed on a device, or NULL. */
const muster_expr *mst_program_find_placed(const mst_graph_program *program);

/* fuse.c. The groups, before the order is known. Errors: OUT_OF_MEMORY. */
muster_status mst_graph_program_fuse(mst_graph_program *program);

/* order.c. Does the step of this node take operand i as a number from the node itself? */
bool mst_operand_is_number(const muster_expr *node, int32_t i);
/* The same, for a node of this program: the members of groups take every number as it is. */
bool mst_program_operand_is_number(const mst_graph_program *program, const muster_expr *node, int32_t i);
/* The positions of the nodes that outputs and updates need. Errors: OUT_OF_MEMORY. */
muster_status mst_graph_program_order(mst_graph_program *program);

/* layout.c. Which values lie with their channels last. Errors: OUT_OF_MEMORY. mst_layout_set: the
 * strides of a value in row-major order become those that it has. */
muster_status mst_graph_program_layout(mst_graph_program *program);
void mst_layout_set(const mst_graph_program *program, const muster_expr *node, muster_tensor *tensor);

/* instance.c. An instance for these shapes on the worker of the rank; `given` are the inputs and
 * variables. Errors: those of the shapes, OUT_OF_MEMORY. */
muster_status mst_instance_make(const mst_graph_program *program, int32_t rank, const muster_tensor *given, const muster_tensor *out,
                                const muster_tensor *updates, mst_instance **instance);
static inline const mst_sharing *mst_instance_sharing(const mst_instance *instance) {
    return instance->sharing.size ? &instance->sharing : NULL;
}
/* The same for the program of a loop: the sharing and the sizes are those of a micro-batch. limit:
 * of its block, in bytes; 0: none. */
muster_status mst_instance_make_loop(const mst_graph_program *program, int32_t rank, const mst_sharing *sharing,
                                     const int64_t sizes[MST_SIZES], int64_t limit, const muster_tensor *given, const muster_tensor *out,
                                     mst_instance **instance);
void mst_instance_free(mst_instance *instance);

/* plan.c: memory for values. */
typedef struct mst_plan_value {
    int32_t base;   /* the memory that holds it; MST_BASE_NONE: not needed */
    int32_t buffer; /* in the arena, else -1 */
} mst_plan_value;
typedef struct mst_plan_buffer {
    int64_t bytes, offset;
    int32_t last;   /* the last step that uses it */
    int32_t next;   /* in the list of those with the same last step */
    int32_t shared; /* the buffer whose memory it takes over, or -1 */
} mst_plan_buffer;
typedef struct mst_plan {
    const mst_graph_program *program;
    mst_instance *instance;
    mst_plan_value *values; /* by position */
    mst_plan_buffer *buffers;
    int32_t buffer_count;
} mst_plan;
/* Gives every buffer its offset. Errors: OUT_OF_MEMORY, OVERFLOW. */
muster_status mst_plan_memory(mst_plan *plan);

/* shards.c. Runs the step for each logical shard of the worker, with the parts of its operands and
 * results that belong to the shard. */
bool mst_step_is_by_shard(const muster_expr *node, const mst_sharing *sharing);
muster_status mst_step_run_shards(muster_worker *worker, const mst_instance *instance, mst_graph_program_step *step);

/* rules/pass.c and rules/pass_run.c: updates of parameters in one pass (rules/pass_private.h). */
muster_status mst_pass_find(mst_graph_program *program);
muster_status mst_pass_groups(mst_graph_program *program);
void mst_pass_drop(mst_graph_program *program);
muster_status mst_pass_lay_states(mst_graph_program *program);
/* agree.c: with several processes all compile the same program, and return the same status; with
 * one they do nothing. agree_options, before anything else: *unfused: does this process compute
 * each operation by itself? Becomes: does any? agree_groups, in the same way: have groups been
 * refused by a device, so that the program is made again without? agree: do all have the same
 * program? agree_made: have all made their function? refuse: tells the others, in place of
 * agree_options, that this process refuses to compile. */
muster_status mst_program_refuse(const mst_graph *graph, muster_status refused);
muster_status mst_program_agree_options(const mst_graph *graph, const muster_graph_options *options, muster_status status, bool *unfused);
muster_status mst_program_agree_groups(const mst_graph *graph, muster_status status, bool *again);
muster_status mst_program_agree(const mst_graph *graph, const mst_graph_program *program, muster_status status);
muster_status mst_program_agree_made(const mst_graph *graph, muster_status status);

/* When the order of the nodes is known: the vectors and the buckets. */
muster_status mst_pass_arrange(mst_graph_program *program, int64_t bucket_bytes);
struct mst_making;
/* When the steps of an instance are known: when each bucket begins. */
muster_status mst_pass_schedule(struct mst_making *making);
/* Before the steps of a run. */
void mst_pass_open(const mst_graph_program *program, mst_instance *instance, const muster_tensor *given, const muster_tensor *updates);
/* Behind this step: the buckets that can begin. */
muster_status mst_pass_begin(muster_worker *worker, const mst_graph_program *program, mst_instance *instance, int32_t step);
bool mst_pass_writes(const mst_graph_program *program, int32_t variable);
muster_status mst_pass_targets(muster_worker *worker, const mst_graph_program *program, const muster_tensor *given, muster_tensor *updates);
int64_t mst_pass_clip_bytes(const mst_graph_program *program); /* of scratch memory on a device; 0: nothing is clipped */
muster_status mst_pass_prepare(const mst_graph_program *program, int32_t rank, mst_instance *instance);
muster_status mst_pass_reserve(muster_worker *worker, const mst_graph_program *program, const mst_instance *instance);
muster_status mst_pass_run(muster_worker *worker, const mst_graph_program *program, mst_instance *instance);
/* rules/pass_failed.c. Allocates the notes of the ranks. Errors: OUT_OF_MEMORY. */
muster_status mst_pass_make_notes(mst_graph_program *program);
/* Notes which rules a run has applied: of `count` from `first` on those that `which` says, or
 * all. */
void mst_pass_note_written(mst_graph_program_rank *rank, int32_t first, int32_t count, const bool *which);
/* The end of a call (mst_function_ended): what the pass of a failed call has written becomes
 * undefined. */
muster_status mst_pass_ended(void *program, muster_status status);

/* run_sharing.c. Which rows each worker has: as the call distributes them, or as the workers tell
 * each other. Errors: UNSUPPORTED (rows that logical shards cannot have), those of the
 * collective. */
muster_status mst_sharing_find(muster_worker *worker, const mst_graph_program *program, mst_graph_program_rank *rank,
                               const muster_tensor *given);

/* micro/: the loop over micro-batches (micro/micro_private.h). Making it sets program->loop, of a
 * program with phases and an order. */
muster_status mst_phases_find(mst_graph_program *program);
muster_status mst_loop_make(mst_graph_program *program, int64_t micro_batches, bool unfused);
void mst_loop_free(struct mst_loop *loop);
muster_status mst_loop_name_steps(struct mst_loop *loop);
muster_status mst_loop_run(muster_worker *worker, const mst_instance *instance, const mst_graph_program_step *step);
void mst_loop_run_free(struct mst_loop_run *run);
muster_status mst_combine_run(muster_worker *worker, const mst_instance *instance, const mst_graph_program_step *step);

/* compile.c. Finds the groups, and compiles them for devices that need that. */
muster_status mst_program_groups_make(mst_graph_program *program);
/* Frees what a program has but its graph and its ranks. */
void mst_graph_program_parts_free(mst_graph_program *program);

/* run.c. The base of values of an instance lies at this memory now. slowly: it lay elsewhere. */
void mst_base_move_slowly(mst_instance *instance, int32_t base, const muster_tensor *memory);
static inline void mst_base_move(mst_instance *instance, int32_t base, const muster_tensor *memory) {
    if (instance->addresses[base] != (char *)muster_tensor_address(*memory)) mst_base_move_slowly(instance, base, memory);
}
/* All steps, in their order. */
muster_status mst_steps_run(muster_worker *worker, const mst_graph_program *program, mst_instance *instance);
muster_status mst_graph_step_run(muster_worker *worker, mst_instance *instance, mst_graph_program_step *step);

/* guard.c: a step of a checked program. Errors: those of the step; for what an operator
 * must not do USER, and INTERNAL if it is the library's. */
muster_status mst_guard_begin(muster_worker *worker, const mst_instance *instance);
muster_status mst_guard_step(muster_worker *worker, mst_instance *instance, int32_t index);

/* Runs the program on tensors of the worker, whose rank is `rank`; its `updates` are where new
 * values of variables are written. Errors: those of the shapes, of scratch memory and of the
 * steps. */
muster_status mst_graph_program_run(muster_worker *worker, mst_graph_program *program, mst_graph_program_rank *rank,
                                    const muster_tensor *given, const muster_tensor *out);
muster_status mst_graph_program_body(muster_worker *worker, const muster_tensor *in, muster_tensor *out, void *program);
void mst_graph_program_destroy(void *program);

#endif
