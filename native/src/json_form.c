/* Documents as JSON: to the byte what msgspec writes of their entities. */
#include "core.h"

#include <stdlib.h>
#include <string.h>

enum {
    NODE_PARTS = 4,
    MOST_BEFORE = 1000, /* bytes before a value */
    MOST_FORMS = 6,     /* within each other */
    FIRST_BYTES = 2048,
    MOST_SCALE = 6, /* Python writes an exponent where the first digit is further behind the point */
    MOST_INT = 20,
    MOST_INSTANT = 32,
    UUID_BYTES = 16
};

/* ---- forms ---- */

static const Node *take_form(Work *work, Span value, int depth);

static const Member *take_members(Work *work, Span value, unsigned places, int depth, int *count) {
    Span *given = take_array(work, value, MOST_FIELDS, count);
    Member *members = take_memory(work, (size_t)(*count + 1) * sizeof *members);
    for (int i = 0; i < *count; i++) {
        int parts;
        Span *part = take_array(work, given[i], 3, &parts);
        if (parts != 3) stop(work, BAD_PROGRAM);
        members[i].before = take_bytes(work, part[0], 0, MOST_BEFORE);
        members[i].place = take_number(work, part[1], MOST_FIELDS);
        members[i].node = take_form(work, part[2], depth);
        if (members[i].place >= places || (i && members[i].place <= members[i - 1].place)) stop(work, BAD_PROGRAM);
    }
    return members;
}

static const Node *take_form(Work *work, Span value, int depth) {
    int parts;
    Span *part = take_array(work, value, NODE_PARTS, &parts);
    if (parts != NODE_PARTS || depth > MOST_FORMS) stop(work, BAD_PROGRAM);
    Node *node = take_memory(work, sizeof *node);
    node->type = take_number(work, part[0], LAST_NODE);
    node->elements = take_number(work, part[1], MOST_FIELDS);
    node->members = take_members(work, part[2], node->elements, depth + 1, &node->count);
    node->may_be_nil = (int)take_number(work, part[3], 1);
    const int is_whole = node->type == LIST ? node->count == 1 : node->type < LIST ? !node->count : node->count > 0;
    if (!node->type || node->type == FLOAT || !is_whole) stop(work, BAD_PROGRAM);
    return node;
}

const Node *read_form(Work *work, Span table) {
    return take_form(work, table, 0);
}

/* ---- writing ---- */

/* Room for so many bytes more, behind what is written. */
static Writer room_for(Work *work, Json *to, size_t size) {
    if (size > to->room - to->size) {
        size_t room = to->room ? 2 * to->room : FIRST_BYTES;
        while (room - to->size < size) room *= 2;
        uint8_t *larger = realloc(to->first, room);
        if (!larger) stop(work, NO_MEMORY);
        to->first = larger;
        to->room = room;
    }
    return to->first + to->size;
}

void write_raw(Work *work, Json *to, const void *bytes, size_t size) {
    if (size) memcpy(room_for(work, to, size), bytes, size);
    to->size += size;
}

static void write_quoted(Work *work, Json *to, Span text) {
    Writer at = room_for(work, to, text.size + 2);
    *at++ = '"';
    write_span(at, text)[0] = '"';
    to->size += text.size + 2;
}

/* What stands behind the backslash of a byte's escape: a letter, 'u' for its number; 0 where it has none. */
static const char ESCAPES[256] = {
    'u', 'u', 'u', 'u', 'u', 'u', 'u', 'u', 'b', 't', 'n', 'u', 'f', 'r', 'u', 'u',
    'u', 'u', 'u', 'u', 'u', 'u', 'u', 'u', 'u', 'u', 'u', 'u', 'u', 'u', 'u', 'u',
    ['"'] = '"', ['\\'] = '\\',
};

static Writer write_escape(Writer to, uint8_t byte) {
    static const char digits[] = "0123456789abcdef";
    *to++ = '\\';
    *to++ = (uint8_t)ESCAPES[byte];
    if (ESCAPES[byte] != 'u') return to;
    *to++ = '0';
    *to++ = '0';
    *to++ = (uint8_t)digits[byte >> 4];
    *to++ = (uint8_t)digits[byte & 15];
    return to;
}

/* How many bytes the character takes that begins with this byte above 0x7f, and the smallest and largest second byte.
 * Returns 0 for a byte that begins none (RFC 3629). */
static int character_of(uint8_t first, uint8_t *least, uint8_t *most) {
    *least = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
    *most = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
    return first < 0xc2 || first > 0xf4 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
}

/* Copies a character above 0x7f. Returns how many bytes it takes; 0 where it is none. */
static size_t copy_character(Writer to, const uint8_t *from, size_t left) {
    uint8_t least, most;
    const int size = character_of(*from, &least, &most);
    if (!size || (size_t)size > left || from[1] < least || from[1] > most) return 0;
    for (int i = 2; i < size; i++)
        if ((from[i] & 0xc0) != 0x80) return 0;
    memcpy(to, from, (size_t)size);
    return (size_t)size;
}

static void write_text(Work *work, Json *to, Span text) {
    const uint8_t *byte = text.data, *end = text.data + text.size;
    Writer at = room_for(work, to, 6 * text.size + 2); /* \u0000 */
    *at++ = '"';
    while (byte < end) {
        size_t size = 1;
        if (*byte > 0x7f) {
            size = copy_character(at, byte, (size_t)(end - byte));
            if (!size) stop(work, OTHER_VALUE);
            at += size;
        } else if (ESCAPES[*byte]) {
            at = write_escape(at, *byte);
        } else {
            *at++ = *byte;
        }
        byte += size;
    }
    *at++ = '"';
    to->size = (size_t)(at - to->first);
}

static int is_digit(uint8_t byte) {
    return byte >= '0' && byte <= '9';
}

/* Whether the text of a decimal is as Python writes it: digits, without an exponent. */
static int is_usual_decimal(Span text) {
    size_t at = text.size && text.data[0] == '-';
    const size_t whole = at;
    while (at < text.size && is_digit(text.data[at])) at++;
    if (at == whole || (text.data[whole] == '0' && at - whole > 1)) return 0;
    if (at == text.size) return 1;
    const size_t point = at++;
    while (at < text.size && is_digit(text.data[at])) at++;
    if (text.data[point] != '.' || at != text.size || at == point + 1) return 0;
    if (text.data[whole] != '0') return 1;
    size_t first = point + 1; /* the first digit that is not 0, or the last one */
    while (first + 1 < text.size && text.data[first] == '0') first++;
    return first - point <= MOST_SCALE;
}

/* Whether a text is a day of the calendar: 2026-12-01. */
static int is_day(Span text) {
    static const uint8_t days[] = {31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    int digits[10], is_text = text.size == 10;
    for (size_t i = 0; is_text && i < 10; i++) {
        digits[i] = text.data[i] - '0';
        is_text = i == 4 || i == 7 ? text.data[i] == '-' : is_digit(text.data[i]);
    }
    if (!is_text) return 0;
    const int year = digits[0] * 1000 + digits[1] * 100 + digits[2] * 10 + digits[3];
    const int month = digits[5] * 10 + digits[6], day = digits[8] * 10 + digits[9];
    const int is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    return year && month >= 1 && month <= 12 && day >= 1 && day <= days[month - 1] - (month == 2 && !is_leap);
}

static void write_uuid(Work *work, Json *to, Span bytes) {
    static const char digits[] = "0123456789abcdef";
    uint8_t text[36], *at = text;
    if (bytes.size != UUID_BYTES) stop(work, OTHER_VALUE);
    for (size_t i = 0; i < UUID_BYTES; i++) {
        if (i == 4 || i == 6 || i == 8 || i == 10) *at++ = '-';
        *at++ = (uint8_t)digits[bytes.data[i] >> 4];
        *at++ = (uint8_t)digits[bytes.data[i] & 15];
    }
    write_quoted(work, to, (Span){text, sizeof text});
}

static void write_base64(Work *work, Json *to, Span bytes) {
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    Writer at = room_for(work, to, bytes.size / 3 * 4 + 6);
    *at++ = '"';
    for (size_t i = 0; i < bytes.size; i += 3) {
        const size_t left = bytes.size - i;
        const unsigned three = (unsigned)bytes.data[i] << 16 | (left > 1 ? (unsigned)bytes.data[i + 1] << 8 : 0) |
                               (left > 2 ? bytes.data[i + 2] : 0);
        *at++ = (uint8_t)letters[three >> 18];
        *at++ = (uint8_t)letters[three >> 12 & 63];
        *at++ = (uint8_t)(left > 1 ? letters[three >> 6 & 63] : '=');
        *at++ = (uint8_t)(left > 2 ? letters[three & 63] : '=');
    }
    *at++ = '"';
    to->size = (size_t)(at - to->first);
}

static void write_whole(Work *work, Json *to, int64_t number) {
    uint8_t text[MOST_INT + 1], *at = text + sizeof text;
    uint64_t left = number < 0 ? -(uint64_t)number : (uint64_t)number;
    do *--at = (uint8_t)('0' + left % 10);
    while (left /= 10);
    if (number < 0) *--at = '-';
    write_raw(work, to, at, (size_t)(text + sizeof text - at));
}

static void write_instant_text(Work *work, Json *to, Span value) {
    uint8_t text[MOST_INSTANT];
    int64_t seconds;
    uint64_t nanoseconds;
    Writer end = instant_of(value, &seconds, &nanoseconds) ? write_iso_instant(text, seconds, nanoseconds) : NULL;
    if (!end) stop(work, OTHER_VALUE);
    write_quoted(work, to, (Span){text, (size_t)(end - text)});
}

/* Writes a value that has no parts. */
static void write_scalar(Work *work, Json *to, unsigned type, Span value) {
    Span found;
    int64_t number;
    int known = 0;
    switch (type) {
    case TEXT:
        if ((known = text_of(value, &found))) write_text(work, to, found);
        break;
    case INT:
        if ((known = int_of(value, &number))) write_whole(work, to, number);
        break;
    case DECIMAL:
        if ((known = text_of(value, &found) && is_usual_decimal(found))) write_quoted(work, to, found);
        break;
    case INSTANT:
        known = 1;
        write_instant_text(work, to, value);
        break;
    case BOOL:
        known = value.size == 1 && (*value.data == 0xc2 || *value.data == 0xc3);
        if (known) *value.data == 0xc3 ? write_raw(work, to, "true", 4) : write_raw(work, to, "false", 5);
        break;
    case UUID_:
        if ((known = binary_of(value, &found))) write_uuid(work, to, found);
        break;
    case DATE:
        if ((known = text_of(value, &found) && is_day(found))) write_quoted(work, to, found);
        break;
    case BYTES:
        if ((known = binary_of(value, &found))) write_base64(work, to, found);
        break;
    }
    if (!known) stop(work, OTHER_VALUE);
}

/* What is being read: a document, from `at` on. */
typedef struct {
    const uint8_t *at, *end;
} Input;

static void write_value(Work *work, Json *to, const Node *node, Input *from);

/* Goes into an array; returns how many elements it has. */
static uint64_t enter_array(Work *work, Input *from) {
    uint64_t count;
    if (from->at >= from->end || read_head(from->at, from->end, &from->at, &count) != 1) stop(work, OTHER_VALUE);
    return count;
}

static void skip_values(Work *work, Input *from, unsigned count) {
    for (; count; count--) {
        from->at = end_of_value(from->at, from->end, 0);
        if (!from->at) stop(work, OTHER_VALUE);
    }
}

static void write_list(Work *work, Json *to, const Node *node, Input *from) {
    const uint64_t count = enter_array(work, from);
    write_raw(work, to, "[", 1);
    for (uint64_t i = 0; i < count; i++) {
        if (i) write_raw(work, to, ",", 1);
        write_value(work, to, node->members[0].node, from);
    }
    write_raw(work, to, "]", 1);
}

/* A reference is an array of its key, which is an array of parts. */
static void write_key(Work *work, Json *to, const Node *node, Input *from) {
    if (enter_array(work, from) != 1 || enter_array(work, from) != (uint64_t)node->count) stop(work, OTHER_VALUE);
    if (node->count > 1) write_raw(work, to, "[", 1);
    for (int i = 0; i < node->count; i++) {
        if (i) write_raw(work, to, ",", 1);
        write_value(work, to, node->members[i].node, from);
    }
    if (node->count > 1) write_raw(work, to, "]", 1);
}

static void write_object(Work *work, Json *to, const Node *node, Input *from) {
    unsigned place = 0;
    if (enter_array(work, from) != node->elements) stop(work, OTHER_VALUE);
    for (int i = 0; i < node->count; i++) {
        const Member *member = &node->members[i];
        skip_values(work, from, member->place - place);
        write_raw(work, to, member->before.data, member->before.size);
        write_value(work, to, member->node, from);
        place = member->place + 1;
    }
    skip_values(work, from, node->elements - place);
    write_raw(work, to, "}", 1);
}

static void write_value(Work *work, Json *to, const Node *node, Input *from) {
    const uint8_t *start = from->at;
    if (start < from->end && *start == *NIL.data) {
        if (!node->may_be_nil) stop(work, OTHER_VALUE);
        from->at++;
        write_raw(work, to, "null", 4);
    } else if (node->type == LIST) {
        write_list(work, to, node, from);
    } else if (node->type == REFERENCE_KEY) {
        write_key(work, to, node, from);
    } else if (node->type == OBJECT) {
        write_object(work, to, node, from);
    } else {
        skip_values(work, from, 1);
        write_scalar(work, to, node->type, (Span){start, (size_t)(from->at - start)});
    }
}

void write_json(Work *work, const Node *form, Span document, Json *to) {
    Input from = {document.data, document.data + document.size};
    write_value(work, to, form, &from);
    if (from.at != from.end) stop(work, OTHER_VALUE);
}
