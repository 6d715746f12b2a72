#include "options_impl.h"

#include <stdbool.h>

/* Far above the size of every struct: a struct_size above this was not set by a program. */
enum { LARGEST_SIZE = 4096 };

void mst_options_init(void *options, size_t size) {
    if (!options || size < sizeof size) return;
    memset(options, 0, size);
    *(size_t *)options = size;
}

/* The size of a struct that begins with a size_t is a multiple of the size of size_t. */
static bool is_possible_size(size_t size) { return size >= sizeof size && size % sizeof size == 0 && size <= LARGEST_SIZE; }

static muster_status check_size(const char *where, const char *argument, const char *type, size_t size, size_t received) {
    if (is_possible_size(received)) return MUSTER_OK;
    return mst_error(MUSTER_INVALID_ARGUMENT,
                     "%s: %s: struct_size of %s: expected the size of the program's struct, a multiple of %zu up to %d (%s_init sets %zu), "
                     "received %zu",
                     where, argument, type, sizeof size, (int)LARGEST_SIZE, type, size, received);
}

muster_status mst_options_read_resized(const char *where, const char *type, const void *given, void *known, size_t size) {
    const size_t received = *(const size_t *)given;
    memset(known, 0, size);
    MUSTER_TRY(check_size(where, "options", type, size, received));
    memcpy(known, given, received < size ? received : size);
    *(size_t *)known = size;
    for (size_t i = size; i < received; i++) {
        if (((const unsigned char *)given)[i] != 0)
            return mst_error(MUSTER_UNSUPPORTED,
                             "%s: options: expected the %zu bytes of %s that this library knows, with nothing but zeros behind them, "
                             "received %zu bytes with a field set at offset %zu",
                             where, size, type, received, i);
    }
    return MUSTER_OK;
}

muster_status mst_options_check_reserved(const char *where, int64_t value) {
    if (__builtin_expect(value == 0, 1)) return MUSTER_OK;
    return mst_error(MUSTER_INVALID_ARGUMENT, "%s: options: reserved: expected 0, received %lld", where, (long long)value);
}

muster_status mst_result_write(const char *where, const char *argument, const char *type, const void *known, size_t size, void *result) {
    const size_t received = *(const size_t *)result;
    MUSTER_TRY(check_size(where, argument, type, size, received));
    memset(result, 0, received);
    memcpy(result, known, received < size ? received : size);
    *(size_t *)result = received;
    return MUSTER_OK;
}
