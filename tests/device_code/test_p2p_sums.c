/* The kernel between peers combines its inputs in their order, whatever their number: it loads
 * several of them before it adds the first. Its branch for GPUs, one thread after another, against
 * plain loops, bit for bit. */
#include "base_check.h"
#include "muster/ops.h"
#include "p2p/p2p_parameters_impl.h"
#include "shim/mst_program.h"
#include "shim/mst_texts.h"

#include <dlfcn.h>
#include <math.h>

enum { MOST = 64, COUNT = 11, ROOM = 16 }; /* two packs of four and three single ones */

static const mst_program_table *program;
static const mst_program_kernel *kernel;
static _Alignas(16) float inputs[MOST][ROOM], outputs[2][ROOM], parameter[ROOM], velocity[ROOM];

static void check(const void *address, unsigned long bytes, unsigned long alignment, int kind) {
    (void)address, (void)bytes, (void)alignment, (void)kind;
}

static void *same_address(const void *address) { return (void *)(uintptr_t)address; }

static int open_texts(void **state) {
    (void)state;
    void *library = dlopen(SIM_TEXTS, RTLD_NOW | RTLD_LOCAL);
    if (!library) return -1;
    program = dlsym(library, "mst_program");
    mst_texts_control *control = dlsym(library, "mst_texts");
    control->address = same_address;
    *program->machine = (mst_program_machine){.check = check};
    for (int i = 0; i < program->kernel_count; i++)
        if (strcmp(program->kernels[i].name, "mst_p2p_reduce") == 0) kernel = &program->kernels[i];
    return kernel ? 0 : -1;
}

/* Numbers whose sum depends on the order in which they are added. */
static void fill_inputs(uint32_t seed) {
    for (int k = 0; k < MOST; k++)
        for (int i = 0; i < ROOM; i++) {
            seed = seed * 1664525u + 1013904223u;
            inputs[k][i] = ldexpf((float)(int32_t)seed, (int)(seed >> 8 & 15) - 38);
        }
    for (int i = 0; i < ROOM; i++) parameter[i] = inputs[3][i] * 7, velocity[i] = inputs[5][i] * 3;
}

static float combined(int32_t op, int count, int i) {
    double scale = 1.0 / count;
    float value = op == MUSTER_AVG ? (float)(scale * (double)inputs[0][i]) : inputs[0][i];
    for (int k = 1; k < count; k++) {
        float next = inputs[k][i];
        if (op == MUSTER_SUM) value = value + next;
        if (op == MUSTER_PROD) value = value * next;
        if (op == MUSTER_MAX) value = next > value ? next : value;
        if (op == MUSTER_MIN) value = next < value ? next : value;
        if (op == MUSTER_AVG) value = (float)((double)value + scale * (double)next);
    }
    return value;
}

static mst_p2p_reduce_parameters parameters_of(int32_t op, int count, int odd) {
    mst_p2p_reduce_parameters p = {.count = COUNT, .scale = 1.0 / count, .dtype = MUSTER_F32, .op = op, .inputs = count, .outputs = 2};
    for (int k = 0; k < count; k++) p.input[k] = inputs[k] + odd;
    for (int k = 0; k < 2; k++) p.output[k] = outputs[k] + odd;
    return p;
}

/* All threads of a block that have something to do, one after another. */
static void run(const mst_p2p_reduce_parameters *p) {
    for (unsigned thread = 0; thread < ROOM; thread++) {
        *program->here() = (mst_program_here){.thread = {thread, 0, 0}, .threads = {256, 1, 1}, .blocks = {1, 1, 1}};
        kernel->run((const unsigned char *)p);
    }
}

static void assert_bits(float expected, float received, int count, int i) {
    if (memcmp(&expected, &received, sizeof expected) != 0)
        fail_msg("%d inputs, element %d: expected %a, received %a", count, i, (double)expected, (double)received);
}

static void test_inputs_are_combined_in_their_order(void **state) {
    (void)state;
    int cases = 0, other_order = 0;
    for (int count = 1; count <= MOST; count = count < 13 ? count + 1 : count + 17)
        for (int32_t op = MUSTER_SUM; op <= MUSTER_AVG; op++)
            for (int odd = 0; odd < 2; odd++, cases++) {
                fill_inputs((uint32_t)(count * 100 + op));
                mst_p2p_reduce_parameters p = parameters_of(op, count, odd);
                run(&p);
                for (int i = odd; i < odd + COUNT; i++)
                    for (int k = 0; k < 2; k++) assert_bits(combined(op, count, i), outputs[k][i], count, i);
                float backwards = inputs[count - 1][odd];
                for (int k = count - 2; k >= 0; k--) backwards += inputs[k][odd];
                other_order += op == MUSTER_SUM && backwards != outputs[0][odd];
            }
    assert_int_equal(cases, 16 * 5 * 2);
    assert_true(other_order > 10); /* so the order matters here */
}

static void test_updates_add_the_sum_in_that_order(void **state) {
    (void)state;
    int cases = 0;
    for (int count = 1; count <= 9; count++)
        for (int momentum = 0; momentum < 2; momentum++)
            for (int odd = 0; odd < 2; odd++, cases++) {
                float expected[ROOM], kept[ROOM];
                fill_inputs((uint32_t)count);
                for (int i = odd; i < odd + COUNT; i++) {
                    float change = 0.3f * combined(MUSTER_SUM, count, i);
                    kept[i] = momentum ? 0.9f * velocity[i] + change : velocity[i];
                    expected[i] = parameter[i] + (momentum ? kept[i] : change);
                }
                mst_p2p_reduce_parameters p = parameters_of(MUSTER_SUM, count, odd);
                p.alpha = 0.3f, p.beta = 0.9f;
                p.parameter = parameter + odd;
                p.velocity = momentum ? velocity + odd : NULL;
                run(&p);
                for (int i = odd; i < odd + COUNT; i++) {
                    assert_bits(expected[i], outputs[1][i], count, i);
                    assert_bits(kept[i], velocity[i], count, i);
                }
            }
    assert_int_equal(cases, 9 * 2 * 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_inputs_are_combined_in_their_order),
        cmocka_unit_test(test_updates_add_the_sum_in_that_order),
    };
    return cmocka_run_group_tests(tests, open_texts, NULL);
}
