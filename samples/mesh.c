/* mesh.c: four devices as a mesh of 2 x 2, working together inside one call: sums along the rows
 * and the columns of the mesh, and values sent around a ring. Device (i, j) begins with the value
 * 10 i + j. */
#include "sample.h"

enum { SIDE = 2, DEVICES = SIDE * SIDE };

/* Sums over one row or one column of the mesh. The devices with the same color form the
 * communicator. */
static muster_status sum_along(muster_worker *w, int32_t color, muster_tensor value, muster_tensor sum) {
    muster_communicator *part;
    MUSTER_TRY(muster_worker_split(w, NULL, color, muster_worker_rank(w), &part));
    MUSTER_TRY(muster_worker_all_reduce(w, part, MUSTER_SUM, value, sum));
    return muster_worker_release(w, part);
}

/* A send returns when its message has been received. In a ring every rank sends and receives, so
 * both go into a group. */
static muster_status from_the_left(muster_worker *w, muster_tensor value, muster_tensor left) {
    int32_t rank = muster_worker_rank(w), size = muster_worker_size(w);
    MUSTER_TRY(muster_worker_group_begin(w, NULL));
    MUSTER_TRY(muster_worker_send(w, NULL, (rank + 1) % size, 0, value));
    MUSTER_TRY(muster_worker_recv(w, NULL, (rank + size - 1) % size, 0, left));
    return muster_worker_group_end(w, NULL);
}

/* out[0], (1, 4), gathered: this device's own value, the sum of its row, the sum of its column, and
 * its left neighbour's value. */
static muster_status mesh(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    (void)in, (void)user;
    int32_t i = muster_worker_rank(w) / SIDE, j = muster_worker_rank(w) % SIDE;
    muster_tensor flat = muster_tensor_reshape(out[0], 1, (int64_t[]){4});
    muster_tensor value = muster_tensor_slice(flat, 0, 1);
    MUSTER_TRY(muster_fill(w, 10 * i + j, value));
    MUSTER_TRY(sum_along(w, i, value, muster_tensor_slice(flat, 1, 2)));
    MUSTER_TRY(sum_along(w, j, value, muster_tensor_slice(flat, 2, 3)));
    return from_the_left(w, value, muster_tensor_slice(flat, 3, 4));
}

int main(void) {
    static const float expected[DEVICES][4] = {{0, 1, 10, 11}, {1, 1, 12, 0}, {10, 21, 10, 1}, {11, 21, 12, 10}};
    float found[DEVICES][4];
    muster_runtime *rt = sample_open_exactly("host:4", 4);
    muster_function *f;
    CHECK(muster_function_create(rt, "mesh", mesh, NULL, &f));
    CHECK(muster_function_output(f, "values", MUSTER_F32, 2, MUSTER_GATHER));
    CHECK(muster_function_call(f, NULL, 0, (muster_tensor[]){muster_f32(&found[0][0], DEVICES, 4)}, 1, NULL));
    printf("device   own   row   column   left\n");
    for (int32_t r = 0; r < DEVICES; r++) {
        printf("(%d, %d) %5g %5g %8g %6g\n", r / SIDE, r % SIDE, (double)found[r][0], (double)found[r][1], (double)found[r][2],
               (double)found[r][3]);
        for (int32_t k = 0; k < 4; k++) EXPECT(found[r][k] == expected[r][k]);
    }
    CHECK(muster_runtime_close(rt));
    return 0;
}
