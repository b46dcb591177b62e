/* Comparing: whether rows are what the entities of a kind say, in one pass over each, without keeping rows.
 *
 * What entities say is added to a tally, what is found is taken off; equal rows come to zero, in any order. It says only
 * whether all is as it should be: what is wrong, Python's pass finds, which also defines what that is
 * (oneread.verify.digest_pass). It knows neither Python nor LMDB.
 */
#ifndef ONEREAD_COMPARE_H
#define ONEREAD_COMPARE_H

#include "core.h"

enum { SECRET_BYTES = 16, MOST_PROGRAMS = 64, MOST_SCALE = 36 };

/* ---- tally.c ---- */

/* Digests of rows, and of the numbers of groups. Their key is secret, so that nobody makes rows that cancel out. */
typedef struct {
    uint64_t secret[2];
    uint64_t rows;                     /* expected ones less those found */
    uint64_t sums;                     /* likewise, modulo the prime 2**61 - 1 */
    uint64_t tenths[MOST_SCALE + 1];   /* the powers of a tenth, modulo that prime */
} Tally;

/* Begins at zero. */
void begin_tally(Tally *tally, const uint8_t *secret);

/* A keyed hash of bytes. */
uint64_t hash_with(const Tally *tally, Span bytes);

/* The digest of a row. */
uint64_t digest_of_row(const Tally *tally, Span key, Span value);

/* Adds numbers to a group, or takes them off, each given modulo the prime; MOST_SLOTS at most. */
void tally_residues(Tally *tally, Span group, const uint64_t *residues, int count, int sign);

/* Adds the numbers of a group, an array of msgpack: with the sign 1 those that an entity contributes, among which nil is
 * 0, with -1 those of its row. `width` is how many they are; 0 for any. Returns 0 where that is not what they are, and
 * for the row of an empty group. */
int tally_amounts(Tally *tally, Span group, Span amounts, int sign, int width);

/* Whether what was found is what was expected. */
int is_even(const Tally *tally);

/* ---- compare.c ---- */

/* The next row of a range: 1, 0 behind the last one, or -1 where that failed. What they point to stays. */
typedef int (*NextRow)(void *reader, Span *key, Span *value);

/* A source that was read; its bytes are those of the key, and of the row behind it. */
typedef struct {
    size_t key, row; /* bytes */
    uint8_t data[];
} Kept;

enum { KEPT_SLOTS = 1 << 16, MOST_KEPT = KEPT_SLOTS / 2, MOST_BATCH = 10000 };
enum { MOST_REQUESTS = 40, MOST_BATCHES = MOST_REQUESTS / 3 };

/* The comparison of one kind, over many calls. */
typedef struct {
    Tally tally;
    const Program *programs[MOST_PROGRAMS]; /* of its classes, one for each layout */
    int program_count;
    int batch;       /* rows of one request, as Python makes them; MOST_BATCH at most */
    size_t most;     /* sources that are kept at a time, MOST_KEPT at most */
    size_t count;    /* sources that are kept */
    Kept *kept[KEPT_SLOTS];
} Comparison;

/* A row of an entity that a call has looked at, or one of a group that it leaves to Python. */
typedef struct {
    Span key, row;
    Span body;    /* the document; without data where this core does not know all of it, and Python looks at it */
    int is_stale; /* what it has of its sources may not be what they have: Python looks at that */
} Looked;

/* What one call has compared. */
typedef struct {
    Looked *looked; /* in their order */
    size_t looked_count, count; /* of all rows */
    Span last;      /* the key of the last one */
    int is_end;     /* the range has no more */
    size_t groups;  /* whose rows were read */
    Counted requests[MOST_REQUESTS]; /* as Python makes them: three for a batch of roots at most */
    int request_count;
} Compared;

/* Looks at the entities of the next rows of roots, `batches` requests at most, no more than MOST_BATCHES: whether each has
 * a known layout, the key of its row, the record that follows from it, a version of at most `latest`, and copies and
 * totals that are those of their sources and groups. What it says in other rows is added to the tally. Whether its values
 * are of the types of their fields is not looked at. The memory of what it compared is the work's; stops where a row
 * cannot be read, or where there is no memory. */
void compare_roots(Work *work, Comparison *of, const Reader *reader, NextRow next, uint64_t latest, int batches,
                   Compared *made);

/* Back-references or holds, of which some are of other kinds. */
typedef struct {
    Span kinds;      /* two bytes each, the compared one first; empty where all rows are that kind's */
    uint8_t start;   /* where the own key of the source begins in the key of the row */
    uint8_t parts;   /* of the source's key */
} Pointers;

/* Which rows are compared, of a range. */
typedef struct {
    int width; /* of groups, how many numbers they have; 0 for other rows */
    Pointers pointers;
} Wanted;

/* Takes the next rows of views, or with a width of counts, off the tally; stops, too, at one in another
 * form. The rows of groups whose numbers it does not know it leaves to Python. */
void compare_rows(Work *work, Comparison *of, void *reader, NextRow next, const Wanted *wanted, int batches,
                  Compared *made);

/* Frees the sources that are kept. */
void forget_sources(Comparison *of);

#endif
