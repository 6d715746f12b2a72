/* trainer.h: what the samples of the parameter server share: a small network (784-128-10, ReLU,
 * softmax cross-entropy) that every worker trains on rows of its own of Fashion-MNIST, all in one
 * call, and that the server holds.
 *
 * trainer_open reads the data, opens the devices and makes the server; trainer_run trains;
 * trainer_report prints what came of it, and how a synchronous training of as many epochs with the
 * same learning rate and batch does in its place. */
#ifndef TRAINER_H
#define TRAINER_H

#include <muster/muster.h>

#include "../fashion_mnist/idx.h"

/* of each of two layers weight (inputs, outputs) and bias (outputs) */
enum { TRAINER_VALUES = 4, TRAINER_MAX_WORKERS = 64 };

typedef struct trainer_settings {
    const char *name; /* of the algorithm */
    muster_status (*create)(muster_worker *, muster_server *, const muster_driver_options *, muster_driver **);
    muster_driver_options driver;
    double learning_rate; /* of the first step; it falls evenly to 0 */
    int64_t batch;        /* rows of a worker's step */
    /* ---- from the command line */
    const char *data, *devices;
    int64_t epochs, seed;
    double minimum_accuracy;
    int compare; /* train synchronously, too */
} trainer_settings;

typedef struct trainer {
    trainer_settings settings;
    muster_runtime *runtime;
    idx_set training, test;
    muster_variable *parameters[TRAINER_VALUES];
    muster_server *server;
    muster_function *train, *train_together, *evaluate;
    double rate[TRAINER_MAX_WORKERS]; /* of the worker's current step */
    muster_driver_counts counts[TRAINER_MAX_WORKERS];
} trainer;

/* settings: what the sample chooses; the command line adds the rest. Ends the program with 2 for an
 * option that is none. */
void trainer_open(trainer *t, trainer_settings settings, int argc, char **argv);
/* The local update of Downpour, whose user is the trainer: times -learning rate. */
muster_status trainer_local_update(muster_worker *w, int32_t index, muster_tensor accumulated, void *user);
void trainer_run(trainer *t);
/* The program's exit code: 0, or 1 where the accuracy of the server's value is lower than was asked
 * for, or the server had no work. */
int trainer_report(trainer *t);
void trainer_close(trainer *t);

#endif
