#include "options_impl.h"

#include <stdbool.h>

/* No option struct comes near it: a larger struct_size was never set. */
enum { LARGEST_SIZE = 4096 };

void mst_options_init(void *options, size_t size) {
    if (!options || size < sizeof size) return;
    memset(options, 0, size);
    *(size_t *)options = size;
}

/* Every struct that begins with a size_t has a multiple of its size. */
static bool is_possible_size(size_t size) { return size >= sizeof size && size % sizeof size == 0 && size <= LARGEST_SIZE; }

muster_status mst_options_read_resized(const char *where, const char *type, const void *given, void *known, size_t size) {
    const size_t received = *(const size_t *)given;
    if (!is_possible_size(received))
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: options: struct_size of %s: expected %zu, as %s_init sets it, received %zu", where,
                         type, size, type, received);
    for (size_t i = size; i < received; i++) {
        if (((const unsigned char *)given)[i] != 0)
            return mst_error(MUSTER_UNSUPPORTED,
                             "%s: options: expected the %zu bytes of %s that this library knows, with nothing but zeros behind them, "
                             "received %zu bytes with a field set at offset %zu",
                             where, size, type, received, i);
    }
    memset(known, 0, size);
    memcpy(known, given, received < size ? received : size);
    *(size_t *)known = size;
    return MUSTER_OK;
}
