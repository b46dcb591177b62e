/* Elements of keys, from values of documents. */
#include "core.h"

#include <string.h>

enum {
    NONE_FIRST = 0x01,
    TAG_BYTES = 0x02,
    TAG_TEXT = 0x03,
    TAG_ZERO = 0x14,
    TAG_FLOAT = 0x21,
    TAG_BELOW = 0x23,
    TAG_DECIMAL_ZERO = 0x24,
    TAG_ABOVE = 0x25,
    TAG_FALSE = 0x26,
    TAG_UUID = 0x30,
    TAG_DATE = 0x31,
    TAG_INSTANT = 0x32,
    NONE_LAST = 0xfe,
    MOST_DIGITS = 100,
    UUID_BYTES = 16,
    FIRST_RANGE = 0x80
};

size_t most_of_element(Span value) {
    return 2 * value.size + 32;
}

static Writer write_whole(Writer to, int64_t number) {
    uint64_t size = number < 0 ? 0 - (uint64_t)number : (uint64_t)number;
    int count = 0;
    for (uint64_t left = size; left; left >>= 8) count++;
    *to++ = (uint8_t)(number < 0 ? TAG_ZERO - count : TAG_ZERO + count);
    write_number(to, number < 0 ? ~size : size, count);
    return to + count;
}

/* Bytes with 0 and 1 escaped, and their end. */
static Writer write_escaped(Writer to, uint8_t tag, Span bytes) {
    *to++ = tag;
    for (size_t i = 0; i < bytes.size; i++) {
        if (bytes.data[i] <= 1) *to++ = 1;
        *to++ = bytes.data[i] <= 1 ? (uint8_t)(bytes.data[i] + 1) : bytes.data[i];
    }
    *to++ = 0;
    return to;
}

/* The digits of a decimal without an exponent; `point` is how many are before the point. Returns their number, or -1. */
static int digits_of(Span text, uint8_t *digits, int *point, int *is_negative) {
    const uint8_t *at = text.data, *end = text.data + text.size;
    int count = 0;
    *is_negative = at < end && *at == '-';
    *point = -1;
    for (at += *is_negative; at < end; at++) {
        if (*at == '.' && *point < 0)
            *point = count;
        else if (*at < '0' || *at > '9' || count == MOST_DIGITS)
            return -1;
        else
            digits[count++] = (uint8_t)(*at - '0');
    }
    if (*point < 0) *point = count;
    return count ? count : -1;
}

static Writer write_decimal(Writer to, Span text) {
    uint8_t digits[MOST_DIGITS];
    int point, is_negative, first = 0, last = digits_of(text, digits, &point, &is_negative);
    if (last < 0) return NULL;
    while (first < last && !digits[first]) first++;
    if (first == last) {
        *to++ = TAG_DECIMAL_ZERO;
        return to;
    }
    while (!digits[last - 1]) last--;
    *to++ = is_negative ? TAG_BELOW : TAG_ABOVE;
    Writer body = to;
    to = write_whole(to, point - first - 1);
    for (int i = first; i <= last; i += 2) {
        const int high = i < last ? digits[i] + 1 : 0, low = i + 1 < last ? digits[i + 1] + 1 : 0;
        *to++ = (uint8_t)(high << 4 | low);
    }
    if (is_negative)
        for (; body < to; body++) *body = (uint8_t)~*body;
    return to;
}

static Writer write_instant_element(Writer to, int64_t microseconds) {
    *to++ = TAG_INSTANT;
    write_number(to, (uint64_t)microseconds + ((uint64_t)1 << 63), 8);
    return to + 8;
}

static Writer write_instant(Writer to, Span value) {
    int64_t microseconds;
    return microseconds_of(value, &microseconds) ? write_instant_element(to, microseconds) : NULL;
}

/* A date as msgspec writes it, 2011-12-09: the days since the year 1 began. */
static Writer write_date(Writer to, Span text) {
    static const uint16_t BEFORE[12] = {0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334};
    int parts[3] = {0, 0, 0}, part = 0;
    if (text.size != 10 || text.data[4] != '-' || text.data[7] != '-') return NULL;
    for (int i = 0; i < 10; i++) {
        if (i == 4 || i == 7) {
            part++;
            continue;
        }
        if (text.data[i] < '0' || text.data[i] > '9') return NULL;
        parts[part] = parts[part] * 10 + (text.data[i] - '0');
    }
    const int year = parts[0], month = parts[1], before = year - 1;
    if (year < 1 || month < 1 || month > 12 || parts[2] < 1 || parts[2] > 31) return NULL;
    const int is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    const int days = before * 365 + before / 4 - before / 100 + before / 400 + BEFORE[month - 1] +
                     (is_leap && month > 2) + parts[2];
    *to++ = TAG_DATE;
    write_number(to, (uint64_t)days, 3);
    return to + 3;
}

static Writer write_float(Writer to, Span value) {
    if (value.size != 9 || value.data[0] != 0xcb) return NULL;
    uint64_t bits = number_at(value.data + 1, 8);
    const uint64_t sign = (uint64_t)1 << 63, size = bits & ~sign;
    if (size > 0x7ff0000000000000) return NULL; /* no number */
    if (!size) bits = 0;
    *to++ = TAG_FLOAT;
    write_number(to, bits & sign ? ~bits : bits | sign, 8);
    return to + 8;
}

static Writer write_uuid(Writer to, Span bytes) {
    if (bytes.size != UUID_BYTES) return NULL;
    *to++ = TAG_UUID;
    return write_span(to, bytes);
}

static Writer write_ascending(Writer to, Span value, enum Type type) {
    Span inner;
    int64_t number;
    switch (type) {
    case TEXT: return text_of(value, &inner) ? write_escaped(to, TAG_TEXT, inner) : NULL;
    case BYTES: return binary_of(value, &inner) ? write_escaped(to, TAG_BYTES, inner) : NULL;
    case INT: return int_of(value, &number) ? write_whole(to, number) : NULL;
    case DECIMAL: return text_of(value, &inner) ? write_decimal(to, inner) : NULL;
    case DATE: return text_of(value, &inner) ? write_date(to, inner) : NULL;
    case UUID_: return binary_of(value, &inner) ? write_uuid(to, inner) : NULL;
    case INSTANT: return write_instant(to, value);
    case FLOAT: return write_float(to, value);
    case BOOL:
        if (value.size != 1 || (*value.data != 0xc2 && *value.data != 0xc3)) return NULL;
        *to++ = (uint8_t)(TAG_FALSE + (*value.data - 0xc2));
        return to;
    }
    return NULL;
}

/* How many bytes are behind the tag of an element of a fixed size; -1 for others. */
static int size_behind(uint8_t tag) {
    if (tag >= TAG_ZERO - 8 && tag <= TAG_ZERO + 8) return tag < TAG_ZERO ? TAG_ZERO - tag : tag - TAG_ZERO;
    switch (tag) {
    case TAG_FALSE:
    case TAG_FALSE + 1: return 0;
    case TAG_UUID: return UUID_BYTES;
    case TAG_DATE: return 3;
    case TAG_INSTANT:
    case TAG_FLOAT: return 8;
    }
    return -1;
}

const uint8_t *end_of_element(const uint8_t *data, const uint8_t *end) {
    if (data >= end) return NULL;
    if (*data == TAG_TEXT || *data == TAG_BYTES) {
        const uint8_t *last = memchr(data, 0, (size_t)(end - data));
        return last ? last + 1 : NULL;
    }
    const int size = size_behind(*data);
    return size < 0 || size >= end - data ? NULL : data + size + 1;
}

/* The bytes that `write_escaped` has escaped. */
static Span unescaped(Work *work, const uint8_t *data, const uint8_t *end) {
    Writer start = take_memory(work, (size_t)(end - data) + 1), to = start;
    for (; data < end; data++) *to++ = *data == 1 && data + 1 < end ? (uint8_t)(*++data - 1) : *data;
    return (Span){start, (size_t)(to - start)};
}

/* Writes the whole number behind a tag; returns NULL for one beyond 64 bits. */
static Writer write_number_of(Writer to, uint8_t tag, const uint8_t *data) {
    if (tag < TAG_ZERO - 8 || tag > TAG_ZERO + 8) return NULL;
    const int count = size_behind(tag);
    uint64_t size = number_at(data, count);
    if (tag < TAG_ZERO) size = ~size & (count == 8 ? UINT64_MAX : ((uint64_t)1 << 8 * count) - 1);
    if (size > INT64_MAX) return NULL;
    return write_int(to, tag < TAG_ZERO ? -(int64_t)size : (int64_t)size);
}

/* Writes a value whose element is whole; returns NULL where it is none of the type. */
static Writer write_value_of(Work *work, Writer to, const uint8_t *data, const uint8_t *end, enum Type type) {
    enum { DAY_OF_1970 = 719163 }; /* of those since the year 1 began */
    const uint8_t tag = *data++;
    switch (type) {
    case TEXT: {
        const Span text = unescaped(work, data, end - 1);
        return tag == TAG_TEXT ? write_span(write_text_header(to, text.size), text) : NULL;
    }
    case BYTES: return tag == TAG_BYTES ? write_binary(to, unescaped(work, data, end - 1)) : NULL;
    case INT: return write_number_of(to, tag, data);
    case DATE:
        return tag == TAG_DATE
                   ? write_iso_date(write_text_header(to, 10), (int64_t)number_at(data, 3) - DAY_OF_1970)
                   : NULL;
    case UUID_: return tag == TAG_UUID ? write_binary(to, (Span){data, UUID_BYTES}) : NULL;
    case INSTANT:
        return tag == TAG_INSTANT ? write_microseconds(to, (int64_t)(number_at(data, 8) - ((uint64_t)1 << 63))) : NULL;
    case BOOL:
        *to = (uint8_t)(0xc2 + (tag - TAG_FALSE));
        return tag == TAG_FALSE || tag == TAG_FALSE + 1 ? to + 1 : NULL;
    case DECIMAL:
    case FLOAT: break;
    }
    return NULL;
}

const uint8_t *read_element(Work *work, const uint8_t *data, const uint8_t *end, enum Type type, Span *value) {
    *value = NIL;
    if (data < end && (*data == NONE_FIRST || *data == NONE_LAST)) return data + 1;
    const uint8_t *last = end_of_element(data, end);
    if (!last) return NULL;
    Writer start = take_memory(work, (size_t)(last - data) + 16);
    const Writer stop_at = write_value_of(work, start, data, last, type);
    if (!stop_at) return NULL;
    *value = (Span){start, (size_t)(stop_at - start)};
    return last;
}

uint8_t spread_part(Span key, uint32_t ranges) {
    uint32_t found = 0xffffffff; /* CRC-32, as zlib has it */
    for (size_t i = 0; i < key.size; i++) {
        found ^= key.data[i];
        for (int bit = 0; bit < 8; bit++) found = found >> 1 ^ (found & 1 ? 0xedb88320 : 0);
    }
    return (uint8_t)(FIRST_RANGE + ~found % ranges);
}

static void turn_round(uint8_t *first, const uint8_t *end) {
    for (; first < end; first++) *first = (uint8_t)~*first;
}

Writer write_element(Writer to, Span value, enum Type type, int is_descending) {
    Writer end = write_ascending(to, value, type);
    if (end && is_descending) turn_round(to, end);
    return end;
}

Writer write_newest_first(Writer to, int64_t microseconds) {
    Writer end = write_instant_element(to, microseconds);
    turn_round(to, end);
    return end;
}
