/* muster/driver.h: asynchronous training over a parameter server: Downpour SGD and elastic
 * averaging, as drivers that a worker calls once per step.
 *
 * Sources. Downpour: J. Dean et al., "Large Scale Distributed Deep Networks" (2012). Elastic
 * averaging (EASGD): S. Zhang, A. Choromanska, Y. LeCun, "Deep learning with Elastic Averaging SGD"
 * (2015), Algorithm 1, with alpha = beta / number of workers.
 *
 * The timeline, with d = init_delay, u = update_frequency, p = prefetch, s = send_frequency and k =
 * 1, 2, ...; steps count from 0.
 *   up to d       nothing: each worker trains alone.
 *   d             start: the first worker copies its parameters into the server, which thereby has
 *                 its progress so far. The first fetch or send of every other worker waits for this
 *   d + k u - p   fetch: waits for this worker's sends, then begins to receive every value
 *   d + k u       integrate: waits for the fetch of p steps before, then combines the fetched
 *                 values with the parameters
 *   d + k s       send (Downpour): local_update of the gradients accumulated since the previous
 *                 send; for the first send, those of steps d + 1 to d + s
 *   d + k u       send (EASGD): alpha (x - c), after the integration, with the same difference
 *   d + k s       send (base driver): only if the program provides this part
 * On one step the order is fetch, integrate, send. p <= u. With p = u the first fetch is at step d;
 * the fetch for each later integration is made just before the integration ahead of it, into memory
 * of its own.
 * The first worker is rank 0; with groups, rank 0 of the group that contains rank 0 of the runtime.
 * It must have a driver. A server starts once: the drivers that reach step d later take its values
 * as they are. With keep_initial no driver starts the server or waits for its start, and it keeps
 * the values that it was created with: the first integration then undoes the progress of the first
 * d steps.
 * If the program leaves out steps, whatever was due happens at the next call, once, however often
 * it was due. If this integration is so late that the next fetch is due as well, that fetch follows
 * it.
 *
 * Threads of every function here: worker, the one that created the driver, unless the function says
 * otherwise. The caller of a create function owns the driver and destroys it. */
#ifndef MUSTER_DRIVER_H
#define MUSTER_DRIVER_H

#include "muster/communicator.h"
#include "muster/server.h"
#include "muster/tensor.h"
#include "muster/worker.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct muster_driver muster_driver;

/* The parts of a step. A program can replace each of them; NULL keeps the driver's own. A part is
 * called once for all values of the server. parameters and gradients are those given to
 * muster_driver_step, `count` of each.
 * - A replaced fetch puts the values into muster_driver_fetched. The values must have arrived when
 *   it returns, unless integrate is replaced too and waits for them.
 * - A replaced send finds in muster_driver_outgoing what the driver would have sent.
 * - EASGD's own send needs its own integrate before it (else BAD_STATE).
 * A status other than OK becomes the status of muster_driver_step; the part is then still due at
 * the next call. The layout of this struct is frozen. */
typedef struct muster_driver_parts {
    muster_status (*fetch)(muster_driver *driver, muster_worker *worker, int64_t step, void *user);
    muster_status (*integrate)(muster_driver *driver, muster_worker *worker, int64_t step, const muster_tensor *parameters, int32_t count,
                               void *user);
    muster_status (*send)(muster_driver *driver, muster_worker *worker, int64_t step, const muster_tensor *parameters,
                          const muster_tensor *gradients, int32_t count, void *user);
    void *user;
} muster_driver_parts;

/* An option struct: the rules are in muster/status.h. A negative number is refused unless a meaning
 * is given below, and so is a prefetch above update_frequency. */
typedef struct muster_driver_options {
    size_t struct_size;       /* set by muster_driver_options_init */
    int64_t update_frequency; /* 0: 25 */
    int64_t init_delay;       /* 0: 100; negative: no delay */
    int64_t prefetch;         /* in steps; at most update_frequency */
    int64_t send_frequency;   /* 0: 1; for Downpour, and for parts.send of a base driver */
    /* EASGD: alpha = beta / number of integrating workers. 0: 0.9; negative: alpha is 0, so that
     * nothing moves. */
    double beta;
    /* Downpour: turns the accumulated gradient of value `index`, in place, into the tensor that is
     * added to the server (for example by multiplying it with -learning rate), using operations of
     * the worker. It is f32 where the value is f16 or bf16, and is rounded when it is sent. If it
     * fails it must leave the gradient unchanged. NULL: multiplies by -1. */
    muster_status (*local_update)(muster_worker *worker, int32_t index, muster_tensor accumulated, void *user);
    void *local_update_user;
    /* Workers that train one model together, data-parallel: a communicator made by
     * muster_worker_split. Its rank 0 fetches, integrates and sends, and broadcasts the parameters
     * to the other members after each integration. The gradients must already be equal on all
     * members (all_reduce). The communicator must exist until the driver has been destroyed. NULL:
     * each worker trains alone. */
    muster_communicator *group;
    /* EASGD: the number of workers (or groups) that integrate. 0: all workers of the call or, with
     * a group, the number of groups. Creation then counts the groups in a collective, which all
     * workers of the call must enter, each with a group (of one member if the worker is alone). */
    int32_t integrating;
    int32_t keep_initial; /* 1: this driver neither starts the server nor waits for its start */
    muster_driver_parts parts;
    /* End local_update_user and parts.user when the driver has ended or its creation has failed
     * (muster/status.h). Each creation that is given them calls them once. */
    muster_destroy_function local_update_destroy, parts_destroy;
} muster_driver_options;
MUSTER_API void muster_driver_options_init_sized(muster_driver_options *options, size_t size);
static inline void muster_driver_options_init(muster_driver_options *options) {
    muster_driver_options_init_sized(options, sizeof *options);
}

/* Creates a base driver, which sends nothing and whose integrate copies the fetched values into the
 * parameters.
 * A driver belongs to one worker, which alone creates and uses it, inside bodies. It may live on
 * between calls, and must be destroyed before the runtime closes. options NULL: the defaults. The
 * number, dtypes and sizes of the values are the server's. A driver keeps one copy of all values in
 * host memory (two with prefetch = update_frequency), and on the worker's device none (base), one
 * (EASGD) or two (Downpour; f16 and bf16 take 6 bytes per element, and 4 more for the largest
 * value). Members of a group other than rank 0 keep none.
 * Errors of the three create functions: INVALID_ARGUMENT (NULL, the worker of another thread, an
 * option out of range, a group of which this worker is no member), UNSUPPORTED (options of a newer
 * header), OUT_OF_MEMORY, BAD_STATE (the server is being destroyed), errors of the device and, if
 * creation counts the groups, those of a collective. */
MUSTER_API MUSTER_NODISCARD muster_status muster_driver_create(muster_worker *worker, muster_server *server,
                                                               const muster_driver_options *options, muster_driver **driver);
/* Downpour: send adds local_update of the accumulated gradients to the server; integrate copies the
 * fetched values. */
MUSTER_API MUSTER_NODISCARD muster_status muster_downpour_create(muster_worker *worker, muster_server *server,
                                                                 const muster_driver_options *options, muster_driver **driver);
/* EASGD: with x the parameters and c the fetched values, integrate gives x - alpha (x - c), and
 * send adds alpha (x - c) to the server. Float values only (UNSUPPORTED). */
MUSTER_API MUSTER_NODISCARD muster_status muster_easgd_create(muster_worker *worker, muster_server *server,
                                                              const muster_driver_options *options, muster_driver **driver);
/* Waits for operations that the driver has begun, as muster_request_wait does, and returns their
 * failure; the driver is gone then, too. Accepts NULL. Gradients that Downpour has accumulated
 * since its last send are dropped (muster_driver_flush sends them). Called inside a body of the
 * driver's worker, or outside bodies, where it waits in the queue behind running calls.
 * BAD_STATE: called anywhere else, or in a part, or in an aborted call while a GPU may still use
 * the driver's memory; the driver then still exists. */
MUSTER_API muster_status muster_driver_destroy(muster_driver *driver);

/* Called once per step, after the gradients and before the worker's own step of gradient descent.
 * parameters[count] and gradients[count] are contiguous, on the worker's device, with the server's
 * dtypes and element counts. Only Downpour needs gradients; for other drivers they may be NULL.
 * *integrated = 1 if the parameters changed; integrated may be NULL. All members of a group call it
 * together, with the same steps, and get the same *integrated. Downpour accumulates in the dtype of
 * the value, f16 and bf16 in f32. The gradients' memory is the caller's again on return.
 * Errors: INVALID_ARGUMENT and similar ones (nothing has happened; also for a step below the
 * previous one); else those of sends, receives and the worker's operations, or of a part. After
 * such a failure the driver is usable: the gradient of the step has been accumulated, and the part
 * that failed is due at the next call. If this has the same step, it accumulates nothing again; no
 * gradient is sent twice. A send that had begun and then failed is lost; the next fetch or send
 * that waits for it reports this once. If rank 0 of a group fails to integrate, all members get an
 * error (ABORTED on the others), and stay in step. */
MUSTER_API MUSTER_NODISCARD muster_status muster_driver_step(muster_driver *driver, muster_worker *worker, int64_t step,
                                                             const muster_tensor *parameters, const muster_tensor *gradients, int32_t count,
                                                             int32_t *integrated);

/* Sends what has not been sent yet, whatever the step, and waits until the server has applied all
 * sends of this driver: the gradients that Downpour has accumulated since its last send, and a send
 * that has failed before. A base driver and EASGD have nothing else to send. The next send is due
 * at its usual step. A replaced send finds NULL for parameters and gradients. On members of a group
 * other than rank 0 it does nothing. For the end of a training, before destroy, which drops what
 * was not sent.
 * Errors: INVALID_ARGUMENT, BAD_STATE (inside a part), those of sends and worker operations, or of
 * a part; what was not sent is then still due. */
MUSTER_API MUSTER_NODISCARD muster_status muster_driver_flush(muster_driver *driver, muster_worker *worker);

/* The driver's own parts, for replaced parts that add something to them. Called only inside parts,
 * with the arguments of the part. Errors: INVALID_ARGUMENT (NULL, another worker or count),
 * BAD_STATE (outside the part that it replaces; EASGD's own send without its own integrate), and
 * those of the sends, receives and worker operations of the part. */
MUSTER_API MUSTER_NODISCARD muster_status muster_driver_default_fetch(muster_driver *driver, muster_worker *worker);
MUSTER_API MUSTER_NODISCARD muster_status muster_driver_default_integrate(muster_driver *driver, muster_worker *worker,
                                                                          const muster_tensor *parameters, int32_t count);
MUSTER_API MUSTER_NODISCARD muster_status muster_driver_default_send(muster_driver *driver, muster_worker *worker);

/* How often each part has run on this worker (in a group: on rank 0), for reports and tests. A
 * result struct: the rules are in muster/status.h. Errors: INVALID_ARGUMENT (NULL, struct_size). */
typedef struct muster_driver_counts {
    size_t struct_size; /* set by muster_driver_counts_init */
    int64_t fetches, integrations, sends;
} muster_driver_counts;
static inline void muster_driver_counts_init(muster_driver_counts *counts) {
    if (counts) counts->struct_size = sizeof *counts;
}
MUSTER_API MUSTER_NODISCARD muster_status muster_driver_get_counts(const muster_driver *driver, muster_driver_counts *counts);

/* For replaced parts: the client of the worker, or NULL if there is none (on a member of a group
 * other than rank 0). */
MUSTER_API muster_client *muster_driver_client(muster_driver *driver);
/* *tensor becomes the host memory of value `index`. In a fetch: the memory to be filled. In an
 * integration: the values of its fetch. At other times: the values of the last integration, unless
 * a fetch has begun since. After a failure *tensor is "no tensor". Errors: INVALID_ARGUMENT (NULL),
 * OUT_OF_RANGE (no such value), BAD_STATE (a driver that has been destroyed, or that of a member of
 * a group other than rank 0, which has no values). */
MUSTER_API MUSTER_NODISCARD muster_status muster_driver_fetched(muster_driver *driver, int32_t index, muster_tensor *tensor);
/* In a send, *tensor becomes memory on the worker's device. Downpour: the gradients accumulated
 * since the previous send, before local_update, as f32 where the value is f16 or bf16. EASGD: x - c
 * of this step's integration, not yet multiplied by alpha. Errors: as muster_driver_fetched, and
 * UNSUPPORTED (a driver of muster_driver_create, which sends nothing of its own). */
MUSTER_API MUSTER_NODISCARD muster_status muster_driver_outgoing(muster_driver *driver, int32_t index, muster_tensor *tensor);
/* The alpha of EASGD, or 0. */
MUSTER_API double muster_driver_alpha(const muster_driver *driver);

#ifdef __cplusplus
}
#endif
#endif
