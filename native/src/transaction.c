/* A transaction of an environment. */
#include "decided.h"

#include <errno.h>

PyTypeObject *transaction_type;

void enter(Transaction *self) {
    self->busy++;
    self->environment->busy++;
}

void leave(Transaction *self) {
    self->busy--;
    self->environment->busy--;
}

int transaction_is_usable(Transaction *self) {
    if (!self->txn) return fail_closed() != NULL;
    if (!environment_is_usable(self->environment)) return 0;
    if (self->write && self->busy) return fail("another thread writes in the transaction", EBUSY) != NULL;
    return 1;
}

/* ---- its life ---- */

int begin_reading(Environment *environment, MDB_txn **txn) {
    *txn = environment->spare;
    if (!*txn) {
        const int code = mdb_txn_begin(environment->env, NULL, MDB_RDONLY, txn);
        return code ? fail("mdb_txn_begin", code) != NULL : 1;
    }
    environment->spare = NULL;
    const int code = mdb_txn_renew(*txn);
    if (!code) return 1;
    mdb_txn_abort(*txn);
    return fail("mdb_txn_renew", code) != NULL;
}

void end_reading(Environment *environment, MDB_txn *txn) {
    if (environment->spares && !environment->spare && !environment->closing) {
        mdb_txn_reset(txn);
        environment->spare = txn;
    } else {
        mdb_txn_abort(txn);
    }
}

/* Begins LMDB's transaction. Returns 1, or 0 with an exception set. */
static int begin(Transaction *self) {
    Environment *environment = self->environment;
    MDB_txn *txn;
    int code;
    if (!self->write) {
        if (!begin_reading(environment, &txn)) return 0;
        self->txn = txn;
        return 1;
    }
    environment->busy++;
    Py_BEGIN_ALLOW_THREADS
    code = mdb_txn_begin(environment->env, NULL, 0, &txn);
    Py_END_ALLOW_THREADS
    environment->busy--;
    if (code) return fail("mdb_txn_begin", code) != NULL;
    if (environment->closing) { /* while it waited for its turn */
        mdb_txn_abort(txn);
        return fail_closed() != NULL;
    }
    self->txn = txn;
    return 1;
}

PyObject *transaction_begin(Environment *environment, MDB_dbi dbi, int write) {
    Transaction *self = (Transaction *)PyType_GenericAlloc(transaction_type, 0);
    if (!self) return NULL;
    self->environment = (Environment *)Py_NewRef((PyObject *)environment);
    self->dbi = dbi;
    self->write = write;
    self->thread = PyThread_get_thread_ident();
    if (!begin(self)) {
        Py_DECREF((PyObject *)self);
        return NULL;
    }
    self->next = environment->open;
    if (self->next) self->next->previous = self;
    environment->open = self;
    return (PyObject *)self;
}

static void unlink_from_environment(Transaction *self) {
    if (self->previous)
        self->previous->next = self->next;
    else
        self->environment->open = self->next;
    if (self->next) self->next->previous = self->previous;
    self->next = self->previous = NULL;
}

int transaction_end(Transaction *self, int commit) {
    Environment *environment = self->environment;
    int code = 0;
    if (!self->txn) return 0;
    if (environment_is_ours(environment))
        while (self->busy) wait_a_moment();
    MDB_txn *txn = self->txn;
    if (!txn) return 0; /* another thread has ended it meanwhile */
    self->txn = NULL;
    unlink_from_environment(self);
    while (self->cursors) cursor_shut(self->cursors);
    if (!environment_is_ours(environment)) return 0;
    if (self->write) {
        environment->busy++;
        Py_BEGIN_ALLOW_THREADS
        if (commit)
            code = page_writes_commit(&environment->pages, txn);
        else
            mdb_txn_abort(txn);
        Py_END_ALLOW_THREADS
        environment->busy--;
    } else {
        end_reading(environment, txn);
    }
    return code;
}

static void transaction_dealloc(PyObject *object) {
    PyTypeObject *type = Py_TYPE(object);
    Transaction *self = (Transaction *)object;
    transaction_end(self, 0);
    Py_XDECREF((PyObject *)self->environment);
    PyObject_Free(object);
    Py_DECREF((PyObject *)type);
}

static PyObject *transaction_abort(PyObject *object, PyObject *Py_UNUSED(none)) {
    transaction_end((Transaction *)object, 0);
    Py_RETURN_NONE;
}

static PyObject *transaction_commit(PyObject *object, PyObject *Py_UNUSED(none)) {
    Transaction *self = (Transaction *)object;
    if (!transaction_is_usable(self)) return NULL;
    int code = transaction_end(self, 1);
    if (code) return fail("mdb_txn_commit", code);
    Py_RETURN_NONE;
}

static PyObject *transaction_enter(PyObject *object, PyObject *Py_UNUSED(none)) {
    return transaction_is_usable((Transaction *)object) ? Py_NewRef(object) : NULL;
}

static PyObject *transaction_exit(PyObject *object, PyObject *raised) {
    PyObject *kind, *error, *traceback;
    if (!PyArg_ParseTuple(raised, "OOO:__exit__", &kind, &error, &traceback)) return NULL;
    if (!((Transaction *)object)->txn) Py_RETURN_NONE;
    return kind == Py_None ? transaction_commit(object, NULL) : transaction_abort(object, NULL);
}

/* ---- calls ---- */

static PyObject *transaction_get(PyObject *object, PyObject *const *arguments, Py_ssize_t places, PyObject *names) {
    static const char *const known[] = {"key", "default", "db"};
    static const Call call = {known, 3, 3, 1};
    Transaction *self = (Transaction *)object;
    PyObject *found[3] = {NULL, Py_None, NULL}, *answer;
    MDB_val key, value;
    MDB_dbi dbi;
    int code;
    if (!take(&call, arguments, places, names, found) || !transaction_is_usable(self) || !bytes_of(found[0], &key) ||
        !handle_of(self->environment, found[2], self->dbi, &dbi))
        return NULL;
    enter(self);
    Py_BEGIN_ALLOW_THREADS
    code = mdb_get(self->txn, dbi, &key, &value);
    if (!code) touch(&value);
    Py_END_ALLOW_THREADS
    if (!code)
        answer = PyBytes_FromStringAndSize(value.mv_data, (Py_ssize_t)value.mv_size);
    else
        answer = code == MDB_NOTFOUND ? Py_NewRef(found[1]) : fail("mdb_get", code);
    leave(self);
    return answer;
}

/* What `put` and `delete` answer: whether LMDB did it; `quiet` is the number that says that it did not have to. */
static PyObject *changed(Transaction *self, int code, int quiet, const char *what) {
    leave(self);
    self->changes++;
    if (code && code != quiet) return fail(what, code);
    return PyBool_FromLong(!code);
}

static PyObject *transaction_put(PyObject *object, PyObject *const *arguments, Py_ssize_t places, PyObject *names) {
    static const char *const known[] = {"key", "value", "db"};
    static const Call call = {known, 3, 2, 2};
    Transaction *self = (Transaction *)object;
    PyObject *found[3] = {NULL, NULL, NULL};
    MDB_val key, value;
    MDB_dbi dbi;
    int code;
    if (!take(&call, arguments, places, names, found) || !transaction_is_usable(self) || !bytes_of(found[0], &key) ||
        !bytes_of(found[1], &value) || !handle_of(self->environment, found[2], self->dbi, &dbi))
        return NULL;
    enter(self);
    Py_BEGIN_ALLOW_THREADS
    code = mdb_put(self->txn, dbi, &key, &value, 0);
    Py_END_ALLOW_THREADS
    return changed(self, code, MDB_KEYEXIST, "mdb_put");
}

static PyObject *transaction_delete(PyObject *object, PyObject *const *arguments, Py_ssize_t places,
                                    PyObject *names) {
    static const char *const known[] = {"key", "db"};
    static const Call call = {known, 2, 1, 1};
    Transaction *self = (Transaction *)object;
    PyObject *found[2] = {NULL, NULL};
    MDB_val key;
    MDB_dbi dbi;
    int code;
    if (!take(&call, arguments, places, names, found) || !transaction_is_usable(self) || !bytes_of(found[0], &key) ||
        !handle_of(self->environment, found[1], self->dbi, &dbi))
        return NULL;
    enter(self);
    Py_BEGIN_ALLOW_THREADS
    code = mdb_del(self->txn, dbi, &key, NULL);
    Py_END_ALLOW_THREADS
    return changed(self, code, MDB_NOTFOUND, "mdb_del");
}

/* The database of a call that takes nothing else. Returns 1, or 0 with an exception set. */
static int only_database(Transaction *self, PyObject *const *arguments, Py_ssize_t places, PyObject *names,
                         MDB_dbi *dbi) {
    static const char *const known[] = {"db"};
    static const Call call = {known, 1, 1, 0};
    PyObject *found[1] = {NULL};
    return take(&call, arguments, places, names, found) && transaction_is_usable(self) &&
           handle_of(self->environment, found[0], self->dbi, dbi);
}

static PyObject *transaction_cursor(PyObject *object, PyObject *const *arguments, Py_ssize_t places,
                                    PyObject *names) {
    MDB_dbi dbi;
    if (!only_database((Transaction *)object, arguments, places, names, &dbi)) return NULL;
    return cursor_open((Transaction *)object, dbi);
}

static PyObject *transaction_stat(PyObject *object, PyObject *const *arguments, Py_ssize_t places, PyObject *names) {
    Transaction *self = (Transaction *)object;
    MDB_stat found;
    MDB_dbi dbi;
    int code;
    if (!only_database(self, arguments, places, names, &dbi)) return NULL;
    enter(self);
    Py_BEGIN_ALLOW_THREADS
    code = mdb_stat(self->txn, dbi, &found);
    Py_END_ALLOW_THREADS
    leave(self);
    return code ? fail("mdb_stat", code) : tree_facts(&found);
}

static PyObject *transaction_id(PyObject *object, PyObject *Py_UNUSED(none)) {
    Transaction *self = (Transaction *)object;
    return transaction_is_usable(self) ? PyLong_FromSize_t(mdb_txn_id(self->txn)) : NULL;
}

/* ---- type ---- */

#define FAST(function) (PyCFunction)(void (*)(void))(function), METH_FASTCALL | METH_KEYWORDS, NULL

static PyMethodDef transaction_methods[] = {
    {"abort", transaction_abort, METH_NOARGS, NULL},
    {"commit", transaction_commit, METH_NOARGS, NULL},
    {"cursor", FAST(transaction_cursor)},
    {"compare_roots", FAST(transaction_compare_roots)},
    {"compare_rows", FAST(transaction_compare_rows)},
    {"decide", FAST(transaction_decide)},
    {"delete", FAST(transaction_delete)},
    {"get", FAST(transaction_get)},
    {"id", transaction_id, METH_NOARGS, NULL},
    {"put", FAST(transaction_put)},
    {"stat", FAST(transaction_stat)},
    {"__enter__", transaction_enter, METH_NOARGS, NULL},
    {"__exit__", transaction_exit, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot transaction_slots[] = {
    {Py_tp_dealloc, transaction_dealloc},
    {Py_tp_methods, transaction_methods},
    {0, NULL},
};

static PyType_Spec transaction_spec = {"oneread_native.Transaction", sizeof(Transaction), 0,
                                       Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, transaction_slots};

int add_transaction(PyObject *module) {
    transaction_type = (PyTypeObject *)PyType_FromSpec(&transaction_spec);
    if (!transaction_type) return -1;
    return PyModule_AddObjectRef(module, "Transaction", (PyObject *)transaction_type);
}
