/* The real NVRTC compiles the kernels of fused groups: every elementwise operation in every dtype.
 * The argument is the architecture, such as 90 for sm_90. */
#include "device_nvrtc.h"
#include "dialect_private.h"
#include "graph_groups.h"
#include "nvrtc_api_private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

static int32_t architecture;
static const mst_nvrtc_api *api;

/* User time of this process so far, in seconds. */
static double user_time(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)usage.ru_utime.tv_sec + 1e-6 * (double)usage.ru_utime.tv_usec;
}

static void compile(const mst_fused_text *printed, mst_code_image *image) {
    const mst_code_target target = {.compiler = &mst_nvrtc_compiler, .user = (void *)(uintptr_t)api, .architecture = architecture};
    mst_code_headers headers;
    assert_ok(mst_code_headers_make(&headers));
    const int32_t count = headers.count + mst_graph_code.header_count;
    mst_code_source *sources = calloc((size_t)count, sizeof *sources);
    assert_non_null(sources);
    memcpy(sources, headers.list, (size_t)headers.count * sizeof *sources);
    memcpy(sources + headers.count, mst_graph_code.headers, (size_t)mst_graph_code.header_count * sizeof *sources);
    const mst_code_program program = {.name = "groups.cu", .text = printed->text.data, .sources = sources, .count = count};
    assert_ok(mst_code_build(&target, &program, image));
    free(sources);
    mst_code_headers_free(&headers);
}

static void every_operation_compiles(void **state) {
    (void)state;
    static row_groups rows;
    mst_fused_text printed;
    mst_code_image image;
    muster_runtime *runtime = graph_runtime("host:1");
    row_groups_make(runtime, &rows);
    assert_ok(mst_fused_print(rows.groups, rows.count, &printed));
    assert_int_equal(printed.kernel_count, rows.count);
    const double before = user_time();
    compile(&printed, &image);
    print_message("%d kernels of %d operations, %lld bytes of text: %.2f s of CPU time, %lld bytes\n", (int)rows.count, (int)rows.rows,
                  (long long)printed.text.length, user_time() - before, (long long)image.bytes);
    if (image.log) fail_msg("NVRTC warns: %.2000s", image.log);
    for (int32_t k = 0; k < printed.kernel_count; k++) {
        char name[32];
        snprintf(name, sizeof name, "mst_fused_%d", (int)k);
        if (!memmem(image.data, (size_t)image.bytes, name, strlen(name) + 1)) fail_msg("the image lacks the kernel %s", name);
    }
    mst_code_release(&image);
    mst_fused_text_free(&printed);
    assert_ok(muster_graph_destroy(rows.graph));
    assert_ok(muster_runtime_close(runtime));
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_operation_compiles)};
    nvrtc_find_library();
    setenv("MUSTER_CACHE_DIR", "off", 1);
    if (argc < 2 || mst_nvrtc_api_get(&api) != MUSTER_OK) {
        fprintf(stderr, "%s\nscript/fetch-nvrtc fetches it\n", argc < 2 ? "expected an architecture, such as 90" : muster_last_error());
        return 1;
    }
    architecture = atoi(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
