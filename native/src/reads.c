/* Whole reads: the rows of one moment, and what readers see of them, in one call. */
#include "binding.h"
#include "core.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { OTHER = -1, FIRST_ROOM = 32 }; /* OTHER: a row that `value_of_row` does not know; LMDB has no such number */

/* What is asked of one database: the rows from `start` on and before `stop`, or all whose keys begin with `start`. */
typedef struct {
    MDB_dbi dbi;
    MDB_val start, stop;
    size_t limit;
    int reverse, is_prefix;
} Wanted;

/* Rows that were found, each a key and what readers see. They point into LMDB's pages; `objects` are copies. */
typedef struct {
    MDB_val *rows;
    PyObject **objects;
    size_t count, room;
} Found;

/* ---- without the interpreter's lock ---- */

/* What readers see of a row, in its pages. Returns 0, or OTHER. */
static int cut(MDB_val *row, uint64_t *stamp) {
    Span value;
    if (!value_of_row((Span){row->mv_data, row->mv_size}, &value, stamp)) return OTHER;
    *row = (MDB_val){value.size, (void *)value.data};
    touch(row);
    return 0;
}

static int add(Found *found, const MDB_val *key, MDB_val value) {
    uint64_t stamp;
    if (found->count == found->room) {
        const size_t room = found->room ? 2 * found->room : FIRST_ROOM;
        MDB_val *larger = realloc(found->rows, 2 * room * sizeof *larger);
        if (!larger) return ENOMEM;
        found->rows = larger;
        found->room = room;
    }
    const int code = cut(&value, &stamp);
    found->rows[2 * found->count] = *key;
    found->rows[2 * found->count + 1] = value;
    found->count += !code;
    return code;
}

/* Moves to the first row, from the end of the range that is asked for. Returns LMDB's number. */
static int move_to_first(MDB_cursor *cursor, const Wanted *wanted, MDB_val *key, MDB_val *value) {
    const MDB_val *edge = wanted->reverse ? &wanted->stop : &wanted->start;
    if (!edge->mv_size) return mdb_cursor_get(cursor, key, value, wanted->reverse ? MDB_LAST : MDB_FIRST);
    *key = *edge;
    const int code = mdb_cursor_get(cursor, key, value, MDB_SET_RANGE);
    if (!wanted->reverse || (code && code != MDB_NOTFOUND)) return code;
    return mdb_cursor_get(cursor, key, value, code ? MDB_LAST : MDB_PREV);
}

static int is_within(const Wanted *wanted, const MDB_val *key) {
    const Span at = {key->mv_data, key->mv_size}, start = {wanted->start.mv_data, wanted->start.mv_size};
    const Span stop_at = {wanted->stop.mv_data, wanted->stop.mv_size};
    if (wanted->is_prefix) return at.size >= start.size && is_same((Span){at.data, start.size}, start);
    return wanted->reverse ? !is_below(at, start) : !stop_at.size || is_below(at, stop_at);
}

/* Finds the rows of a range. Returns LMDB's number, or OTHER. */
static int scan(MDB_txn *txn, const Wanted *wanted, Found *found) {
    MDB_cursor *cursor;
    MDB_val key, value;
    if (!wanted->limit) return 0;
    int code = mdb_cursor_open(txn, wanted->dbi, &cursor);
    if (code) return code;
    code = move_to_first(cursor, wanted, &key, &value);
    while (!code && is_within(wanted, &key)) {
        code = add(found, &key, value);
        if (code || found->count == wanted->limit) break;
        code = mdb_cursor_get(cursor, &key, &value, wanted->reverse ? MDB_PREV : MDB_NEXT);
    }
    mdb_cursor_close(cursor);
    return code == MDB_NOTFOUND ? 0 : code;
}

/* The row with this key; without data where it is absent. Returns LMDB's number, or OTHER. */
static int get(MDB_txn *txn, MDB_dbi dbi, MDB_val *key, MDB_val *value, uint64_t *stamp) {
    const int code = mdb_get(txn, dbi, key, value);
    if (!code) return cut(value, stamp);
    value->mv_data = NULL;
    return code == MDB_NOTFOUND ? 0 : code;
}

/* ---- answers ---- */

/* What a failed read answers. Returns a new reference, or NULL with an exception set. */
static PyObject *failed(const char *what, int code) {
    return code == OTHER ? Py_NewRef(Py_NotImplemented) : fail(what, code);
}

static PyObject *copied(const MDB_val *value) {
    return PyBytes_FromStringAndSize(value->mv_data, (Py_ssize_t)value->mv_size);
}

/* Copies what was found while its pages stay. Nothing here collects garbage, which may run Python, and that may close
 * the environment, which would wait for this call. Returns 1, or 0 with an exception set. */
static int copy_found(Found *found) {
    if (!found->count) return 1;
    found->objects = calloc(2 * found->count, sizeof *found->objects);
    if (!found->objects) return PyErr_NoMemory() != NULL;
    for (size_t i = 0; i < 2 * found->count; i++)
        if (!(found->objects[i] = copied(&found->rows[i]))) return 0;
    return 1;
}

/* The keys, as a tuple, and the values, as a list, of what was copied, which they take. */
static PyObject *columns_of(Found *found) {
    PyObject *keys = PyTuple_New((Py_ssize_t)found->count), *values = PyList_New((Py_ssize_t)found->count);
    int bad = !keys || !values;
    for (size_t i = 0; !bad && i < found->count; i++) {
        bad = PyTuple_SetItem(keys, (Py_ssize_t)i, Py_NewRef(found->objects[2 * i])) ||
              PyList_SetItem(values, (Py_ssize_t)i, Py_NewRef(found->objects[2 * i + 1]));
    }
    if (!bad) return Py_BuildValue("(NN)", keys, values);
    Py_XDECREF(keys);
    Py_XDECREF(values);
    return NULL;
}

static void free_found(Found *found) {
    for (size_t i = 0; found->objects && i < 2 * found->count; i++) Py_XDECREF(found->objects[i]);
    free(found->objects);
    free(found->rows);
}

/* ---- calls ---- */

PyObject *environment_cell(PyObject *object, PyObject *const *arguments, Py_ssize_t places, PyObject *names) {
    static const char *const known[] = {"db", "key"};
    static const Call call = {known, 2, 2, 2};
    Environment *self = (Environment *)object;
    PyObject *given[2] = {NULL, NULL}, *found = NULL;
    MDB_txn *txn;
    MDB_dbi dbi;
    MDB_val key, value;
    uint64_t stamp = 0;
    int code;
    if (!take(&call, arguments, places, names, given) || !environment_is_usable(self) ||
        !handle_of(self, given[0], self->main, &dbi) || !bytes_of(given[1], &key) || !begin_reading(self, &txn))
        return NULL;
    self->busy++;
    Py_BEGIN_ALLOW_THREADS
    code = get(txn, dbi, &key, &value, &stamp);
    Py_END_ALLOW_THREADS
    if (!code && value.mv_data) found = copied(&value); /* a tuple, which may collect garbage, once it has ended */
    end_reading(self, txn);
    self->busy--;
    if (code) return failed("mdb_get", code);
    if (!value.mv_data) Py_RETURN_NONE;
    return found ? Py_BuildValue("(NK)", found, (unsigned long long)stamp) : NULL;
}

/* A number of rows. Returns 1, or 0 with an exception set. */
static int limit_of(PyObject *object, size_t *limit) {
    const Py_ssize_t found = PyLong_AsSsize_t(object);
    *limit = found < 0 ? 0 : (size_t)found;
    return found != -1 || !PyErr_Occurred();
}

PyObject *environment_column(PyObject *object, PyObject *const *arguments, Py_ssize_t places, PyObject *names) {
    static const char *const known[] = {"db", "start", "stop", "limit", "reverse"};
    static const Call call = {known, 5, 5, 5};
    Environment *self = (Environment *)object;
    PyObject *given[5] = {NULL}, *answer = NULL;
    Wanted wanted = {.is_prefix = 0};
    Found found = {NULL, NULL, 0, 0};
    MDB_txn *txn;
    int code;
    if (!take(&call, arguments, places, names, given)) return NULL;
    wanted.reverse = PyObject_IsTrue(given[4]); /* first: it may close the environment */
    if (wanted.reverse < 0 || !environment_is_usable(self) || !handle_of(self, given[0], self->main, &wanted.dbi) ||
        !bytes_of(given[1], &wanted.start) || !bytes_of(given[2], &wanted.stop) ||
        !limit_of(given[3], &wanted.limit) || !begin_reading(self, &txn))
        return NULL;
    self->busy++;
    Py_BEGIN_ALLOW_THREADS
    code = scan(txn, &wanted, &found);
    Py_END_ALLOW_THREADS
    const int is_copied = !code && copy_found(&found);
    end_reading(self, txn);
    self->busy--;
    if (code)
        answer = failed("mdb_cursor_get", code);
    else if (is_copied)
        answer = columns_of(&found);
    free_found(&found);
    return answer;
}

/* What `together` reads: a cell, and the first rows of several prefixes. */
typedef struct {
    MDB_dbi dbi;
    MDB_val key, value;
    PyObject *cell;
    Wanted *wanted;
    Found *found;
    size_t count;
    const char *what; /* the call of LMDB that was made last */
} Several;

/* Takes the tuple of (database, prefix, most). Returns 1, or 0 with an exception set. */
static int take_firsts(const Environment *self, PyObject *given, Several *several) {
    if (!take_tuple(given, -1, "firsts are a tuple")) return 0;
    several->count = (size_t)PyTuple_Size(given);
    several->wanted = calloc(several->count + 1, sizeof *several->wanted);
    several->found = calloc(several->count + 1, sizeof *several->found);
    if (!several->wanted || !several->found) return PyErr_NoMemory() != NULL;
    for (size_t i = 0; i < several->count; i++) {
        PyObject *first = PyTuple_GetItem(given, (Py_ssize_t)i);
        Wanted *wanted = &several->wanted[i];
        wanted->is_prefix = 1;
        if (!take_tuple(first, 3, "each of firsts is a tuple of a database, a prefix and a number") ||
            !handle_of(self, PyTuple_GetItem(first, 0), self->main, &wanted->dbi) ||
            !bytes_of(PyTuple_GetItem(first, 1), &wanted->start) ||
            !limit_of(PyTuple_GetItem(first, 2), &wanted->limit))
            return 0;
    }
    return 1;
}

static int read_several(MDB_txn *txn, Several *several) {
    uint64_t stamp;
    several->what = "mdb_get";
    int code = get(txn, several->dbi, &several->key, &several->value, &stamp);
    if (!code) several->what = "mdb_cursor_get";
    for (size_t i = 0; !code && i < several->count; i++) code = scan(txn, &several->wanted[i], &several->found[i]);
    return code;
}

static int copy_several(Several *several) {
    several->cell = several->value.mv_data ? copied(&several->value) : Py_NewRef(Py_None);
    int good = several->cell != NULL;
    for (size_t i = 0; good && i < several->count; i++) good = copy_found(&several->found[i]);
    return good;
}

static PyObject *answer_several(const Several *several) {
    PyObject *all = PyList_New((Py_ssize_t)several->count);
    for (size_t i = 0; all && i < several->count; i++) {
        PyObject *columns = columns_of(&several->found[i]);
        if (!columns || PyList_SetItem(all, (Py_ssize_t)i, columns)) Py_CLEAR(all);
    }
    return all ? Py_BuildValue("(ON)", several->cell, all) : NULL;
}

PyObject *environment_together(PyObject *object, PyObject *const *arguments, Py_ssize_t places, PyObject *names) {
    static const char *const known[] = {"db", "key", "firsts"};
    static const Call call = {known, 3, 3, 3};
    Environment *self = (Environment *)object;
    PyObject *given[3] = {NULL}, *answer = NULL;
    Several several;
    MDB_txn *txn;
    int code;
    memset(&several, 0, sizeof several);
    if (!take(&call, arguments, places, names, given)) return NULL;
    if (environment_is_usable(self) && handle_of(self, given[0], self->main, &several.dbi) &&
        bytes_of(given[1], &several.key) && take_firsts(self, given[2], &several) && begin_reading(self, &txn)) {
        self->busy++;
        Py_BEGIN_ALLOW_THREADS
        code = read_several(txn, &several);
        Py_END_ALLOW_THREADS
        const int is_copied = !code && copy_several(&several);
        end_reading(self, txn);
        self->busy--;
        if (code)
            answer = failed(several.what, code);
        else if (is_copied)
            answer = answer_several(&several);
    }
    for (size_t i = 0; several.found && i < several.count; i++) free_found(&several.found[i]);
    Py_XDECREF(several.cell);
    free(several.found);
    free(several.wanted);
    return answer;
}
