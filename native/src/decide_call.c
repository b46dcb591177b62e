/* The core's calls from Python: programs, and deciding within a transaction. */
#include "binding.h"
#include "core.h"

#include <string.h>

typedef struct {
    PyObject_HEAD
    Work work; /* has the program's memory */
    PyObject *table; /* held: the program has parts of it */
    const Program *program;
} ProgramObject;

/* All questions of one call, and what came of them. */
typedef struct {
    Work work;
    Questions questions;
    Answer answer;
    MDB_txn *txn;
    MDB_dbi tables[TABLES];
    int code; /* LMDB's, where a row could not be read */
    int has_scanned;
} Asked;

static PyTypeObject *program_type;

static int span_of(PyObject *object, Span *span) {
    MDB_val value;
    if (!bytes_of(object, &value)) return 0;
    *span = (Span){value.mv_data, value.mv_size};
    return 1;
}

/* ---- programs ---- */

static int read_table(ProgramObject *self, Span table) {
    const int why = setjmp(self->work.out);
    if (!why) self->program = read_program(&self->work, table);
    return why;
}

static PyObject *program_new(PyTypeObject *type, PyObject *arguments, PyObject *Py_UNUSED(named)) {
    PyObject *table;
    Span span;
    if (!PyArg_ParseTuple(arguments, "O", &table) || !span_of(table, &span)) return NULL;
    ProgramObject *self = (ProgramObject *)PyType_GenericAlloc(type, 0);
    if (!self) return NULL;
    self->table = Py_NewRef(table);
    const int why = read_table(self, span);
    if (!why) return (PyObject *)self;
    Py_DECREF((PyObject *)self);
    if (why == NO_MEMORY) return PyErr_NoMemory();
    PyErr_SetString(PyExc_ValueError, reason_of(why));
    return NULL;
}

static void program_dealloc(PyObject *object) {
    PyTypeObject *type = Py_TYPE(object);
    end_work(&((ProgramObject *)object)->work);
    Py_XDECREF(((ProgramObject *)object)->table);
    PyObject_Free(object);
    Py_DECREF((PyObject *)type);
}

/* ---- deciding ---- */

static int read_stored(void *reader, enum Table table, Span key, Span *value) {
    Asked *call = reader;
    MDB_val wanted = {key.size, (void *)key.data}, found;
    call->code = mdb_get(call->txn, call->tables[table], &wanted, &found);
    if (call->code == MDB_NOTFOUND) return 0;
    if (!call->code) *value = (Span){found.mv_data, found.mv_size};
    return call->code;
}

static int scan_stored(void *reader, enum Table table, Span start, Span stop_at, Span *keys, Span *values,
                       int most) {
    Asked *call = reader;
    MDB_cursor *cursor;
    MDB_val key = {start.size, (void *)start.data}, value;
    int count = 0;
    call->code = mdb_cursor_open(call->txn, call->tables[table], &cursor);
    if (call->code) return -1;
    call->code = mdb_cursor_get(cursor, &key, &value, MDB_SET_RANGE);
    for (; !call->code && count < most && is_below((Span){key.mv_data, key.mv_size}, stop_at);
         call->code = mdb_cursor_get(cursor, &key, &value, MDB_NEXT)) {
        if (values) values[count] = (Span){value.mv_data, value.mv_size};
        keys[count++] = (Span){key.mv_data, key.mv_size};
    }
    call->has_scanned = 1;
    mdb_cursor_close(cursor);
    return call->code && call->code != MDB_NOTFOUND ? -1 : count;
}

static enum Why run(Asked *call) {
    const int why = setjmp(call->work.out);
    if (!why) decide(&call->work, &call->questions, (Reader){read_stored, scan_stored, call}, &call->answer);
    return why;
}

static PyObject *bytes_or_none(Span span) {
    return span.data ? PyBytes_FromStringAndSize((const char *)span.data, (Py_ssize_t)span.size) : Py_NewRef(Py_None);
}

/* A tuple that takes its elements over; NULL where one of them is. `Py_BuildValue` takes twice the time. */
static PyObject *tuple_of(PyObject **parts, Py_ssize_t count) {
    PyObject *all = PyTuple_New(count);
    for (Py_ssize_t i = 0; i < count; i++) {
        if (all && parts[i]) {
            PyTuple_SetItem(all, i, parts[i]);
        } else {
            Py_XDECREF(parts[i]);
            Py_CLEAR(all);
        }
    }
    return all;
}

/* How many of these rows are of a table. */
static Py_ssize_t count_of(const Row *rows, size_t count, enum Table table) {
    Py_ssize_t found = 0;
    for (size_t i = 0; i < count; i++) found += rows[i].table == table;
    return found;
}

/* A tuple of (key, value or None): the rows of one table. */
static PyObject *rows_of_table(const Row *rows, size_t count, enum Table table) {
    PyObject *all = PyTuple_New(count_of(rows, count, table));
    Py_ssize_t place = 0;
    for (size_t i = 0; all && i < count; i++) {
        if (rows[i].table != table) continue;
        PyObject *parts[2] = {bytes_or_none(rows[i].key), bytes_or_none(rows[i].value)}, *row = tuple_of(parts, 2);
        if (!row || PyTuple_SetItem(all, place++, row)) Py_CLEAR(all);
    }
    return all;
}

/* A tuple of what `rows_of_table` makes, for each table. */
static PyObject *rows_of(const Row *rows, size_t count) {
    PyObject *all = PyTuple_New(TABLES);
    for (int table = 0; all && table < TABLES; table++) {
        PyObject *found = rows_of_table(rows, count, table);
        if (!found || PyTuple_SetItem(all, table, found)) Py_CLEAR(all);
    }
    return all;
}

/* A tuple of (rows, bytes), one for each request. */
static PyObject *requests_of(const Unit *unit) {
    PyObject *all = PyTuple_New((Py_ssize_t)unit->request_count);
    for (size_t i = 0; all && i < unit->request_count; i++) {
        PyObject *parts[2] = {PyLong_FromSize_t(unit->requests[i].rows), PyLong_FromSize_t(unit->requests[i].bytes)};
        PyObject *counted = tuple_of(parts, 2);
        if (!counted || PyTuple_SetItem(all, (Py_ssize_t)i, counted)) Py_CLEAR(all);
    }
    return all;
}

/* A tuple of (key, document): the entities that have followed, at which Python has to look. */
static PyObject *checked_of(const Unit *unit) {
    PyObject *all = PyTuple_New((Py_ssize_t)unit->checked_count);
    for (size_t i = 0; all && i < unit->checked_count; i++) {
        const Root *root = unit->checked[i];
        PyObject *parts[2] = {bytes_or_none(root->key), bytes_or_none(root->body)}, *one = tuple_of(parts, 2);
        if (!one || PyTuple_SetItem(all, (Py_ssize_t)i, one)) Py_CLEAR(all);
    }
    return all;
}

/* A tuple of (version, document, whether it is new, whether holders may take its values), one for each question. */
static PyObject *saved_of(const Saved *saved, size_t count) {
    PyObject *all = PyTuple_New((Py_ssize_t)count);
    for (size_t i = 0; all && i < count; i++) {
        PyObject *parts[4] = {PyLong_FromUnsignedLongLong(saved[i].version), bytes_or_none(saved[i].body),
                              PyBool_FromLong(saved[i].is_new), PyBool_FromLong(saved[i].is_source)};
        PyObject *one = tuple_of(parts, 4);
        if (!one || PyTuple_SetItem(all, (Py_ssize_t)i, one)) Py_CLEAR(all);
    }
    return all;
}

static PyObject *answer_of(const Asked *call) {
    const Unit *unit = call->answer.unit;
    enum { PARTS = 7 };
    PyObject *parts[PARTS] = {saved_of(call->answer.saved, call->questions.count)};
    if (parts[0]) parts[1] = rows_of(unit->reads.first, unit->reads.count);
    if (parts[1]) parts[2] = rows_of(unit->writes.first, unit->writes.count);
    if (parts[2]) parts[3] = requests_of(unit);
    if (parts[3]) parts[4] = PyBool_FromLong(call->has_scanned);
    if (parts[4]) parts[5] = checked_of(unit);
    if (parts[5]) parts[6] = PyBool_FromLong(call->answer.is_complete);
    return tuple_of(parts, PARTS);
}

/* ---- arguments ---- */

const Program *take_program(PyObject *given) {
    if (Py_TYPE(given) == program_type) return ((ProgramObject *)given)->program;
    PyErr_SetString(PyExc_TypeError, "a program is a Program");
    return NULL;
}

/* Takes the keys of sources, a tuple for each reference. Returns 1, or 0 with an exception set. */
static int take_sources(Asked *call, PyObject *given, Question *question) {
    const int count = question->program->reference_count;
    if (!take_tuple(given, count, "sources are a tuple of a tuple of keys for each reference")) return 0;
    SourceKeys *sources = take_memory(&call->work, ((size_t)count + 1) * sizeof *sources);
    for (int i = 0; i < count; i++) {
        PyObject *keys = PyTuple_GetItem(given, i);
        if (!take_tuple(keys, -1, "the keys of a source are a tuple")) return 0;
        const Py_ssize_t found = PyTuple_Size(keys);
        Span *first = take_memory(&call->work, ((size_t)found + 1) * sizeof *first);
        for (Py_ssize_t j = 0; j < found; j++)
            if (!span_of(PyTuple_GetItem(keys, j), &first[j])) return 0;
        sources[i] = (SourceKeys){first, (int)found};
    }
    question->sources = sources;
    return 1;
}

/* Takes counters, each a tuple of four bytes. Returns 1, or 0 with an exception set. */
static int take_counters(Asked *call, PyObject *given, Question *question) {
    if (!take_tuple(given, -1, "counters are a tuple")) return 0;
    const Py_ssize_t count = PyTuple_Size(given);
    Counter *counters = take_memory(&call->work, ((size_t)count + 1) * sizeof *counters);
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *parts = PyTuple_GetItem(given, i);
        if (!take_tuple(parts, 4, "a counter is a tuple of settings, the start and stop of its rows, and what shows it") ||
            !span_of(PyTuple_GetItem(parts, 0), &counters[i].settings) ||
            !span_of(PyTuple_GetItem(parts, 1), &counters[i].start) ||
            !span_of(PyTuple_GetItem(parts, 2), &counters[i].stop) ||
            !span_of(PyTuple_GetItem(parts, 3), &counters[i].shown))
            return 0;
    }
    question->counters = counters;
    question->counter_count = (int)count;
    return 1;
}

/* One question: (program, key, document, sources, expected version or None, conditions that hold as bits, verb, number of a
 * sequence or 0, counters). */
static int take_question(Asked *call, PyObject *given, Question *question) {
    if (!take_tuple(given, 9, "a question is a tuple of a program, key, document, sources, version, bits, verb, number, "
                              "counters"))
        return 0;
    PyObject *expected = PyTuple_GetItem(given, 4);
    question->program = take_program(PyTuple_GetItem(given, 0));
    if (!question->program || !span_of(PyTuple_GetItem(given, 1), &question->key) ||
        !span_of(PyTuple_GetItem(given, 2), &question->document) ||
        !take_sources(call, PyTuple_GetItem(given, 3), question) ||
        !take_counters(call, PyTuple_GetItem(given, 8), question))
        return 0;
    question->expected = expected == Py_None ? -1 : PyLong_AsLongLong(expected);
    question->holds = PyErr_Occurred() ? 0 : PyLong_AsUnsignedLongLong(PyTuple_GetItem(given, 5));
    const unsigned long verb = PyErr_Occurred() ? 0 : PyLong_AsUnsignedLong(PyTuple_GetItem(given, 6));
    if (!PyErr_Occurred() && verb > LAST_VERB) PyErr_SetString(PyExc_ValueError, "a verb is a number from 0 to 3");
    question->verb = (enum Verb)verb;
    question->number = PyErr_Occurred() ? 0 : PyLong_AsUnsignedLongLong(PyTuple_GetItem(given, 7));
    return !PyErr_Occurred();
}

static int take_questions(Asked *call, PyObject *given) {
    if (!take_tuple(given, -1, "questions are a tuple")) return 0;
    const size_t count = (size_t)PyTuple_Size(given);
    Question *questions = take_memory(&call->work, (count + 1) * sizeof *questions);
    for (size_t i = 0; i < count; i++)
        if (!take_question(call, PyTuple_GetItem(given, (Py_ssize_t)i), &questions[i])) return 0;
    call->questions.first = questions;
    call->questions.count = count;
    return 1;
}

static int take_followers(Asked *call, PyObject *given) {
    if (!take_tuple(given, -1, "programs of followers are a tuple")) return 0;
    const int count = (int)PyTuple_Size(given);
    const Program **followers = take_memory(&call->work, ((size_t)count + 1) * sizeof *followers);
    for (int i = 0; i < count; i++) {
        followers[i] = take_program(PyTuple_GetItem(given, i));
        if (!followers[i]) return 0;
    }
    call->questions.followers = followers;
    call->questions.follower_count = count;
    return 1;
}

/* Takes the keys of root rows that were read before. */
static int take_known(Asked *call, PyObject *given) {
    if (!take_tuple(given, -1, "keys that are known are a tuple")) return 0;
    const size_t count = (size_t)PyTuple_Size(given);
    Span *known = take_memory(&call->work, (count + 1) * sizeof *known);
    for (size_t i = 0; i < count; i++)
        if (!span_of(PyTuple_GetItem(given, (Py_ssize_t)i), &known[i])) return 0;
    call->questions.known = known;
    call->questions.known_count = count;
    return 1;
}

int take_tables(const Transaction *self, PyObject *given, MDB_dbi *tables, int count) {
    if (!take_tuple(given, count, "tables are a tuple of four databases")) return 0;
    for (int i = 0; i < count; i++)
        if (!handle_of(self->environment, PyTuple_GetItem(given, i), self->dbi, &tables[i])) return 0;
    return 1;
}

/* Takes all arguments. Returns 1, or 0 with an exception set. */
static int take_asked(Asked *call, Transaction *self, PyObject **given) {
    enum { MOST_HOLDERS = 1000000 };
    if (setjmp(call->work.out)) return PyErr_NoMemory() != NULL;
    call->questions.now = PyLong_AsUnsignedLongLong(given[2]);
    const long most = PyErr_Occurred() ? 0 : PyLong_AsLong(given[4]);
    if (PyErr_Occurred()) return 0;
    call->questions.most_holders = (int)(most < 0 ? 0 : most > MOST_HOLDERS ? MOST_HOLDERS : most);
    call->questions.is_in_turn = PyObject_IsTrue(given[6]);
    return !PyErr_Occurred() && take_tables(self, given[0], call->tables, TABLES) && take_questions(call, given[1]) &&
           take_followers(call, given[3]) && take_known(call, given[5]) && span_of(given[7], &call->questions.followed);
}

static PyObject *decided(Asked *call, enum Why why) {
    if (why == DECIDED) return answer_of(call);
    if (why == NO_MEMORY) return PyErr_NoMemory();
    if (why == NOT_READ) return fail("mdb_get", call->code);
    return PyUnicode_FromString(reason_of(why));
}

PyObject *transaction_decide(PyObject *object, PyObject *const *arguments, Py_ssize_t places, PyObject *names) {
    static const char *const known[] = {"tables", "questions", "now", "followers", "most_holders",
                                        "known", "is_in_turn", "followed"};
    static const Call parameters = {known, 8, 8, 8};
    Transaction *self = (Transaction *)object;
    PyObject *found[8] = {NULL}, *answer = NULL;
    Asked call;
    enum Why why;
    memset(&call, 0, sizeof call);
    if (!take(&parameters, arguments, places, names, found)) return NULL;
    if (take_asked(&call, self, found) && transaction_is_usable(self)) { /* last: an argument may end it */
        call.txn = self->txn;
        enter(self);
        Py_BEGIN_ALLOW_THREADS
        why = run(&call);
        Py_END_ALLOW_THREADS
        answer = decided(&call, why); /* while what was read cannot move */
        leave(self);
    }
    end_work(&call.work);
    return answer;
}

static PyType_Slot program_slots[] = {
    {Py_tp_new, program_new},
    {Py_tp_dealloc, program_dealloc},
    {0, NULL},
};

static PyType_Spec program_spec = {"oneread_native.Program", sizeof(ProgramObject), 0, Py_TPFLAGS_DEFAULT,
                                   program_slots};

int add_programs(PyObject *module) {
    return add_type(module, &program_spec, &program_type);
}
