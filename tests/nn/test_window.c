/* The geometry of windows against windows that are moved element by element. */
#include "base_check.h"
#include "window/window_impl.h"

static mst_window window_of(int64_t size, int64_t stride, int64_t dilation, int64_t before, int64_t after) {
    return (mst_window){.axes = 1, .size = {size}, .stride = {stride}, .dilation = {dilation}, .before = {before}, .after = {after}};
}

/* Moves the window along the padded axis while it fits. Rounded up, it stands once more where the
 * last one does not reach the end; then the last one is left out if it begins in the padding behind
 * the operand. */
static int64_t places_by_moving(const mst_window *w, int64_t extent, bool rounded_up) {
    const int64_t padded = w->before[0] + extent + w->after[0], span = (w->size[0] - 1) * w->dilation[0] + 1;
    int64_t places = 0, begin = 0;
    for (; begin + span <= padded; begin += w->stride[0]) places++;
    if (!rounded_up || places == 0) return places;
    if (begin - w->stride[0] + span < padded)
        places++;
    else
        begin -= w->stride[0];
    return begin >= w->before[0] + extent ? places - 1 : places;
}

#define EACH(variable, low, high) for (int64_t variable = (low); (variable) <= (high); (variable)++)

static void places_are_those_of_a_window_that_moves(void **state) {
    int32_t cases = 0, none = 0;
    (void)state;
    EACH(size, 1, 4)
    EACH(stride, 1, 4)
    EACH(dilation, 1, 3)
    EACH(before, 0, 3)
    EACH(after, 0, 3)
    EACH(extent, 0, 9) {
        const mst_window w = window_of(size, stride, dilation, before, after);
        const int64_t places = places_by_moving(&w, extent, false);
        if (mst_window_places(&w, 0, extent, false) != places ||
            mst_window_places(&w, 0, extent, true) != places_by_moving(&w, extent, true))
            fail_msg("size %d, stride %d, dilation %d, padding %d and %d, extent %d", (int)size, (int)stride, (int)dilation, (int)before,
                     (int)after, (int)extent);
        cases++;
        none += places == 0;
    }
    assert_int_equal(cases, 4 * 4 * 3 * 4 * 4 * 10);
    assert_true(none > 100);
}

static void elements_inside_are_those_within_the_extent(void **state) {
    int32_t cases = 0, empty = 0;
    (void)state;
    EACH(size, 1, 4)
    EACH(stride, 1, 3)
    EACH(dilation, 1, 3)
    EACH(before, 0, 6)
    EACH(extent, 0, 5)
    EACH(place, 0, 5) {
        const mst_window w = window_of(size, stride, dilation, before, 0);
        int64_t first, end, inside = 0;
        mst_window_inside(&w, 0, place, extent, &first, &end);
        assert_true(first <= end && first >= 0 && end <= size);
        EACH(k, 0, size - 1) {
            const int64_t at = place * stride + k * dilation - before;
            assert_int_equal(at >= 0 && at < extent, k >= first && k < end);
            inside += at >= 0 && at < extent;
        }
        assert_int_equal(inside, end - first);
        cases++;
        empty += inside == 0;
    }
    assert_int_equal(cases, 4 * 3 * 3 * 7 * 6 * 6);
    assert_true(empty > 100);
}

static void numbers_that_overflow_are_told_from_windows_that_do_not_fit(void **state) {
    const mst_window padded = window_of(1, 1, 1, INT64_MAX, 0), behind = window_of(1, 1, 1, 0, INT64_MAX),
                     wide = window_of(INT64_MAX, 1, INT64_MAX, 0, 0), whole = window_of(1, 1, 1, 0, 0);
    (void)state;
    assert_int_equal(mst_window_places(&padded, 0, 1, false), -1);
    assert_int_equal(mst_window_places(&behind, 0, 1, false), -1);
    assert_int_equal(mst_window_places(&wide, 0, 5, false), 0);
    assert_int_equal(mst_window_places(&whole, 0, INT64_MAX, false), INT64_MAX);
}

static void each_axis_has_numbers_of_its_own(void **state) {
    const mst_window w = {
        .axes = 3, .size = {1, 2, 3}, .stride = {1, 2, 3}, .dilation = {1, 1, 2}, .before = {0, 1, 2}, .after = {1, 0, 3}};
    int64_t first, end;
    (void)state;
    assert_int_equal(mst_window_places(&w, 0, 7, false), 8);
    assert_int_equal(mst_window_places(&w, 1, 7, false), 4);
    assert_int_equal(mst_window_places(&w, 2, 7, false), 3);
    mst_window_inside(&w, 2, 0, 7, &first, &end);
    assert_int_equal(first, 1);
    assert_int_equal(end, 3);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(places_are_those_of_a_window_that_moves),
        cmocka_unit_test(elements_inside_are_those_within_the_extent),
        cmocka_unit_test(numbers_that_overflow_are_told_from_windows_that_do_not_fit),
        cmocka_unit_test(each_axis_has_numbers_of_its_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
