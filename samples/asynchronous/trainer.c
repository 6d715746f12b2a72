#include "trainer.h"

#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../sample.h"

enum { EVALUATE_ROWS = 500, REPORTS = 4 };

/* ---- the command line ---- */

static const char usage[] = "  --devices TEXT       which devices, for example host:2 (default: host:2, or what MUSTER_DEVICES says)\n"
                            "  --data DIR           the four gzipped IDX files (default: /usr/share/datasets/fashion-mnist)\n"
                            "  --epochs N           passes of each worker over its rows (default: 1)\n"
                            "  --seed N             of the first parameters and of the order of the rows (default: 1)\n"
                            "  --learning-rate X    at the beginning; it falls evenly to 0\n"
                            "  --min-accuracy X     exit 1 when the accuracy of the server's value comes out lower (default: 0)\n"
                            "  --no-comparison      without the synchronous training\n";

static void refuse(const char *program, const char *option, const char *text) {
    fprintf(stderr, "%s: --%s: a wrong value: \"%s\"\nusage: %s [options]\n%s", program, option, text, program, usage);
    exit(2);
}

static double parse_number(const char *program, const char *option, double least, double most) {
    char *end;
    const double value = strtod(optarg, &end);
    if (end == optarg || *end || !(value >= least && value <= most)) refuse(program, option, optarg);
    return value;
}

static void parse(trainer_settings *s, int argc, char **argv) {
    static const struct option options[] = {{"devices", required_argument, NULL, 'd'},
                                            {"data", required_argument, NULL, 'f'},
                                            {"epochs", required_argument, NULL, 'e'},
                                            {"seed", required_argument, NULL, 'r'},
                                            {"learning-rate", required_argument, NULL, 'l'},
                                            {"min-accuracy", required_argument, NULL, 'a'},
                                            {"no-comparison", no_argument, NULL, 'n'},
                                            {"help", no_argument, NULL, 'h'},
                                            {0}};
    s->data = "/usr/share/datasets/fashion-mnist";
    s->epochs = s->seed = s->compare = 1;
    for (int option, index = 0; (option = getopt_long(argc, argv, "", options, &index)) != -1;) {
        switch (option) {
        case 'd':
            s->devices = optarg;
            break;
        case 'f':
            s->data = optarg;
            break;
        case 'e':
            s->epochs = (int64_t)parse_number(argv[0], "epochs", 1, 1000);
            break;
        case 'r':
            s->seed = (int64_t)parse_number(argv[0], "seed", 0, 1e9);
            break;
        case 'l':
            s->learning_rate = parse_number(argv[0], "learning-rate", 0, 10);
            break;
        case 'a':
            s->minimum_accuracy = parse_number(argv[0], "min-accuracy", 0, 1);
            break;
        case 'n':
            s->compare = 0;
            break;
        case 'h':
            printf("usage: %s [options]\n%s", argv[0], usage);
            exit(0);
        default:
            fprintf(stderr, "usage: %s [options]\n%s", argv[0], usage);
            exit(2);
        }
    }
    if (optind < argc) refuse(argv[0], "", argv[optind]);
}

/* ---- what every worker does ---- */

/* The whole training is one call, which may take as long as it needs: no deadline runs while a body
 * computes. */
typedef struct pace {
    int64_t steps, per_epoch, batch;
} pace;

static void take_batch(const pace *p, const muster_tensor *in, int64_t step, muster_tensor *images, muster_tensor *labels) {
    const int64_t begin = step % p->per_epoch * p->batch;
    *images = muster_tensor_slice(in[0], begin, begin + p->batch);
    *labels = muster_tensor_slice(in[1], begin, begin + p->batch);
}

/* Scratch memory for what the network's step gives, taken once: it stays until the body returns. */
typedef struct results {
    muster_tensor all[NETWORK_RESULTS]; /* the loss, and the gradients */
} results;

static muster_status results_open(muster_worker *w, results *r) {
    MUSTER_TRY(muster_worker_scratch(w, MUSTER_F32, 0, NULL, &r->all[0]));
    for (int32_t i = 0; i < NETWORK_VALUES; i++)
        MUSTER_TRY(muster_worker_scratch(w, MUSTER_F32, network_ndim[i], network_shape[i], &r->all[1 + i]));
    return MUSTER_OK;
}

/* One operation of this worker. */
static muster_status run_gradient(trainer *t, muster_worker *w, muster_tensor images, muster_tensor labels, results *r) {
    return muster_worker_run(w, t->network.gradient, (muster_tensor[]){images, labels}, 2, r->all, NETWORK_RESULTS);
}

/* Prints a worker's line, REPORTS times in a training. Reading the loss waits for the device, so it
 * is not done in every step. */
static muster_status report(trainer *t, muster_worker *w, const results *r, pace *p, int64_t step, const muster_driver *driver) {
    muster_driver_counts counts = {.struct_size = sizeof counts};
    float loss;
    if ((step + 1) * REPORTS / p->steps == step * REPORTS / p->steps) return MUSTER_OK;
    MUSTER_TRY(muster_worker_read(w, r->all[0], muster_f32(&loss)));
    MUSTER_TRY(muster_driver_get_counts(driver, &counts));
    printf("worker %d: %3d %%  loss %.4f  %" PRId64 " fetches, %" PRId64 " integrations, %" PRId64 " sends\n", muster_worker_rank(w),
           (int)(100 * (step + 1) / p->steps), loss / (double)p->batch, counts.fetches, counts.integrations, counts.sends);
    fflush(stdout);
    t->counts[muster_worker_rank(w)] = counts;
    return MUSTER_OK;
}

static muster_status own_parameters(trainer *t, muster_worker *w, muster_tensor *parameters) {
    for (int32_t i = 0; i < TRAINER_VALUES; i++) MUSTER_TRY(muster_worker_variable(w, t->parameters[i], &parameters[i]));
    return MUSTER_OK;
}

static muster_status descend(const trainer *t, muster_worker *w, const results *r, const muster_tensor *parameters) {
    for (int32_t i = 0; i < TRAINER_VALUES; i++) MUSTER_TRY(muster_axpy(w, -t->rate[muster_worker_rank(w)], r->all[1 + i], parameters[i]));
    return MUSTER_OK;
}

/* The learning rate decreases linearly to 0. At the full rate, the network after the last steps
 * would be a matter of chance. */
static double rate_of(const trainer *t, const pace *p, int64_t step) {
    return t->settings.learning_rate * (double)(p->steps - step) / (double)p->steps;
}

static pace pace_of(const trainer *t, int64_t rows) {
    const int64_t batch = t->settings.batch < rows ? t->settings.batch : rows, per_epoch = rows / batch;
    return (pace){.steps = t->settings.epochs * per_epoch, .per_epoch = per_epoch, .batch = batch};
}

static muster_status steps_with(trainer *t, muster_worker *w, const muster_tensor *in, muster_driver *driver) {
    muster_tensor parameters[TRAINER_VALUES], images, labels;
    pace p = pace_of(t, muster_tensor_rows(in[0]));
    results r;
    MUSTER_TRY(results_open(w, &r));
    MUSTER_TRY(own_parameters(t, w, parameters));
    for (int64_t step = 0; step < p.steps && !muster_worker_cancelled(w); step++) {
        take_batch(&p, in, step, &images, &labels);
        MUSTER_TRY(run_gradient(t, w, images, labels, &r));
        t->rate[muster_worker_rank(w)] = rate_of(t, &p, step);
        MUSTER_TRY(muster_driver_step(driver, w, step, parameters, r.all + 1, TRAINER_VALUES, NULL));
        MUSTER_TRY(descend(t, w, &r, parameters));
        MUSTER_TRY(report(t, w, &r, &p, step, driver));
    }
    return MUSTER_OK;
}

static muster_status train_body(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    (void)out;
    trainer *t = user;
    muster_driver *driver;
    MUSTER_TRY(t->settings.create(w, t->server, &t->settings.driver, &driver));
    muster_status status = steps_with(t, w, in, driver);
    if (status == MUSTER_OK) status = muster_driver_flush(driver, w); /* the gradients since the last send */
    const muster_status ended = muster_driver_destroy(driver);
    return status == MUSTER_OK ? ended : status;
}

/* The same training, synchronous: the gradients of all workers are averaged in every step. */
static muster_status train_together_body(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    (void)out;
    trainer *t = user;
    muster_tensor parameters[TRAINER_VALUES], images, labels;
    const pace p = pace_of(t, muster_worker_total_rows(w) / muster_worker_size(w));
    results r;
    MUSTER_TRY(results_open(w, &r));
    MUSTER_TRY(own_parameters(t, w, parameters));
    for (int64_t step = 0; step < p.steps; step++) {
        take_batch(&p, in, step, &images, &labels);
        MUSTER_TRY(run_gradient(t, w, images, labels, &r));
        for (int32_t i = 0; i < TRAINER_VALUES; i++)
            MUSTER_TRY(muster_worker_all_reduce_axpy(w, NULL, -rate_of(t, &p, step) / muster_worker_size(w), r.all[1 + i], parameters[i]));
    }
    return MUSTER_OK;
}

muster_status trainer_local_update(muster_worker *w, int32_t index, muster_tensor accumulated, void *user) {
    const trainer *t = user;
    (void)index;
    return muster_scale_add(w, -t->rate[muster_worker_rank(w)], accumulated, 0, accumulated);
}

/* ---- the program around it ---- */

static muster_tensor images_of(const idx_set *set) { return muster_u8(set->images.data, set->images.shape[0], NETWORK_INPUTS); }
static muster_tensor labels_of(const idx_set *set) { return muster_u8(set->labels.data, set->labels.shape[0]); }

static void *allocate(int64_t bytes) {
    void *memory = malloc((size_t)bytes);
    if (!memory) fprintf(stderr, "no memory for %" PRId64 " bytes\n", bytes), exit(1);
    return memory;
}

static void read_data(const char *folder, const char *name, idx_set *set) {
    char message[IDX_MESSAGE];
    if (idx_read_set(folder, name, 28, 28, NETWORK_CLASSES, set, message)) fprintf(stderr, "%s\n", message), exit(1);
}

/* Sets all variables on every device to the first parameters; creates them at the first time. */
static void set_parameters(trainer *t) {
    for (int32_t i = 0; i < TRAINER_VALUES; i++) {
        float *values = allocate(network_count(i) * (int64_t)sizeof *values);
        const muster_tensor value = muster_tensor_make(MUSTER_F32, values, network_ndim[i], network_shape[i]);
        network_initial(i, (uint64_t)t->settings.seed, values);
        if (t->parameters[i])
            CHECK(muster_variables_broadcast(&t->parameters[i], &value, 1));
        else
            CHECK(muster_variable_create(t->runtime, network_names[i], value, &t->parameters[i]));
        free(values);
    }
}

static muster_function *make_function(trainer *t, const char *name, muster_body body) {
    muster_function *f;
    CHECK(muster_function_create(t->runtime, name, body, t, &f));
    CHECK(muster_function_input(f, "images", MUSTER_U8, 2, MUSTER_SCATTER));
    CHECK(muster_function_input(f, "labels", MUSTER_U8, 1, MUSTER_SCATTER));
    CHECK(muster_function_graph(f, t->network.gradient));
    for (int32_t i = 0; i < TRAINER_VALUES; i++) CHECK(muster_function_variable(f, t->parameters[i], MUSTER_USE_READ_WRITE));
    return f;
}

void trainer_open(trainer *t, trainer_settings settings, int argc, char **argv) {
    memset(t, 0, sizeof *t);
    t->settings = settings;
    parse(&t->settings, argc, argv);
    read_data(t->settings.data, "train", &t->training);
    read_data(t->settings.data, "t10k", &t->test);
    if (t->settings.devices) {
        muster_runtime_options options;
        muster_runtime_options_init(&options);
        options.devices = t->settings.devices;
        CHECK(muster_runtime_open(&options, &t->runtime));
    } else {
        t->runtime = sample_open("host:2");
    }
    if (muster_runtime_size(t->runtime) > TRAINER_MAX_WORKERS) fprintf(stderr, "at most %d workers\n", TRAINER_MAX_WORKERS), exit(1);
    set_parameters(t);
    CHECK(network_compile(&t->network, t->runtime, t->parameters));
    t->train = make_function(t, "train", train_body);
    t->train_together = make_function(t, "train_together", train_together_body);
    CHECK(muster_server_create_from(t->runtime, "parameters", t->parameters, TRAINER_VALUES, NULL, &t->server));
}

/* Fisher-Yates shuffle with random numbers that depend on the seed alone. Each worker gets its part
 * of this order. */
static int64_t *shuffled(int64_t count, uint64_t seed) {
    const uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    int64_t *order = allocate(count * (int64_t)sizeof *order);
    for (int64_t i = 0; i < count; i++) order[i] = i;
    for (int64_t i = count - 1; i > 0; i--) {
        /* 1: a counter that the parameters' random numbers do not use */
        uint32_t out[4], counter[4] = {(uint32_t)i, (uint32_t)(i >> 32), 0, 1};
        muster_philox4x32(counter, key, out);
        const int64_t j = (int64_t)(((uint64_t)out[0] << 32 | out[1]) % (uint64_t)(i + 1)), swapped = order[i];
        order[i] = order[j];
        order[j] = swapped;
    }
    return order;
}

static void call_training(trainer *t, muster_function *function) {
    const int64_t rows = t->training.images.shape[0];
    int64_t *order = shuffled(rows, (uint64_t)t->settings.seed);
    muster_call_options options;
    muster_call_options_init(&options);
    options.warn_after_ns = -1; /* an epoch may take longer than a call usually does */
    options.batch = (muster_selection){.kind = MUSTER_SELECT_LIST, .indices = order, .index_count = rows};
    CHECK(muster_function_call(function, (muster_tensor[]){images_of(&t->training), labels_of(&t->training)}, 2, NULL, 0, &options));
    free(order);
}

/* The fraction of test rows that the variables' values classify correctly. */
static double accuracy(trainer *t) {
    int64_t correct = 0;
    const int64_t rows = t->test.images.shape[0], at_once = (int64_t)EVALUATE_ROWS * muster_runtime_size(t->runtime);
    muster_call_options options;
    muster_call_options_init(&options);
    options.slices = (rows + at_once - 1) / at_once;
    CHECK(muster_function_call(t->network.correct, (muster_tensor[]){images_of(&t->test), labels_of(&t->test)}, 2,
                               (muster_tensor[]){muster_i64(&correct)}, 1, &options));
    return (double)correct / (double)rows;
}

void trainer_run(trainer *t) {
    const int32_t workers = muster_runtime_size(t->runtime);
    printf("%s: %d-%d-%d, %d worker%s on %" PRId64 " rows, batch %" PRId64 " each, learning rate %g\n", t->settings.name, NETWORK_INPUTS,
           NETWORK_HIDDEN, NETWORK_CLASSES, workers, workers == 1 ? "" : "s", t->training.images.shape[0], t->settings.batch,
           t->settings.learning_rate);
    fflush(stdout);
    call_training(t, t->train);
}

int trainer_report(trainer *t) {
    muster_driver_counts all = {0};
    muster_client *client;
    for (int32_t r = 0; r < muster_runtime_size(t->runtime); r++) {
        all.fetches += t->counts[r].fetches;
        all.integrations += t->counts[r].integrations;
        all.sends += t->counts[r].sends;
    }
    printf("all workers: %" PRId64 " fetches, %" PRId64 " integrations, %" PRId64 " sends\n", all.fetches, all.integrations, all.sends);
    CHECK(muster_client_open(t->server, &client));
    CHECK(muster_client_receive_variables(client, t->parameters, TRAINER_VALUES));
    CHECK(muster_client_close(client));
    const double held = accuracy(t);
    printf("test accuracy of the server's value: %.4f (%" PRId64 " images)\n", held, t->test.images.shape[0]);
    if (t->settings.compare) {
        set_parameters(t);
        call_training(t, t->train_together);
        printf("test accuracy of synchronous training: %.4f\n", accuracy(t));
    }
    if (held < t->settings.minimum_accuracy)
        fprintf(stderr, "the test accuracy %.4f is lower than %.4f\n", held, t->settings.minimum_accuracy);
    if (all.sends <= 0 || all.integrations <= 0)
        fprintf(stderr, "expected sends and integrations, received %" PRId64 " and %" PRId64 "\n", all.sends, all.integrations);
    return held < t->settings.minimum_accuracy || all.sends <= 0 || all.integrations <= 0;
}

void trainer_close(trainer *t) {
    CHECK(muster_server_destroy(t->server));
    CHECK(muster_runtime_close(t->runtime));
    idx_free_set(&t->training);
    idx_free_set(&t->test);
}
