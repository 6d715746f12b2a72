/* SHA-256 as specified in FIPS 180-4. */
#include "code_impl.h"

#include <string.h>

static const uint32_t constants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be,
    0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa,
    0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967, 0x27b70a85,
    0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3,
    0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f,
    0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static uint32_t rotate(uint32_t word, int by) { return word >> by | word << (32 - by); }

static uint32_t big_endian(const uint8_t *at) { return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3]; }

static void compress(uint32_t state[8], const uint8_t block[64]) {
    uint32_t w[64], v[8];
    for (int t = 0; t < 16; t++) w[t] = big_endian(block + 4 * t);
    for (int t = 16; t < 64; t++) {
        uint32_t a = w[t - 15], b = w[t - 2];
        w[t] = (rotate(b, 17) ^ rotate(b, 19) ^ b >> 10) + w[t - 7] + (rotate(a, 7) ^ rotate(a, 18) ^ a >> 3) + w[t - 16];
    }
    memcpy(v, state, sizeof v);
    /* The eight words move on by one place in each round. The names move instead: in round t the
     * word number i of the standard is v[(i - t) & 7], so that unrolled rounds move nothing. */
#pragma GCC unroll 8
    for (int t = 0; t < 64; t++) {
        uint32_t a = v[-t & 7], b = v[(1 - t) & 7], c = v[(2 - t) & 7], e = v[(4 - t) & 7], f = v[(5 - t) & 7], g = v[(6 - t) & 7];
        uint32_t first = v[(7 - t) & 7] + (rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25)) + ((e & f) ^ (~e & g)) + constants[t] + w[t];
        uint32_t second = (rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
        v[(3 - t) & 7] += first;
        v[(7 - t) & 7] = first + second;
    }
    for (int i = 0; i < 8; i++) state[i] += v[i];
}

void mst_sha256_begin(mst_sha256 *hash) {
    static const uint32_t start[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    memcpy(hash->state, start, sizeof start);
    hash->bytes = 0;
}

void mst_sha256_add(mst_sha256 *hash, const void *data, int64_t bytes) {
    const uint8_t *from = data;
    while (bytes > 0) {
        int64_t filled = (int64_t)(hash->bytes % sizeof hash->block), space = (int64_t)sizeof hash->block - filled,
                count = bytes < space ? bytes : space;
        memcpy(hash->block + filled, from, (size_t)count);
        hash->bytes += (uint64_t)count;
        from += count;
        bytes -= count;
        if (count == space) compress(hash->state, hash->block);
    }
}

/* Pads the last block: a bit 1, zeros, and the length in bits. */
void mst_sha256_end(mst_sha256 *hash, uint8_t digest[32]) {
    static const uint8_t padding[64] = {0x80};
    uint64_t bits = hash->bytes * 8;
    uint8_t length[8];
    for (int i = 0; i < 8; i++) length[i] = (uint8_t)(bits >> (56 - 8 * i));
    mst_sha256_add(hash, padding, 1 + (int64_t)((119 - hash->bytes % 64) % 64));
    mst_sha256_add(hash, length, sizeof length);
    for (int i = 0; i < 32; i++) digest[i] = (uint8_t)(hash->state[i / 4] >> (24 - 8 * (i % 4)));
}
