/* Instants: an extension of msgpack of type -1, in 4, 8 or 12 bytes; and the buckets that they are in. */
#include "core.h"

enum { SECONDS_OF_DAY = 86400, BILLION = 1000000000, DAYS_TO_1970 = 719468, THURSDAY = 3 };
enum { DAYS_OF_ERA = 146097, YEARS_OF_ERA = 400 };

static const int64_t MOST_SECONDS = 400000000000; /* beyond the year 9999 */

int instant_of(Span value, int64_t *seconds, uint64_t *nanoseconds) {
    const uint8_t *data = value.data;
    *nanoseconds = 0;
    if (value.size == 6 && data[0] == 0xd6 && data[1] == 0xff) {
        *seconds = (int64_t)number_at(data + 2, 4);
    } else if (value.size == 10 && data[0] == 0xd7 && data[1] == 0xff) {
        const uint64_t both = number_at(data + 2, 8);
        *nanoseconds = both >> 34;
        *seconds = (int64_t)(both & 0x3ffffffff);
    } else if (value.size == 15 && data[0] == 0xc7 && data[1] == 12 && data[2] == 0xff) {
        *nanoseconds = number_at(data + 3, 4);
        *seconds = (int64_t)number_at(data + 7, 8);
    } else {
        return 0;
    }
    return *nanoseconds < BILLION && *seconds < MOST_SECONDS && *seconds > -MOST_SECONDS;
}

int microseconds_of(Span value, int64_t *microseconds) {
    int64_t seconds;
    uint64_t nanoseconds;
    if (!instant_of(value, &seconds, &nanoseconds)) return 0;
    *microseconds = seconds * 1000000 + (int64_t)(nanoseconds / 1000);
    return 1;
}

static Writer write_instant(Writer to, int64_t seconds, uint64_t nanoseconds) {
    if (seconds < 0 || seconds >> 34) {
        *to++ = 0xc7;
        *to++ = 12;
        *to++ = 0xff;
        write_number(to, nanoseconds, 4);
        write_number(to + 4, (uint64_t)seconds, 8);
        return to + 12;
    }
    const int is_short = !nanoseconds && !(seconds >> 32);
    *to++ = is_short ? 0xd6 : 0xd7;
    *to++ = 0xff;
    write_number(to, is_short ? (uint64_t)seconds : nanoseconds << 34 | (uint64_t)seconds, is_short ? 4 : 8);
    return to + (is_short ? 4 : 8);
}

static int64_t floored(int64_t number, int64_t by) {
    return number - (number % by + by) % by;
}

Writer write_seconds(Writer to, int64_t seconds) {
    return write_instant(to, seconds, 0);
}

Writer write_microseconds(Writer to, int64_t microseconds) {
    const int64_t whole = floored(microseconds, 1000000);
    return write_instant(to, whole / 1000000, (uint64_t)(microseconds - whole) * 1000);
}

Writer write_milliseconds(Writer to, uint64_t milliseconds) {
    return write_instant(to, (int64_t)(milliseconds / 1000), milliseconds % 1000 * 1000000);
}

/* A day since 1970 in the calendar that began before it was used, whose years begin in March. */
typedef struct {
    int64_t year, of_year, month, of_month; /* counted from 0 */
} Date;

static Date date_of(int64_t day) {
    const int64_t since = day + DAYS_TO_1970; /* the first of March of the year 0 */
    const int64_t era = floored(since, DAYS_OF_ERA), of_era = since - era;
    const int64_t year = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
    const int64_t of_year = of_era - (365 * year + year / 4 - year / 100);
    const int64_t month = (5 * of_year + 2) / 153;
    return (Date){year + era / DAYS_OF_ERA * YEARS_OF_ERA, of_year, month, of_year - (153 * month + 2) / 5};
}

/* The first day of the month, or of the year, of a day since 1970. */
static int64_t first_day(int64_t day, int is_year) {
    const Date date = date_of(day);
    if (!is_year) return day - date.of_month;
    if (date.month >= 10) return day - (date.of_year - 306); /* January and February are the last of the year before */
    const int is_leap = date.year % 4 == 0 && (date.year % 100 != 0 || date.year % 400 == 0);
    return day - date.of_year - 59 - is_leap;
}

/* Writes a number of so many digits. */
static Writer write_digits(Writer to, int64_t number, int count) {
    for (int i = count - 1; i >= 0; i--, number /= 10) to[i] = (uint8_t)('0' + number % 10);
    return to + count;
}

Writer write_iso_date(Writer to, int64_t day) {
    const Date date = date_of(day);
    const int64_t year = date.year + (date.month >= 10);
    if (year < 1 || year > 9999) return NULL;
    to = write_digits(to, year, 4);
    *to++ = '-';
    to = write_digits(to, date.month < 10 ? date.month + 3 : date.month - 9, 2);
    *to++ = '-';
    return write_digits(to, date.of_month + 1, 2);
}

Writer write_iso_instant(Writer to, int64_t seconds, uint64_t nanoseconds) {
    const int64_t day = floored(seconds, SECONDS_OF_DAY) / SECONDS_OF_DAY, of_day = seconds - day * SECONDS_OF_DAY;
    to = write_iso_date(to, day);
    if (!to || nanoseconds % 1000) return NULL;
    *to++ = 'T';
    to = write_digits(to, of_day / 3600, 2);
    *to++ = ':';
    to = write_digits(to, of_day / 60 % 60, 2);
    *to++ = ':';
    to = write_digits(to, of_day % 60, 2);
    if (nanoseconds) {
        *to++ = '.';
        to = write_digits(to, (int64_t)(nanoseconds / 1000), 6);
    }
    *to++ = 'Z';
    return to;
}

int64_t bucket_start(int64_t seconds, enum Bucket bucket) {
    const int64_t day = floored(seconds, SECONDS_OF_DAY) / SECONDS_OF_DAY;
    switch (bucket) {
    case NO_BUCKET: break;
    case MINUTE: return floored(seconds, 60);
    case HOUR: return floored(seconds, 3600);
    case DAY: return day * SECONDS_OF_DAY;
    case WEEK: return (floored(day + THURSDAY, 7) - THURSDAY) * SECONDS_OF_DAY;
    case MONTH: return first_day(day, 0) * SECONDS_OF_DAY;
    case YEAR: return first_day(day, 1) * SECONDS_OF_DAY;
    }
    return seconds;
}
