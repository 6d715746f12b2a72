/* downpour.c: Downpour SGD. Each worker trains its own copy of the model on its own rows. Every few
 * steps it adds its accumulated gradients to the server; every few steps it replaces its parameters
 * by the server's, which contain the other workers' contributions. No worker waits for another. */
#include "asynchronous/trainer.h"

int main(int argc, char **argv) {
    static trainer t;
    trainer_settings settings = {.name = "Downpour", .create = muster_downpour_create, .learning_rate = 0.2, .batch = 25};
    muster_driver_options_init(&settings.driver);
    settings.driver.init_delay = 50; /* steps that each worker trains alone; the server then starts with worker 0's parameters */
    settings.driver.send_frequency = 5;
    settings.driver.update_frequency = 10;
    settings.driver.prefetch = 2;
    settings.driver.local_update = trainer_local_update;
    settings.driver.local_update_user = &t;
    trainer_open(&t, settings, argc, argv);
    trainer_run(&t);
    const int code = trainer_report(&t);
    trainer_close(&t);
    return code;
}
