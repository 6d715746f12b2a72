/* data.c: buffers, host storage that grows, and calls that use some rows of a big data set. */
#include <string.h>

#include "sample.h"

enum { ROWS = 1000, COLUMNS = 4 };

static muster_status column_sums(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    (void)user;
    return muster_reduce(w, MUSTER_SUM, in[0], 0, out[0]);
}

/* A buffer holds one dtype. It takes values of a narrower dtype as they are, and values of a wider
 * one only with MUSTER_CAST_UNSAFE. */
static muster_buffer *fill_buffer(void) {
    static uint8_t bytes[ROWS][COLUMNS];
    for (int i = 0; i < ROWS; i++)
        for (int j = 0; j < COLUMNS; j++) bytes[i][j] = (uint8_t)(i % 100 + j);
    double wide[1][COLUMNS] = {{0.5, 1.5, 2.5, 3.5}};

    muster_buffer *data;
    CHECK(muster_buffer_create(MUSTER_F32, 2, 1.5, &data)); /* storage for half as much again */
    EXPECT(muster_buffer_set_value(data, muster_f64(wide, 1, COLUMNS), MUSTER_CAST_SAFE) == MUSTER_DTYPE_MISMATCH);
    printf("refused: %s\n", muster_last_error());
    CHECK(muster_buffer_set_value(data, muster_f64(wide, 1, COLUMNS), MUSTER_CAST_UNSAFE));
    EXPECT(((float *)muster_tensor_address(muster_buffer_tensor(data)))[3] == 3.5f);
    CHECK(muster_buffer_set_value(data, muster_u8(bytes, ROWS, COLUMNS), MUSTER_CAST_SAFE));
    return data;
}

static void grow(muster_buffer *data) {
    muster_tensor before = muster_buffer_tensor(data);
    int64_t capacity = muster_buffer_capacity(data);
    printf("%d rows of %d; room for %" PRId64 " elements\n", ROWS, COLUMNS, capacity);
    EXPECT(capacity >= ROWS * COLUMNS * 3 / 2);
    CHECK(muster_buffer_set_length(data, ROWS * 3 / 2));
    muster_tensor after = muster_buffer_tensor(data);
    EXPECT(after.shape[0] == ROWS * 3 / 2);
    EXPECT(muster_tensor_address(after) == muster_tensor_address(before)); /* grew within its storage */
    EXPECT(((float *)muster_tensor_address(after))[ROWS * COLUMNS] == 0);  /* new rows are 0 */
    CHECK(muster_buffer_set_length(data, ROWS));
    EXPECT(((float *)muster_tensor_address(muster_buffer_tensor(data)))[COLUMNS] == 1);
    printf("grew to %" PRId64 " rows and back without moving\n", after.shape[0]);
}

static void use_rows(muster_function *f, muster_buffer *data) {
    float sums[COLUMNS], expected[COLUMNS] = {0};
    const float *values = muster_tensor_address(muster_buffer_tensor(data));
    muster_call_options options;
    muster_call_options_init(&options);
    options.batch = (muster_selection){.kind = MUSTER_SELECT_RANGE, .start = 100, .stop = 200};
    CHECK(muster_function_call(f, (muster_tensor[]){muster_buffer_tensor(data)}, 1, (muster_tensor[]){muster_f32(sums, COLUMNS)}, 1,
                               &options));
    sample_print("sums of the rows 100 to 199:", sums, COLUMNS);
    for (int i = 100; i < 200; i++)
        for (int j = 0; j < COLUMNS; j++) expected[j] += values[i * COLUMNS + j];
    EXPECT(memcmp(sums, expected, sizeof sums) == 0);

    int64_t rows[100]; /* each worker copies its own rows; a row may come twice */
    memset(expected, 0, sizeof expected);
    for (int i = 0; i < 100; i++) {
        rows[i] = i * 7919 % ROWS / 2 * 2;
        for (int j = 0; j < COLUMNS; j++) expected[j] += values[rows[i] * COLUMNS + j];
    }
    options.batch = (muster_selection){.kind = MUSTER_SELECT_LIST, .indices = rows, .index_count = 100};
    CHECK(muster_function_call(f, (muster_tensor[]){muster_buffer_tensor(data)}, 1, (muster_tensor[]){muster_f32(sums, COLUMNS)}, 1,
                               &options));
    sample_print("sums of 100 scattered rows: ", sums, COLUMNS);
    EXPECT(memcmp(sums, expected, sizeof sums) == 0);

    rows[99] = ROWS;
    muster_status status = muster_function_call(f, (muster_tensor[]){muster_buffer_tensor(data)}, 1,
                                                (muster_tensor[]){muster_f32(sums, COLUMNS)}, 1, &options);
    EXPECT(status == MUSTER_OUT_OF_RANGE);
    printf("refused: %s\n", muster_last_error());
}

int main(void) {
    muster_buffer *data = fill_buffer();
    grow(data);
    muster_runtime *rt = sample_open("host:2");
    muster_function *f;
    CHECK(muster_function_create(rt, "column_sums", column_sums, NULL, &f));
    CHECK(muster_function_input(f, "x", MUSTER_F32, 2, MUSTER_SCATTER));
    CHECK(muster_function_output(f, "sums", MUSTER_F32, 1, MUSTER_SUM));
    use_rows(f, data);
    CHECK(muster_runtime_close(rt));
    muster_buffer_free_memory(data);
    EXPECT(muster_buffer_capacity(data) == 0 && muster_buffer_tensor(data).shape[0] == 0);
    muster_buffer_destroy(data);
    return 0;
}
