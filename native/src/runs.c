/* Long runs of sorted rows, put so that they leave their pages full: oneread.engines.lmdb.runs says why, and means the
 * same. */
#include "decided.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
    PAGE = 4096, /* bytes of a page of most systems */
    PART = 4 * PAGE,
    FEW = 16,
    ROOM = PAGE / 2,
    NODE = 10, /* bytes of an entry besides its key and value */
    MOST_TAKEN = ROOM / NODE
};

/* Rows that were taken out, and their bytes. */
typedef struct {
    Entry *first;
    size_t count;
    uint8_t *bytes, *end;
} Taken;

static size_t size_of(const Entry *entries, size_t count) {
    size_t size = 0;
    for (size_t i = 0; i < count; i++) size += entries[i].key.mv_size + entries[i].value.mv_size + NODE;
    return size;
}

/* How many entries are a part; 0 where no run is long enough. */
static size_t step_of(const Entry *entries, size_t count) {
    if (count < FEW) return 0;
    const size_t step = count * PART / size_of(entries, count);
    return step <= count ? step : 0;
}

static int is_key_below(const MDB_val *one, const MDB_val *other) {
    return is_below((Span){one->mv_data, one->mv_size}, (Span){other->mv_data, other->mv_size});
}

/* Puts entries of one database, in their order. Returns LMDB's number, as all of these do. */
static int put_all(MDB_txn *txn, const Entry *entries, size_t count) {
    MDB_cursor *cursor;
    if (!count) return 0;
    int code = mdb_cursor_open(txn, entries->dbi, &cursor);
    if (code) return code;
    for (size_t i = 0; i < count && !code; i++) {
        MDB_val key = entries[i].key, value = entries[i].value;
        code = mdb_cursor_put(cursor, &key, &value, 0);
    }
    mdb_cursor_close(cursor);
    return code;
}

static int delete_all(MDB_txn *txn, const Entry *entries, size_t count) {
    int code = 0;
    for (size_t i = 0; i < count && !code; i++) {
        MDB_val key = entries[i].key;
        code = mdb_del(txn, entries[i].dbi, &key, NULL);
        if (code == MDB_NOTFOUND) code = 0;
    }
    return code;
}

static MDB_val kept(Taken *taken, MDB_val from) {
    const MDB_val copy = {from.mv_size, taken->end};
    if (from.mv_size) memcpy(taken->end, from.mv_data, from.mv_size);
    taken->end += from.mv_size;
    return copy;
}

/* Takes out the entries behind one that half a page has room for. */
static int take_following(MDB_txn *txn, const Entry *last, Taken *taken) {
    MDB_cursor *cursor;
    MDB_val key = last->key, value;
    size_t room = ROOM;
    const size_t first = taken->count;
    int code = mdb_cursor_open(txn, last->dbi, &cursor);
    if (code) return code;
    code = mdb_cursor_get(cursor, &key, &value, MDB_SET_KEY);
    while (!code && !(code = mdb_cursor_get(cursor, &key, &value, MDB_NEXT))) {
        const size_t size = key.mv_size + value.mv_size + NODE;
        if (size > room) break;
        room -= size;
        taken->first[taken->count] = (Entry){last->dbi, kept(taken, key), {0, NULL}};
        taken->first[taken->count++].value = kept(taken, value);
    }
    mdb_cursor_close(cursor);
    if (code && code != MDB_NOTFOUND) return code;
    return delete_all(txn, taken->first + first, taken->count - first);
}

static int leaf_pages(MDB_txn *txn, MDB_dbi dbi, size_t *pages) {
    MDB_stat found;
    const int code = mdb_stat(txn, dbi, &found);
    *pages = code ? 0 : found.ms_leaf_pages;
    return code;
}

/* Puts a part, and takes out what follows it where that took too many pages: 1.2 where they are filled, 2 where they are
 * split, for each page's worth. */
static int put_part(MDB_txn *txn, const Entry *part, size_t count, Taken *taken) {
    size_t before, after;
    int code = leaf_pages(txn, part->dbi, &before);
    if (!code) code = put_all(txn, part, count);
    if (!code) code = leaf_pages(txn, part->dbi, &after);
    if (code || after <= before || 2 * (after - before) * PAGE <= 3 * size_of(part, count)) return code;
    return take_following(txn, &part[count - 1], taken);
}

/* Puts neighbours that stored rows follow, `step` at a time, and then what was taken out behind them. */
static int put_run(MDB_txn *txn, const Entry *run, size_t count, size_t step) {
    const size_t parts = count / step + 1;
    Taken taken = {malloc(parts * MOST_TAKEN * sizeof *taken.first), 0, malloc(parts * ROOM), NULL};
    int code = taken.first && taken.bytes ? 0 : ENOMEM;
    taken.end = taken.bytes;
    for (size_t i = 0; i < count && !code; i += step)
        code = put_part(txn, run + i, count - i < step ? count - i : step, &taken);
    if (!code) code = put_all(txn, taken.first, taken.count);
    free(taken.first);
    free(taken.bytes);
    return code;
}

/* The end of the run that begins with a part up to `stop_at`: where stored rows follow; 0 where they lie within it. */
static int end_of_run(MDB_cursor *cursor, const Entry *puts, size_t start, size_t count, size_t *stop_at) {
    MDB_val key = puts[start].key, value;
    const int code = mdb_cursor_get(cursor, &key, &value, MDB_SET_RANGE);
    if (code || !is_key_below(&puts[*stop_at - 1].key, &key)) {
        *stop_at = 0;
        return code == MDB_NOTFOUND ? 0 : code;
    }
    while (*stop_at < count && is_key_below(&puts[*stop_at].key, &key)) ++*stop_at;
    return 0;
}

/* Puts entries of one database that are sorted by key; those of no run are gathered in `others`. */
static int put_parts(MDB_txn *txn, const Entry *puts, size_t count, size_t step, Entry *others) {
    MDB_cursor *cursor;
    size_t left = 0;
    int code = mdb_cursor_open(txn, puts->dbi, &cursor);
    if (code) return code;
    for (size_t start = 0, next = 0; start < count && !code; start = next) {
        size_t stop_at = start + step <= count ? start + step : 0;
        if (stop_at) code = end_of_run(cursor, puts, start, count, &stop_at);
        next = stop_at ? stop_at : start + step < count ? start + step : count;
        if (stop_at && !code) code = put_run(txn, puts + start, stop_at - start, step);
        for (size_t i = start; !stop_at && i < next; i++) others[left++] = puts[i];
    }
    mdb_cursor_close(cursor);
    return code ? code : put_all(txn, others, left);
}

/* Writes the entries of one database. */
static int write_some(MDB_txn *txn, const Entry *writes, size_t count) {
    Entry *puts = malloc((2 * count + 1) * sizeof *puts), *others = puts + count;
    size_t many = 0, gone = 0;
    if (!puts) return ENOMEM;
    for (size_t i = 0; i < count; i++)
        if (writes[i].value.mv_data)
            puts[many++] = writes[i];
        else
            others[gone++] = writes[i];
    const size_t step = step_of(puts, many);
    int code = delete_all(txn, others, gone);
    if (!code) code = step ? put_parts(txn, puts, many, step, others) : put_all(txn, puts, many);
    free(puts);
    return code;
}

int write_entries(MDB_txn *txn, const Entry *writes, size_t count) {
    size_t start = 0, end = 0;
    for (int code; start < count; start = end) {
        while (end < count && writes[end].dbi == writes[start].dbi) end++;
        code = write_some(txn, writes + start, end - start);
        if (code) return code;
    }
    return 0;
}
