/* A driver, and the functions that its files share. */
#ifndef MST_DRIVER_PRIVATE_H
#define MST_DRIVER_PRIVATE_H

#include "muster/driver.h"
#include "pool_impl.h"
#include "tensor_impl.h"

/* One value of the server, as rank 0 of a group (or a worker by itself) keeps it. */
typedef struct mst_driver_value {
    muster_dtype dtype;
    int64_t elements;
    void *fetched[2]; /* host memory; the second only where prefetch is update_frequency */
    muster_request *receiving[2];
    /* Device memory: Downpour accumulates in the first, in the compute dtype, while the second is
     * being sent; EASGD has one. */
    void *outgoing[2];
    muster_request *sending;
    bool fresh; /* Downpour: nothing accumulated since the last send */
    /* Downpour: outgoing[0] is what local_update has made of the sum, which must neither be updated
     * nor added to again, and is not in outgoing[1] yet */
    bool updated;
    /* Downpour: outgoing[1] is what local_update has made of it; EASGD: outgoing[0] is a
     * difference; and not sent yet */
    bool ready;
} mst_driver_value;

typedef struct mst_driver_kind {
    const char *create; /* the public function, for messages */
    int32_t copies;     /* copies of each value on the device */
    bool accumulates, floats_only;
    bool sends_integrations; /* a send follows each integration; otherwise one is due every send_frequency steps */
    muster_status (*integrate)(muster_driver *driver, muster_worker *worker, const muster_tensor *parameters);
    muster_status (*send)(muster_driver *driver, muster_worker *worker); /* NULL: nothing is sent */
} mst_driver_kind;

typedef enum { MST_DRIVER_OUTSIDE, MST_DRIVER_FETCH, MST_DRIVER_INTEGRATE, MST_DRIVER_SEND } mst_driver_phase;

struct muster_driver {
    const mst_driver_kind *kind; /* NULL: the driver has been destroyed, and all else is 0 */
    muster_driver_options options;
    mst_pool *pool;
    mst_pool_life *life;
    mst_device *device;
    bool host;             /* the device's memory is host memory */
    muster_client *client; /* on rank 0 of a group only, as are the members below, except for the steps and the flag */
    int32_t rank, count;
    bool root;
    bool first;               /* copies its parameters into the server at the start */
    mst_driver_value *values; /* [count] */
    double alpha;
    void *flag;    /* device memory of one i32; NULL without a group */
    void *widened; /* device memory for one gradient in f32: of the largest f16 or bf16 value; NULL if there is none */
    /* steps: the newest taken, the next integration and the next send; INT64_MAX: never */
    int64_t step, integrate_at, send_at, sent_at; /* sent_at: the step of the last send */
    const char *where;                            /* the public function that is running, for messages */
    mst_driver_phase phase;                       /* the part that is running */
    int32_t current;                              /* index of the memory that the next integration's fetch fills */
    int32_t filling;                              /* index of the memory that the running fetch fills */
    int32_t last;                                 /* index of the memory of the last integration */
    /* The fetch of the next integration has begun; the fetch of the integration after that has
     * begun. */
    bool fetched, ahead;
    bool worked_in; /* the integration is done on this rank, and not yet on the rest of the group */
    bool send_due;  /* a send is due: of an integration, or one that has failed */
    /* Of a part that has failed: the values that are done. */
    int32_t accumulated, moved, sent;
    bool subtracted; /* EASGD: all differences have been computed */
    muster_driver_counts counts;
};

/* Views with one axis: of the host memory `which`; of the device memory `which`; of a tensor. */
muster_tensor mst_driver_host(const muster_driver *driver, int32_t index, int32_t which);
muster_tensor mst_driver_device(const muster_driver *driver, int32_t index, int32_t which);
muster_tensor mst_driver_flat(muster_tensor tensor);

/* Waits for one operation. Returns its status; *done: it has ended. */
muster_status mst_driver_wait(muster_request **request, bool *done);
/* Keeps the first of several failures, with its message. */
void mst_driver_keep_first(muster_status *first, muster_status status, char message[MST_MESSAGE_SIZE]);
/* Wait for all sends of this worker, also after a failure; the first failure. */
muster_status mst_driver_wait_sends(muster_driver *driver);
/* Waits for the receives into `which`. *intact: none of them has failed for good. */
muster_status mst_driver_wait_receives(muster_driver *driver, int32_t which, bool *intact);

/* parts.c: the parts of a step on rank 0: the program's, or the driver's own. */
/* The status that a function of the program returned, as a muster_status with a message. errors:
 * mst_error_count() before the call. */
muster_status mst_driver_part_status(const muster_driver *driver, const char *what, muster_status status, uint64_t errors);
/* The first worker's copy of its parameters into the server, unless the server has started. */
muster_status mst_driver_start(muster_driver *driver, const muster_tensor *parameters);
muster_status mst_driver_fetch(muster_driver *driver, muster_worker *worker, int64_t step, int32_t which);
muster_status mst_driver_integrate(muster_driver *driver, muster_worker *worker, int64_t step, const muster_tensor *parameters);
muster_status mst_driver_send(muster_driver *driver, muster_worker *worker, int64_t step, const muster_tensor *parameters,
                              const muster_tensor *gradients);
/* For the base driver and Downpour: copies what was fetched into the parameters. */
muster_status mst_driver_copy(muster_driver *driver, muster_worker *worker, const muster_tensor *parameters);

/* downpour.c: adds the gradients of this step; after a failure it goes on with the value that
 * failed. */
muster_status mst_downpour_accumulate(muster_driver *driver, muster_worker *worker, const muster_tensor *gradients);

/* create.c */
/* exists: fails if the driver has been destroyed. open: also if its runtime has been closed. */
muster_status mst_driver_check_exists(const muster_driver *driver, const char *where);
muster_status mst_driver_check_open(const muster_driver *driver, const char *where);
muster_status mst_driver_make(const mst_driver_kind *kind, muster_worker *worker, muster_server *server,
                              const muster_driver_options *options, muster_driver **driver);

#endif
