/* Documents: msgpack, read where it lies. */
#include "core.h"

#include <string.h>

static const uint8_t NIL_BYTE = 0xc0;
const Span NIL = {&NIL_BYTE, 1};

uint64_t number_at(const uint8_t *data, int count) {
    uint64_t number = 0;
    for (int i = 0; i < count; i++) number = number << 8 | data[i];
    return number;
}

void write_number(uint8_t *to, uint64_t number, int count) {
    for (int i = count - 1; i >= 0; i--, number >>= 8) to[i] = (uint8_t)number;
}

/* What follows the first byte of a value: how many bytes say a length, what is added to it, and of which kind it is. */
typedef struct {
    uint8_t sizes, more, kind; /* kind: 0 bytes, 1 elements, 2 pairs */
} Head;

/* The heads of 0xc0 to 0xdf; 0xc1 begins no value. */
static const Head HEADS[32] = {
    {0, 0, 0}, {9, 0, 0}, {0, 0, 0}, {0, 0, 0}, {1, 0, 0}, {2, 0, 0}, {4, 0, 0}, {1, 1, 0},
    {2, 1, 0}, {4, 1, 0}, {0, 4, 0}, {0, 8, 0}, {0, 1, 0}, {0, 2, 0}, {0, 4, 0}, {0, 8, 0},
    {0, 1, 0}, {0, 2, 0}, {0, 4, 0}, {0, 8, 0}, {0, 2, 0}, {0, 3, 0}, {0, 5, 0}, {0, 9, 0},
    {0, 17, 0}, {1, 0, 0}, {2, 0, 0}, {4, 0, 0}, {2, 0, 1}, {4, 0, 1}, {2, 0, 2}, {4, 0, 2},
};

int read_head(const uint8_t *data, const uint8_t *end, const uint8_t **body, uint64_t *count) {
    uint8_t first = *data;
    *body = data + 1;
    *count = 0;
    if (first < 0x80 || first >= 0xe0) return 0;
    if (first < 0xc0) {
        *count = first < 0xa0 ? first & 15 : first & 31;
        return first < 0x90 ? 2 : first < 0xa0 ? 1 : 0;
    }
    Head head = HEADS[first - 0xc0];
    if (head.sizes > end - *body) return -1;
    *count = (head.sizes ? number_at(*body, head.sizes) : 0) + head.more;
    *body += head.sizes;
    return head.sizes > 4 ? -1 : head.kind;
}

const uint8_t *end_of_value(const uint8_t *data, const uint8_t *end, int depth) {
    const uint8_t *body;
    uint64_t count;
    if (data >= end || depth > MOST_DEPTH) return NULL;
    int kind = read_head(data, end, &body, &count);
    if (kind < 0) return NULL;
    if (kind == 0) return count > (uint64_t)(end - body) ? NULL : body + count;
    for (uint64_t left = count * (uint64_t)kind; left; left--) {
        body = end_of_value(body, end, depth + 1);
        if (!body) return NULL;
    }
    return body;
}

/* The values of an array (kind 1) or a map (kind 2) that is the whole span. */
static int values_of(Span whole, int kind, Span *found, int most) {
    const uint8_t *body, *end = whole.data + whole.size;
    uint64_t count;
    if (!whole.size || read_head(whole.data, end, &body, &count) != kind) return -1;
    count *= (uint64_t)kind;
    if (count > (uint64_t)most) return -1;
    for (uint64_t i = 0; i < count; i++) {
        const uint8_t *next = end_of_value(body, end, 0);
        if (!next) return -1;
        found[i] = (Span){body, (size_t)(next - body)};
        body = next;
    }
    return body == end ? (int)count : -1;
}

int elements_of(Span array, Span *found, int most) {
    return values_of(array, 1, found, most);
}

Span *all_elements(Work *work, Span array, int *count) {
    const uint8_t *body;
    uint64_t found = 0;
    if (!array.size || read_head(array.data, array.data + array.size, &body, &found) != 1 || found > 2 * MOST_EACH)
        stop(work, OTHER_VALUE);
    Span *elements = take_memory(work, (size_t)(found + 1) * sizeof *elements);
    *count = elements_of(array, elements, (int)found);
    if (*count < 0) stop(work, OTHER_VALUE);
    return elements;
}

int entries_of(Span map, Span *found, int most) {
    return values_of(map, 2, found, most);
}

Span element_at(Span array, unsigned place) {
    const uint8_t *body, *end = array.data + array.size;
    uint64_t count;
    const Span none = {NULL, 0};
    if (!array.size || read_head(array.data, end, &body, &count) != 1 || place >= count) return none;
    for (unsigned i = 0;; i++) {
        const uint8_t *next = end_of_value(body, end, 0);
        if (!next) return none;
        if (i == place) return (Span){body, (size_t)(next - body)};
        body = next;
    }
}

int is_nil(Span value) {
    return value.size == 1 && *value.data == NIL_BYTE;
}

int is_same(Span one, Span other) {
    return one.size == other.size && (!one.size || !memcmp(one.data, other.data, one.size));
}

int begins_with(Span key, Span prefix) {
    return key.size >= prefix.size && !memcmp(key.data, prefix.data, prefix.size);
}

int is_below(Span one, Span other) {
    const size_t size = one.size < other.size ? one.size : other.size;
    const int order = size ? memcmp(one.data, other.data, size) : 0;
    return order ? order < 0 : one.size < other.size;
}

/* The bytes of a value whose head is one of these; `first` has one byte of length, the next two 2 and 4. */
static int bytes_behind(Span value, uint8_t first, Span *found) {
    const uint8_t *body;
    uint64_t count;
    const uint8_t head = *value.data;
    if (head < first || head > first + 2) return 0;
    if (read_head(value.data, value.data + value.size, &body, &count) != 0) return 0;
    *found = (Span){body, (size_t)count};
    return count == (uint64_t)(value.data + value.size - body);
}

int text_of(Span value, Span *text) {
    if (!value.size) return 0;
    if (*value.data >= 0xa0 && *value.data < 0xc0) {
        *text = (Span){value.data + 1, value.size - 1};
        return text->size == (size_t)(*value.data & 31);
    }
    return bytes_behind(value, 0xd9, text);
}

int binary_of(Span value, Span *bytes) {
    return value.size && bytes_behind(value, 0xc4, bytes);
}

int int_of(Span value, int64_t *number) {
    if (!value.size) return 0;
    const uint8_t first = value.data[0];
    if (first < 0x80 || first >= 0xe0) {
        *number = (int8_t)first;
        return value.size == 1;
    }
    if (first < 0xcc || first > 0xd3) return 0;
    const int size = 1 << (first & 3);
    if (value.size != (size_t)size + 1) return 0;
    const uint64_t found = number_at(value.data + 1, size);
    if (first == 0xcf && found >> 63) return 0;
    switch (first) {
    case 0xd0: *number = (int8_t)found; break;
    case 0xd1: *number = (int16_t)found; break;
    case 0xd2: *number = (int32_t)found; break;
    default: *number = (int64_t)found;
    }
    return 1;
}

Writer write_span(Writer to, Span bytes) {
    if (bytes.size) memcpy(to, bytes.data, bytes.size);
    return to + bytes.size;
}

/* A head with its count: `small` with it in the same byte where it is below `limit`, else in 1, 2 or 4 bytes more. */
static Writer write_head(Writer to, uint8_t small, size_t limit, uint8_t first, int has_one, size_t count) {
    if (count < limit) {
        *to++ = (uint8_t)(small | count);
        return to;
    }
    const int wide = count > 0xffff ? 4 : count > 0xff || !has_one ? 2 : 1;
    *to++ = (uint8_t)(first + (wide == 4 ? 2 : wide == 2 ? 1 : 0) - (has_one ? 0 : 1));
    write_number(to, count, wide);
    return to + wide;
}

Writer write_array_header(Writer to, size_t count) {
    return write_head(to, 0x90, 16, 0xdc, 0, count);
}

Writer write_map_header(Writer to, size_t count) {
    return write_head(to, 0x80, 16, 0xde, 0, count);
}

Writer write_text_header(Writer to, size_t size) {
    return write_head(to, 0xa0, 32, 0xd9, 1, size);
}

Writer write_binary(Writer to, Span bytes) {
    return write_span(write_head(to, 0, 0, 0xc4, 1, bytes.size), bytes);
}

Writer write_keys(Writer to, const Span *keys, size_t count) {
    to = write_array_header(to, count);
    for (size_t i = 0; i < count; i++) to = write_binary(to, keys[i]);
    return to;
}

Span array_of_keys(Work *work, const Span *keys, size_t count) {
    size_t size = 8;
    for (size_t i = 0; i < count; i++) size += 5 + keys[i].size;
    Writer start = take_memory(work, size);
    return (Span){start, (size_t)(write_keys(start, keys, count) - start)};
}

Writer write_int(Writer to, int64_t number) {
    if (number >= -32 && number < 128) {
        *to++ = (uint8_t)number;
        return to;
    }
    const uint64_t size = number < 0 ? ~(uint64_t)number : (uint64_t)number;
    int wide = 0; /* bytes as a power of two; a negative number has a bit for its sign */
    const int signs = number < 0;
    while (wide < 3 && size >> ((8 << wide) - signs)) wide++;
    *to++ = (uint8_t)((number < 0 ? 0xd0 : 0xcc) + wide);
    write_number(to, (uint64_t)number, 1 << wide);
    return to + (1 << wide);
}
