#include "options_impl.h"

#include <string.h>

muster_status mst_options_read(const char *where, const char *init, const void *given, void *options, size_t size) {
    size_t received;
    if (!given) return MUSTER_OK;
    memcpy(&received, given, sizeof received);
    if (received < sizeof received)
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: options: expected struct_size as %s sets it, received %zu", where, init, received);
    for (size_t i = size; i < received; i++) {
        if (((const unsigned char *)given)[i] != 0)
            return mst_error(MUSTER_UNSUPPORTED,
                             "%s: options: expected at most the %zu bytes that this version knows, received a field at byte %zu", where,
                             size, i);
    }
    memcpy(options, given, received < size ? received : size);
    memcpy(options, &size, sizeof size);
    return MUSTER_OK;
}
