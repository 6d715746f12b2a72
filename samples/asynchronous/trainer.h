/* trainer.h: the common part of the parameter server's samples. A small network (784-128-10, ReLU,
 * softmax cross-entropy), written as expressions, is held by the server. Every worker trains a copy
 * of it on its own rows of Fashion-MNIST; the whole training is one call.
 *
 * trainer_open reads the data, opens the devices and creates the server; trainer_run trains;
 * trainer_report prints the results, with those of a synchronous training of as many epochs with
 * the same learning rate and batch for comparison. */
#ifndef TRAINER_H
#define TRAINER_H

#include <muster/muster.h>

#include "../fashion_mnist/idx.h"
#include "network.h"

enum { TRAINER_VALUES = NETWORK_VALUES, TRAINER_MAX_WORKERS = 64 };

typedef struct trainer_settings {
    const char *name; /* the name of the algorithm */
    muster_status (*create)(muster_worker *, muster_server *, const muster_driver_options *, muster_driver **);
    muster_driver_options driver;
    double learning_rate; /* at the first step; it decreases linearly to 0 */
    int64_t batch;        /* the number of rows of a worker's step */
    /* ---- from the command line */
    const char *data, *devices;
    int64_t epochs, seed;
    double minimum_accuracy;
    int compare; /* 1: train synchronously, too */
} trainer_settings;

typedef struct trainer {
    trainer_settings settings;
    muster_runtime *runtime;
    idx_set training, test;
    muster_variable *parameters[TRAINER_VALUES];
    muster_server *server;
    network network;
    muster_function *train, *train_together;
    double rate[TRAINER_MAX_WORKERS]; /* at each worker's current step */
    muster_driver_counts counts[TRAINER_MAX_WORKERS];
} trainer;

/* settings: the sample's own choices, to which the command line adds the rest. Ends the program
 * with exit code 2 if an option is unknown. */
void trainer_open(trainer *t, trainer_settings settings, int argc, char **argv);
/* The local update of Downpour: multiplies by -learning rate. `user` is the trainer. */
muster_status trainer_local_update(muster_worker *w, int32_t index, muster_tensor accumulated, void *user);
void trainer_run(trainer *t);
/* Returns the program's exit code: 0, or 1 if the accuracy of the server's values is below the
 * requested minimum or the server had no work. */
int trainer_report(trainer *t);
void trainer_close(trainer *t);

#endif
