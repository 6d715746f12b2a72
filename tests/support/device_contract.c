#include "device_contract.h"

#include "base_check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

mst_code_kernel contract_scale_kernel = {.name = "contract_scale"},
                contract_row_sums_kernel = {.name = "contract_row_sums", .blocks = true};

enum { SOURCE = 1 << 12 };
static char kernel_source[SOURCE], parameters_source[SOURCE];
static const mst_code_source headers[] = {{"contract_parameters.h", parameters_source}};
static const char *const kernels[] = {"contract_scale", "contract_row_sums"};
static mst_code_family family = {{"contract.cu", kernel_source}, kernels, 2, MST_CODE_AT_OPEN};
static const mst_code_sources contract = {"contract", headers, 1, &family, 1};

/* CMake says where the sources lie: __FILE__ may be relative, to a folder other than that of the
 * test. */
static void read_source(const char *name, char source[SOURCE]) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", MUSTER_SIM_SOURCES, name);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    const size_t length = fread(source, 1, SOURCE, file);
    assert_in_range(length, 1, SOURCE - 1);
    source[length] = '\0';
    fclose(file);
}

void contract_add_late(void) {
    family.time = MST_CODE_AT_FIRST_USE;
    contract_add();
}

void contract_add(void) {
    read_source("contract.cu", kernel_source);
    read_source("contract_parameters.h", parameters_source);
    setenv("MUSTER_CACHE_DIR", "off", 1);
    assert_ok(mst_code_add(&contract));
}

muster_status contract_launch_scale(mst_device *device, void *to, const void *from, int64_t count, float factor) {
    contract_parameters parameters = {.count = count, .from = from, .to = to, .factor = factor};
    const muster_status status = device->code->launch(device, &contract_scale_kernel, count, &parameters, sizeof parameters);
    memset(&parameters, 0xff, sizeof parameters);
    return status;
}
