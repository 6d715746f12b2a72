/* A pool with a communicator over "host" or "discrete" devices, without a runtime; or, where the
 * environment's MUSTER_TEST_DEVICES says so, over GPUs instead of all of these: "cuda": one each,
 * "cuda-virtual": all on the first. */
#ifndef COLLECTIVES_POOL_H
#define COLLECTIVES_POOL_H

#include "collectives_processes.h"
#include "communicator_impl.h"

typedef struct collectives_pool {
    int32_t size; /* of all processes */
    /* Of several processes (collectives_processes.h); else NULL, 0 and size. */
    mst_nodes *nodes;
    int32_t first, count; /* this one's ranks */
    mst_device *devices[16];
    mst_pool *pool;
    muster_communicator *communicator;
} collectives_pool;

typedef enum { COLLECTIVES_HOST_AND_DISCRETE, COLLECTIVES_GPUS, COLLECTIVES_VIRTUAL } collectives_kind;
collectives_kind collectives_devices(void);
/* True: pools of several processes combine floats in rank order, as one process does. */
extern bool collectives_fixed_order;
/* Are the devices of such a pool shared by several processes? Then the pool has one communicator,
 * and the names of algorithms on host memory mean those between processes that do the same there.
 * */
bool collectives_are_shared(int32_t size);

/* Only size and devices, all in this process. */
void collectives_open_devices(collectives_pool *c, int32_t host, int32_t discrete);

/* The first `host` ranks are host devices, the others discrete ones. Asserts success. */
void collectives_open(collectives_pool *c, int32_t host, int32_t discrete);
/* algorithm: forced, NULL: as selected; fail_after_ns: the deadline. */
void collectives_open_with(collectives_pool *c, int32_t host, int32_t discrete, const char *algorithm, int64_t fail_after_ns);
/* The same with all options of the pool. */
void collectives_open_options(collectives_pool *c, int32_t host, int32_t discrete, const char *algorithm, const mst_pool_options *options);
/* The same in this process alone, also where the test is several. */
void collectives_open_alone(collectives_pool *c, int32_t host, int32_t discrete);
/* mst_communicator_create. If the environment's MUSTER_COLLECTIVE_ALGORITHM names a transport that
 * refuses these devices, the communicator is created without it. At its end the program prints how
 * many pools that were, with the last reason. */
muster_status collectives_create(mst_pool *pool, const char *algorithm, muster_communicator **made);
/* Call it after a run of a communicator that the environment has bound to a transport: returns USER
 * if another transport has served. At its end the program prints how many runs the transport has
 * served. */
muster_status collectives_check_served(const muster_communicator *communicator);
void collectives_close(collectives_pool *c);
/* An array with an element of `size` bytes for each rank, of which the ranks of this process have
 * written theirs: gets those of the others. In all processes, outside of a run. */
void collectives_gather(collectives_pool *c, void *array, int64_t size);
/* The sum of what each process passes. */
int64_t collectives_sum(collectives_pool *c, int64_t value);
muster_status collectives_run(collectives_pool *c, mst_task task, void *argument);
/* The same with a deadline of this run; 0: that of the pool. */
muster_status collectives_run_until(collectives_pool *c, mst_task task, void *argument, int64_t fail_after_ns);
/* Takes out of a sentence in which processes ranks are: then it is that of one process. A process
 * that is waited for stays. */
void collectives_strip(char *message);

#endif
