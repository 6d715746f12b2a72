/* What the description of a runtime says of oneDNN, in processes with different environments: the
 * library is looked for once in a process. */
#include "base_check.h"
#include "onednn/onednn_private.h"
#include "runtime_impl.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* Before the library is looked for, and after it. expected: "" for any version. 0: both lines begin
 * as they should. */
static int child(const char *value, const char *expected) {
    static const char before[] = "\noneDNN: not looked for yet, no convolution has run\n";
    muster_runtime_options options;
    muster_runtime *runtime;
    if (value)
        setenv("MUSTER_ONEDNN", value, 1);
    else
        unsetenv("MUSTER_ONEDNN");
    muster_runtime_options_init(&options);
    options.devices = "host:1";
    if (muster_runtime_open(&options, &runtime) != MUSTER_OK) return 2;
    if (!strstr(muster_runtime_description(runtime), before)) return 3;
    (void)mst_onednn_get();
    const char *text = muster_runtime_description(runtime), *line = strstr(text, "\noneDNN: ");
    const bool fits = line && (*expected ? strncmp(line + 9, expected, strlen(expected)) == 0 : line[9] >= '2' && line[9] <= '9');
    const bool good = fits && !strstr(text, before);
    if (!good)
        fprintf(stderr, "MUSTER_ONEDNN=%s: expected \"%s\", received \"%.200s\"\n", value ? value : "", expected, line ? line + 9 : text);
    return muster_runtime_close(runtime) == MUSTER_OK && good ? 0 : 1;
}

static void the_description_says_which_onednn_there_is(void **state) {
    void *two = dlopen("libdnnl.so.2", RTLD_NOW | RTLD_LOCAL); /* Debian 13 has version 3 alone */
    const struct {
        const char *value, *expected;
    } cases[] = {
        {"none", "not used, MUSTER_ONEDNN is \"none\"\n"},
        {"/nowhere/libdnnl.so", "none: MUSTER_ONEDNN: expected a library, received \"/nowhere/libdnnl.so\": oneDNN"},
        {"libc.so.6", "none: MUSTER_ONEDNN: expected a library, received \"libc.so.6\": oneDNN"},
        {NULL, ""}, /* the suite runs where oneDNN is, under whatever name */
        {"libdnnl.so.2", two ? "2." : "none: MUSTER_ONEDNN: expected a library, received \"libdnnl.so.2\": oneDNN"},
    };
    enum { CASES = sizeof cases / sizeof *cases };
    int32_t compared = 0;
    (void)state;
    for (int32_t c = 0; c < CASES; c++, compared++) {
        int status = -1;
        const pid_t pid = fork();
        assert_true(pid >= 0);
        if (pid == 0) _exit(child(cases[c].value, cases[c].expected));
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 0);
    }
    assert_int_equal(compared, CASES);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_description_says_which_onednn_there_is)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
