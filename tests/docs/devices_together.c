/* devices_together.c: the code of docs/devices-together.md. */
#include "docs.h"

enum { ROWS = 3, COLUMNS = 5 };

static void split(muster_runtime *rt) {
    float start[ROWS][COLUMNS] = {{0}}, other[ROWS][COLUMNS], whole[ROWS][COLUMNS];
    for (int i = 0; i < ROWS; i++)
        for (int j = 0; j < COLUMNS; j++) other[i][j] = (float)(10 * i + j);
    /* snippet: split */
    muster_variable *w;
    check(muster_variable_create(rt, "w", muster_f32(start, ROWS, COLUMNS), &w));
    check(muster_variable_split(w, 1)); /* each device has some of the columns */
    check(muster_variable_set_whole(w, muster_f32(other, ROWS, COLUMNS)));
    check(muster_variable_get_whole(w, muster_f32(whole, ROWS, COLUMNS)));
    check(muster_variable_join(w)); /* each device has all columns again */
    /* end of snippet */
    EXPECT(memcmp(whole, other, sizeof whole) == 0);
    memset(whole, 0, sizeof whole);
    check(muster_variable_get(w, muster_runtime_size(rt) - 1, muster_f32(whole, ROWS, COLUMNS)));
    EXPECT(memcmp(whole, other, sizeof whole) == 0);
}

static void initialise(muster_runtime *rt) {
    float values[ROWS][COLUMNS] = {{0}};
    muster_variable *w;
    check(muster_variable_create(rt, "layer", muster_f32(values, ROWS, COLUMNS), &w));
    check(muster_variable_split(w, 0));
    /* snippet: initialise */
    muster_initialiser_options options;
    muster_initialiser_options_init(&options);
    options.kind = MUSTER_INITIALISER_HE_NORMAL;
    options.seed = 1; /* another seed for each variable */
    check(muster_variable_initialise(w, &options));
    /* end of snippet */
    check(muster_variable_get_whole(w, muster_f32(values, ROWS, COLUMNS)));
    for (int i = 0; i < ROWS; i++)
        for (int j = 0; j < COLUMNS; j++) EXPECT(values[i][j] != 0);
}

int main(void) {
    muster_runtime *rt = docs_open();
    split(rt);
    initialise(rt);
    check(muster_runtime_close(rt));
    return 0;
}
