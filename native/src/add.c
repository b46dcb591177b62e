/* An add to a counter: rows are compared, a token is noted, and sums grow, all in one turn. */
#include "binding.h"

#include "core.h"

#include <string.h>

enum { MOST_VALUE = 32 };

typedef struct {
    MDB_val key[MOST_EXPECTED];
    Py_ssize_t count;
} Keys;

typedef struct {
    ExpectedRows rows;
    MDB_dbi dbi; /* of tokens and sums */
    Keys tokens, sums;
    int64_t amount;
    uint64_t now;
} Add;

/* ---- arguments ---- */

static const char ASKED[] = "what is asked is a tuple of (table, rows, tokens, sums, amount, now)";
static const char ROWS[] = "rows are a tuple of (table, key, value, True or None)";
static const char KEYS[] = "tokens and sums are tuples of keys";

int take_table(const Environment *self, PyObject *tables, PyObject *name, MDB_dbi *dbi) {
    if (!PyDict_Check(tables)) {
        PyErr_SetString(PyExc_TypeError, "tables are a dictionary of databases by name");
        return 0;
    }
    PyObject *database = PyDict_GetItemWithError(tables, name);
    if (database) return handle_of(self, database, self->main, dbi);
    if (!PyErr_Occurred()) PyErr_SetObject(PyExc_KeyError, name);
    return 0;
}

int take_expected(const Environment *self, PyObject *tables, PyObject *given, ExpectedRows *rows) {
    rows->count = 0;
    if (!take_tuple(given, -1, ROWS)) return 0;
    if (PyTuple_Size(given) > MOST_EXPECTED) return -1;
    for (; rows->count < PyTuple_Size(given); rows->count++) {
        PyObject *one = PyTuple_GetItem(given, rows->count);
        Expected *row = &rows->row[rows->count];
        if (!take_tuple(one, 3, ROWS)) return 0;
        PyObject *value = PyTuple_GetItem(one, 2);
        row->needs = value == Py_True ? THERE : value == Py_None ? ABSENT : SAME;
        if (!take_table(self, tables, PyTuple_GetItem(one, 0), &row->dbi) ||
            !bytes_of(PyTuple_GetItem(one, 1), &row->key) || (row->needs == SAME && !bytes_of(value, &row->value)))
            return 0;
    }
    return 1;
}

/* Returns what `take_expected` does. */
static int take_keys(PyObject *given, Keys *keys) {
    if (!take_tuple(given, -1, KEYS)) return 0;
    if (PyTuple_Size(given) > MOST_EXPECTED) return -1;
    for (; keys->count < PyTuple_Size(given); keys->count++)
        if (!bytes_of(PyTuple_GetItem(given, keys->count), &keys->key[keys->count])) return 0;
    return 1;
}

/* Returns what `take_expected` does. */
static int take_asked(const Environment *self, PyObject *tables, PyObject *asked, Add *add) {
    add->tokens.count = add->sums.count = 0;
    if (!take_tuple(asked, 6, ASKED)) return 0;
    add->amount = PyLong_AsLongLong(PyTuple_GetItem(asked, 4));
    if (!PyErr_Occurred()) add->now = PyLong_AsUnsignedLongLong(PyTuple_GetItem(asked, 5));
    if (PyErr_Occurred() || !take_table(self, tables, PyTuple_GetItem(asked, 0), &add->dbi)) return 0;
    const int rows = take_expected(self, tables, PyTuple_GetItem(asked, 1), &add->rows);
    const int tokens = rows ? take_keys(PyTuple_GetItem(asked, 2), &add->tokens) : 0;
    const int sums = tokens ? take_keys(PyTuple_GetItem(asked, 3), &add->sums) : 0;
    if (sums && (rows < 0 || tokens < 0 || add->now >= STAMPS)) return -1;
    return sums;
}

/* ---- steps, without the interpreter's lock ---- */

/* Reads a row of one value. Returns 0, MDB_NOTFOUND, or -1 where it is of another form, or LMDB cannot read it. */
static int read_one(MDB_txn *txn, MDB_dbi dbi, const MDB_val *key, Span *value, uint64_t *stamp) {
    MDB_val name = *key, found = {0, NULL};
    const int code = mdb_get(txn, dbi, &name, &found);
    if (code) return code == MDB_NOTFOUND ? code : -1;
    const uint8_t *data = found.mv_data;
    if (found.mv_size < ONE_HEAD || data[0] >> 5 != FORM_ONE) return -1;
    *stamp = number_at(data, ONE_HEAD) & (STAMPS - 1);
    *value = (Span){data + ONE_HEAD, found.mv_size - ONE_HEAD};
    return 0;
}

/* Whether a row is as expected; `found` is what it is. */
static int is_as_expected(MDB_txn *txn, const Expected *row, Entry *found) {
    Span value;
    uint64_t stamp;
    const int code = read_one(txn, row->dbi, &row->key, &value, &stamp);
    *found = (Entry){row->dbi, row->key, {0, NULL}};
    if (row->needs == ABSENT) return code == MDB_NOTFOUND;
    if (code) return 0;
    found->value = (MDB_val){ONE_HEAD + value.size, (void *)(value.data - ONE_HEAD)};
    return row->needs == THERE || is_same(value, (Span){row->value.mv_data, row->value.mv_size});
}

int are_as_expected(MDB_txn *txn, const ExpectedRows *rows, Entry *found) {
    for (Py_ssize_t i = 0; i < rows->count; i++)
        if (!is_as_expected(txn, &rows->row[i], &found[i])) return 0;
    return 1;
}

/* Puts a row of one value. Returns COMMITTED or REFUSED. */
static int put_one(MDB_txn *txn, MDB_dbi dbi, const MDB_val *key, uint64_t stamp, Span value) {
    uint8_t row[ONE_HEAD + MOST_VALUE];
    MDB_val name = *key, data = {ONE_HEAD + value.size, row};
    write_number(row, (uint64_t)FORM_ONE << 45 | stamp, ONE_HEAD);
    write_span(row + ONE_HEAD, value);
    return mdb_put(txn, dbi, &name, &data, 0) ? REFUSED : COMMITTED;
}

/* Notes the token, unless one is there. Returns COMMITTED, or why nothing is added. */
static int note_token(MDB_txn *txn, const Add *add) {
    const Keys *tokens = &add->tokens;
    Span value;
    uint64_t stamp;
    for (Py_ssize_t i = 0; i < tokens->count; i++) {
        const int code = read_one(txn, add->dbi, &tokens->key[i], &value, &stamp);
        if (code != MDB_NOTFOUND) return code ? UNKNOWN : ADDED_BEFORE;
    }
    if (!tokens->count) return COMMITTED;
    return put_one(txn, add->dbi, &tokens->key[tokens->count - 1], add->now, (Span){(const uint8_t *)"1", 1});
}

/* What was raised and lowered by so much; nothing of a row that is absent. Returns whether it is known. */
static int grow(Span stored, int64_t amount, int64_t *raised, int64_t *lowered) {
    Span found[2];
    *raised = *lowered = 0;
    if (stored.data && (elements_of(stored, found, 2) != 2 || !int_of(found[0], raised) || !int_of(found[1], lowered)))
        return 0;
    if (*raised < 0 || *lowered < 0) return 0;
    return amount < 0 ? !__builtin_sub_overflow(*lowered, amount, lowered)
                      : !__builtin_add_overflow(*raised, amount, raised);
}

/* Adds to the sums of one row. Returns COMMITTED, or why not. */
static int add_to(MDB_txn *txn, const Add *add, const MDB_val *key) {
    Span stored = {NULL, 0};
    uint64_t stamp = 0;
    int64_t raised, lowered;
    uint8_t value[MOST_VALUE];
    const int code = read_one(txn, add->dbi, key, &stored, &stamp);
    if ((code && code != MDB_NOTFOUND) || !grow(stored, add->amount, &raised, &lowered)) return UNKNOWN;
    stamp = code || stamp < add->now ? add->now : stamp + 1;
    if (stamp >= STAMPS) return UNKNOWN;
    Writer end = write_int(write_int(write_array_header(value, 2), raised), lowered);
    return put_one(txn, add->dbi, key, stamp, (Span){value, (size_t)(end - value)});
}

static int write_add(MDB_txn *txn, const void *asked) {
    const Add *add = asked;
    Entry found[MOST_EXPECTED];
    if (!are_as_expected(txn, &add->rows, found)) return UNKNOWN;
    int outcome = note_token(txn, add);
    for (Py_ssize_t i = 0; i < add->sums.count && outcome == COMMITTED; i++)
        outcome = add_to(txn, add, &add->sums.key[i]);
    return outcome;
}

/* ---- the call ---- */

PyObject *environment_add(PyObject *object, PyObject *const *arguments, Py_ssize_t places, PyObject *names) {
    static const char *const known[] = {"turn", "files", "tables", "asked"};
    static const Call call = {known, 4, 4, 4};
    Environment *self = (Environment *)object;
    PyObject *found[4] = {NULL};
    Add add;
    Turn turn;
    if (!take(&call, arguments, places, names, found) || !take_turn_of(found[0], found[1], &turn)) return NULL;
    const int taken = take_asked(self, found[2], found[3], &add);
    if (!taken) return NULL;
    return turn_answer(taken < 0 ? UNKNOWN : write_in_turn(self, &turn, write_add, &add), &turn);
}
