/* train.c: trains a multilayer perceptron on Fashion-MNIST on every device of the machine. `train
 * --help` lists the options. */
#include <errno.h>
#include <getopt.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "idx.h"
#include "interrupt.h"
#include "mlp.h"
#include "progress.h"

typedef struct settings {
    const char *devices, *data, *dump_parameters, *dump_gradient;
    int64_t epochs, batch, steps;
    double minimum_accuracy;
    mlp_options model;
} settings;

static const char usage[] = "usage: train [options]\n"
                            "  --devices TEXT         which devices, for example host:2 (default: all)\n"
                            "  --data DIR             the four gzipped IDX files (default: /usr/share/datasets/fashion-mnist)\n"
                            "  --epochs N             passes over the training set (default: 1)\n"
                            "  --batch N              rows of a step, over all devices (default: 500)\n"
                            "  --steps N              stop after N steps, without an evaluation\n"
                            "  --learning-rate X      (default: 0.1)\n"
                            "  --seed N               of the first parameters and of the order of the rows (default: 1)\n"
                            "  --min-accuracy X       exit 1 when the test accuracy comes out lower\n"
                            "  --split                each device has a part of the weights of the first two layers\n"
                            "  --by-hand              bodies that are written by hand, in place of expressions\n"
                            "  --dump-gradient FILE   the gradient of the first batch rows at the first parameters (f32), before training\n"
                            "  --dump-params FILE     the parameters (f32) at the end\n";

static void check(muster_status status) {
    if (status == MUSTER_OK) return;
    fprintf(stderr, "train: %s: %s\n", muster_status_name(status), muster_last_error());
    exit(1);
}

static int64_t parse_count(const char *option, const char *text, int64_t lowest) {
    char *end;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (errno || end == text || *end || value < lowest) {
        fprintf(stderr, "train: --%s: expected a whole number of at least %lld, received \"%s\"\n", option, (long long)lowest, text);
        exit(2);
    }
    return value;
}

static double parse_fraction(const char *option, const char *text) {
    char *end;
    double value = strtod(text, &end);
    if (end == text || *end || !(value >= 0 && value <= 1)) {
        fprintf(stderr, "train: --%s: expected a number in [0, 1], received \"%s\"\n", option, text);
        exit(2);
    }
    return value;
}

static settings parse(int argc, char **argv) {
    static const struct option options[] = {{"devices", required_argument, NULL, 'd'},
                                            {"data", required_argument, NULL, 'f'},
                                            {"epochs", required_argument, NULL, 'e'},
                                            {"batch", required_argument, NULL, 'b'},
                                            {"steps", required_argument, NULL, 's'},
                                            {"seed", required_argument, NULL, 'r'},
                                            {"help", no_argument, NULL, 'h'},
                                            {"split", no_argument, NULL, 'c'},
                                            {"by-hand", no_argument, NULL, 'm'},
                                            {"dump-gradient", required_argument, NULL, 'g'},
                                            {"dump-params", required_argument, NULL, 'p'},
                                            {"min-accuracy", required_argument, NULL, 'a'},
                                            {"learning-rate", required_argument, NULL, 'l'},
                                            {0}};
    settings s = {.data = "/usr/share/datasets/fashion-mnist", .epochs = 1, .batch = 500, .steps = -1, .model = {0.1, 0.9, 1, 1, 0}};
    for (int option, index = 0; (option = getopt_long(argc, argv, "", options, &index)) != -1;) {
        switch (option) {
        case 'd':
            s.devices = optarg;
            break;
        case 'f':
            s.data = optarg;
            break;
        case 'e':
            s.epochs = parse_count("epochs", optarg, 0);
            break;
        case 'b':
            s.batch = parse_count("batch", optarg, 1);
            break;
        case 's':
            s.steps = parse_count("steps", optarg, 0);
            break;
        case 'r':
            s.model.seed = (uint64_t)parse_count("seed", optarg, 0);
            break;
        case 'a':
            s.minimum_accuracy = parse_fraction("min-accuracy", optarg);
            break;
        case 'l':
            s.model.learning_rate = parse_fraction("learning-rate", optarg);
            break;
        case 'g':
            s.dump_gradient = optarg;
            break;
        case 'p':
            s.dump_parameters = optarg;
            break;
        case 'c':
            s.model.split = 1;
            break;
        case 'm':
            s.model.expressions = 0;
            break;
        case 'h':
            fputs(usage, stdout);
            exit(0);
        default:
            fputs(usage, stderr);
            exit(2);
        }
    }
    if (optind < argc) {
        fprintf(stderr, "train: unexpected \"%s\"\n%s", argv[optind], usage);
        exit(2);
    }
    if (s.model.split && !s.model.expressions) {
        fputs("train: --split: expected without --by-hand\n", stderr);
        exit(2);
    }
    return s;
}

static idx_set read_set(const char *folder, const char *name) {
    idx_set set;
    char message[IDX_MESSAGE];
    if (idx_read_set(folder, name, 28, 28, MLP_CLASSES, &set, message)) {
        fprintf(stderr, "train: %s\n", message);
        exit(1);
    }
    return set;
}

static muster_tensor images_of(const idx_set *set) { return muster_u8(set->images.data, set->images.shape[0], MLP_INPUTS); }

static muster_tensor labels_of(const idx_set *set) { return muster_u8(set->labels.data, set->labels.shape[0]); }

/* Fisher-Yates shuffle with random numbers that depend on seed and epoch alone. */
static void shuffle(int64_t *order, int64_t count, uint64_t seed, int64_t epoch) {
    const uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    for (int64_t i = 0; i < count; i++) order[i] = i;
    for (int64_t i = count - 1; i > 0; i--) {
        /* 1: a counter that the parameters' random numbers do not use */
        uint32_t out[4], counter[4] = {(uint32_t)i, (uint32_t)(i >> 32), (uint32_t)epoch, 1};
        muster_philox4x32(counter, key, out);
        int64_t j = (int64_t)(((uint64_t)out[0] << 32 | out[1]) % (uint64_t)(i + 1)), swapped = order[i];
        order[i] = order[j];
        order[j] = swapped;
    }
}

static void write_vector(const char *path, const float *values, int64_t count) {
    FILE *file = fopen(path, "wb");
    int written = file && fwrite(values, sizeof *values, (size_t)count, file) == (size_t)count;
    if (!file || fclose(file) != 0 || !written) {
        fprintf(stderr, "train: %s: cannot be written: %s\n", path, strerror(errno));
        exit(1);
    }
}

static void *allocate(size_t size) {
    void *memory = malloc(size ? size : 1);
    if (!memory) fprintf(stderr, "train: no memory for %zu bytes\n", size), exit(1);
    return memory;
}

static void dump_gradient(const settings *s, mlp *model, const idx_set *set) {
    int64_t count = mlp_parameter_count();
    float *values = allocate((size_t)count * sizeof *values);
    muster_selection first = {.kind = MUSTER_SELECT_COUNT, .stop = s->batch};
    check(mlp_gradient(model, images_of(set), labels_of(set), &first, muster_f32(values, count)));
    if (muster_runtime_process(model->runtime) == 0) write_vector(s->dump_gradient, values, count);
    free(values);
}

static void dump_parameters(const settings *s, mlp *model) {
    int64_t count = mlp_parameter_count();
    float *values = allocate((size_t)count * sizeof *values);
    check(mlp_parameters(model, muster_f32(values, count)));
    if (muster_runtime_process(model->runtime) == 0) write_vector(s->dump_parameters, values, count);
    free(values);
}

/* The learning rate of a step. It increases linearly over the first steps (Goyal et al., "Accurate,
 * large minibatch SGD", 2017). At the full rate these steps are unstable: a difference in rounding,
 * such as that between one device and two, grows a thousandfold within 20 steps. */
static double learning_rate(double full, int64_t step) {
    enum { WARM_UP_STEPS = 60 };
    return step < WARM_UP_STEPS ? full * (double)(step + 1) / WARM_UP_STEPS : full;
}

/* Trains until the epochs, the steps or the user end the training. Returns whether the user did. */
static bool train(const settings *s, mlp *model, const idx_set *set) {
    enum { STEPS_TO_AGREE = 8 };
    muster_function *agreement;
    bool stopped = false;
    int64_t rows = set->images.shape[0], per_epoch = (rows + s->batch - 1) / s->batch, step = 0;
    int64_t steps = s->steps >= 0 ? s->steps : s->epochs * per_epoch;
    int64_t *order = allocate((size_t)rows * sizeof *order);
    progress bar;
    progress_start(&bar, stdout, s->steps >= 0 ? steps * s->batch : s->epochs * rows);
    check(interrupt_open(model->runtime, &agreement));
    for (; step < steps; step++) {
        if (!agreement || step % STEPS_TO_AGREE == 0) check(interrupt_agree(agreement, &stopped));
        if (stopped) break;
        int64_t at = step % per_epoch * s->batch, count = rows - at < s->batch ? rows - at : s->batch;
        if (at == 0) shuffle(order, rows, s->model.seed, step / per_epoch);
        muster_selection batch = {.kind = MUSTER_SELECT_LIST, .indices = order + at, .index_count = count};
        float loss;
        model->options.learning_rate = learning_rate(s->model.learning_rate, step);
        const muster_status status = mlp_step(model, images_of(set), labels_of(set), &batch, &loss);
        stopped = status == MUSTER_CANCELLED; /* the parameters are those before the step */
        if (stopped) break;
        check(status);
        progress_add(&bar, count, loss);
    }
    double rate = progress_finish(&bar);
    printf("%lld steps on %d device%s: %.0f samples/s\n", (long long)step, muster_runtime_size(model->runtime),
           muster_runtime_size(model->runtime) == 1 ? "" : "s", rate);
    free(order);
    interrupt_close();
    if (!stopped) check(interrupt_agree(agreement, &stopped));
    return stopped;
}

/* Returns 0, or 1 if the accuracy is below the requested minimum. */
static int evaluate(const settings *s, mlp *model, const idx_set *set) {
    double accuracy;
    check(mlp_accuracy(model, images_of(set), labels_of(set), &accuracy));
    printf("test accuracy: %.4f (%lld images)\n", accuracy, (long long)set->images.shape[0]);
    if (accuracy >= s->minimum_accuracy) return 0;
    fprintf(stderr, "train: the test accuracy %.4f is lower than %.4f\n", accuracy, s->minimum_accuracy);
    return 1;
}

static muster_runtime *open_devices(const char *devices) {
    muster_runtime_options options;
    muster_runtime *runtime;
    muster_runtime_options_init(&options);
    options.devices = devices;
    check(muster_runtime_open(&options, &runtime));
    /* of several processes one prints */
    if (muster_runtime_process(runtime) > 0 && !freopen("/dev/null", "w", stdout))
        fprintf(stderr, "train: /dev/null: %s\n", strerror(errno));
    return runtime;
}

int main(int argc, char **argv) {
    settings s = parse(argc, argv);
    interrupt_catch();
    idx_set training = read_set(s.data, "train"), test = read_set(s.data, "t10k");
    if (s.batch > training.images.shape[0]) {
        fprintf(stderr, "train: --batch: expected at most the %lld rows of the training set, received %lld\n",
                (long long)training.images.shape[0], (long long)s.batch);
        idx_free_set(&training);
        idx_free_set(&test);
        return 2;
    }
    muster_runtime *runtime = open_devices(s.devices);
    mlp model;
    check(mlp_open(&model, runtime, &s.model));
    if (s.dump_gradient) dump_gradient(&s, &model, &training);
    const bool stopped = train(&s, &model, &training);
    int result = stopped || s.steps >= 0 ? 0 : evaluate(&s, &model, &test);
    if (s.dump_parameters) dump_parameters(&s, &model);
    if (stopped) {
        printf("stopped by Ctrl-C\n");
        result = 130;
    }
    check(muster_runtime_close(runtime));
    idx_free_set(&training);
    idx_free_set(&test);
    return result;
}
