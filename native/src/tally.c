/* Tallies: digests of rows, and sums of numbers, that come to zero where two sets are equal. */
#include "compare.h"

#include <string.h>

static const uint64_t PRIME = ((uint64_t)1 << 61) - 1;

/* ---- SipHash-1-3 ---- */

typedef struct {
    uint64_t v[4];
} Sip;

static inline uint64_t turned(uint64_t word, int by) {
    return word << by | word >> (64 - by);
}

static inline void sip_round(Sip *sip) {
    uint64_t *v = sip->v;
    v[0] += v[1];
    v[1] = turned(v[1], 13) ^ v[0];
    v[0] = turned(v[0], 32);
    v[2] += v[3];
    v[3] = turned(v[3], 16) ^ v[2];
    v[0] += v[3];
    v[3] = turned(v[3], 21) ^ v[0];
    v[2] += v[1];
    v[1] = turned(v[1], 17) ^ v[2];
    v[2] = turned(v[2], 32);
}

static inline void sip_word(Sip *sip, uint64_t word) {
    sip->v[3] ^= word;
    sip_round(sip);
    sip->v[0] ^= word;
}

static uint64_t sip_hash(uint64_t one, uint64_t other, Span bytes) {
    Sip sip = {{one ^ 0x736f6d6570736575, other ^ 0x646f72616e646f6d, one ^ 0x6c7967656e657261,
                other ^ 0x7465646279746573}};
    uint64_t word;
    size_t at = 0;
    for (; at + 8 <= bytes.size; at += 8) {
        memcpy(&word, bytes.data + at, 8);
        sip_word(&sip, word);
    }
    word = 0;
    if (at < bytes.size) memcpy(&word, bytes.data + at, bytes.size - at);
    sip_word(&sip, word | (uint64_t)bytes.size << 56);
    sip.v[2] ^= 0xff;
    for (int i = 0; i < 3; i++) sip_round(&sip);
    return sip.v[0] ^ sip.v[1] ^ sip.v[2] ^ sip.v[3];
}

uint64_t hash_with(const Tally *tally, Span bytes) {
    return sip_hash(tally->secret[0], tally->secret[1], bytes);
}

uint64_t digest_of_row(const Tally *tally, Span key, Span value) {
    return sip_hash(tally->secret[0] ^ hash_with(tally, key), tally->secret[1], value);
}

/* ---- modulo the prime ---- */

static uint64_t reduced(unsigned __int128 number) {
    for (int i = 0; i < 3; i++) number = (number & PRIME) + (number >> 61); /* of 128 bits: 68, 62, 61 and a bit */
    const uint64_t found = (uint64_t)number;
    return found >= PRIME ? found - PRIME : found;
}

static uint64_t multiplied(uint64_t one, uint64_t other) {
    return reduced((unsigned __int128)one * other);
}

static uint64_t tenth(void) {
    uint64_t found = 1, power = 10;
    for (uint64_t left = PRIME - 2; left; left >>= 1, power = multiplied(power, power))
        if (left & 1) found = multiplied(found, power);
    return found;
}

static uint64_t negated(uint64_t residue) {
    return residue ? PRIME - residue : 0;
}

/* A number modulo the prime, exactly; 1.50 is 15 tenths there, too. */
static uint64_t residue_of(const Tally *tally, Number number) {
    const unsigned __int128 size =
        number.number < 0 ? -(unsigned __int128)number.number : (unsigned __int128)number.number;
    const uint64_t found = multiplied(reduced(size), tally->tenths[number.scale]);
    return number.number < 0 ? negated(found) : found;
}

/* What the numbers at one place of a group are multiplied by. */
static uint64_t coefficient(const Tally *tally, uint64_t group, int place) {
    uint8_t at[sizeof group + 1];
    memcpy(at, &group, sizeof group);
    at[sizeof group] = (uint8_t)place;
    return reduced(hash_with(tally, (Span){at, sizeof at}));
}

/* ---- the tally ---- */

void begin_tally(Tally *tally, const uint8_t *secret) {
    memset(tally, 0, sizeof *tally);
    memcpy(tally->secret, secret, SECRET_BYTES);
    tally->tenths[0] = 1;
    tally->tenths[1] = tenth();
    for (int i = 2; i <= MOST_SCALE; i++) tally->tenths[i] = multiplied(tally->tenths[i - 1], tally->tenths[1]);
}

void tally_residues(Tally *tally, Span group, const uint64_t *residues, int count, int sign) {
    const uint64_t hash = hash_with(tally, group);
    uint64_t total = 0;
    for (int i = 0; i < count; i++)
        if (residues[i]) total = reduced((unsigned __int128)coefficient(tally, hash, i) * residues[i] + total);
    tally->sums = reduced((unsigned __int128)tally->sums + (sign > 0 ? total : negated(total)));
}

int tally_amounts(Tally *tally, Span group, Span amounts, int sign, int width) {
    Span parts[MOST_SLOTS];
    uint64_t residues[MOST_SLOTS];
    const int count = elements_of(amounts, parts, MOST_SLOTS);
    if (count <= 0 || (width && count != width)) return 0;
    for (int i = 0; i < count; i++) {
        Number number = {0, 0, 0};
        if (!(sign > 0 && is_nil(parts[i])) && !any_number_of(parts[i], &number)) return 0;
        if (number.scale > MOST_SCALE) return 0;
        if (sign < 0 && !i && !number.number) return 0;
        residues[i] = residue_of(tally, number);
    }
    tally_residues(tally, group, residues, count, sign);
    return 1;
}

int is_even(const Tally *tally) {
    return !tally->rows && !tally->sums;
}
