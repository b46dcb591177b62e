/* The core's calls from Python: programs, and deciding within a transaction. */
#include "decided.h"

#include <string.h>

typedef struct {
    PyObject_HEAD
    Work work; /* has the program's memory */
    PyObject *table; /* held: the program has parts of it */
    const Program *program;
} ProgramObject;

/* A program that is held while it is used, as the dictionary that it is from may change. */
typedef struct {
    PyObject *table, *held;
    const Program *program; /* NULL where it is none */
} Known;

/* All questions of one call, and what came of them. */
typedef struct {
    Work work;
    Questions questions;
    Answer answer;
    MDB_txn *txn;
    MDB_dbi tables[TABLES];
    Known *programs;
    size_t program_count, program_room;
    const Program **followers;
    size_t follower_room;
    Kept rows;
    size_t snapshot;
    int code; /* LMDB's, where a row could not be read */
    int has_scanned;
    int is_unknown; /* a program was not among those given */
} Asked;

static PyTypeObject *program_type;
static PyObject *table_names[TABLES];

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

/* Copies the keys that are answered besides the rows: they may be stored ones, which are there in the transaction alone. */
static void keep_checked(Asked *call) {
    const Unit *unit = call->answer.unit;
    for (size_t i = 0; i < unit->checked_count; i++) {
        Root *root = unit->checked[i];
        uint8_t *copy = take_memory(&call->work, root->key.size + 1);
        write_span(copy, root->key);
        root->key.data = copy;
    }
}

/* Decides, and keeps the rows; `besides` were read, too. */
static enum Why run(Asked *call, const Entry *besides, size_t count) {
    const int why = setjmp(call->work.out);
    if (why) return why;
    decide(&call->work, &call->questions, (Reader){read_stored, scan_stored, call}, &call->answer);
    keep_checked(call);
    call->snapshot = mdb_txn_id(call->txn);
    call->rows = keep_rows(call->answer.unit, call->tables, besides, count);
    return call->rows.first ? DECIDED : NO_MEMORY;
}

/* ---- answers ---- */

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

static PyObject *bytes_or_none(Span span) {
    return span.data ? PyBytes_FromStringAndSize((const char *)span.data, (Py_ssize_t)span.size) : Py_NewRef(Py_None);
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

/* What was decided; it takes the rows. */
static PyObject *answer_of(const Asked *call, Environment *of) {
    enum { PARTS = 6 };
    PyObject *parts[PARTS] = {NULL}, *rows = decided_of(of, call->tables, call->snapshot, call->rows);
    if (rows) parts[0] = saved_of(call->answer.saved, call->questions.count);
    if (parts[0]) parts[1] = requests_of(call->answer.unit);
    if (parts[1]) parts[2] = PyBool_FromLong(call->has_scanned);
    if (parts[2]) parts[4] = checked_of(call->answer.unit);
    if (parts[4]) parts[5] = PyBool_FromLong(call->answer.is_complete);
    parts[3] = rows;
    return tuple_of(parts, PARTS);
}

/* What a call answers. The transaction that was read in may have ended. */
static PyObject *answer_to(const Asked *call, enum Why why, Environment *of) {
    if (why == DECIDED) return answer_of(call, of);
    if (why == NO_MEMORY) return PyErr_NoMemory();
    if (why == NOT_READ) return fail("mdb_get", call->code);
    return PyUnicode_FromString(reason_of(why));
}

static void end_asked(Asked *call) {
    for (size_t i = 0; i < call->program_count; i++) Py_XDECREF(call->programs[i].held);
    end_work(&call->work);
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

/* The program of a table, which is held until the call ends. Returns NULL where there is none, or with an exception
 * set; where it is not known, the call answers so. */
static const Program *find_program(Asked *call, PyObject *programs, PyObject *table) {
    for (size_t i = call->program_count; i--;)
        if (call->programs[i].table == table) return call->programs[i].program;
    call->programs =
        with_room(&call->work, call->programs, call->program_count, &call->program_room, sizeof *call->programs);
    PyObject *found = PyDict_GetItemWithError(programs, table);
    if (!found) {
        call->is_unknown = !PyErr_Occurred();
        return NULL;
    }
    const Program *program = found == Py_None ? NULL : take_program(found);
    if (!PyErr_Occurred()) call->programs[call->program_count++] = (Known){table, Py_NewRef(found), program};
    return program;
}

/* Adds the programs of a question's followers, each once. Returns 1, or 0 with an exception set. */
static int take_followers(Asked *call, PyObject *programs, PyObject *given) {
    if (!take_tuple(given, -1, "programs of followers are a tuple")) return 0;
    for (Py_ssize_t i = 0; i < PyTuple_Size(given); i++) {
        const Program *found = find_program(call, programs, PyTuple_GetItem(given, i));
        int at = 0;
        if (PyErr_Occurred()) return 0;
        while (at < call->questions.follower_count && call->followers[at] != found) at++;
        if (!found || at < call->questions.follower_count) continue;
        call->followers =
            with_room(&call->work, call->followers, (size_t)at, &call->follower_room, sizeof *call->followers);
        call->followers[at] = found;
        call->questions.follower_count++;
    }
    call->questions.followers = call->followers;
    return 1;
}

/* The numbers of a question. Returns 1, or 0 with an exception set. */
static int take_numbers(PyObject *given, Question *question) {
    PyObject *expected = PyTuple_GetItem(given, 4);
    question->expected = expected == Py_None ? -1 : PyLong_AsLongLong(expected);
    question->holds = PyErr_Occurred() ? 0 : PyLong_AsUnsignedLongLong(PyTuple_GetItem(given, 5));
    const unsigned long verb = PyErr_Occurred() ? 0 : PyLong_AsUnsignedLong(PyTuple_GetItem(given, 6));
    if (!PyErr_Occurred() && verb > LAST_VERB) PyErr_SetString(PyExc_ValueError, "a verb is a number from 0 to 3");
    question->verb = (enum Verb)verb;
    question->number = PyErr_Occurred() ? 0 : PyLong_AsUnsignedLongLong(PyTuple_GetItem(given, 7));
    return !PyErr_Occurred();
}

/* One question: (program's table, key, document, sources, expected version or None, conditions that hold as bits, verb,
 * number of a sequence or 0, tables of followers, counters). Returns 1, or 0 with or without an exception set. */
static int take_question(Asked *call, PyObject *programs, PyObject *given, Question *question) {
    if (!take_tuple(given, 10, "a question is a tuple of ten parts, a SaveQuestion")) return 0;
    question->program = find_program(call, programs, PyTuple_GetItem(given, 0));
    if (!question->program) {
        if (!PyErr_Occurred()) call->is_unknown = 1;
        return 0;
    }
    return span_of(PyTuple_GetItem(given, 1), &question->key) &&
           span_of(PyTuple_GetItem(given, 2), &question->document) &&
           take_sources(call, PyTuple_GetItem(given, 3), question) && take_numbers(given, question) &&
           take_counters(call, PyTuple_GetItem(given, 9), question);
}

static int take_questions(Asked *call, PyObject *programs, PyObject *given) {
    PyObject *followers = NULL;
    if (!take_tuple(given, -1, "questions are a tuple")) return 0;
    if (!PyDict_Check(programs)) {
        PyErr_SetString(PyExc_TypeError, "programs are a dictionary by table");
        return 0;
    }
    const size_t count = (size_t)PyTuple_Size(given);
    Question *questions = take_memory(&call->work, (count + 1) * sizeof *questions);
    for (size_t i = 0; i < count; i++) {
        PyObject *question = PyTuple_GetItem(given, (Py_ssize_t)i);
        if (!take_question(call, programs, question, &questions[i])) return 0;
        if (followers == PyTuple_GetItem(question, 8)) continue;
        followers = PyTuple_GetItem(question, 8);
        if (!take_followers(call, programs, followers) || call->is_unknown) return 0;
    }
    call->questions.first = questions;
    call->questions.count = count;
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

/* Takes the arguments that both calls have. Returns 1, or 0 with or without an exception set. */
static int take_asked(Asked *call, const Environment *of, PyObject **given) {
    enum { MOST_HOLDERS = 1000000 };
    if (setjmp(call->work.out)) return PyErr_NoMemory() != NULL;
    call->questions.now = PyLong_AsUnsignedLongLong(given[2]);
    const long most = PyErr_Occurred() ? 0 : PyLong_AsLong(given[4]);
    if (PyErr_Occurred()) return 0;
    call->questions.most_holders = (int)(most < 0 ? 0 : most > MOST_HOLDERS ? MOST_HOLDERS : most);
    call->questions.is_in_turn = PyObject_IsTrue(given[6]);
    if (PyErr_Occurred()) return 0;
    for (int i = 0; i < TABLES; i++)
        if (!take_table(of, given[0], table_names[i], &call->tables[i])) return 0;
    return take_known(call, given[5]) && span_of(given[7], &call->questions.followed) &&
           take_questions(call, given[3], given[1]);
}

/* What a call answers whose arguments were not taken. */
static PyObject *untaken(const Asked *call) {
    return call->is_unknown && !PyErr_Occurred() ? Py_NewRef(Py_NotImplemented) : NULL;
}

PyObject *transaction_decide(PyObject *object, PyObject *const *arguments, Py_ssize_t places, PyObject *names) {
    static const char *const known[] = {"tables", "questions",  "now",        "programs", "most_holders",
                                        "known",  "is_in_turn", "followed"};
    static const Call parameters = {known, 8, 8, 8};
    Transaction *self = (Transaction *)object;
    PyObject *found[8] = {NULL}, *answer = NULL;
    Asked call;
    enum Why why;
    memset(&call, 0, sizeof call);
    if (!take(&parameters, arguments, places, names, found)) return NULL;
    if (!take_asked(&call, self->environment, found)) {
        answer = untaken(&call);
    } else if (transaction_is_usable(self)) { /* last: an argument may end it */
        call.txn = self->txn;
        enter(self);
        Py_BEGIN_ALLOW_THREADS
        why = run(&call, NULL, 0);
        Py_END_ALLOW_THREADS
        leave(self);
        answer = answer_to(&call, why, self->environment);
    }
    end_asked(&call);
    return answer;
}

/* Decides in a read transaction of its own. Returns 1, or 0 with an exception set. */
static int run_alone(Environment *self, Asked *call, ExpectedRows *rows, enum Why *why) {
    if (!environment_is_usable(self) || !begin_reading(self, &call->txn)) return 0; /* last: an argument may close it */
    self->busy++;
    Py_BEGIN_ALLOW_THREADS
    Entry besides[MOST_EXPECTED];
    *why = OTHER_ROWS;
    if (are_as_expected(call->txn, rows, besides)) *why = run(call, besides, (size_t)rows->count);
    Py_END_ALLOW_THREADS
    end_reading(self, call->txn);
    self->busy--;
    return 1;
}

PyObject *environment_decide(PyObject *object, PyObject *const *arguments, Py_ssize_t places, PyObject *names) {
    static const char *const known[] = {"tables", "questions",  "now", "programs", "most_holders",
                                        "known",  "is_in_turn", "followed", "rows"};
    static const Call parameters = {known, 9, 9, 9};
    Environment *self = (Environment *)object;
    PyObject *found[9] = {NULL}, *answer = NULL;
    Asked call;
    ExpectedRows rows;
    enum Why why = OTHER_ROWS;
    memset(&call, 0, sizeof call);
    if (!take(&parameters, arguments, places, names, found)) return NULL;
    if (!take_asked(&call, self, found)) {
        answer = untaken(&call);
    } else {
        const int taken = take_expected(self, found[0], found[8], &rows);
        if (taken < 0 || (taken && run_alone(self, &call, &rows, &why))) answer = answer_to(&call, why, self);
    }
    end_asked(&call);
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
    static const char *const names[TABLES] = {"roots", "views", "counts", "system"};
    for (int i = 0; i < TABLES; i++)
        if (!table_names[i] && !(table_names[i] = PyUnicode_InternFromString(names[i]))) return -1;
    return add_type(module, &program_spec, &program_type);
}
