/* The errors of LMDB, by the names of py-lmdb. */
#include "binding.h"

#include <errno.h>

static struct {
    int code;
    const char *name;
    PyObject *kind;
} kinds[] = {
    {MDB_KEYEXIST, "KeyExistsError", NULL},
    {MDB_NOTFOUND, "NotFoundError", NULL},
    {MDB_PAGE_NOTFOUND, "PageNotFoundError", NULL},
    {MDB_CORRUPTED, "CorruptedError", NULL},
    {MDB_PANIC, "PanicError", NULL},
    {MDB_VERSION_MISMATCH, "VersionMismatchError", NULL},
    {MDB_INVALID, "InvalidError", NULL},
    {MDB_MAP_FULL, "MapFullError", NULL},
    {MDB_DBS_FULL, "DbsFullError", NULL},
    {MDB_READERS_FULL, "ReadersFullError", NULL},
    {MDB_TLS_FULL, "TlsFullError", NULL},
    {MDB_TXN_FULL, "TxnFullError", NULL},
    {MDB_CURSOR_FULL, "CursorFullError", NULL},
    {MDB_PAGE_FULL, "PageFullError", NULL},
    {MDB_MAP_RESIZED, "MapResizedError", NULL},
    {MDB_INCOMPATIBLE, "IncompatibleError", NULL},
    {MDB_BAD_RSLOT, "BadRslotError", NULL},
    {MDB_BAD_DBI, "BadDbiError", NULL},
    {MDB_BAD_TXN, "BadTxnError", NULL},
    {MDB_BAD_VALSIZE, "BadValsizeError", NULL},
    {EACCES, "ReadonlyError", NULL},
    {EINVAL, "InvalidParameterError", NULL},
    {EAGAIN, "LockError", NULL},
    {ENOMEM, "MemoryError", NULL},
    {ENOSPC, "DiskError", NULL},
};

enum { KINDS = sizeof kinds / sizeof *kinds };

static PyObject *any_error;

/* Makes one kind, as an attribute of the module; its reference is kept for the life of the process. */
static PyObject *add_kind(PyObject *module, const char *name, PyObject *base) {
    char full[64];
    PyOS_snprintf(full, sizeof full, "oneread_native.%s", name);
    PyObject *kind = PyErr_NewException(full, base, NULL);
    if (kind && PyModule_AddObjectRef(module, name, kind)) {
        Py_DECREF(kind);
        return NULL;
    }
    return kind;
}

int add_errors(PyObject *module) {
    if (!(any_error = add_kind(module, "Error", NULL))) return -1;
    for (int i = 0; i < KINDS; i++)
        if (!(kinds[i].kind = add_kind(module, kinds[i].name, any_error))) return -1;
    return 0;
}

static PyObject *kind_of(int code) {
    for (int i = 0; i < KINDS; i++)
        if (kinds[i].code == code) return kinds[i].kind;
    return any_error;
}

void *fail(const char *what, int code) {
    PyObject *kind = kind_of(code);
    PyObject *text = code ? PyUnicode_FromFormat("%s: %s", what, mdb_strerror(code)) : PyUnicode_FromString(what);
    PyObject *error = text ? PyObject_CallFunctionObjArgs(kind, text, NULL) : NULL;
    PyObject *number = error ? PyLong_FromLong(code) : NULL;
    if (number && !PyObject_SetAttrString(error, "code", number)) PyErr_SetObject(kind, error);
    Py_XDECREF(number);
    Py_XDECREF(error);
    Py_XDECREF(text);
    return NULL;
}

void *fail_closed(void) { return fail("it was closed, or its transaction has ended", 0); }
