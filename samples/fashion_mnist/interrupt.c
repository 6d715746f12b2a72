#include "interrupt.h"

#include <signal.h>

static volatile sig_atomic_t caught;

static void on_signal(int signal_number) {
    (void)signal_number;
    caught = 1;
}

void interrupt_catch(void) {
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND};
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

static muster_status count_caught(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    (void)user;
    return muster_sum(w, in[0], out[0]);
}

muster_status interrupt_open(muster_runtime *runtime, muster_function **agreement) {
    *agreement = NULL;
    if (muster_runtime_processes(runtime) == 1) return MUSTER_OK;
    MUSTER_TRY(muster_function_create(runtime, "count_caught", count_caught, NULL, agreement));
    MUSTER_TRY(muster_function_input(*agreement, "caught", MUSTER_F32, 1, MUSTER_SCATTER));
    MUSTER_TRY(muster_function_set_source(*agreement, "caught", MUSTER_SOURCE_OWN));
    return muster_function_output(*agreement, "count", MUSTER_F32, 0, MUSTER_SUM);
}

muster_status interrupt_agree(muster_function *agreement, bool *interrupted) {
    float flag = caught ? 1 : 0, count = flag;
    if (agreement)
        MUSTER_TRY(
            muster_function_call(agreement, (muster_tensor[]){muster_f32(&flag, 1)}, 1, (muster_tensor[]){muster_f32(&count)}, 1, NULL));
    *interrupted = count > 0;
    return MUSTER_OK;
}
