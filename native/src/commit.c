/* The commit of what was decided on a snapshot: one call, between whose steps no signal handler of Python runs. */
#include "binding.h"

#include <errno.h>
#include <sched.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>

enum { YIELDS = 4, TRIES = 40, MOMENTS = 20, FILES = 4 };

/* What came of a commit: from NO_TURN on nothing was written. */
enum { COMMITTED, COMMITTED_ELSEWHERE, FAILED, NO_TURN, CHANGED, REFUSED, OTHER_FILES, CLOSED };

static const char *const reasons[] = {
    [NO_TURN] = "turn", [CHANGED] = "changed", [REFUSED] = "refused", [OTHER_FILES] = "files", [CLOSED] = "closed",
};

/* A row that was read, or is to be put or deleted: without data it is not there. */
typedef struct {
    MDB_dbi dbi;
    MDB_val key, value;
} Entry;

typedef struct {
    Entry *first;
    Py_ssize_t count;
    int given; /* whether the argument was not None */
} Entries;

/* The files of the store, as they were when it was opened. */
typedef struct {
    const char *path[FILES];
    FileKey key[FILES];
    Py_ssize_t count;
} Files;

typedef struct {
    int turn;
    size_t snapshot;
    Entries reads, writes;
    Files files;
} Decision;

/* ---- arguments: tuples of bytes, which no thread can change while they are used ---- */

static const char ROWS[] = "rows are None, or a tuple of (database, ((key, value or None), ...))";

/* How many entries there are in all tables, or -1 with an exception set. */
static Py_ssize_t entries_in(PyObject *tables) {
    Py_ssize_t count = 0;
    if (!take_tuple(tables, -1, ROWS)) return -1;
    for (Py_ssize_t i = 0; i < PyTuple_Size(tables); i++) {
        PyObject *table = PyTuple_GetItem(tables, i);
        if (!take_tuple(table, 2, ROWS) || !take_tuple(PyTuple_GetItem(table, 1), -1, ROWS)) return -1;
        count += PyTuple_Size(PyTuple_GetItem(table, 1));
    }
    return count;
}

static int take_entry(PyObject *pair, Entry *entry) {
    if (!take_tuple(pair, 2, ROWS)) return 0;
    PyObject *value = PyTuple_GetItem(pair, 1);
    entry->value = (MDB_val){0, NULL};
    return bytes_of(PyTuple_GetItem(pair, 0), &entry->key) && (value == Py_None || bytes_of(value, &entry->value));
}

/* Puts what a tuple has into `entries`, whose memory is the caller's to free. Returns 1, or 0 with an exception set. */
static int take_entries(const Environment *self, PyObject *tables, Entries *entries) {
    if (tables == Py_None) return 1;
    Py_ssize_t count = entries_in(tables);
    if (count < 0) return 0;
    entries->given = 1;
    entries->first = PyMem_Malloc((size_t)(count + 1) * sizeof *entries->first);
    if (!entries->first) return PyErr_NoMemory() != NULL;
    for (Py_ssize_t i = 0; i < PyTuple_Size(tables); i++) {
        PyObject *table = PyTuple_GetItem(tables, i), *pairs = PyTuple_GetItem(table, 1);
        MDB_dbi dbi;
        if (!handle_of(self, PyTuple_GetItem(table, 0), self->main, &dbi)) return 0;
        for (Py_ssize_t j = 0; j < PyTuple_Size(pairs); j++) {
            Entry *entry = &entries->first[entries->count];
            entry->dbi = dbi;
            if (!take_entry(PyTuple_GetItem(pairs, j), entry)) return 0;
            entries->count++;
        }
    }
    return 1;
}

/* Returns 1, or 0 with an exception set. */
static int take_files(PyObject *given, Files *files) {
    static const char all[] = "files are a tuple of at most four of (path, inode, device)";
    static const char one[] = "a file is a tuple of a path, an inode and a device";
    if (!take_tuple(given, -1, all)) return 0;
    if (PyTuple_Size(given) > FILES) {
        PyErr_SetString(PyExc_TypeError, all);
        return 0;
    }
    for (; files->count < PyTuple_Size(given); files->count++) {
        PyObject *file = PyTuple_GetItem(given, files->count);
        unsigned long long inode, device;
        if (!take_tuple(file, 3, one) ||
            !PyArg_ParseTuple(file, "yKK", &files->path[files->count], &inode, &device))
            return 0;
        files->key[files->count] = (FileKey){(dev_t)device, (ino_t)inode};
    }
    return 1;
}

/* ---- steps, without the interpreter's lock ---- */

/* Takes the lock of the writers; gives up after a few milliseconds. Returns whether it has it. */
static int take_turn(int turn) {
    const struct timespec pause = {0, 20000};
    for (int tries = 0; flock(turn, LOCK_EX | LOCK_NB); tries++) {
        if (errno != EWOULDBLOCK || tries == TRIES) return 0;
        if (tries < YIELDS)
            sched_yield();
        else
            nanosleep(&pause, NULL);
    }
    return 1;
}

static int are_the_same(const Files *files) {
    for (Py_ssize_t i = 0; i < files->count; i++)
        if (!is_same_file(file_key(files->path[i]), files->key[i])) return 0;
    return 1;
}

/* Whether LMDB's next number, of the lock file, follows the last commit of the data file. */
static int follows_data_file(MDB_env *env, MDB_txn *txn) {
    MDB_envinfo info;
    return !mdb_env_info(env, &info) && mdb_txn_id(txn) == info.me_last_txnid + 1;
}

/* Whether all that was read is as it was: nothing was committed since, or each row has the bytes that were read. */
static int is_unchanged(MDB_txn *txn, const Decision *decided) {
    if (mdb_txn_id(txn) == decided->snapshot + 1) return 1;
    for (Py_ssize_t i = 0; i < decided->reads.count; i++) {
        Entry *read = &decided->reads.first[i];
        MDB_val found = {0, NULL};
        int code = mdb_get(txn, read->dbi, &read->key, &found);
        if (code && code != MDB_NOTFOUND) return 0;
        if (!code != (read->value.mv_data != NULL) || found.mv_size != read->value.mv_size) return 0;
        if (found.mv_size && memcmp(found.mv_data, read->value.mv_data, found.mv_size)) return 0;
    }
    return decided->reads.given;
}

/* Puts and deletes, in the order given. Returns 0 or LMDB's number. */
static int write_entries(MDB_txn *txn, const Entries *writes) {
    MDB_cursor *cursor = NULL;
    int code = 0;
    for (Py_ssize_t i = 0; i < writes->count && !code; i++) {
        Entry *write = &writes->first[i];
        if (!write->value.mv_data) {
            code = mdb_del(txn, write->dbi, &write->key, NULL);
            if (code == MDB_NOTFOUND) code = 0;
            continue;
        }
        if (cursor && mdb_cursor_dbi(cursor) != write->dbi) {
            mdb_cursor_close(cursor);
            cursor = NULL;
        }
        if (!cursor) code = mdb_cursor_open(txn, write->dbi, &cursor);
        if (!code) code = mdb_cursor_put(cursor, &write->key, &write->value, 0);
    }
    if (cursor) mdb_cursor_close(cursor);
    return code;
}

/* Decides in the turn whether the commit may be, and makes it. Returns what came of it, with LMDB's number in `code`
 * where it failed. */
static int commit_in_turn(Environment *self, const Decision *decided, int *code) {
    MDB_env *env = self->env;
    MDB_txn *txn;
    int refused = 0;
    if (!are_the_same(&decided->files)) return OTHER_FILES;
    if (mdb_txn_begin(env, NULL, 0, &txn)) return REFUSED;
    if (!follows_data_file(env, txn))
        refused = OTHER_FILES;
    else if (!is_unchanged(txn, decided))
        refused = CHANGED;
    else if (write_entries(txn, &decided->writes))
        refused = REFUSED;
    if (refused) {
        mdb_txn_abort(txn);
        return refused;
    }
    *code = page_writes_commit(&self->pages, txn);
    if (*code) return FAILED;
    return are_the_same(&decided->files) ? COMMITTED : COMMITTED_ELSEWHERE;
}

/* ---- the call ---- */

/* Commits, with the interpreter's lock released meanwhile. Returns what `commit_in_turn` does. */
static int commit(Environment *self, const Decision *decided, int *code) {
    int outcome = NO_TURN;
    /* The turn is one open file's: a second thread would get it, too. */
    for (int moments = 0; self->committing; moments++) {
        if (moments == MOMENTS) return NO_TURN;
        wait_a_moment();
    }
    if (!environment_may_write(self)) return CLOSED;
    self->committing = 1;
    self->busy++;
    Py_BEGIN_ALLOW_THREADS
    if (take_turn(decided->turn)) {
        outcome = commit_in_turn(self, decided, code);
        flock(decided->turn, LOCK_UN);
    }
    Py_END_ALLOW_THREADS
    self->busy--;
    self->committing = 0;
    return outcome;
}

PyObject *environment_commit(PyObject *object, PyObject *const *arguments, Py_ssize_t places, PyObject *names) {
    static const char *const known[] = {"turn", "files", "snapshot", "reads", "writes"};
    static const Call call = {known, 5, 5, 5};
    Environment *self = (Environment *)object;
    Decision decided = {0, 0, {NULL, 0, 0}, {NULL, 0, 0}, {{NULL}, {{0, 0}}, 0}};
    PyObject *found[5] = {NULL, NULL, NULL, NULL, NULL}, *answer = NULL;
    int code = 0, outcome;
    if (!take(&call, arguments, places, names, found)) return NULL;
    if (!descriptor_of(found[0], &decided.turn)) return NULL;
    decided.snapshot = PyLong_AsSize_t(found[2]);
    if (!PyErr_Occurred() && take_files(found[1], &decided.files) && take_entries(self, found[3], &decided.reads) &&
        take_entries(self, found[4], &decided.writes)) {
        outcome = commit(self, &decided, &code);
        if (outcome == FAILED)
            fail("mdb_txn_commit", code);
        else if (outcome >= NO_TURN)
            answer = PyUnicode_FromString(reasons[outcome]);
        else
            answer = Py_NewRef(outcome == COMMITTED ? Py_True : Py_None);
    }
    PyMem_Free(decided.reads.first);
    PyMem_Free(decided.writes.first);
    return answer;
}

PyObject *are_files(PyObject *Py_UNUSED(object), PyObject *given) {
    Files files = {{NULL}, {{0, 0}}, 0};
    return take_files(given, &files) ? PyBool_FromLong(are_the_same(&files)) : NULL;
}
