/* The module. */
#include "decided.h"

#include <string.h>

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "oneread_native", "LMDB, as the engine of oneread asks it.", -1, NULL, NULL, NULL, NULL,
    NULL,
};

int add_type(PyObject *module, PyType_Spec *spec, PyTypeObject **kept) {
    PyObject *type = PyType_FromSpec(spec);
    if (!type) return -1;
    const int failed = PyModule_AddObjectRef(module, strrchr(spec->name, '.') + 1, type);
    if (kept)
        *kept = (PyTypeObject *)type;
    else
        Py_DECREF(type);
    return failed;
}

static int fill(PyObject *module) {
    char text[32];
    PyOS_snprintf(text, sizeof text, "%d.%d.%d", MDB_VERSION_MAJOR, MDB_VERSION_MINOR, MDB_VERSION_PATCH);
    return add_errors(module) || add_environment(module) || add_transaction(module) || add_cursor(module) ||
           add_programs(module) || add_decided(module) || add_json_forms(module) || add_comparisons(module) ||
           PyModule_AddStringConstant(module, "__version__", ONEREAD_NATIVE_VERSION) ||
           PyModule_AddStringConstant(module, "lmdb_version", text);
}

PyMODINIT_FUNC PyInit_oneread_native(void) {
    PyObject *module = PyModule_Create(&definition);
    if (module && fill(module)) {
        Py_DECREF(module);
        return NULL;
    }
    return module;
}
