/* What the core has decided, kept as it is until it is committed. */
#include "decided.h"

#include <stdlib.h>
#include <string.h>

static PyTypeObject *decided_type;

/* ---- without the interpreter's lock ---- */

static size_t size_of(const Rows *rows) {
    size_t size = 0;
    for (size_t i = 0; i < rows->count; i++) size += rows->first[i].key.size + rows->first[i].value.size;
    return size;
}

/* A copy of bytes at `at`, which moves behind them; no data stays no data. */
static MDB_val put_bytes(uint8_t **at, const void *data, size_t size) {
    const MDB_val copy = {size, data ? *at : NULL};
    if (size) memcpy(*at, data, size);
    *at += size;
    return copy;
}

static void put_entries(Entry *to, const Rows *rows, const MDB_dbi *tables, uint8_t **at) {
    for (size_t i = 0; i < rows->count; i++) {
        const Row *row = &rows->first[i];
        to[i].dbi = tables[row->table];
        to[i].key = put_bytes(at, row->key.data, row->key.size);
        to[i].value = put_bytes(at, row->value.data, row->value.size);
    }
}

Kept keep_rows(const Unit *unit, const MDB_dbi *tables, const Entry *besides, size_t count) {
    Kept kept = {NULL, count + unit->reads.count, unit->writes.count};
    size_t size = (kept.reads + kept.writes + 1) * sizeof *kept.first + size_of(&unit->reads) + size_of(&unit->writes);
    for (size_t i = 0; i < count; i++) size += besides[i].key.mv_size + besides[i].value.mv_size;
    kept.first = malloc(size);
    if (!kept.first) return kept;
    uint8_t *at = (uint8_t *)(kept.first + kept.reads + kept.writes);
    for (size_t i = 0; i < count; i++) {
        const Entry *from = &besides[i];
        kept.first[i] = (Entry){from->dbi, put_bytes(&at, from->key.mv_data, from->key.mv_size), {0, NULL}};
        kept.first[i].value = put_bytes(&at, from->value.mv_data, from->value.mv_size);
    }
    put_entries(kept.first + count, &unit->reads, tables, &at);
    put_entries(kept.first + kept.reads, &unit->writes, tables, &at);
    return kept;
}

/* ---- the object ---- */

PyObject *decided_of(Environment *environment, const MDB_dbi *tables, size_t snapshot, Kept rows) {
    Decided *self = rows.first ? (Decided *)PyType_GenericAlloc(decided_type, 0) : NULL;
    if (!self) {
        free(rows.first);
        return PyErr_Occurred() ? NULL : PyErr_NoMemory();
    }
    self->environment = (Environment *)Py_NewRef((PyObject *)environment);
    memcpy(self->tables, tables, sizeof self->tables);
    self->snapshot = snapshot;
    self->rows = rows;
    return (PyObject *)self;
}

static void decided_dealloc(PyObject *object) {
    PyTypeObject *type = Py_TYPE(object);
    free(((Decided *)object)->rows.first);
    Py_XDECREF((PyObject *)((Decided *)object)->environment);
    PyObject_Free(object);
    Py_DECREF((PyObject *)type);
}

int is_decided(PyObject *object, const Environment *of) {
    return Py_TYPE(object) == decided_type && ((Decided *)object)->environment == of;
}

static PyObject *bytes_or_none(const MDB_val *value) {
    return value->mv_data ? PyBytes_FromStringAndSize(value->mv_data, (Py_ssize_t)value->mv_size) : Py_NewRef(Py_None);
}

/* A list of (key, value or None): the rows of one table. */
static PyObject *rows_of_table(const Entry *rows, size_t count, MDB_dbi table) {
    PyObject *all = PyList_New(0);
    for (size_t i = 0; all && i < count; i++) {
        if (rows[i].dbi != table) continue;
        PyObject *key = bytes_or_none(&rows[i].key), *value = bytes_or_none(&rows[i].value);
        PyObject *row = key && value ? PyTuple_Pack(2, key, value) : NULL;
        const int bad = !row || PyList_Append(all, row);
        Py_XDECREF(key);
        Py_XDECREF(value);
        Py_XDECREF(row);
        if (bad) Py_CLEAR(all);
    }
    return all;
}

/* A tuple of tuples, one for each table. */
static PyObject *rows_of(const Decided *self, const Entry *rows, size_t count) {
    PyObject *all = PyTuple_New(TABLES);
    for (int table = 0; all && table < TABLES; table++) {
        PyObject *found = rows_of_table(rows, count, self->tables[table]);
        PyObject *several = found ? PyList_AsTuple(found) : NULL;
        Py_XDECREF(found);
        if (!several || PyTuple_SetItem(all, table, several)) Py_CLEAR(all);
    }
    return all;
}

static PyObject *decided_reads(PyObject *object, PyObject *Py_UNUSED(none)) {
    const Decided *self = (const Decided *)object;
    return rows_of(self, self->rows.first, self->rows.reads);
}

static PyObject *decided_writes(PyObject *object, PyObject *Py_UNUSED(none)) {
    const Decided *self = (const Decided *)object;
    return rows_of(self, self->rows.first + self->rows.reads, self->rows.writes);
}

static PyMethodDef decided_methods[] = {
    {"reads", decided_reads, METH_NOARGS, NULL},
    {"writes", decided_writes, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot decided_slots[] = {
    {Py_tp_dealloc, decided_dealloc},
    {Py_tp_methods, decided_methods},
    {0, NULL},
};

static PyType_Spec decided_spec = {"oneread_native.Decided", sizeof(Decided), 0,
                                   Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, decided_slots};

int add_decided(PyObject *module) {
    return add_type(module, &decided_spec, &decided_type);
}
