/* JSON of documents, for Python. */
#include "binding.h"
#include "core.h"

#include <stdlib.h>

typedef struct {
    PyObject_HEAD
    Work work;       /* has the form's memory */
    PyObject *table; /* held: the form has parts of it */
    const Node *form;
} FormObject;

static int read_table(FormObject *self, Span table) {
    const int why = setjmp(self->work.out);
    if (!why) self->form = read_form(&self->work, table);
    return why;
}

static PyObject *form_new(PyTypeObject *type, PyObject *arguments, PyObject *Py_UNUSED(named)) {
    PyObject *table;
    MDB_val bytes;
    if (!PyArg_ParseTuple(arguments, "O", &table) || !bytes_of(table, &bytes)) return NULL;
    FormObject *self = (FormObject *)PyType_GenericAlloc(type, 0);
    if (!self) return NULL;
    self->table = Py_NewRef(table);
    const int why = read_table(self, (Span){bytes.mv_data, bytes.mv_size});
    if (!why) return (PyObject *)self;
    Py_DECREF((PyObject *)self);
    if (why == NO_MEMORY) return PyErr_NoMemory();
    PyErr_SetString(PyExc_ValueError, reason_of(why));
    return NULL;
}

static void form_dealloc(PyObject *object) {
    PyTypeObject *type = Py_TYPE(object);
    end_work(&((FormObject *)object)->work);
    Py_XDECREF(((FormObject *)object)->table);
    PyObject_Free(object);
    Py_DECREF((PyObject *)type);
}

/* Writes the documents of a list, which nothing changes meanwhile: the call keeps the interpreter's lock, and runs no
 * Python. Returns 0, or why it stopped; BAD_PROGRAM with an exception set for what are no bytes. */
static int write_documents(Work *work, const FormObject *self, PyObject *documents, Json *to) {
    write_raw(work, to, "[", 1);
    const Py_ssize_t count = PyList_Size(documents);
    for (Py_ssize_t i = 0; i < count; i++) {
        MDB_val bytes;
        if (!bytes_of(PyList_GetItem(documents, i), &bytes)) return BAD_PROGRAM;
        if (i) write_raw(work, to, ",", 1);
        write_json(work, self->form, (Span){bytes.mv_data, bytes.mv_size}, to);
    }
    write_raw(work, to, "]", 1);
    return 0;
}

/* As `write_documents`, and the way out of it. */
static int write_or_stop(Work *work, const FormObject *self, PyObject *documents, Json *to) {
    const int why = setjmp(work->out);
    return why ? why : write_documents(work, self, documents, to);
}

static PyObject *form_write_all(PyObject *object, PyObject *documents) {
    Json json = {NULL, 0, 0};
    Work work = {.chunks = NULL};
    PyObject *answer = NULL;
    if (!PyList_Check(documents)) {
        PyErr_SetString(PyExc_TypeError, "documents are a list of bytes");
        return NULL;
    }
    const int why = write_or_stop(&work, (FormObject *)object, documents, &json);
    if (!why)
        answer = PyBytes_FromStringAndSize((const char *)json.first, (Py_ssize_t)json.size);
    else if (why == NO_MEMORY)
        answer = PyErr_NoMemory();
    else if (why != BAD_PROGRAM)
        answer = Py_NewRef(Py_None);
    free(json.first);
    end_work(&work);
    return answer;
}

static PyMethodDef form_methods[] = {
    {"write_all", form_write_all, METH_O, NULL},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot form_slots[] = {
    {Py_tp_new, form_new},
    {Py_tp_dealloc, form_dealloc},
    {Py_tp_methods, form_methods},
    {0, NULL},
};

static PyType_Spec form_spec = {"oneread_native.JsonForm", sizeof(FormObject), 0, Py_TPFLAGS_DEFAULT, form_slots};

int add_json_forms(PyObject *module) {
    return add_type(module, &form_spec, NULL);
}
