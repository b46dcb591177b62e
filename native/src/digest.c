/* BLAKE2b, as RFC 7693 has it. */
#include "core.h"

#include <string.h>

enum { BLOCK = 128, ROUNDS = 12, SHORT = 8 };

static const uint64_t START[8] = {
    0x6a09e667f3bcc908, 0xbb67ae8584caa73b, 0x3c6ef372fe94f82b, 0xa54ff53a5f1d36f1,
    0x510e527fade682d1, 0x9b05688c2b3e6c1f, 0x1f83d9abfb41bd6b, 0x5be0cd19137e2179,
};

static const uint8_t ORDER[ROUNDS][16] = {
    {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}, {14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3},
    {11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4}, {7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8},
    {9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13}, {2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9},
    {12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11}, {13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10},
    {6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5}, {10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0},
    {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}, {14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3},
};

static inline uint64_t rotated(uint64_t word, int by) {
    return word >> by | word << (64 - by);
}

static inline uint64_t little_endian(const uint8_t *data) {
    uint64_t word = 0;
    for (int i = 7; i >= 0; i--) word = word << 8 | data[i];
    return word;
}

static inline void mix(uint64_t *v, int a, int b, int c, int d, uint64_t x, uint64_t y) {
    v[a] += v[b] + x;
    v[d] = rotated(v[d] ^ v[a], 32);
    v[c] += v[d];
    v[b] = rotated(v[b] ^ v[c], 24);
    v[a] += v[b] + y;
    v[d] = rotated(v[d] ^ v[a], 16);
    v[c] += v[d];
    v[b] = rotated(v[b] ^ v[c], 63);
}

static void compress(uint64_t *state, const uint8_t *block, uint64_t total, int is_last) {
    uint64_t v[16], m[16];
    for (int i = 0; i < 16; i++) m[i] = little_endian(block + 8 * i);
    for (int i = 0; i < 8; i++) {
        v[i] = state[i];
        v[i + 8] = START[i];
    }
    v[12] ^= total;
    if (is_last) v[14] = ~v[14];
    for (int round = 0; round < ROUNDS; round++) {
        const uint8_t *s = ORDER[round];
        mix(v, 0, 4, 8, 12, m[s[0]], m[s[1]]);
        mix(v, 1, 5, 9, 13, m[s[2]], m[s[3]]);
        mix(v, 2, 6, 10, 14, m[s[4]], m[s[5]]);
        mix(v, 3, 7, 11, 15, m[s[6]], m[s[7]]);
        mix(v, 0, 5, 10, 15, m[s[8]], m[s[9]]);
        mix(v, 1, 6, 11, 12, m[s[10]], m[s[11]]);
        mix(v, 2, 7, 8, 13, m[s[12]], m[s[13]]);
        mix(v, 3, 4, 9, 14, m[s[14]], m[s[15]]);
    }
    for (int i = 0; i < 8; i++) state[i] ^= v[i] ^ v[i + 8];
}

void digest(Span bytes, uint8_t *to, size_t size) {
    uint64_t state[8], total = 0;
    uint8_t last[BLOCK] = {0};
    const uint8_t *data = bytes.data;
    size_t left = bytes.size;
    memcpy(state, START, sizeof state);
    state[0] ^= 0x01010000 ^ size;
    for (; left > BLOCK; left -= BLOCK, data += BLOCK) {
        total += BLOCK;
        compress(state, data, total, 0);
    }
    if (left) memcpy(last, data, left);
    compress(state, last, total + left, 1);
    for (size_t i = 0; i < size; i++) to[i] = (uint8_t)(state[i / 8] >> 8 * (i % 8));
}

Writer write_short_hash(Writer to, Span bytes) {
    if (bytes.size <= SHORT) return write_binary(to, bytes);
    uint8_t found[SHORT];
    digest(bytes, found, SHORT);
    return write_binary(to, (Span){found, SHORT});
}
