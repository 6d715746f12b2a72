/* easgd.c: elastic averaging SGD. Each worker trains its own copy on its own rows, and every few
 * steps is drawn some way towards the value of the server, which is drawn the same way towards the
 * worker's: the server ends up in the middle of them. Nobody waits for anybody. */
#include "asynchronous/trainer.h"

int main(int argc, char **argv) {
    static trainer t;
    trainer_settings settings = {.name = "EASGD", .create = muster_easgd_create, .learning_rate = 0.3, .batch = 25};
    muster_driver_options_init(&settings.driver);
    settings.driver.init_delay = -1; /* none: the server works from the first steps */
    settings.driver.update_frequency = 5;
    settings.driver.prefetch = 1;
    settings.driver.beta = 0.9; /* alpha = beta / number of workers */
    trainer_open(&t, settings, argc, argv);
    trainer_run(&t);
    const int code = trainer_report(&t);
    trainer_close(&t);
    return code;
}
