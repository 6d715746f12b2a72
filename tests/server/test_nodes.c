/* What a runtime of several processes does not have yet is refused, with the reason, and leaves
 * nothing. */
#include "muster/server.h"
#include "runtime_launch.h"

static void ask_for_what_is_not_there(launch_process *p) {
    float values[4] = {1, 2, 3, 4};
    const muster_tensor value = muster_f32(values, 4);
    const muster_runtime_options options = launch_options("host:1");
    muster_runtime *runtime;
    muster_variable *variable;
    muster_server *server = NULL;
    launch_ok(p, muster_runtime_open(&options, &runtime));
    launch_ok(p, muster_variable_create(runtime, "v", value, &variable));
    launch_refused(p, muster_server_create(runtime, "s", &value, 1, NULL, &server), MUSTER_UNSUPPORTED,
                   "muster_server_create: expected a runtime of one process, since there is no parameter server over several yet, "
                   "received one of 2");
    launch_refused(p, muster_server_create_from(runtime, "s", &variable, 1, NULL, &server), MUSTER_UNSUPPORTED, "no parameter server");
    launch_check(p, server == NULL);
    launch_ok(p, muster_runtime_close(runtime));
}

static void what_is_not_there_is_refused_in_all_processes(void **state) {
    (void)state;
    launch_run(&(wire_launch_options){.processes = 2}, ask_for_what_is_not_there, NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(what_is_not_there_is_refused_in_all_processes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
