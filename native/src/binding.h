/* oneread_native: LMDB for Python, as much of it as the LMDB engine of oneread asks, by the names of py-lmdb.
 *
 * Everything in a structure below is read and written by the thread that holds the interpreter's lock (GIL). A call of
 * LMDB that may wait for a disk or for a lock runs without it, between `enter` and `leave`, which count it: nothing that
 * such a call uses is closed before the count is zero again. See docs/design/native.md.
 */
#ifndef ONEREAD_BINDING_H
#define ONEREAD_BINDING_H

#ifndef Py_LIMITED_API
#define Py_LIMITED_API 0x030b0000
#endif
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <limits.h>
#include <sys/types.h>
#include <time.h>

#include "lmdb.h"

typedef struct Environment Environment;
typedef struct Transaction Transaction;
typedef struct Cursor Cursor;

/* What tells a file from every other one; zeros where there is none. */
typedef struct {
    dev_t device;
    ino_t inode;
} FileKey;

/* A folder, and when a name in it was last changed. */
typedef struct {
    FileKey key;
    struct timespec changed;
} FolderState;

/* How the pages of one environment's commits are written. */
typedef struct {
    int copies; /* whether they may be copied at all */
    int file;
    size_t page;            /* bytes */
    char *map;              /* the file from its beginning, to write in; NULL before the first commit */
    size_t mapped, size;    /* bytes of the mapping; of the file, when the commit began */
    unsigned char *written; /* of each mapped page: whether this environment has written it */
    int tried;              /* whether this commit has written a page */
    off_t at;               /* where it writes several pages next */
    size_t copied;          /* pages, of all commits */
} PageWrites;

struct Environment {
    PyObject_HEAD
    MDB_env *env;      /* NULL before it is open and after it is closed */
    Environment *next; /* all that this process has open */
    Transaction *open; /* those that have not ended; not counted: each of them holds its environment */
    MDB_txn *spare;    /* a read transaction that was reset, for the next one to renew */
    FileKey data, lock;
    pid_t pid; /* of the process that opened it */
    PageWrites pages; /* used by who commits; LMDB lets one at a time */
    FolderState unchanged; /* of the store's folder when its files were looked at; used by who has the turn */
    MDB_dbi main;
    int busy; /* calls that run without the interpreter's lock */
    int closing;
    int committing; /* a call of `commit` has the turn, or asks for it */
    int readonly;
    int spares; /* how many read transactions are kept: none or one */
};

typedef struct {
    PyObject_HEAD
    Environment *environment; /* held */
    MDB_dbi dbi;
} Database;

struct Transaction {
    PyObject_HEAD
    Environment *environment; /* held */
    MDB_txn *txn;             /* NULL once it has ended */
    Transaction *next, *previous;
    Cursor *cursors; /* those that are open; not counted: each of them holds its transaction */
    MDB_dbi dbi;     /* of calls that name no database */
    int write;
    int busy;
    unsigned changes;     /* how often it has written: what a cursor has seen of older pages is read again */
    unsigned long thread; /* which began it: LMDB's lock of writers is a thread's */
};

struct Cursor {
    PyObject_HEAD
    Transaction *transaction; /* held */
    MDB_cursor *cursor;       /* NULL once it, or its transaction, was closed */
    Cursor *next, *previous;
    MDB_val key, value; /* in LMDB's pages; of size 0 where it is at no entry */
    int positioned;
    int busy;
    unsigned seen; /* the transaction's changes when key and value were read */
};

extern PyTypeObject *environment_type, *database_type, *transaction_type, *cursor_type, *entries_type;

/* ---- module.c ---- */

/* Adds a type to the module, by the last part of its name; keeps a reference to it where that is wanted. Returns 0, or -1
 * with an exception set. */
int add_type(PyObject *module, PyType_Spec *spec, PyTypeObject **kept);

/* ---- errors.c ---- */

/* Makes Error and its kinds, as attributes of the module. Returns 0, or -1 with an exception set. */
int add_errors(PyObject *module);

/* Raises the error of a number of LMDB or of the system, "what: reason", with the number as its `code`. Returns NULL. */
void *fail(const char *what, int code);

/* Raises the error of an object that was closed, or whose transaction has ended. Returns NULL. */
void *fail_closed(void);

/* ---- arguments.c ---- */

/* The arguments of a call: `positional` of the `count` names may be given by place, the first `required` must be. */
typedef struct {
    const char *const *names;
    Py_ssize_t count, positional, required;
} Call;

/* Puts the arguments into `found`, borrowed; a place of `found` that no argument is for is left as it is. Returns 1, or
 * 0 with TypeError set. `names` are those of the last arguments, or NULL. */
int take(const Call *call, PyObject *const *arguments, Py_ssize_t places, PyObject *names, PyObject **found);

/* The bytes of an object, which are its own: valid while the caller holds it. Returns 1, or 0 with TypeError set. */
int bytes_of(PyObject *object, MDB_val *value);

/* Whether an object is a tuple, of so many unless `size` is negative. Returns 1, or 0 with TypeError set: `what`. */
int take_tuple(PyObject *given, Py_ssize_t size, const char *what);

/* The number of an open file. Returns 1, or 0 with an exception set. May run Python. */
int descriptor_of(PyObject *object, int *number);

/* ---- environment.c ---- */

/* Makes the types Environment and Database, and has a fork's child know its own number. Returns 0, or -1 with an
 * exception set. */
int add_environment(PyObject *module);

/* Whether calls may use the environment: it is open, in this process, and not being closed. Returns 1, or 0 with an
 * exception set. */
int environment_is_usable(Environment *self);

/* Whether the environment was opened by this process, and not by the one that a fork copied. */
int environment_is_ours(const Environment *self);

/* Whether this thread may begin a write transaction now: calls may use the environment, it is not open for reading, and
 * the thread has none open already. Sets no exception. */
int environment_may_write(const Environment *self);

/* The handle of a database of this environment; `otherwise` for NULL and None. Returns 1, or 0 with an exception set. */
int handle_of(const Environment *self, PyObject *database, MDB_dbi otherwise, MDB_dbi *handle);

/* Sleeps for a moment without the interpreter's lock, for a loop that waits for calls of other threads to end. */
void wait_a_moment(void);

/* A dictionary of what LMDB says of a tree. Returns a new reference, or NULL with an exception set. */
PyObject *tree_facts(const MDB_stat *found);

/* ---- page_writes.c ---- */

/* Lets the pages of an environment's commits be copied, where the file system allows that. */
void page_writes_open(PageWrites *self, MDB_env *env);

/* Gives the mapping up. Not in a child of a fork, which does not have it. */
void page_writes_close(PageWrites *self);

/* What mdb_txn_commit does, and answers. Without the interpreter's lock. */
int page_writes_commit(PageWrites *self, MDB_txn *txn);

/* ---- commit.c ---- */

enum { FILES = 4 };

/* The files of a store, as they were when it was opened. */
typedef struct {
    const char *path[FILES];
    FileKey key[FILES];
    Py_ssize_t count;
    char folder[PATH_MAX]; /* that all of them are in; empty where there is none */
} Files;

/* A turn to write: the file that is locked for it, the files that must be the store's, and the number of LMDB or of the
 * system when the commit failed. */
typedef struct {
    int file;
    Files files;
    int code;
} Turn;

/* What came of a turn: from NO_TURN on nothing was written. */
enum {
    COMMITTED,
    COMMITTED_ELSEWHERE,
    FAILED,
    NO_TURN,
    CHANGED,
    REFUSED,
    OTHER_FILES,
    CLOSED,
    UNKNOWN,
    ADDED_BEFORE
};

/* Writes in a transaction, without the interpreter's lock. Returns COMMITTED if it is to be committed, or why not. */
typedef int (*WriteRows)(MDB_txn *txn, const void *asked);

/* The arguments `turn` and `files` of a call. What is in `turn` is the arguments'. Returns 1, or 0 with an exception
 * set. May run Python. */
int take_turn_of(PyObject *file, PyObject *files, Turn *turn);

/* Takes the turn, looks at the files and the number of the last commit, calls `write`, commits, looks at the files again
 * and gives the turn back. The interpreter's lock is released meanwhile. Returns what came of it. */
int write_in_turn(Environment *self, Turn *turn, WriteRows write, const void *asked);

/* What a call answers to what came of its turn. Returns a new reference, or NULL with an exception set. */
PyObject *turn_answer(int outcome, const Turn *turn);

/* The method `commit(turn, files, snapshot, reads, writes, decided=None)`: takes the turn, which is a lock on the open file `turn`, and
 * writes in a transaction of its own, if what was read at the transaction `snapshot` still is so. `files` are those of
 * the store: a tuple of (path as bytes, inode, device), looked at before and after. `reads` and `writes` are tuples of
 * (database, ((key, value), ...)), where None stands for a row that is not there; without `reads`, any commit since has
 * changed them. What is written is sorted by key, of each database at most once; of each what is deleted goes first.
 * `decided`, a Decided or None, has further rows that were read, and others that are written first; the snapshot is its
 * own then.
 *
 * Answers True when it was committed, None when it was committed into a file that is not the store's any more, and a
 * word when nothing was written: "turn" (another has it), "changed" (what was read), "refused" (by LMDB), "files" (are
 * not the store's), "closed" (may not write now). Raises the error of LMDB's commit, after which the outcome may be
 * unknown, and TypeError. It waits for the turn, and for another thread in this call, no longer than a few milliseconds.
 * `files` are the same at each call: where the time of their folder is as it was, they are not looked at one by one.
 * `turn` is a file of its own: whoever else takes this lock in the process has opened the file again. It may be closed
 * once the environment is. */
PyObject *environment_commit(PyObject *object, PyObject *const *arguments, Py_ssize_t places, PyObject *names);

/* The method `are_files(files)`: whether each path has the file that is named. No signal handler runs meanwhile. */
PyObject *are_files(PyObject *object, PyObject *given);

/* ---- add.c ---- */

enum { MOST_EXPECTED = 16 };

/* A row that was read, or is to be put or deleted: without data it is not there. */
typedef struct {
    MDB_dbi dbi;
    MDB_val key, value;
} Entry;

/* How a row must be: of one value, which is the same; there; absent. */
typedef struct {
    MDB_dbi dbi;
    MDB_val key, value;
    enum { SAME, THERE, ABSENT } needs;
} Expected;

typedef struct {
    Expected row[MOST_EXPECTED];
    Py_ssize_t count;
} ExpectedRows;

/* The handle of a table, of a dictionary of databases by name. Returns 1, or 0 with an exception set. */
int take_table(const Environment *self, PyObject *tables, PyObject *name, MDB_dbi *dbi);

/* Takes a tuple of (table, key, value), where True stands for a row that must be there, None for one that must not. What is
 * in `rows` is the argument's. Returns 1, 0 with an exception set, or -1 where there are too many. */
int take_expected(const Environment *self, PyObject *tables, PyObject *given, ExpectedRows *rows);

/* Whether rows are as expected, without the interpreter's lock; `found` is then what each is. */
int are_as_expected(MDB_txn *txn, const ExpectedRows *rows, Entry *found);

/* The method `add(turn, files, tables, asked)`: adds to the sums of rows, in a turn as `commit` takes it. `tables` is a
 * dictionary of databases by name. `asked` is (table, rows, tokens, sums, amount, now), the AddQuestion of oneread.
 * `rows` is a tuple of (table, key, value): each row must have this value, or be there (True), or be absent (None).
 * `tokens` are keys of rows of the table none of which may be there; the last one is put then, with the value "1".
 * `sums` are keys of rows that hold [raised, lowered], or are absent: a negative amount is added to the second, any
 * other to the first. Rows get the stamp `now`, or one above their own.
 *
 * Answers and raises what `commit` does; and False, with nothing written, where a token is there. "other": what is
 * stored is not as expected, of another form or beyond 63 bits, or there are more than sixteen of something. */
PyObject *environment_add(PyObject *object, PyObject *const *arguments, Py_ssize_t places, PyObject *names);

/* ---- guard.c ---- */

/* What the file is now; zeros where there is none. */
FileKey file_key(const char *path);

/* Whether both are one file; never for zeros. */
int is_same_file(FileKey one, FileKey other);

/* How often this process has mapped the file, as LMDB does; 0 where the system does not say. */
int mappings_of(FileKey file);

/* ---- transaction.c ---- */

/* Makes the type Transaction. Returns 0, or -1 with an exception set. */
int add_transaction(PyObject *module);

/* Begins a transaction whose calls use `dbi` where they name no database. A write transaction waits for those of other
 * threads and processes, without the interpreter's lock. Returns a new reference, or NULL with an exception set. */
PyObject *transaction_begin(Environment *environment, MDB_dbi dbi, int write);

/* Begins a read transaction of LMDB for the length of one call: renews the spare one, where it is there. Returns 1, or 0
 * with an exception set. */
int begin_reading(Environment *environment, MDB_txn **txn);

/* Ends it, or keeps it as the spare one. */
void end_reading(Environment *environment, MDB_txn *txn);

/* Ends a transaction, once: waits for calls of other threads that use it, closes its cursors, and commits it or takes
 * it back. In a fork's child it only forgets it. Returns 0 or LMDB's number of the failure, and sets no exception. */
int transaction_end(Transaction *self, int commit);

/* Whether a call may use the transaction: it has not ended, its environment is usable, and no other thread writes in
 * it. Returns 1, or 0 with an exception set. */
int transaction_is_usable(Transaction *self);

/* Between the two a call runs without the interpreter's lock: neither the transaction nor its environment is closed. */
void enter(Transaction *self);
void leave(Transaction *self);

/* ---- reads.c ---- */

/* The methods of an environment that read in a transaction of their own, one moment of the store each. They answer the
 * values that readers see (`value_of_row`), or NotImplemented where a row has another form, or is damaged: then the rows
 * have to be read one by one. They raise what `begin` and `get` raise.
 *
 * `cell(db, key)`: (value, stamp), or None where the row is absent.
 *
 * `column(db, start, stop, limit, reverse)`: the keys, as a tuple, and the values, as a list, of the first `limit` rows
 * from `start` on and before `stop`, from its end if `reverse`; an empty `stop` is the end of the database.
 *
 * `together(db, key, firsts)`: (value or None, a list of what `column` answers of the first `most` rows whose keys begin
 * with `prefix`, for each (database, prefix, most) of the tuple `firsts`). */
PyObject *environment_cell(PyObject *object, PyObject *const *arguments, Py_ssize_t places, PyObject *names);
PyObject *environment_column(PyObject *object, PyObject *const *arguments, Py_ssize_t places, PyObject *names);
PyObject *environment_together(PyObject *object, PyObject *const *arguments, Py_ssize_t places, PyObject *names);

/* ---- decide_call.c ---- */

/* Makes the type Program: `Program(table)` reads a table of oneread.derivations.core_programs, and raises ValueError for
 * one that is none. Returns 0, or -1 with an exception set. */
int add_programs(PyObject *module);

/* The program of a Program, which the caller holds; NULL with TypeError set for anything else. */
const struct Program *take_program(PyObject *given);

/* The handles of so many databases of the transaction's environment. Returns 1, or 0 with an exception set. */
int take_tables(const Transaction *self, PyObject *given, MDB_dbi *tables, int count);

/* ---- json_call.c ---- */

/* Makes the type JsonForm: `JsonForm(table)` reads a table of oneread.models.json_table, and raises ValueError for one
 * that is none. Its method `write_all(documents)` answers a list of documents as JSON, to the byte as msgspec writes
 * their entities, or None where it does not know that, or where a document does not have the form. Returns 0, or -1 with an exception set. */
int add_json_forms(PyObject *module);

/* ---- compare_call.c ---- */

/* Makes the type Comparison: `Comparison(programs, secret, batch, most)` compares the entities of one kind, whose classes
 * have these programs. `secret` are 16 bytes that nobody knows, `batch` the rows of one of Python's requests, `most` the
 * sources that are kept at a time. Its method `expect(rows, numbers)` adds (key, value) of rows, and (key, numbers) of
 * groups, each number modulo 2**61 - 1; `is_even()` says whether all rows that were found are those that are expected. It
 * keeps nothing of a transaction. Returns 0, or -1 with an exception set. */
int add_comparisons(PyObject *module);

/* The method `compare_roots(tables, comparison, start, stop, batches, latest)` of a transaction: compares the next entities
 * of a range, without the interpreter's lock, as many as Python asks for in so many requests (10 at most), and expects what
 * they say. An empty `stop` is the end of the table; no version may be above `latest`.
 *
 * `compare_rows(table, comparison, start, stop, batches, width, pointers)` finds rows likewise; with a width those of
 * groups, of so many numbers. `pointers` say which back-references or holds are compared: (the kinds that have some, the
 * compared one first, where the source's own key begins, the parts of that key); no kinds for all rows.
 *
 * Both answer (rows, the key of the last one or None behind the end of the range, groups whose rows were read, documents,
 * others, requests), or as text the reason for which Python has to look at all of the kind. The documents are those of
 * entities that are as they should be; `others` are what Python looks at, rows of groups with numbers that the core does
 * not know among them: (key, bytes, whether what it says is expected
 * already, and only sources are to be compared, its place among the rows). Requests are (rows, bytes). Both raise what
 * `get` raises. */
PyObject *transaction_compare_roots(PyObject *object, PyObject *const *arguments, Py_ssize_t places, PyObject *names);
PyObject *transaction_compare_rows(PyObject *object, PyObject *const *arguments, Py_ssize_t places, PyObject *names);

/* ---- cursor.c ---- */

/* Makes the type Cursor, and that of its iterators. Returns 0, or -1 with an exception set. */
int add_cursor(PyObject *module);

/* Opens a cursor. Returns a new reference, or NULL with an exception set. */
PyObject *cursor_open(Transaction *transaction, MDB_dbi dbi);

/* Closes a cursor, once; its object stays. Sets no exception. */
void cursor_shut(Cursor *self);

/* Reads a byte of each page of a value, without the interpreter's lock, so that copying it waits for no disk. */
void touch(const MDB_val *value);

#endif
