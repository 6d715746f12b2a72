#include "variable_impl.h"

#include "hash_impl.h"
#include "nodes/nodes_impl.h"

#include <stdio.h>
#include <string.h>

int64_t mst_edge(int64_t count, int32_t size, int32_t rank) { return (int64_t)((__int128)rank * count / size); }

int64_t mst_selection_row(const muster_selection *selection, int64_t position) {
    if (!selection) return position;
    switch (selection->kind) {
    case MUSTER_SELECT_RANGE:
        return selection->start + position;
    case MUSTER_SELECT_LIST:
        return selection->indices[position];
    default:
        return position;
    }
}

static muster_status check_indices(const muster_selection *selection, int64_t rows, const char *where, const char *what, int64_t *count) {
    if (selection->index_count < 0 || (selection->index_count > 0 && !selection->indices)) {
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: %s: expected a list of indices, received %s with index_count %lld", where, what,
                         selection->indices ? "indices" : "NULL", (long long)selection->index_count);
    }
    if (selection->index_count == 0)
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: %s: expected at least one row, received an empty list", where, what);
    for (int64_t i = 0; i < selection->index_count; i++) {
        int64_t index = selection->indices[i];
        if (index >= 0 && index < rows) continue;
        if (index < 0) {
            return mst_error(MUSTER_OUT_OF_RANGE, "%s: %s: expected indices from 0 up, received a negative one: %lld at position %lld",
                             where, what, (long long)index, (long long)i);
        }
        return mst_error(MUSTER_OUT_OF_RANGE, "%s: %s: expected indices below the %lld rows, received %lld at position %lld", where, what,
                         (long long)rows, (long long)index, (long long)i);
    }
    *count = selection->index_count;
    return MUSTER_OK;
}

static muster_status check_range(int64_t start, int64_t stop, int64_t rows, const char *where, const char *what, int64_t *count) {
    if (start < 0 || stop < 0 || start > rows || stop > rows) {
        return mst_error(MUSTER_OUT_OF_RANGE, "%s: %s: expected a range within the %lld rows, received [%lld, %lld)", where, what,
                         (long long)rows, (long long)start, (long long)stop);
    }
    if (start >= stop) {
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: %s: expected at least one row, received the empty range [%lld, %lld)", where, what,
                         (long long)start, (long long)stop);
    }
    *count = stop - start;
    return MUSTER_OK;
}

/* A selection whose kind was forgotten. */
static muster_status check_all(const muster_selection *selection, const char *where, const char *what) {
    if (selection->start == 0 && selection->stop == 0 && !selection->indices && selection->index_count == 0) return MUSTER_OK;
    return mst_error(MUSTER_INVALID_ARGUMENT,
                     "%s: %s: expected kind COUNT, RANGE or LIST for start %lld, stop %lld and %lld indices%s, received MUSTER_SELECT_ALL",
                     where, what, (long long)selection->start, (long long)selection->stop, (long long)selection->index_count,
                     selection->indices ? "" : " at NULL");
}

muster_status mst_selection_check(const muster_selection *selection, int64_t rows, const char *where, const char *what, int64_t *count) {
    muster_selection_kind kind = selection ? selection->kind : MUSTER_SELECT_ALL;
    if (selection && selection->reserved != 0)
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: %s: reserved: expected 0, received %d", where, what, (int)selection->reserved);
    switch (kind) {
    case MUSTER_SELECT_ALL:
        *count = rows;
        return selection ? check_all(selection, where, what) : MUSTER_OK;
    case MUSTER_SELECT_COUNT:
        return check_range(0, selection->stop, rows, where, what, count);
    case MUSTER_SELECT_RANGE:
        return check_range(selection->start, selection->stop, rows, where, what, count);
    case MUSTER_SELECT_LIST:
        return check_indices(selection, rows, where, what, count);
    default:
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: %s: expected kind ALL, COUNT, RANGE or LIST, received %d", where, what, (int)kind);
    }
}

void mst_selection_pack(const muster_selection *selection, muster_tensor from, int64_t begin, int64_t end, void *to) {
    if (begin >= end) return;
    if (!selection || selection->kind != MUSTER_SELECT_LIST) {
        int64_t row = mst_selection_row(selection, begin);
        mst_tensor_pack(to, muster_tensor_slice(from, row, row + (end - begin)));
        return;
    }
    int64_t row_bytes = mst_tensor_bytes(muster_tensor_slice(from, 0, 1));
    bool plain = mst_tensor_contiguous(from);
    for (int64_t p = begin; p < end; p++) {
        int64_t row = selection->indices[p];
        char *place = (char *)to + (p - begin) * row_bytes;
        if (plain) {
            if (row_bytes) memcpy(place, (const char *)muster_tensor_address(from) + row * row_bytes, (size_t)row_bytes);
        } else {
            mst_tensor_pack(place, muster_tensor_slice(from, row, row + 1));
        }
    }
}

void mst_selection_details(mst_round_details *details, const char *label, const muster_selection *selection, bool rows) {
    char named[MST_DETAIL_LABEL];
    if (selection->kind == MUSTER_SELECT_ALL) mst_round_detail(details, label, "all rows");
    if (selection->kind == MUSTER_SELECT_COUNT) mst_round_detail(details, label, "%lld rows", (long long)selection->stop);
    if (selection->kind == MUSTER_SELECT_RANGE)
        mst_round_detail(details, label, "rows %lld to %lld", (long long)selection->start, (long long)selection->stop);
    if (selection->kind != MUSTER_SELECT_LIST) return;
    mst_round_detail(details, label, "a list of %lld rows", (long long)selection->index_count);
    if (!rows || selection->index_count < 0) return;
    snprintf(named, sizeof named, "the rows of %.60s", label);
    mst_round_hash_detail(details, named,
                          mst_hash_bytes(MST_HASH_START, selection->indices, selection->index_count * (int64_t)sizeof *selection->indices));
}
