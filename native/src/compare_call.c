/* The comparison's calls from Python: entities, and rows, of a range within a transaction. */
#include "binding.h"
#include "compare.h"

#include <string.h>

typedef struct {
    PyObject_HEAD
    PyObject *programs; /* held: the comparison runs them */
    int busy;           /* a call runs without the interpreter's lock */
    Comparison of;
} ComparisonObject;

/* One call: a range, and what was read last. */
typedef struct {
    Work work;
    ComparisonObject *comparison;
    Compared made;
    MDB_txn *txn;
    MDB_dbi tables[TABLES];
    MDB_dbi table; /* of the range */
    MDB_cursor *cursor;
    Span start, stop_at;
    MDB_val key, value; /* the entry before; of size 0 in front of the first one */
    uintptr_t page;     /* bytes of a page, at most */
    uint64_t latest;
    Wanted wanted;
    int of_roots, batches;
    int code; /* LMDB's, where a row could not be read */
} Asked;

static PyTypeObject *comparison_type;

/* ---- reading ---- */

/* Whether a read by its key finds the entry before. A scan goes from page to page, a read down from the root: where the
 * first and the last entry of a page are found so, and its keys ascend, all are. */
static int is_found(Asked *call) {
    MDB_val found;
    call->code = mdb_get(call->txn, call->table, &call->key, &found);
    if (call->code == MDB_NOTFOUND) {
        call->code = 0;
        return 0;
    }
    return !call->code && found.mv_data == call->value.mv_data && found.mv_size == call->value.mv_size;
}

static int is_other_page(const Asked *call, const MDB_val *key) {
    return ((uintptr_t)key->mv_data & ~(call->page - 1)) != ((uintptr_t)call->key.mv_data & ~(call->page - 1));
}

static int next_stored(void *reader, Span *key, Span *value) {
    Asked *call = reader;
    MDB_val at = {call->start.size, (void *)call->start.data}, entry;
    const int is_first = !call->key.mv_size;
    const MDB_cursor_op step = !is_first ? MDB_NEXT : call->start.size ? MDB_SET_RANGE : MDB_FIRST;
    call->code = mdb_cursor_get(call->cursor, &at, &entry, step);
    if (call->code && call->code != MDB_NOTFOUND) return -1;
    const Span found = {at.mv_data, at.mv_size}, before = {call->key.mv_data, call->key.mv_size};
    const int is_end = call->code || (call->stop_at.size && !is_below(found, call->stop_at));
    call->code = 0;
    if (!is_first && (is_end || is_other_page(call, &at)) && !is_found(call)) return -1;
    if (is_end) return 0;
    if (!(is_first ? !is_below(found, call->start) : is_below(before, found))) return -1;
    const int is_new_page = is_first || is_other_page(call, &at);
    call->key = at;
    call->value = entry;
    if (is_new_page && !is_found(call)) return -1;
    *key = found;
    *value = (Span){entry.mv_data, entry.mv_size};
    return 1;
}

static int read_stored(void *reader, enum Table table, Span key, Span *value) {
    Asked *call = reader;
    MDB_val wanted = {key.size, (void *)key.data}, found;
    call->code = mdb_get(call->txn, call->tables[table], &wanted, &found);
    if (call->code == MDB_NOTFOUND) return 0;
    if (!call->code) *value = (Span){found.mv_data, found.mv_size};
    return call->code;
}

static void compare(Asked *call) {
    const Reader reader = {read_stored, NULL, call};
    if (call->of_roots)
        compare_roots(&call->work, &call->comparison->of, &reader, next_stored, call->latest, call->batches,
                      &call->made);
    else
        compare_rows(&call->work, &call->comparison->of, call, next_stored, &call->wanted, call->batches,
                     &call->made);
    if (call->key.mv_size && !is_found(call)) stop(&call->work, NOT_READ);
}

static int run(Asked *call) {
    const int why = setjmp(call->work.out);
    if (!why) compare(call);
    return why;
}

static int run_with_cursor(Asked *call) {
    MDB_stat found;
    call->code = mdb_stat(call->txn, call->table, &found);
    if (!call->code) call->code = mdb_cursor_open(call->txn, call->table, &call->cursor);
    if (call->code) return NOT_READ;
    call->page = found.ms_psize < 4096 ? found.ms_psize : 4096; /* LMDB's map begins at such a multiple */
    const int why = run(call);
    mdb_cursor_close(call->cursor);
    return why;
}

/* ---- answers ---- */

static PyObject *bytes_of_span(Span span) {
    return PyBytes_FromStringAndSize((const char *)span.data, (Py_ssize_t)span.size);
}

/* The documents of entities, and the rows that Python looks at. */
static int split_looked(const Compared *made, PyObject *bodies, PyObject *others) {
    for (size_t i = 0; i < made->looked_count; i++) {
        const Looked *each = &made->looked[i];
        const int is_whole = each->body.data && !each->is_stale;
        PyObject *found = is_whole ? bytes_of_span(each->body)
                                   : Py_BuildValue("(NNNn)", bytes_of_span(each->key), bytes_of_span(each->row),
                                                   PyBool_FromLong(each->body.data != NULL), (Py_ssize_t)i);
        const int failed = !found || PyList_Append(is_whole ? bodies : others, found);
        Py_XDECREF(found);
        if (failed) return 0;
    }
    return 1;
}

static int list_requests(const Compared *made, PyObject *requests) {
    for (int i = 0; i < made->request_count; i++) {
        PyObject *found =
            Py_BuildValue("(nn)", (Py_ssize_t)made->requests[i].rows, (Py_ssize_t)made->requests[i].bytes);
        const int failed = !found || PyList_Append(requests, found);
        Py_XDECREF(found);
        if (failed) return 0;
    }
    return 1;
}

static PyObject *answer_of(const Compared *made) {
    PyObject *bodies = PyList_New(0), *others = PyList_New(0), *requests = PyList_New(0), *answer = NULL;
    if (bodies && others && requests && split_looked(made, bodies, others) && list_requests(made, requests)) {
        PyObject *last = made->is_end ? Py_NewRef(Py_None) : bytes_of_span(made->last);
        answer = Py_BuildValue("(nNnOOO)", (Py_ssize_t)made->count, last, (Py_ssize_t)made->groups, bodies, others,
                               requests);
    }
    Py_XDECREF(bodies);
    Py_XDECREF(others);
    Py_XDECREF(requests);
    return answer;
}

static PyObject *compared(const Asked *call, int why) {
    if (why == DECIDED) return answer_of(&call->made);
    if (why == NO_MEMORY) return PyErr_NoMemory();
    if (why == NOT_READ && call->code) return fail("mdb_cursor_get", call->code);
    return PyUnicode_FromString(reason_of(why));
}

/* ---- arguments ---- */

static int span_of(PyObject *object, Span *span) {
    MDB_val value;
    if (!bytes_of(object, &value)) return 0;
    *span = (Span){value.mv_data, value.mv_size};
    return 1;
}

static int take_count(PyObject *given, long most, int *count) {
    const long found = PyLong_AsLong(given);
    if (PyErr_Occurred()) return 0;
    if (found >= 0 && found <= most) {
        *count = (int)found;
        return 1;
    }
    PyErr_SetString(PyExc_ValueError, "a count is beyond its limits");
    return 0;
}

static int take_range(Asked *call, PyObject *start, PyObject *stop_at, PyObject *batches) {
    return span_of(start, &call->start) && span_of(stop_at, &call->stop_at) &&
           take_count(batches, MOST_BATCHES, &call->batches);
}

/* Which back-references or holds are compared: (kinds, start, parts). */
static int take_pointers(Pointers *pointers, PyObject *given) {
    int start, parts;
    if (!take_tuple(given, 3, "pointers are a tuple of kinds, a place and a count")) return 0;
    if (!span_of(PyTuple_GetItem(given, 0), &pointers->kinds) || !take_count(PyTuple_GetItem(given, 1), 16, &start) ||
        !take_count(PyTuple_GetItem(given, 2), MOST_PARTS, &parts))
        return 0;
    pointers->start = (uint8_t)start;
    pointers->parts = (uint8_t)parts;
    return 1;
}

static int take_comparison(Asked *call, PyObject *given) {
    if (Py_TYPE(given) == comparison_type) {
        call->comparison = (ComparisonObject *)given;
        return 1;
    }
    PyErr_SetString(PyExc_TypeError, "a comparison is a Comparison");
    return 0;
}

static PyObject *fail_busy(void) {
    PyErr_SetString(PyExc_ValueError, "another thread uses the comparison");
    return NULL;
}

/* Runs a call whose arguments were taken. */
static PyObject *answered(Asked *call, Transaction *self) {
    PyObject *answer = NULL;
    int why;
    if (!transaction_is_usable(self)) return NULL;
    if (call->comparison->busy) return fail_busy();
    call->comparison->busy = 1;
    call->txn = self->txn;
    enter(self);
    Py_BEGIN_ALLOW_THREADS
    why = run_with_cursor(call);
    Py_END_ALLOW_THREADS
    answer = compared(call, why); /* while what was read cannot move */
    leave(self);
    call->comparison->busy = 0;
    end_work(&call->work);
    return answer;
}

PyObject *transaction_compare_roots(PyObject *object, PyObject *const *arguments, Py_ssize_t places, PyObject *names) {
    static const char *const known[] = {"tables", "comparison", "start", "stop", "batches", "latest"};
    static const Call parameters = {known, 6, 6, 6};
    Transaction *self = (Transaction *)object;
    PyObject *found[6] = {NULL};
    Asked call;
    memset(&call, 0, sizeof call);
    call.of_roots = 1;
    if (!take(&parameters, arguments, places, names, found)) return NULL;
    call.latest = PyLong_AsUnsignedLongLong(found[5]);
    if (PyErr_Occurred() || !take_range(&call, found[2], found[3], found[4])) return NULL;
    if (!take_comparison(&call, found[1]) || !take_tables(self, found[0], call.tables, TABLES)) return NULL;
    call.table = call.tables[ROOTS];
    return answered(&call, self);
}

PyObject *transaction_compare_rows(PyObject *object, PyObject *const *arguments, Py_ssize_t places, PyObject *names) {
    static const char *const known[] = {"table", "comparison", "start", "stop", "batches", "width", "pointers"};
    static const Call parameters = {known, 7, 7, 7};
    Transaction *self = (Transaction *)object;
    PyObject *found[7] = {NULL};
    Asked call;
    memset(&call, 0, sizeof call);
    if (!take(&parameters, arguments, places, names, found)) return NULL;
    if (!take_count(found[5], MOST_SLOTS, &call.wanted.width) || !take_pointers(&call.wanted.pointers, found[6]))
        return NULL;
    if (!take_range(&call, found[2], found[3], found[4])) return NULL;
    if (!take_comparison(&call, found[1]) || !handle_of(self->environment, found[0], self->dbi, &call.table)) return NULL;
    return answered(&call, self);
}

/* ---- the type ---- */

static int take_programs(Comparison *of, PyObject *given) {
    if (!take_tuple(given, -1, "programs are a tuple")) return 0;
    const Py_ssize_t count = PyTuple_Size(given);
    if (count > MOST_PROGRAMS) {
        PyErr_SetString(PyExc_ValueError, "too many programs");
        return 0;
    }
    for (Py_ssize_t i = 0; i < count; i++)
        if (!(of->programs[i] = take_program(PyTuple_GetItem(given, i)))) return 0;
    of->program_count = (int)count;
    return 1;
}

static PyObject *comparison_new(PyTypeObject *type, PyObject *arguments, PyObject *Py_UNUSED(named)) {
    PyObject *programs, *secret;
    Span bytes;
    int batch, most;
    if (!PyArg_ParseTuple(arguments, "OOii", &programs, &secret, &batch, &most) || !span_of(secret, &bytes)) return NULL;
    if (bytes.size != SECRET_BYTES || batch < 1 || batch > MOST_BATCH || most < 0 || most > MOST_KEPT) {
        PyErr_SetString(PyExc_ValueError, "a secret has 16 bytes; a batch, or what is kept, is beyond its limits");
        return NULL;
    }
    ComparisonObject *self = (ComparisonObject *)PyType_GenericAlloc(type, 0);
    if (!self) return NULL;
    self->programs = Py_NewRef(programs);
    begin_tally(&self->of.tally, bytes.data);
    self->of.batch = batch;
    self->of.most = (size_t)most;
    if (take_programs(&self->of, programs)) return (PyObject *)self;
    Py_DECREF((PyObject *)self);
    return NULL;
}

static void comparison_dealloc(PyObject *object) {
    PyTypeObject *type = Py_TYPE(object);
    ComparisonObject *self = (ComparisonObject *)object;
    forget_sources(&self->of);
    Py_XDECREF(self->programs);
    PyObject_Free(object);
    Py_DECREF((PyObject *)type);
}

static PyObject *comparison_is_even(PyObject *object, PyObject *Py_UNUSED(none)) {
    return PyBool_FromLong(is_even(&((ComparisonObject *)object)->of.tally));
}

/* A pair of bytes and something else. Returns 1, or 0 with an exception set. */
static int take_pair(PyObject *given, Span *first, PyObject **second) {
    if (!take_tuple(given, 2, "what is expected is a tuple of pairs") || !span_of(PyTuple_GetItem(given, 0), first))
        return 0;
    *second = PyTuple_GetItem(given, 1);
    return 1;
}

static int expect_row(Tally *tally, PyObject *given) {
    PyObject *second;
    Span key, value;
    if (!take_pair(given, &key, &second) || !span_of(second, &value)) return 0;
    tally->rows += digest_of_row(tally, key, value);
    return 1;
}

static int expect_numbers(Tally *tally, PyObject *given) {
    uint64_t residues[MOST_SLOTS];
    PyObject *second;
    Span group;
    if (!take_pair(given, &group, &second) || !take_tuple(second, -1, "numbers are a tuple")) return 0;
    const Py_ssize_t count = PyTuple_Size(second);
    if (count > MOST_SLOTS) {
        PyErr_SetString(PyExc_ValueError, "too many numbers");
        return 0;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        residues[i] = PyLong_AsUnsignedLongLong(PyTuple_GetItem(second, i));
        if (PyErr_Occurred()) return 0;
    }
    tally_residues(tally, group, residues, (int)count, 1);
    return 1;
}

static PyObject *comparison_expect(PyObject *object, PyObject *const *arguments, Py_ssize_t places, PyObject *names) {
    static const char *const known[] = {"rows", "numbers"};
    static const Call parameters = {known, 2, 2, 2};
    ComparisonObject *self = (ComparisonObject *)object;
    PyObject *found[2] = {NULL};
    if (!take(&parameters, arguments, places, names, found)) return NULL;
    if (!take_tuple(found[0], -1, "rows are a tuple") || !take_tuple(found[1], -1, "numbers are a tuple")) return NULL;
    if (self->busy) return fail_busy();
    for (Py_ssize_t i = 0; i < PyTuple_Size(found[0]); i++)
        if (!expect_row(&self->of.tally, PyTuple_GetItem(found[0], i))) return NULL;
    for (Py_ssize_t i = 0; i < PyTuple_Size(found[1]); i++)
        if (!expect_numbers(&self->of.tally, PyTuple_GetItem(found[1], i))) return NULL;
    return Py_NewRef(Py_None);
}

static PyMethodDef comparison_methods[] = {
    {"expect", (PyCFunction)(void (*)(void))comparison_expect, METH_FASTCALL | METH_KEYWORDS, NULL},
    {"is_even", comparison_is_even, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot comparison_slots[] = {
    {Py_tp_new, comparison_new},
    {Py_tp_dealloc, comparison_dealloc},
    {Py_tp_methods, comparison_methods},
    {0, NULL},
};

static PyType_Spec comparison_spec = {"oneread_native.Comparison", sizeof(ComparisonObject), 0, Py_TPFLAGS_DEFAULT,
                                      comparison_slots};

int add_comparisons(PyObject *module) {
    return add_type(module, &comparison_spec, &comparison_type);
}
