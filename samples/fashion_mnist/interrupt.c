#include "interrupt.h"

#include <signal.h>
#include <stdatomic.h>

static volatile sig_atomic_t caught;
static muster_runtime *_Atomic training;

/* muster_runtime_cancel may be called here: it ends the step that runs. */
static void on_signal(int signal_number) {
    (void)signal_number;
    caught = 1;
    muster_runtime_cancel(atomic_load(&training));
}

void interrupt_catch(void) {
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND};
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

/* Every worker reports what its process has caught. */
static muster_status report_caught(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    (void)in, (void)user;
    return muster_fill(w, caught ? 1 : 0, out[0]);
}

muster_status interrupt_open(muster_runtime *runtime, muster_function **agreement) {
    *agreement = NULL;
    atomic_store(&training, runtime);
    if (muster_runtime_processes(runtime) == 1) return MUSTER_OK;
    MUSTER_TRY(muster_function_create(runtime, "report_caught", report_caught, NULL, agreement));
    MUSTER_TRY(muster_function_set_shards_together(*agreement, 1)); /* a process is asked once, not for each of its shards */
    return muster_function_output(*agreement, "caught", MUSTER_F32, 0, MUSTER_MAX);
}

void interrupt_close(void) { atomic_store(&training, NULL); }

muster_status interrupt_agree(muster_function *agreement, bool *interrupted) {
    float most = caught ? 1 : 0;
    if (agreement) MUSTER_TRY(muster_function_call(agreement, NULL, 0, (muster_tensor[]){muster_f32(&most)}, 1, NULL));
    *interrupted = most > 0;
    return MUSTER_OK;
}
