/* easgd.c: elastic averaging SGD. Each worker trains its own copy of the model on its own rows.
 * Every few steps its parameters move some way towards the server's values, and these move as far
 * towards the worker's, so that the server ends up in the middle of the workers. No worker waits
 * for another. */
#include "asynchronous/trainer.h"

int main(int argc, char **argv) {
    static trainer t;
    trainer_settings settings = {.name = "EASGD", .create = muster_easgd_create, .learning_rate = 0.3, .batch = 25};
    muster_driver_options_init(&settings.driver);
    settings.driver.init_delay = 50; /* steps that each worker trains alone; the server then starts with worker 0's parameters */
    settings.driver.update_frequency = 5;
    settings.driver.prefetch = 1;
    settings.driver.beta = 0.9; /* alpha = beta / number of workers */
    trainer_open(&t, settings, argc, argv);
    trainer_run(&t);
    const int code = trainer_report(&t);
    trainer_close(&t);
    return code;
}
