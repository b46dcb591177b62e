"""Pages as HTML tables, for notebooks; every text is escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

from oneread.errors import shown
from oneread.models.references import Copy, Ref, copied_names


def page_table(rows: Sequence[Any]) -> str:
    """Rows as a table with a column for each field; a copy has one for its key, and one for each field it holds."""
    flat = [_cells(row) for row in rows]
    headers = list(dict.fromkeys(name for row in flat for name in row))
    head = _row("th", headers)
    body = "".join(_row("td", [row.get(name, "") for name in headers]) for row in flat)
    return f"<table><thead>{head}</thead><tbody>{body}</tbody></table>"


def _cells(row: Any) -> dict[str, str]:
    found: dict[str, str] = {}
    for name in row.__struct_fields__:
        value = getattr(row, name, None)
        found[name] = _text(value)
        if isinstance(value, Copy):
            held = [each for each in copied_names(type(value)) if hasattr(value, each)]
            found |= {f"{name}.{each}": _text(getattr(value, each)) for each in held}
    return found


def _text(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, Copy):
        return f"{_text(value.ref)}{' (deleted)' if getattr(value, 'deleted', False) else ''}"
    if isinstance(value, Ref):
        return ", ".join(map(_text, value.key))
    if isinstance(value, (list, tuple, set, frozenset)):
        return ", ".join(map(_text, value))  # pyright: ignore[reportUnknownArgumentType]
    isoformat = getattr(value, "isoformat", None)
    return isoformat() if isoformat is not None else shown(value)


def _row(tag: str, cells: Iterable[str]) -> str:
    return f"<tr>{''.join(f'<{tag}>{escape(cell)}</{tag}>' for cell in cells)}</tr>"
