/* The commit of what was decided on a snapshot: one call, between whose steps no signal handler of Python runs. */
#include "decided.h"

#include <errno.h>
#include <sched.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>

enum { YIELDS = 4, TRIES = 40, MOMENTS = 20 };

static const char *const reasons[] = {
    [NO_TURN] = "turn",      [CHANGED] = "changed", [REFUSED] = "refused",
    [OTHER_FILES] = "files", [CLOSED] = "closed",   [UNKNOWN] = "other",
};

typedef struct {
    Entry *first;
    Py_ssize_t count;
    int given; /* whether the argument was not None */
} Entries;

typedef struct {
    size_t snapshot;
    Entries reads, writes;
    const Decided *decided; /* NULL where there is none */
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

/* Notes the folder of the files, if they are in one. */
static void take_folder(Files *files) {
    size_t size = 0;
    files->folder[0] = '\0';
    for (Py_ssize_t i = 0; i < files->count; i++) {
        const char *end = strrchr(files->path[i], '/');
        if (!end || (i && ((size_t)(end - files->path[i]) != size || memcmp(files->path[i], files->path[0], size)))) return;
        size = (size_t)(end - files->path[i]);
    }
    if (!size || size >= sizeof files->folder) return;
    memcpy(files->folder, files->path[0], size);
    files->folder[size] = '\0';
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
    take_folder(files);
    return 1;
}

int take_turn_of(PyObject *file, PyObject *files, Turn *turn) {
    turn->code = 0;
    turn->files.count = 0;
    return descriptor_of(file, &turn->file) && take_files(files, &turn->files);
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

/* What `are_the_same` says, by one look where the folder is as it was: a name in it cannot change without its time. One
 * that was recent at the look proves nothing, as times go in steps. As `StoreFiles.check` of oneread does. */
static int are_still_the_same(Environment *self, const Files *files) {
    struct stat found;
    struct timespec now;
    if (!files->folder[0] || stat(files->folder, &found)) return are_the_same(files);
    const FolderState state = {{found.st_dev, found.st_ino}, found.st_mtim}, *seen = &self->unchanged;
    if (is_same_file(state.key, seen->key) && state.changed.tv_sec == seen->changed.tv_sec &&
        state.changed.tv_nsec == seen->changed.tv_nsec)
        return 1;
    if (!are_the_same(files)) return 0;
    if (!clock_gettime(CLOCK_REALTIME, &now) && now.tv_sec > state.changed.tv_sec + 1) self->unchanged = state;
    return 1;
}

/* Whether LMDB's next number, of the lock file, follows the last commit of the data file. */
static int follows_data_file(MDB_env *env, MDB_txn *txn) {
    MDB_envinfo info;
    return !mdb_env_info(env, &info) && mdb_txn_id(txn) == info.me_last_txnid + 1;
}

/* Whether each row has the bytes that were read. */
static int are_as_read(MDB_txn *txn, const Entry *rows, size_t count) {
    for (size_t i = 0; i < count; i++) {
        const Entry *read = &rows[i];
        MDB_val key = read->key, found = {0, NULL};
        const int code = mdb_get(txn, read->dbi, &key, &found);
        if (code && code != MDB_NOTFOUND) return 0;
        if (!code != (read->value.mv_data != NULL) || found.mv_size != read->value.mv_size) return 0;
        if (found.mv_size && memcmp(found.mv_data, read->value.mv_data, found.mv_size)) return 0;
    }
    return 1;
}

/* Whether all that was read is as it was: nothing was committed since, or each row is the same. */
static int is_unchanged(MDB_txn *txn, const Decision *asked) {
    const Decided *core = asked->decided;
    if (mdb_txn_id(txn) == asked->snapshot + 1) return 1;
    return asked->reads.given && are_as_read(txn, asked->reads.first, (size_t)asked->reads.count) &&
           (!core || are_as_read(txn, core->rows.first, core->rows.reads));
}

/* Writes what was decided, if it still is so. */
static int write_decision(MDB_txn *txn, const void *asked) {
    const Decision *decision = asked;
    const Decided *core = decision->decided;
    if (!is_unchanged(txn, decision)) return CHANGED;
    if (core && write_entries(txn, core->rows.first + core->rows.reads, core->rows.writes)) return REFUSED;
    return write_entries(txn, decision->writes.first, (size_t)decision->writes.count) ? REFUSED : COMMITTED;
}

/* Writes in the turn, and commits. Returns what came of it. */
static int commit_in_turn(Environment *self, Turn *turn, WriteRows write, const void *asked) {
    MDB_env *env = self->env;
    MDB_txn *txn;
    if (!are_still_the_same(self, &turn->files)) return OTHER_FILES;
    if (mdb_txn_begin(env, NULL, 0, &txn)) return REFUSED;
    int outcome = follows_data_file(env, txn) ? write(txn, asked) : OTHER_FILES;
    if (outcome != COMMITTED) {
        mdb_txn_abort(txn);
        return outcome;
    }
    turn->code = page_writes_commit(&self->pages, txn);
    if (turn->code) return FAILED;
    return are_still_the_same(self, &turn->files) ? COMMITTED : COMMITTED_ELSEWHERE;
}

int write_in_turn(Environment *self, Turn *turn, WriteRows write, const void *asked) {
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
    if (take_turn(turn->file)) {
        outcome = commit_in_turn(self, turn, write, asked);
        flock(turn->file, LOCK_UN);
    }
    Py_END_ALLOW_THREADS
    self->busy--;
    self->committing = 0;
    return outcome;
}

PyObject *turn_answer(int outcome, const Turn *turn) {
    switch (outcome) {
    case COMMITTED: return Py_NewRef(Py_True);
    case COMMITTED_ELSEWHERE: return Py_NewRef(Py_None);
    case ADDED_BEFORE: return Py_NewRef(Py_False);
    case FAILED: return fail("mdb_txn_commit", turn->code);
    default: return PyUnicode_FromString(reasons[outcome]);
    }
}

/* ---- the call ---- */

/* Takes the number of the snapshot, and the Decided, whose snapshot it is then. Returns 1, or 0 with an exception set. */
static int take_snapshot(const Environment *self, PyObject *number, PyObject *decided, Decision *decision) {
    if (decided == Py_None) {
        decision->snapshot = PyLong_AsSize_t(number);
        return !PyErr_Occurred();
    }
    if (!is_decided(decided, self)) {
        PyErr_SetString(PyExc_TypeError, "decided is None, or what this environment's decide has answered");
        return 0;
    }
    decision->decided = (const Decided *)decided;
    decision->snapshot = decision->decided->snapshot;
    return 1;
}

PyObject *environment_commit(PyObject *object, PyObject *const *arguments, Py_ssize_t places, PyObject *names) {
    static const char *const known[] = {"turn", "files", "snapshot", "reads", "writes", "decided"};
    static const Call call = {known, 6, 6, 5};
    Environment *self = (Environment *)object;
    Decision decision = {0, {NULL, 0, 0}, {NULL, 0, 0}, NULL};
    Turn turn;
    PyObject *found[6] = {NULL, NULL, NULL, NULL, NULL, Py_None}, *answer = NULL;
    if (!take(&call, arguments, places, names, found) || !take_turn_of(found[0], found[1], &turn) ||
        !take_snapshot(self, found[2], found[5], &decision))
        return NULL;
    if (take_entries(self, found[3], &decision.reads) && take_entries(self, found[4], &decision.writes))
        answer = turn_answer(write_in_turn(self, &turn, write_decision, &decision), &turn);
    PyMem_Free(decision.reads.first);
    PyMem_Free(decision.writes.first);
    return answer;
}

PyObject *are_files(PyObject *Py_UNUSED(object), PyObject *given) {
    Files files;
    files.count = 0;
    return take_files(given, &files) ? PyBool_FromLong(are_the_same(&files)) : NULL;
}
