/* Exact numbers: what groups add up. */
#include "core.h"

#include <string.h>

enum { MOST_DIGITS = 36, LEAST_PLACE = -6, MOST_TEXT = 64 };

/* The decimal of a text: digits, perhaps a sign and a point; no exponent. */
static int decimal_of(Span text, Number *number) {
    const uint8_t *at = text.data, *end = text.data + text.size;
    const int is_negative = at < end && *at == '-';
    int digits = 0, has_point = 0;
    *number = (Number){0, 0, 1};
    for (at += is_negative; at < end; at++) {
        if (*at == '.' && !has_point) {
            has_point = 1;
            continue;
        }
        if (*at < '0' || *at > '9' || ++digits > MOST_DIGITS) return 0;
        number->number = number->number * 10 + (*at - '0');
        number->scale += has_point;
    }
    if (is_negative) number->number = -number->number;
    return digits != 0;
}

int number_of(Span value, Number *number) {
    Span text;
    int64_t whole;
    if (int_of(value, &whole)) {
        *number = (Number){whole, 0, 0};
        return 1;
    }
    if (!text_of(value, &text) || !decimal_of(text, number)) return 0;
    return number->number || *text.data != '-'; /* no zero below zero */
}

static int scale_up(Number *number, int scale) {
    for (; number->scale < scale; number->scale++)
        if (__builtin_mul_overflow(number->number, (__int128)10, &number->number)) return 0;
    return 1;
}

int add_number(Number *to, Number added) {
    if (!scale_up(to, added.scale) || !scale_up(&added, to->scale)) return 0;
    to->is_decimal |= added.is_decimal;
    return !__builtin_add_overflow(to->number, added.number, &to->number);
}

/* The exponent of a decimal: a sign and digits. */
static int exponent_of(Span text, int *exponent) {
    *exponent = 0;
    if (text.size < 2 || text.size > 4 || (text.data[0] != '-' && text.data[0] != '+')) return 0;
    for (size_t i = 1; i < text.size; i++) {
        if (text.data[i] < '0' || text.data[i] > '9') return 0;
        *exponent = *exponent * 10 + (text.data[i] - '0');
    }
    if (text.data[0] == '-') *exponent = -*exponent;
    return 1;
}

int any_number_of(Span value, Number *number) {
    Span text;
    int exponent = 0;
    if (!text_of(value, &text)) return number_of(value, number);
    const uint8_t *mark = memchr(text.data, 'E', text.size);
    if (mark) {
        const size_t size = (size_t)(mark - text.data);
        if (!exponent_of((Span){mark + 1, text.size - size - 1}, &exponent)) return 0;
        text.size = size;
    }
    if (!decimal_of(text, number)) return 0;
    number->scale -= exponent;
    return scale_up(number, 0);
}

Number negative(Number number) {
    number.number = -number.number; /* of 36 digits, or a sum that did not overflow: never the least one */
    return number;
}

Writer write_amount(Writer to, Number number) {
    if (!number.is_decimal) {
        if (number.number < INT64_MIN || number.number > INT64_MAX) return NULL;
        return write_int(to, (int64_t)number.number);
    }
    char reversed[MOST_TEXT];
    int count = 0;
    const int is_negative = number.number < 0;
    unsigned __int128 left = is_negative ? -(unsigned __int128)number.number : (unsigned __int128)number.number;
    do {
        reversed[count++] = (char)('0' + (int)(left % 10));
        left /= 10;
    } while (left);
    if (count - number.scale <= LEAST_PLACE) return NULL; /* Python writes it with an exponent */
    while (count <= number.scale) reversed[count++] = '0';
    to = write_text_header(to, (size_t)(count + is_negative + (number.scale > 0)));
    if (is_negative) *to++ = '-';
    for (int i = count - 1; i >= 0; i--) {
        *to++ = (uint8_t)reversed[i];
        if (i && i == number.scale) *to++ = '.';
    }
    return to;
}
