/* Hashes (FNV-1a): of 64 bits, which the processes of a launch compare, and folded to 32, for
 * tables that one process makes. */
#ifndef MST_HASH_IMPL_H
#define MST_HASH_IMPL_H

#include <stdint.h>

#define MST_HASH_START 0xcbf29ce484222325ull
static inline uint64_t mst_hash_bytes(uint64_t hash, const void *bytes, int64_t count) {
    const unsigned char *from = (const unsigned char *)bytes;
    for (int64_t i = 0; i < count; i++) hash = (hash ^ from[i]) * 0x100000001b3ull;
    return hash;
}
static inline uint64_t mst_hash_number(uint64_t hash, int64_t number) { return mst_hash_bytes(hash, &number, sizeof number); }

static inline uint32_t mst_text_hash(const char *text, int64_t length) {
    const uint64_t hash = mst_hash_bytes(MST_HASH_START, text, length);
    return (uint32_t)(hash >> 32) ^ (uint32_t)hash;
}

#endif
