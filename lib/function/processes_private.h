/* Calls that several processes make together (processes.c): every process plans its part of the
 * rows, all agree in a begin round before anything is touched, each runs its part on its own
 * devices, and all agree in an end round on the outcome, before outputs and variables change. */
#ifndef MST_PROCESSES_PRIVATE_H
#define MST_PROCESSES_PRIVATE_H

#include "call_private.h"
#include "nodes/nodes_impl.h"

/* `count` rows from `first` on are divided over `shards` shards by even edges; the first shard of
 * this process is number `shard` of these. */
typedef struct mst_call_rows {
    int64_t first, count;
    int32_t shard, shards;
} mst_call_rows;

/* Where an output lies in the block of bytes that each process gives to all at the end. */
typedef struct mst_block_slot {
    int64_t weights; /* of a gathered output its rows, and those of bodies without rows */
    int64_t values;  /* -1: too large for the block */
} mst_block_slot;

/* In front of the block of each process; behind it, in the end round, where it fits. */
typedef struct mst_block_head {
    int64_t ends_late; /* something can still fail in this process when the data have travelled */
} mst_block_head;
enum { MST_BLOCK_BYTES = MST_ROUND_BYTES - (int32_t)sizeof(mst_block_head) };

/* What a process says of its rows before a call for which not all processes know all. */
typedef struct mst_own_rows {
    int64_t own_count;    /* rows of its own inputs or of its sliceable variables; -1: it has neither */
    int64_t all;          /* rows of the inputs that it passes whole; -1: none */
    int64_t contributors; /* of its shards */
} mst_own_rows;

typedef struct mst_processes_state {
    mst_own_rows *rows; /* [processes] of a counted call */
    int64_t *bytes;     /* [processes] */
    /* The tensors of the call. Where only process 0 passes one, the others have a tensor of their
     * own here, for their rows of it, whose memory is `received`. */
    muster_tensor *inputs, *outputs;
    mst_store *received;               /* [inputs + outputs] */
    mst_store *partials;               /* [outputs] what is combined, in the compute dtype */
    mst_block_slot *slots;             /* [outputs] */
    int64_t *master_rows;              /* [outputs] the rows of process 0's tensor, where it alone gets the output */
    mst_store block, blocks, gathered; /* this process's block, those of all, and chunks or rows on their way */
    int32_t most_shards;               /* that any process has */
} mst_processes_state;

/* Called when the function is sealed; with one process make does nothing. */
muster_status mst_processes_make(muster_function *function, const char *where);
void mst_processes_free(muster_function *function);

/* processes.c: the whole call, in the queue. */
muster_status mst_processes_call(muster_function *function, const mst_arguments *arguments);
/* Plans the function and agrees with the other processes, and does not run it. */
muster_status mst_processes_prepare(muster_function *function, const mst_arguments *arguments);

/* Makes the begin round of a call that this process refuses: the others are told, and every process
 * returns the same error. Reads arguments->where, ->single and the deadlines of ->options. */
muster_status mst_processes_refuse(muster_function *function, const mst_arguments *arguments, muster_status refused);
/* The same outside of the pool, of a call whose options are refused. With one process: refused. */
muster_status mst_processes_refuse_options(muster_function *function, const char *where, bool single, muster_status refused);

/* process_rows.c. Must the processes tell each other how many rows they have? */
bool mst_processes_are_counted(const muster_function *function);

/* process_signature.c. May the processes pass different numbers of rows? */
bool mst_processes_input_by_rows(const mst_port *port);
/* What a call passes, in one number. planned: the plan of the call has been
 * made. */
uint64_t mst_processes_signature(const muster_function *function, const mst_arguments *arguments, bool planned);
/* The same, argument by argument; context: mst_processes_passed. */
typedef struct mst_processes_passed {
    const muster_function *function;
    const mst_arguments *arguments;
} mst_processes_passed;
void mst_processes_details(const void *context, mst_round_details *details);
uint64_t mst_processes_name_hash(const muster_function *function);

/* The deadlines of the call hold for its rounds, too. Not for data behind them: the library's own
 * copies count to the time in which they travel. */
void mst_processes_set_deadlines(const mst_arguments *arguments, mst_round *round);
/* muster_runtime_cancel ends the call in this round. */
void mst_processes_let_end(const muster_function *function, mst_round *round);
/* The round in which they do; all return the same. Sets *planned to the arguments with which this
 * process plans: those of `arguments`, and tensors of the library for what only process 0 passes.
 * *taken: did this process have the memory for these? It tells the others in the next round. */
muster_status mst_processes_count(muster_function *function, const mst_arguments *arguments, mst_arguments *planned, muster_status *taken);
/* For plan.c: the rows of the call, of which `count` is what this process's inputs say; and what
 * else a plan says of all processes. */
mst_call_rows mst_processes_rows(const mst_call *call, int64_t count);
void mst_processes_plan(mst_call *call, const mst_call_rows *edges);
/* Memory for the rows that process 0 sends, and those that lie on a device, before all agree that
 * they take part. */
muster_status mst_processes_reserve_inputs(muster_function *function, const char *where);
/* The rows of process 0's inputs go to the processes that compute them. */
muster_status mst_processes_send_inputs(muster_function *function, const char *where);

/* process_blocks.c. The size of a block without its head, the same in all processes; 0: there is
 * nothing to collect. */
int64_t mst_processes_block_bytes(const mst_call *call);
/* Before the end round: makes this process's block, and takes the memory for what follows. */
muster_status mst_processes_make_block(mst_call *call, const char *where);
/* process_outputs.c. After it: `all` holds what all processes have brought, `payload_bytes` each.
 * Can a process still fail alone? Then all make another end round when they have collected. */
bool mst_processes_end_late(const mst_call *call, const void *all, int64_t payload_bytes);
/* Writes the outputs. What fails in this process alone does not keep it from sending its data. */
muster_status mst_processes_collect(mst_call *call, const char *where, const void *all, int64_t block_bytes);
/* The same of a single call, which process 0 has made: its block is the outputs, one behind the
 * other. */
int64_t mst_processes_single_bytes(const mst_call *call);
muster_status mst_processes_make_single_block(mst_call *call, const char *where);
muster_status mst_processes_collect_single(mst_call *call, const char *where, const void *all, int64_t block_bytes);

/* plan.c. The rows of the sliceable variables for the shards of this process, and how many of these
 * have any. */
muster_status mst_plan_variable_rows(const mst_call *call, const char *where, const muster_call_options *options, mst_own_rows *rows);
/* The selected rows of an input. */
muster_status mst_plan_input_rows(const muster_function *function, const char *where, int64_t input, muster_tensor tensor,
                                  const muster_selection *batch, int64_t *rows);
muster_status mst_plan_check_arguments(const muster_function *function, const mst_arguments *arguments);

/* call.c: everything from the checks of the variables to the end of the run. *began: the workers
 * have begun. */
muster_status mst_call_run_workers(mst_call *call, const char *where, bool *began);
muster_status mst_call_check_variables(const mst_call *call, const char *where);

static inline int32_t mst_processes_shards(const mst_call *call, int32_t process) {
    const mst_nodes *nodes = call->function->object.runtime->nodes;
    return (nodes->first[process + 1] - nodes->first[process]) * mst_call_shards_per_rank(call);
}

#endif
