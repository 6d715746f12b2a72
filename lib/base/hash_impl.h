/* Hashes of texts, for tables that this process makes. */
#ifndef MST_HASH_IMPL_H
#define MST_HASH_IMPL_H

#include <stdint.h>

/* FNV-1a of 64 bits, folded to 32. */
static inline uint32_t mst_text_hash(const char *text, int64_t length) {
    uint64_t hash = 0xcbf29ce484222325ull;
    for (int64_t i = 0; i < length; i++) hash = (hash ^ (unsigned char)text[i]) * 0x100000001b3ull;
    return (uint32_t)(hash >> 32) ^ (uint32_t)hash;
}

#endif
