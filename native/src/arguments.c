/* The arguments of calls. */
#include "binding.h"

#include <limits.h>

static int wrong(const char *text, PyObject *name) {
    PyErr_Format(PyExc_TypeError, text, name);
    return 0;
}

/* The place of a name among those of a call, or -1. */
static Py_ssize_t place_of(const Call *call, PyObject *name) {
    for (Py_ssize_t i = 0; i < call->count; i++)
        if (!PyUnicode_CompareWithASCIIString(name, call->names[i])) return i;
    return -1;
}

int take(const Call *call, PyObject *const *arguments, Py_ssize_t places, PyObject *names, PyObject **found) {
    Py_ssize_t named = names ? PyTuple_Size(names) : 0;
    if (places > call->positional) {
        PyErr_Format(PyExc_TypeError, "at most %zd arguments are given by place", call->positional);
        return 0;
    }
    for (Py_ssize_t i = 0; i < places; i++) found[i] = arguments[i];
    unsigned given = (1u << places) - 1;
    for (Py_ssize_t i = 0; i < named; i++) {
        PyObject *name = PyTuple_GetItem(names, i);
        Py_ssize_t at = place_of(call, name);
        if (at < 0) return wrong("there is no argument %R", name);
        if (given & 1u << at) return wrong("the argument %R is given twice", name);
        given |= 1u << at;
        found[at] = arguments[places + i];
    }
    for (Py_ssize_t i = 0; i < call->required; i++)
        if (!(given & 1u << i)) {
            PyErr_Format(PyExc_TypeError, "the argument '%s' is missing", call->names[i]);
            return 0;
        }
    return 1;
}

int take_tuple(PyObject *given, Py_ssize_t size, const char *what) {
    if (PyTuple_Check(given) && (size < 0 || PyTuple_Size(given) == size)) return 1;
    PyErr_SetString(PyExc_TypeError, what);
    return 0;
}

int descriptor_of(PyObject *object, int *number) {
    long found = PyLong_AsLong(object);
    if (found == -1 && PyErr_Occurred()) return 0;
    if (found < INT_MIN || found > INT_MAX) {
        PyErr_Format(PyExc_OverflowError, "%R is too large for the number of a file", object);
        return 0;
    }
    *number = (int)found;
    return 1;
}

int bytes_of(PyObject *object, MDB_val *value) {
    char *start;
    Py_ssize_t size;
    if (PyBytes_AsStringAndSize(object, &start, &size)) return 0;
    value->mv_data = start;
    value->mv_size = (size_t)size;
    return 1;
}
