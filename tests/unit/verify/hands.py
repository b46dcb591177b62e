"""Hands that read and change single rows past the library, on every kind of store, as where commits span rows."""

import msgspec

from oneread.store.requests import Scan
from oneread.store.rows import VALUE, Cell, RowRange, living
from oneread.transactions.intents import read_root
from oneread.transactions.outbox import is_group_root
from oneread.transactions.root import BODY, encode_root

STORES = ("memory", "lmdb", "one row")


def url_of(store, folder):
    return {"memory": "memory://", "lmdb": f"lmdb://{folder}/store", "one row": "memory://?span=row"}[store]


def stored_rows(db, table, prefix=b""):
    """The rows with all their cells."""
    within = RowRange.under(prefix) if prefix else RowRange(b"", b"")
    return db.run(Scan(table, within, 1000, families="dm").__iter__())


def rows(db, table, prefix=b""):
    """The rows as readers see them, without the root rows of groups."""
    found = stored_rows(db, table, prefix)
    if db.operations.spans_rows:
        return found
    seen = [(key, living(row)) for key, row in found if not (table == "roots" and is_group_root(key))]
    if table == "counts":
        seen = [(key, row and {VALUE: row[VALUE]} if VALUE in (row or {}) else None) for key, row in seen]
    return [(key, row) for key, row in seen if row]


def put(db, table, key, row):
    """Replaces a row; on a store that changes one row at a time it keeps the cells that only writers need."""
    if db.operations.spans_rows:
        db.run(db.operations.committer.together(lambda store: store.replace(table, {key: row})))
        return
    if row is not None and table != "roots":
        before = dict(stored_rows(db, table, key)).get(key, {})
        row = {column: cell for column, cell in before.items() if column.startswith(b"m:")} | row
    db._driver.engine._store.transaction(lambda inside: inside.replace(table, {key: row}), 30)


def damage_document(db, model, key, **wrong):
    """Changes fields of an entity, and nothing that follows from them."""
    catalog = db.operations.catalog
    place = catalog.kinds[model].key(key)
    ((_key, row),) = stored_rows(db, "roots", place)
    root = read_root(place, row).root
    entity = msgspec.structs.replace(catalog.state(place, root).entity, **wrong)
    body = catalog.type_of(entity).layout.encode(entity)
    if db.operations.spans_rows:
        put(db, "roots", place, encode_root(msgspec.structs.replace(root, body=body)))
    else:
        put(db, "roots", place, {**row, BODY: Cell(body, row[BODY].stamp)})
