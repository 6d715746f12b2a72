/* muster/driver.h: asynchronous training over a parameter server: Downpour SGD and elastic
 * averaging, as drivers that a worker calls once per step.
 *
 * Sources: J. Dean et al., "Large Scale Distributed Deep Networks" (2012): Downpour. S. Zhang, A.
 * Choromanska, Y. LeCun, "Deep learning with Elastic Averaging SGD" (2015), Algorithm 1, with alpha
 * = beta / p.
 *
 * The timeline, with d = init_delay, u = update_frequency, p = prefetch, s = send_frequency; step
 * counts from 0, k = 1, 2, ...:
 *   up to step d nothing: the worker warms up by itself, and what it has learnt so far does not
 *   reach the server, which holds what it
 *                      was created with
 *   d + k u - p        fetch: waits for this worker's sends, then begins to receive every value
 *   d + k u integrate: waits for the fetch of p steps before, then works what came into the
 *   parameters
 *   Downpour: d + k s send: local_update of the gradients accumulated since the send before (the
 *   first: those of steps d + 1 to d + s)
 *   EASGD: d + k u     send: alpha (x - c), behind the integration with the same difference
 *   base: d + k s      send, if a part of the program's own is there for it
 * On one step: fetch, then integrate, then send. p <= u; with p = u the first fetch is at step d,
 * and that of each integration is made just before the integration ahead of it, into memory of its
 * own. A step that is left out is made up for: what was due happens at the next call, once, however
 * often it was due; if that integrates so late that the next fetch is due, too, then this one
 * follows it. */
#ifndef MUSTER_DRIVER_H
#define MUSTER_DRIVER_H

#include "muster/server.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct muster_driver muster_driver;

/* The parts of a step that a program can replace; each is called for all values of the server at
 * once. A NULL is the driver's own.
 * parameters, gradients: as given to muster_driver_step, count of them.
 * A fetch that is replaced puts the values into muster_driver_fetched, and has to be done when it
 * returns unless integrate is replaced, too, and waits for it. A send that is replaced finds in
 * muster_driver_outgoing what the driver's own would have sent. EASGD's own send wants its own
 * integrate before it (BAD_STATE). A status other than OK becomes muster_driver_step's; the part is
 * then still due at the next call. The layout of this struct is frozen. */
typedef struct muster_driver_parts {
    muster_status (*fetch)(muster_driver *driver, muster_worker *worker, int64_t step, void *user);
    muster_status (*integrate)(muster_driver *driver, muster_worker *worker, int64_t step, const muster_tensor *parameters, int32_t count,
                               void *user);
    muster_status (*send)(muster_driver *driver, muster_worker *worker, int64_t step, const muster_tensor *parameters,
                          const muster_tensor *gradients, int32_t count, void *user);
    void *user;
} muster_driver_parts;

/* An option struct: the rules are in muster/status.h. A negative number is refused where it is
 * given no meaning below, and so is a prefetch above update_frequency. */
typedef struct muster_driver_options {
    size_t struct_size;       /* set by muster_driver_options_init */
    int64_t update_frequency; /* 0: 25 */
    int64_t init_delay;       /* 0: 100; negative: no delay */
    int64_t prefetch;         /* steps ahead; at most update_frequency */
    int64_t send_frequency;   /* 0: 1; Downpour, and parts.send of a base driver */
    /* EASGD: alpha = beta / number of integrating workers. 0: 0.9; negative: alpha is 0, so that
     * nothing moves */
    double beta;
    /* Downpour: turns the accumulated gradient of value `index` into what is added to the server,
     * in place (for example: times -learning rate), with operations of the worker. If it fails it
     * must have left it as it was. NULL: times -1. */
    muster_status (*local_update)(muster_worker *worker, int32_t index, muster_tensor accumulated, void *user);
    void *local_update_user;
    /* Workers that train one model together, data-parallel (a part made by muster_worker_split):
     * its rank 0 fetches, integrates and sends, and broadcasts the parameters to the rest after
     * each integration. NULL: each worker by itself. The gradients of a group must already be the
     * same on all its members (all_reduce). The part must stay until the driver has been
     * destroyed. */
    muster_communicator *group;
    /* EASGD: workers (or groups) that integrate. 0: all workers of the call; with a group, as many
     * as there are groups: creation counts them in a collective, which all workers of the call have
     * to enter, each with a group (of one, where a worker is alone). */
    int32_t integrating;
    int32_t reserved;
    muster_driver_parts parts;
} muster_driver_options;
MUSTER_API void muster_driver_options_init_sized(muster_driver_options *options, size_t size);
static inline void muster_driver_options_init(muster_driver_options *options) {
    muster_driver_options_init_sized(options, sizeof *options);
}

/* One per worker, made and used inside bodies, by that worker only; it may live on between calls,
 * and must be destroyed before the runtime
 * closes. options NULL: the defaults. Count of values, dtypes and sizes are the server's; EASGD
 * takes float values only (UNSUPPORTED). It keeps one copy of all values in host memory (with
 * prefetch = update_frequency: two), and on the worker's device none (base), one (EASGD) or two
 * (Downpour); members of a group other than rank 0 keep none.
 * base: nothing is sent, integrate copies what was fetched. Downpour: sends as above, integrate
 * copies. EASGD: with x the parameters and c what was fetched, integrate gives x - alpha (x - c),
 * and send adds alpha (x - c) to the server.
 * destroy: waits for what it has begun, as a request's wait does, and tells if that failed; the
 * driver is gone then, too. What Downpour has accumulated since its last send is dropped. Inside a
 * body of its worker, or outside bodies, where it waits its turn behind running calls.
 * BAD_STATE: anywhere else, in a part, and in a call that is lost while a GPU may still use the
 * driver's memory; it then is still there.
 * Errors: INVALID_ARGUMENT, UNSUPPORTED, OUT_OF_MEMORY, BAD_STATE (the server is being
 * destroyed). */
MUSTER_API muster_status muster_driver_create(muster_worker *worker, muster_server *server, const muster_driver_options *options,
                                              muster_driver **driver);
MUSTER_API muster_status muster_downpour_create(muster_worker *worker, muster_server *server, const muster_driver_options *options,
                                                muster_driver **driver);
MUSTER_API muster_status muster_easgd_create(muster_worker *worker, muster_server *server, const muster_driver_options *options,
                                             muster_driver **driver);
MUSTER_API muster_status muster_driver_destroy(muster_driver *driver);

/* Once per step, after the gradients and before the worker's own step of gradient descent.
 * parameters[count] and gradients[count] (Downpour, else they may be NULL), on the worker's device,
 * contiguous, of the server's dtypes and counts. integrated: 1 if the parameters changed (on all
 * members of a group: all of them call it together, with the same steps); may be NULL. Downpour
 * accumulates in the dtype of the value; sends take what has been accumulated along, so that the
 * gradients' memory is the caller's again on return.
 * Errors: INVALID_ARGUMENT and the like (nothing has happened; also for a step below the one
 * before), else as of sends, receives and the worker's operations, or of a part. After such a
 * failure the driver is usable: the gradient of the step is in, and what failed is due at the next
 * call, which may be one with the same step: that accumulates nothing again, and no gradient is
 * sent twice. A send that had begun and then failed is lost; the fetch or send that waits for it
 * tells so, once. Where rank 0 of a group fails to integrate, all its members get an error (ABORTED
 * on the others), and stay in step. */
MUSTER_API muster_status muster_driver_step(muster_driver *driver, muster_worker *worker, int64_t step, const muster_tensor *parameters,
                                            const muster_tensor *gradients, int32_t count, int32_t *integrated);

/* The driver's own parts, for parts of a program that add something to them; only inside parts,
 * with what these were given. */
MUSTER_API muster_status muster_driver_default_fetch(muster_driver *driver, muster_worker *worker);
MUSTER_API muster_status muster_driver_default_integrate(muster_driver *driver, muster_worker *worker, const muster_tensor *parameters,
                                                         int32_t count);
MUSTER_API muster_status muster_driver_default_send(muster_driver *driver, muster_worker *worker);

/* How often each has happened on this worker (in a group: on rank 0): for reports, and for tests. A
 * result struct: the rules are in muster/status.h. Errors: INVALID_ARGUMENT (NULL, struct_size). */
typedef struct muster_driver_counts {
    size_t struct_size; /* set by muster_driver_counts_init */
    int64_t fetches, integrations, sends;
} muster_driver_counts;
static inline void muster_driver_counts_init(muster_driver_counts *counts) {
    if (counts) counts->struct_size = sizeof *counts;
}
MUSTER_API muster_status muster_driver_get_counts(const muster_driver *driver, muster_driver_counts *counts);

/* For parts of one's own; NULL, "no tensor" or 0 where there is none (another member of a group
 * than rank 0, an index out of range).
 * client: that of the worker.
 * fetched: host memory, in a fetch that which is to be filled, in an integration what its fetch
 * brought; else what the last integration worked with, unless a fetch has begun since.
 * outgoing: in a send, on the worker's device: the gradients accumulated since the send before
 * (Downpour, before local_update), or x - c of this step's integration, still to be multiplied by
 * alpha (EASGD).
 * alpha: of EASGD. */
MUSTER_API muster_client *muster_driver_client(muster_driver *driver);
MUSTER_API muster_tensor muster_driver_fetched(muster_driver *driver, int32_t index);
MUSTER_API muster_tensor muster_driver_outgoing(muster_driver *driver, int32_t index);
MUSTER_API double muster_driver_alpha(const muster_driver *driver);

#ifdef __cplusplus
}
#endif
#endif
