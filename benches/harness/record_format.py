"""The text of a record: JSON with one line per row, so that a diff shows which rows changed."""

from __future__ import annotations

import json
from typing import Any


def record_text(record: dict[str, Any]) -> str:
    """The record as JSON: one line per field, and one per element of a list of objects."""
    return _object(record, "") + "\n"


def _object(fields: dict[str, Any], indent: str) -> str:
    inner = indent + " "
    lines = [f"{inner}{json.dumps(name, ensure_ascii=False)}: {_value(value, inner)}" for name, value in fields.items()]
    return "{\n" + ",\n".join(lines) + f"\n{indent}}}"


def _value(value: Any, indent: str) -> str:
    if not _is_table(value):
        return json.dumps(value, ensure_ascii=False)
    # A table of a record is an object with rows; a row has no rows of its own and takes one line.
    inner = indent + " "
    lines = [
        inner + (_object(each, inner) if any(map(_is_table, each.values())) else json.dumps(each, ensure_ascii=False))
        for each in value
    ]
    return "[\n" + ",\n".join(lines) + f"\n{indent}]"


def _is_table(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(each, dict) for each in value)
