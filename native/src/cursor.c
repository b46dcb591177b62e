/* A cursor over a database, and the iterator over its entries. */
#include "binding.h"

#include <errno.h>

PyTypeObject *cursor_type, *entries_type;

enum { PAGE = 4096 }; /* the smallest of the systems that LMDB runs on */

/* What `iternext` and `iterprev` return: from the entry of the cursor on, it moves it. */
typedef struct {
    PyObject_HEAD
    Cursor *cursor; /* held */
    MDB_cursor_op step;
    int started;
} Entries;

void touch(const MDB_val *value) {
    const volatile char *start = value->mv_data;
    for (size_t at = 0; at < value->mv_size; at += PAGE) (void)start[at];
}

/* ---- its life ---- */

PyObject *cursor_open(Transaction *transaction, MDB_dbi dbi) {
    Cursor *self = (Cursor *)PyType_GenericAlloc(cursor_type, 0);
    if (!self) return NULL;
    self->transaction = (Transaction *)Py_NewRef((PyObject *)transaction);
    int code = mdb_cursor_open(transaction->txn, dbi, &self->cursor);
    if (code) {
        self->cursor = NULL;
        Py_DECREF((PyObject *)self);
        return fail("mdb_cursor_open", code);
    }
    self->seen = transaction->changes;
    self->next = transaction->cursors;
    if (self->next) self->next->previous = self;
    transaction->cursors = self;
    return (PyObject *)self;
}

void cursor_shut(Cursor *self) {
    if (!self->cursor) return;
    if (environment_is_ours(self->transaction->environment)) mdb_cursor_close(self->cursor);
    self->cursor = NULL;
    if (self->previous)
        self->previous->next = self->next;
    else
        self->transaction->cursors = self->next;
    if (self->next) self->next->previous = self->previous;
    self->next = self->previous = NULL;
}

static void cursor_dealloc(PyObject *object) {
    PyTypeObject *type = Py_TYPE(object);
    Cursor *self = (Cursor *)object;
    cursor_shut(self);
    Py_XDECREF((PyObject *)self->transaction);
    PyObject_Free(object);
    Py_DECREF((PyObject *)type);
}

/* Whether a call may use the cursor. Returns 1, or 0 with an exception set. */
static int usable(Cursor *self) {
    if (!self->cursor) return fail_closed() != NULL;
    if (self->busy) return fail("another thread uses the cursor", EBUSY) != NULL;
    return transaction_is_usable(self->transaction);
}

static PyObject *cursor_enter(PyObject *object, PyObject *Py_UNUSED(none)) {
    return usable((Cursor *)object) ? Py_NewRef(object) : NULL;
}

static PyObject *cursor_exit(PyObject *object, PyObject *Py_UNUSED(raised)) {
    Cursor *self = (Cursor *)object;
    while (self->busy) wait_a_moment();
    cursor_shut(self);
    Py_RETURN_NONE;
}

/* ---- moving ---- */

/* Moves a usable cursor, and reads its entry; it is at none where LMDB found none. Returns 0, or -1 with an exception
 * set. */
static int move(Cursor *self, MDB_cursor_op to) {
    int code;
    self->busy = 1;
    enter(self->transaction);
    Py_BEGIN_ALLOW_THREADS
    code = mdb_cursor_get(self->cursor, &self->key, &self->value, to);
    if (!code) touch(&self->value);
    Py_END_ALLOW_THREADS
    leave(self->transaction);
    self->busy = 0;
    self->positioned = !code;
    self->seen = self->transaction->changes;
    if (!code) return 0;
    self->key.mv_size = self->value.mv_size = 0;
    if (code == MDB_NOTFOUND || (code == EINVAL && to == MDB_GET_CURRENT)) return 0;
    fail("mdb_cursor_get", code);
    return -1;
}

static PyObject *moved(PyObject *object, MDB_cursor_op to) {
    Cursor *self = (Cursor *)object;
    if (!usable(self) || move(self, to)) return NULL;
    return PyBool_FromLong(self->positioned);
}

static PyObject *cursor_first(PyObject *object, PyObject *Py_UNUSED(none)) { return moved(object, MDB_FIRST); }
static PyObject *cursor_last(PyObject *object, PyObject *Py_UNUSED(none)) { return moved(object, MDB_LAST); }
static PyObject *cursor_next(PyObject *object, PyObject *Py_UNUSED(none)) { return moved(object, MDB_NEXT); }
static PyObject *cursor_prev(PyObject *object, PyObject *Py_UNUSED(none)) { return moved(object, MDB_PREV); }

/* Moves to a key, which is the caller's until LMDB has answered with its own. */
static PyObject *moved_to(PyObject *object, PyObject *key, MDB_cursor_op to) {
    Cursor *self = (Cursor *)object;
    MDB_val wanted;
    if (!usable(self) || !bytes_of(key, &wanted)) return NULL;
    self->key = wanted;
    return moved(object, wanted.mv_size || to == MDB_SET_KEY ? to : MDB_FIRST);
}

static PyObject *cursor_set_key(PyObject *object, PyObject *key) { return moved_to(object, key, MDB_SET_KEY); }
static PyObject *cursor_set_range(PyObject *object, PyObject *key) { return moved_to(object, key, MDB_SET_RANGE); }

/* ---- reading ---- */

/* Reads the entry again where the transaction has written since. Returns 1, or 0 with an exception set. */
static int refreshed(Cursor *self) {
    return usable(self) && (self->seen == self->transaction->changes || !move(self, MDB_GET_CURRENT));
}

static PyObject *copied(const MDB_val *value) {
    return PyBytes_FromStringAndSize(value->mv_size ? value->mv_data : "", (Py_ssize_t)value->mv_size);
}

static PyObject *cursor_key(PyObject *object, PyObject *Py_UNUSED(none)) {
    Cursor *self = (Cursor *)object;
    return refreshed(self) ? copied(&self->key) : NULL;
}

static PyObject *cursor_item(PyObject *object, PyObject *Py_UNUSED(none)) {
    Cursor *self = (Cursor *)object;
    if (!refreshed(self)) return NULL;
    PyObject *key = copied(&self->key), *value = copied(&self->value); /* before a tuple, which may collect garbage */
    PyObject *item = key && value ? PyTuple_Pack(2, key, value) : NULL;
    Py_XDECREF(key);
    Py_XDECREF(value);
    return item;
}

static PyObject *entries_of(PyObject *object, MDB_cursor_op first, MDB_cursor_op step) {
    Cursor *self = (Cursor *)object;
    if (!usable(self) || (!self->positioned && move(self, first))) return NULL;
    Entries *entries = (Entries *)PyType_GenericAlloc(entries_type, 0);
    if (!entries) return NULL;
    entries->cursor = (Cursor *)Py_NewRef(object);
    entries->step = step;
    return (PyObject *)entries;
}

static PyObject *cursor_iternext(PyObject *object, PyObject *Py_UNUSED(none)) {
    return entries_of(object, MDB_FIRST, MDB_NEXT);
}

static PyObject *cursor_iterprev(PyObject *object, PyObject *Py_UNUSED(none)) {
    return entries_of(object, MDB_LAST, MDB_PREV);
}

static PyObject *cursor_iter(PyObject *object) { return cursor_iternext(object, NULL); }

static PyObject *entries_next(PyObject *object) {
    Entries *self = (Entries *)object;
    Cursor *cursor = self->cursor;
    if (!usable(cursor)) return NULL;
    if (cursor->positioned && self->started && move(cursor, self->step)) return NULL;
    self->started = 1;
    return cursor->positioned ? cursor_item((PyObject *)cursor, NULL) : NULL;
}

static void entries_dealloc(PyObject *object) {
    PyTypeObject *type = Py_TYPE(object);
    Py_XDECREF((PyObject *)((Entries *)object)->cursor);
    PyObject_Free(object);
    Py_DECREF((PyObject *)type);
}

/* ---- writing ---- */

static PyObject *cursor_delete(PyObject *object, PyObject *Py_UNUSED(none)) {
    Cursor *self = (Cursor *)object;
    int code;
    if (!usable(self)) return NULL;
    if (!self->positioned) Py_RETURN_FALSE;
    self->busy = 1;
    enter(self->transaction);
    Py_BEGIN_ALLOW_THREADS
    code = mdb_cursor_del(self->cursor, 0);
    Py_END_ALLOW_THREADS
    leave(self->transaction);
    self->busy = 0;
    self->transaction->changes++;
    if (code) return fail("mdb_cursor_del", code);
    if (move(self, MDB_GET_CURRENT)) return NULL;
    Py_RETURN_TRUE;
}

/* Puts one entry of `putmulti`. Returns LMDB's number, or -1 with an exception set. */
static int put_item(Cursor *self, PyObject *item, unsigned flags) {
    MDB_val key, value;
    int code;
    if (!PyTuple_Check(item) || PyTuple_Size(item) != 2) {
        PyErr_SetString(PyExc_TypeError, "an item is a tuple of a key and a value");
        return -1;
    }
    if (!usable(self) || !bytes_of(PyTuple_GetItem(item, 0), &key) || !bytes_of(PyTuple_GetItem(item, 1), &value))
        return -1;
    self->busy = 1;
    enter(self->transaction);
    Py_BEGIN_ALLOW_THREADS
    code = mdb_cursor_put(self->cursor, &key, &value, flags);
    Py_END_ALLOW_THREADS
    leave(self->transaction);
    self->busy = 0;
    self->transaction->changes++;
    if (code && code != MDB_KEYEXIST) {
        fail("mdb_cursor_put", code);
        return -1;
    }
    return code;
}

static PyObject *cursor_putmulti(PyObject *object, PyObject *const *arguments, Py_ssize_t places, PyObject *names) {
    static const char *const known[] = {"items", "append"};
    static const Call call = {known, 2, 1, 1};
    Cursor *self = (Cursor *)object;
    PyObject *found[2] = {NULL, Py_False}, *item;
    Py_ssize_t consumed = 0, added = 0;
    if (!take(&call, arguments, places, names, found) || !usable(self)) return NULL;
    int append = PyObject_IsTrue(found[1]);
    PyObject *items = append < 0 ? NULL : PyObject_GetIter(found[0]);
    if (!items) return NULL;
    while ((item = PyIter_Next(items))) {
        int code = put_item(self, item, append ? MDB_APPEND : 0);
        Py_DECREF(item);
        if (code == -1) break;
        consumed++;
        added += !code;
    }
    Py_DECREF(items);
    return PyErr_Occurred() ? NULL : Py_BuildValue("(nn)", consumed, added);
}

/* ---- types ---- */

static PyMethodDef cursor_methods[] = {
    {"delete", cursor_delete, METH_NOARGS, NULL},
    {"first", cursor_first, METH_NOARGS, NULL},
    {"item", cursor_item, METH_NOARGS, NULL},
    {"iternext", cursor_iternext, METH_NOARGS, NULL},
    {"iterprev", cursor_iterprev, METH_NOARGS, NULL},
    {"key", cursor_key, METH_NOARGS, NULL},
    {"last", cursor_last, METH_NOARGS, NULL},
    {"next", cursor_next, METH_NOARGS, NULL},
    {"prev", cursor_prev, METH_NOARGS, NULL},
    {"putmulti", (PyCFunction)(void (*)(void))cursor_putmulti, METH_FASTCALL | METH_KEYWORDS, NULL},
    {"set_key", cursor_set_key, METH_O, NULL},
    {"set_range", cursor_set_range, METH_O, NULL},
    {"__enter__", cursor_enter, METH_NOARGS, NULL},
    {"__exit__", cursor_exit, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot cursor_slots[] = {
    {Py_tp_dealloc, cursor_dealloc},
    {Py_tp_iter, cursor_iter},
    {Py_tp_methods, cursor_methods},
    {0, NULL},
};

static PyType_Slot entries_slots[] = {
    {Py_tp_dealloc, entries_dealloc},
    {Py_tp_iter, PyObject_SelfIter},
    {Py_tp_iternext, entries_next},
    {0, NULL},
};

static PyType_Spec cursor_spec = {"oneread_native.Cursor", sizeof(Cursor), 0,
                                  Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, cursor_slots};
static PyType_Spec entries_spec = {"oneread_native.Entries", sizeof(Entries), 0,
                                   Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, entries_slots};

int add_cursor(PyObject *module) {
    cursor_type = (PyTypeObject *)PyType_FromSpec(&cursor_spec);
    entries_type = (PyTypeObject *)PyType_FromSpec(&entries_spec);
    if (!cursor_type || !entries_type) return -1;
    return PyModule_AddObjectRef(module, "Cursor", (PyObject *)cursor_type);
}
