/* An open LMDB environment, and the handles of its databases. */
#include "decided.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

PyTypeObject *environment_type, *database_type;

enum { MOST = 1 << 16 }; /* databases, and readers */

/* The file of an environment that a fork copied, mapped for as long as the process lives. */
typedef struct Inherited {
    struct Inherited *next;
    FileKey data;
} Inherited;

static Environment *opened;
static Inherited *inherited;
static pid_t process;

/* What an environment is opened with, by the names of py-lmdb. */
typedef struct {
    PyObject *path; /* bytes, held */
    Py_ssize_t map_size;
    int subdir, readonly, metasync, sync, mode, max_readers, max_dbs, max_spare_txns, lock;
} Options;

/* The parent's environments are not this process's to close; their files stay mapped. */
static void after_fork_in_child(void) {
    for (; opened; opened = opened->next) {
        Inherited *kept = malloc(sizeof *kept);
        if (!kept) continue;
        *kept = (Inherited){inherited, opened->data};
        inherited = kept;
    }
    process = getpid();
}

void wait_a_moment(void) {
    const struct timespec moment = {0, 100000};
    Py_BEGIN_ALLOW_THREADS
    nanosleep(&moment, NULL);
    Py_END_ALLOW_THREADS
}

int environment_is_ours(const Environment *self) { return self->pid == process; }

int environment_is_usable(Environment *self) {
    if (!self->env || self->closing) return fail_closed() != NULL;
    if (!environment_is_ours(self)) return fail("it belongs to the process that a fork copied", EINVAL) != NULL;
    return 1;
}

int handle_of(const Environment *self, PyObject *database, MDB_dbi otherwise, MDB_dbi *handle) {
    *handle = otherwise;
    if (!database || database == Py_None) return 1;
    if (Py_TYPE(database) != database_type) {
        PyErr_SetString(PyExc_TypeError, "a database is what open_db returned");
        return 0;
    }
    if (((Database *)database)->environment != self) {
        fail("the database belongs to another environment", EINVAL);
        return 0;
    }
    *handle = ((Database *)database)->dbi;
    return 1;
}

/* ---- opening ---- */

static int parse(PyObject *arguments, PyObject *names, Options *options) {
    static char *known[] = {"path", "map_size", "subdir", "readonly", "metasync", "sync", "mode", "max_readers",
                            "max_dbs", "max_spare_txns", "lock", NULL};
    *options = (Options){NULL, 10485760, 1, 0, 1, 1, 0755, 126, 0, 0, 1};
    return PyArg_ParseTupleAndKeywords(arguments, names, "O&|$nppppiiiip:open", known, PyUnicode_FSConverter,
                                       &options->path, &options->map_size, &options->subdir, &options->readonly,
                                       &options->metasync, &options->sync, &options->mode, &options->max_readers,
                                       &options->max_dbs, &options->max_spare_txns, &options->lock);
}

/* Whether LMDB may be asked for so much: it takes negative numbers for large ones, and memory for each database. Returns
 * 0, or -1 with an exception set. */
static int check_sizes(const Options *options) {
    const char *wrong = NULL;
    if (options->map_size < 0) wrong = "map_size";
    if (options->max_readers < 1 || options->max_readers > MOST) wrong = "max_readers";
    if (options->max_dbs < 0 || options->max_dbs > MOST) wrong = "max_dbs";
    if (wrong) fail(wrong, EINVAL);
    return wrong ? -1 : 0;
}

/* The keys of both files; those of files that do not exist are zeros. Returns 0, or -1 with an exception set. */
static int find_files(Environment *self, const char *path, int subdir) {
    char name[4096];
    int size = snprintf(name, sizeof name, subdir ? "%s/data.mdb" : "%s", path);
    if (size >= 0 && (size_t)size < sizeof name) {
        self->data = file_key(name);
        size = snprintf(name, sizeof name, subdir ? "%s/lock.mdb" : "%s-lock", path);
    }
    if (size < 0 || (size_t)size >= sizeof name) {
        fail(path, ENAMETOOLONG);
        return -1;
    }
    self->lock = file_key(name);
    return 0;
}

/* Returns 0, or -1 with an exception set where this process has the files open, by this binding or without it. */
static int refuse_second(const Environment *self, const char *path) {
    int found = mappings_of(self->data); /* also those of another LMDB library */
    for (const Inherited *each = inherited; each; each = each->next) found -= is_same_file(each->data, self->data);
    for (const Environment *each = opened; each; each = each->next)
        if (is_same_file(each->data, self->data) || is_same_file(each->lock, self->lock)) found = 1;
    if (found <= 0) return 0;
    PyObject *text = PyUnicode_FromFormat("The environment '%s' is already open in this process.", path);
    PyObject *bytes = text ? PyUnicode_AsUTF8String(text) : NULL;
    const char *what = bytes ? PyBytes_AsString(bytes) : NULL;
    if (what) fail(what, 0);
    Py_XDECREF(bytes);
    Py_XDECREF(text);
    return -1;
}

static unsigned flags_of(const Options *options) {
    return MDB_NOTLS | (options->subdir ? 0 : MDB_NOSUBDIR) | (options->readonly ? MDB_RDONLY : 0) |
           (options->metasync ? 0 : MDB_NOMETASYNC) | (options->sync ? 0 : MDB_NOSYNC) |
           (options->lock ? 0 : MDB_NOLOCK);
}

/* Opens a database by its name, NULL for the main one, in a transaction of its own. Returns LMDB's number, and the call
 * that failed. */
static int open_alone(Environment *self, const char *name, unsigned flags, MDB_dbi *dbi, const char **what) {
    MDB_txn *txn;
    unsigned begin = !name || self->readonly ? MDB_RDONLY : 0;
    *what = "mdb_txn_begin";
    int code = mdb_txn_begin(self->env, NULL, begin, &txn);
    if (code) return code;
    *what = "mdb_dbi_open";
    code = mdb_dbi_open(txn, name, flags, dbi);
    if (code) {
        mdb_txn_abort(txn);
        return code;
    }
    *what = "mdb_txn_commit";
    return mdb_txn_commit(txn);
}

/* Opens the files. Returns 0, or -1 with an exception set. */
static int open_files(Environment *self, const Options *options) {
    const char *path = PyBytes_AsString(options->path), *what = path;
    int code;
    if ((code = mdb_env_create(&self->env)) || (code = mdb_env_set_mapsize(self->env, (size_t)options->map_size)) ||
        (code = mdb_env_set_maxreaders(self->env, (unsigned)options->max_readers)) ||
        (code = mdb_env_set_maxdbs(self->env, (MDB_dbi)options->max_dbs))) {
        fail("mdb_env_create", code);
        return -1;
    }
    self->readonly = options->readonly;
    self->spares = options->max_spare_txns > 0;
    Py_BEGIN_ALLOW_THREADS
    code = mdb_env_open(self->env, path, flags_of(options), (mdb_mode_t)(options->mode & ~0111));
    if (!code) code = open_alone(self, NULL, 0, &self->main, &what);
    Py_END_ALLOW_THREADS
    if (!code) {
        if (!options->sync && !options->readonly) page_writes_open(&self->pages, self->env);
        return 0;
    }
    fail(what, code);
    return -1;
}

static PyObject *environment_new(PyTypeObject *type, PyObject *arguments, PyObject *names) {
    Options options;
    if (!parse(arguments, names, &options)) return NULL;
    const char *path = PyBytes_AsString(options.path);
    Environment *self = (Environment *)PyType_GenericAlloc(type, 0);
    if (!self) goto done;
    self->pid = process;
    if (check_sizes(&options) || find_files(self, path, options.subdir) || refuse_second(self, path) ||
        open_files(self, &options) || find_files(self, path, options.subdir)) {
        mdb_env_close(self->env);
        self->env = NULL;
        Py_DECREF((PyObject *)self);
        self = NULL;
        goto done;
    }
    self->next = opened;
    opened = self;
done:
    Py_DECREF(options.path);
    return (PyObject *)self;
}

/* ---- closing ---- */

/* The open write transaction of this thread, or of another one; NULL where there is none. */
static Transaction *writer(const Environment *self, int mine) {
    const unsigned long thread = PyThread_get_thread_ident();
    for (Transaction *each = self->open; each; each = each->next)
        if (each->write && mine == (each->thread == thread)) return each;
    return NULL;
}

static void end_held(Transaction *transaction) {
    Py_INCREF((PyObject *)transaction);
    transaction_end(transaction, 0);
    Py_DECREF((PyObject *)transaction);
}

static void forget(Environment *self) {
    for (Environment **at = &opened; *at; at = &(*at)->next)
        if (*at == self) {
            *at = self->next;
            break;
        }
}

/* Ends all transactions and closes the files, once. One that a thread writes in is ended by that thread: it is waited
 * for, because the lock is the thread's. What a fork copied is only forgotten. */
static void environment_shut(Environment *self) {
    if (!self->env || self->closing) return;
    self->closing = 1;
    if (environment_is_ours(self)) {
        Transaction *mine = writer(self, 1);
        if (mine) end_held(mine);
        while (self->busy || writer(self, 0)) wait_a_moment();
        while (self->open) end_held(self->open);
        if (self->spare) mdb_txn_abort(self->spare);
        Py_BEGIN_ALLOW_THREADS
        page_writes_close(&self->pages);
        mdb_env_close(self->env);
        Py_END_ALLOW_THREADS
    }
    self->spare = NULL;
    self->env = NULL;
    forget(self); /* only now: until its locks are given up, nothing may open the files */
}

static void environment_dealloc(PyObject *object) {
    PyTypeObject *type = Py_TYPE(object);
    environment_shut((Environment *)object);
    PyObject_Free(object);
    Py_DECREF((PyObject *)type);
}

static PyObject *environment_close(PyObject *object, PyObject *Py_UNUSED(none)) {
    environment_shut((Environment *)object);
    Py_RETURN_NONE;
}

static PyObject *environment_exit(PyObject *object, PyObject *Py_UNUSED(raised)) {
    return environment_close(object, NULL);
}

static PyObject *environment_enter(PyObject *object, PyObject *Py_UNUSED(none)) { return Py_NewRef(object); }

/* ---- calls ---- */

/* Whether this thread may begin a write transaction: with one open it would wait for itself. Returns 1, or 0 with an
 * exception set. */
static int may_write(const Environment *self) {
    if (!writer(self, 1)) return 1;
    return fail("this thread has a write transaction open already", EBUSY) != NULL;
}

int environment_may_write(const Environment *self) {
    return self->env && !self->closing && environment_is_ours(self) && !self->readonly && !writer(self, 1);
}

static PyObject *environment_begin(PyObject *object, PyObject *const *arguments, Py_ssize_t places, PyObject *names) {
    static const char *const known[] = {"db", "write"};
    static const Call call = {known, 2, 1, 0};
    Environment *self = (Environment *)object;
    PyObject *found[2] = {NULL, Py_False};
    MDB_dbi dbi;
    if (!take(&call, arguments, places, names, found)) return NULL;
    int write = PyObject_IsTrue(found[1]); /* first: it may close the environment */
    if (write < 0 || !environment_is_usable(self) || !handle_of(self, found[0], self->main, &dbi)) return NULL;
    if (write && self->readonly) return fail("the environment is open for reading", EACCES);
    if (write && !may_write(self)) return NULL;
    return transaction_begin(self, dbi, write);
}

/* Opens a database in the transaction of the caller, or in one of its own. Returns 0, or -1 with an exception set. */
static int open_handle(Environment *self, PyObject *in, const char *name, unsigned flags, MDB_dbi *dbi) {
    const char *what = "mdb_dbi_open";
    int code;
    if (in == Py_None) {
        if (!self->readonly && !may_write(self)) return -1;
        self->busy++;
        Py_BEGIN_ALLOW_THREADS
        code = open_alone(self, name, flags, dbi, &what);
        Py_END_ALLOW_THREADS
        self->busy--;
    } else {
        Transaction *transaction = (Transaction *)in;
        if (Py_TYPE(in) != transaction_type || transaction->environment != self) {
            PyErr_SetString(PyExc_TypeError, "txn is a transaction of this environment");
            return -1;
        }
        if (!transaction_is_usable(transaction)) return -1;
        enter(transaction);
        Py_BEGIN_ALLOW_THREADS
        code = mdb_dbi_open(transaction->txn, name, flags, dbi);
        Py_END_ALLOW_THREADS
        leave(transaction);
    }
    if (code) fail(what, code);
    return code ? -1 : 0;
}

/* LMDB takes a name up to its first zero. Returns 1, or 0 with an exception set. */
static int is_name(const MDB_val *name) {
    return !memchr(name->mv_data, 0, name->mv_size) || fail("the name of a database has no zero bytes", EINVAL) != NULL;
}

static PyObject *environment_open_db(PyObject *object, PyObject *const *arguments, Py_ssize_t places,
                                     PyObject *names) {
    static const char *const known[] = {"key", "txn", "create"};
    static const Call call = {known, 3, 2, 1};
    Environment *self = (Environment *)object;
    PyObject *found[3] = {NULL, Py_None, Py_True};
    MDB_val name;
    MDB_dbi dbi;
    if (!take(&call, arguments, places, names, found)) return NULL;
    int create = PyObject_IsTrue(found[2]); /* first, as in `begin` */
    if (create < 0 || !environment_is_usable(self) || !bytes_of(found[0], &name) || !is_name(&name) ||
        open_handle(self, found[1], name.mv_data, create ? MDB_CREATE : 0, &dbi))
        return NULL;
    Database *made = (Database *)PyType_GenericAlloc(database_type, 0);
    if (!made) return NULL;
    made->environment = (Environment *)Py_NewRef(object);
    made->dbi = dbi;
    return (PyObject *)made;
}

static PyObject *environment_copyfd(PyObject *object, PyObject *const *arguments, Py_ssize_t places,
                                    PyObject *names) {
    static const char *const known[] = {"fd", "compact"};
    static const Call call = {known, 2, 1, 1};
    Environment *self = (Environment *)object;
    PyObject *found[2] = {NULL, Py_False};
    int file, compact, code;
    if (!take(&call, arguments, places, names, found) || !descriptor_of(found[0], &file) ||
        (compact = PyObject_IsTrue(found[1])) < 0 || !environment_is_usable(self) ||
        (!compact && !may_write(self))) /* it keeps writers away for a moment */
        return NULL;
    self->busy++;
    Py_BEGIN_ALLOW_THREADS
    code = mdb_env_copyfd2(self->env, file, compact ? MDB_CP_COMPACT : 0);
    Py_END_ALLOW_THREADS
    self->busy--;
    if (code) return fail("mdb_env_copyfd2", code);
    Py_RETURN_NONE;
}

static PyObject *environment_pages_copied(PyObject *object, PyObject *Py_UNUSED(none)) {
    return PyLong_FromSize_t(((Environment *)object)->pages.copied);
}

static PyObject *environment_info(PyObject *object, PyObject *Py_UNUSED(none)) {
    Environment *self = (Environment *)object;
    MDB_envinfo info;
    if (!environment_is_usable(self)) return NULL;
    int code = mdb_env_info(self->env, &info);
    if (code) return fail("mdb_env_info", code);
    return Py_BuildValue("{snsnsnsIsI}", "map_size", (Py_ssize_t)info.me_mapsize, "last_pgno",
                         (Py_ssize_t)info.me_last_pgno, "last_txnid", (Py_ssize_t)info.me_last_txnid, "max_readers",
                         info.me_maxreaders, "num_readers", info.me_numreaders);
}

PyObject *tree_facts(const MDB_stat *found) {
    return Py_BuildValue("{sIsIsnsnsnsn}", "psize", found->ms_psize, "depth", found->ms_depth, "branch_pages",
                         (Py_ssize_t)found->ms_branch_pages, "leaf_pages", (Py_ssize_t)found->ms_leaf_pages,
                         "overflow_pages", (Py_ssize_t)found->ms_overflow_pages, "entries",
                         (Py_ssize_t)found->ms_entries);
}

static PyObject *environment_stat(PyObject *object, PyObject *Py_UNUSED(none)) {
    Environment *self = (Environment *)object;
    MDB_stat found;
    if (!environment_is_usable(self)) return NULL;
    int code = mdb_env_stat(self->env, &found);
    return code ? fail("mdb_env_stat", code) : tree_facts(&found);
}

/* Adds a text of LMDB's to the list. */
static int add_text(const char *text, void *list) {
    PyObject *line = PyUnicode_FromString(text);
    int failed = !line || PyList_Append(list, line);
    Py_XDECREF(line);
    return failed ? -1 : 0;
}

static PyObject *environment_readers(PyObject *object, PyObject *Py_UNUSED(none)) {
    Environment *self = (Environment *)object;
    if (!environment_is_usable(self)) return NULL;
    PyObject *lines = PyList_New(0), *nothing = PyUnicode_FromString(""), *text = NULL;
    if (lines && nothing) {
        int code = mdb_reader_list(self->env, add_text, lines);
        if (code < 0 && !PyErr_Occurred()) fail("mdb_reader_list", code);
        if (!PyErr_Occurred()) text = PyUnicode_Join(nothing, lines);
    }
    Py_XDECREF(nothing);
    Py_XDECREF(lines);
    return text;
}

static PyObject *environment_reader_check(PyObject *object, PyObject *Py_UNUSED(none)) {
    Environment *self = (Environment *)object;
    int dead = 0;
    if (!environment_is_usable(self)) return NULL;
    int code = mdb_reader_check(self->env, &dead);
    return code ? fail("mdb_reader_check", code) : PyLong_FromLong(dead);
}

/* ---- types ---- */

#define FAST(function) (PyCFunction)(void (*)(void))(function), METH_FASTCALL | METH_KEYWORDS, NULL

static PyMethodDef environment_methods[] = {
    {"add", FAST(environment_add)},
    {"are_files", are_files, METH_O, NULL},
    {"begin", FAST(environment_begin)},
    {"cell", FAST(environment_cell)},
    {"close", environment_close, METH_NOARGS, NULL},
    {"column", FAST(environment_column)},
    {"commit", FAST(environment_commit)},
    {"copyfd", FAST(environment_copyfd)},
    {"decide", FAST(environment_decide)},
    {"info", environment_info, METH_NOARGS, NULL},
    {"open_db", FAST(environment_open_db)},
    {"pages_copied", environment_pages_copied, METH_NOARGS, NULL},
    {"reader_check", environment_reader_check, METH_NOARGS, NULL},
    {"readers", environment_readers, METH_NOARGS, NULL},
    {"stat", environment_stat, METH_NOARGS, NULL},
    {"together", FAST(environment_together)},
    {"__enter__", environment_enter, METH_NOARGS, NULL},
    {"__exit__", environment_exit, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot environment_slots[] = {
    {Py_tp_new, environment_new},
    {Py_tp_dealloc, environment_dealloc},
    {Py_tp_methods, environment_methods},
    {0, NULL},
};

static PyType_Spec environment_spec = {"oneread_native.Environment", sizeof(Environment), 0, Py_TPFLAGS_DEFAULT,
                                       environment_slots};

static void database_dealloc(PyObject *object) {
    PyTypeObject *type = Py_TYPE(object);
    Py_XDECREF((PyObject *)((Database *)object)->environment);
    PyObject_Free(object);
    Py_DECREF((PyObject *)type);
}

static PyType_Slot database_slots[] = {{Py_tp_dealloc, database_dealloc}, {0, NULL}};

static PyType_Spec database_spec = {"oneread_native.Database", sizeof(Database), 0,
                                    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, database_slots};

int add_environment(PyObject *module) {
    process = getpid();
    if (pthread_atfork(NULL, NULL, after_fork_in_child)) {
        PyErr_NoMemory();
        return -1;
    }
    environment_type = (PyTypeObject *)PyType_FromSpec(&environment_spec);
    database_type = (PyTypeObject *)PyType_FromSpec(&database_spec);
    return environment_type && database_type &&
                   !PyModule_AddObjectRef(module, "Environment", (PyObject *)environment_type) &&
                   !PyModule_AddObjectRef(module, "open", (PyObject *)environment_type) &&
                   !PyModule_AddObjectRef(module, "Database", (PyObject *)database_type)
               ? 0
               : -1;
}
