/* test_wrong_layer.c: a network in the way of samples/models, one layer of which is wrong. The next
 * parameter has the size of its result; the program must end with the message of the layer. */
#include "../../samples/models/model.h"

int main(void) {
    muster_runtime *runtime = sample_open("host:2");
    const muster_initialiser_options zero = {.struct_size = sizeof zero};
    model m = model_open(runtime, "wrong");
    muster_expr *x = muster_graph_input(m.graph, "x", MUSTER_F32, MUSTER_SHAPE(MUSTER_ROWS, 12), MUSTER_SCATTER);
    muster_expr *h = muster_expr_matmul(x, model_parameter(&m, "first", "weight", zero, MUSTER_SHAPE(10, 4)));
    (void)model_parameter(&m, "second", "weight", zero, MUSTER_SHAPE(muster_expr_size(h, -1), 4));
    printf("the wrong layer was not noticed\n");
    return 0;
}
