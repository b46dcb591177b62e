/* What the core has decided, as an object of Python: rows that were read and are to be written, for `commit`. */
#ifndef ONEREAD_DECIDED_H
#define ONEREAD_DECIDED_H

#include "binding.h"
#include "core.h"

/* Rows that were read, behind them those that are written, and behind all the bytes of both: one block, of malloc. */
typedef struct {
    Entry *first; /* NULL where there was no memory */
    size_t reads, writes;
} Kept;

/* Nothing changes it, so that calls use it without the interpreter's lock. */
typedef struct {
    PyObject_HEAD
    Environment *environment; /* held */
    MDB_dbi tables[TABLES];
    size_t snapshot; /* the number of the transaction that was read in */
    Kept rows;
} Decided;

/* ---- decided.c ---- */

/* Makes the type Decided, whose methods `reads()` and `writes()` answer four tuples of (key, value or None), one for each
 * table; those written are sorted. Returns 0, or -1 with an exception set. */
int add_decided(PyObject *module);

/* Whether an object is what an environment's `decide` has decided, or that of one of its transactions. */
int is_decided(PyObject *object, const Environment *of);

/* Copies the rows of a unit, and some that were read besides: the caller's to free. Without the interpreter's lock. */
Kept keep_rows(const Unit *unit, const MDB_dbi *tables, const Entry *besides, size_t count);

/* Makes the object, which takes the rows. Returns a new reference, or NULL with an exception set. */
PyObject *decided_of(Environment *environment, const MDB_dbi *tables, size_t snapshot, Kept rows);

/* ---- runs.c ---- */

/* Deletes and puts rows, database by database, which are sorted by key within each; long runs so that they leave their pages
 * full. Without the interpreter's lock. Returns 0 or LMDB's number. */
int write_entries(MDB_txn *txn, const Entry *writes, size_t count);

/* ---- decide_call.c ---- */

/* The method `decide(tables, questions, now, programs, most_holders, known, is_in_turn, followed)` of a transaction: what
 * follows from saving, patching and deleting entities, read here, without the interpreter's lock; it writes nothing. `tables`
 * is a dictionary of databases by name, `programs` one of Programs by their tables, None for what is none. A question is a
 * SaveQuestion of oneread, a tuple; no more holders than `most_holders` follow their source. `known` are keys of root rows
 * whose request was counted; with `is_in_turn` what follows from each question is decided before the next one. `followed` is
 * the table of feeds and change logs.
 *
 * Answers (saved, requests, whether it scanned, a Decided, checked, whether it is complete); or the reason for which Python
 * has to decide, as text; or NotImplemented, where `programs` has not all. What is saved is (version, document, whether it
 * is new, whether holders may take its values) for each question; requests are (rows, bytes); checked is (key, document) of
 * each entity that has followed, and at which Python has to look. What is not complete lacks the rows that follow from those
 * of feeds and logs. Raises what `get` raises. */
PyObject *transaction_decide(PyObject *object, PyObject *const *arguments, Py_ssize_t places, PyObject *names);

/* The method `decide(tables, questions, now, programs, most_holders, known, is_in_turn, followed, rows)` of an environment:
 * the same in a read transaction of its own, which has ended then. `rows` are as `add` takes them, and among those that were
 * read; the reason is "other rows" where they are not as expected. */
PyObject *environment_decide(PyObject *object, PyObject *const *arguments, Py_ssize_t places, PyObject *names);

#endif
