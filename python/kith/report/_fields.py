"""Reading JSON field by field: what is missing or of another kind is named with its file and its path."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ._errors import InputError
from ._text import clean

# A result of hours of measuring has some megabytes.
LARGEST = 256 * 2**20


def _shown(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, (dict, list)):
        return "an object" if isinstance(value, dict) else "a list"
    text = json.dumps(value) if not isinstance(value, float) or math.isfinite(value) else str(value)
    return text if len(text) <= 40 else text[:39] + "…"


class Node:
    """A value of a document, and where it is."""

    def __init__(self, file: str, path: str, value: Any) -> None:
        self.file, self.path, self.value = file, path, value

    def error(self, what: str) -> InputError:
        where = f": {self.path}" if self.path else ""
        return InputError(f"'{self.file}'{where} {what}")

    def _kind(self, kind: str) -> InputError:
        return self.error(f"is {_shown(self.value)}, not {kind}")

    def has(self, name: str) -> bool:
        """Whether the field is there and not null."""
        return isinstance(self.value, dict) and self.value.get(name) is not None

    def __getitem__(self, name: str) -> Node:
        if not isinstance(self.value, dict):
            raise self._kind("an object")
        if name not in self.value:
            raise self.error(f"has no field '{name}'")
        return Node(self.file, f"{self.path}.{name}" if self.path else name, self.value[name])

    def items(self, *, some: bool = False) -> Iterator[Node]:
        """The entries of a list; with `some` an empty one is an error."""
        if not isinstance(self.value, list):
            raise self._kind("a list")
        if some and not self.value:
            raise self.error("is empty: nothing was measured")
        for index, value in enumerate(self.value):
            yield Node(self.file, f"{self.path}[{index}]", value)

    def text(self) -> str:
        if not isinstance(self.value, str):
            raise self._kind("a text")
        return clean(self.value)

    def number(self) -> float:
        if isinstance(self.value, bool) or not isinstance(self.value, (int, float)):
            raise self._kind("a number")
        try:
            value = float(self.value)
        except OverflowError:
            value = math.inf
        if not math.isfinite(value):
            raise self._kind("a finite number")
        return value

    def positive(self) -> float:
        value = self.number()
        if value <= 0:
            raise self.error(f"is {_shown(self.value)}; it must be above 0")
        return value

    def count(self, least: int = 0) -> int:
        value = self.number()
        if value != math.floor(value):
            raise self._kind("a whole number")
        if value < least:
            raise self.error(f"is {_shown(self.value)}; it must be {least} or more")
        return int(value)

    def flag(self) -> bool:
        if not isinstance(self.value, bool):
            raise self._kind("true or false")
        return self.value


def machine_rows(node: Node) -> list[tuple[str, str]]:
    """What an object says in numbers and texts, as rows of a table; objects inside it are left to others."""
    rows = []
    for name, value in node.value.items() if isinstance(node.value, dict) else ():
        field_of = node[name]
        label = str(name).replace("_", " ")
        if isinstance(value, bool):
            rows.append((label, "yes" if value else "no"))
        elif isinstance(value, (int, float)):
            number = field_of.number()
            if str(name).endswith("_bytes"):
                rows.append((label.removesuffix(" bytes"), f"{number / 2**30:,.1f} GiB"))
            else:
                rows.append((label, f"{number:,.0f}" if number == int(number) else f"{number:,.2f}"))
        elif isinstance(value, str):
            rows.append((label, field_of.text()))
    return rows


def read_json(path: Path) -> Node:
    """The document of a file. @raises InputError"""
    name = str(path)
    try:
        if path.is_dir():
            raise InputError(f"'{name}' is a folder; name a JSON file")
        with path.open("rb") as stream:
            data = stream.read(LARGEST + 1)
    except OSError as error:
        raise InputError(f"cannot read '{name}': {error.strerror or error}") from None
    if len(data) > LARGEST:
        raise InputError(f"'{name}' has more than {LARGEST >> 20} MiB; results of kith are far smaller")
    if not data.strip():
        raise InputError(f"'{name}' is empty")
    try:
        value = json.loads(data.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise InputError(f"'{name}' is not JSON: byte {error.start} is not UTF-8") from None
    except json.JSONDecodeError as error:
        raise InputError(f"'{name}' is not JSON: line {error.lineno}, column {error.colno}: {error.msg}") from None
    except RecursionError:
        raise InputError(f"'{name}' is not a result of kith: its lists are nested too deeply") from None
    except ValueError as error:  # a whole number of thousands of digits
        raise InputError(f"'{name}' is not a result of kith: {error}") from None
    return Node(name, "", value)
