# SPDX-License-Identifier: Apache-2.0
"""JSON documents of the library as objects whose classes are in documents.py."""
from __future__ import annotations

import copy
import html
import typing
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar, Dict, Optional, Type, TypeVar

from .errors import InvalidError, UnavailableError

if TYPE_CHECKING:
    import pandas

RowType = TypeVar("RowType", bound="Row")
FRAME = '<iframe srcdoc="{}" sandbox="allow-scripts" style="width: 100%; height: 40em; border: 0; resize: vertical">' \
        "</iframe>"


class Row:
    """An object of a document. Its attributes are the keys, with a `_` behind those that Python reserves."""
    _body: ClassVar[Optional[str]] = None  # the attribute whose rows CSV has
    _json: Dict[str, Any]

    @classmethod
    def of(cls: Type[RowType], document: Dict[str, Any]) -> RowType:
        """The object of a document that json.loads() has read."""
        row = cls(**{name: of_kind(kind, document[key_of(name)]) for name, kind in kinds(cls).items()})
        object.__setattr__(row, "_json", document)
        return row

    def to_dict(self) -> Dict[str, Any]:
        """The JSON of it, as the command writes it."""
        return copy.deepcopy(self._json)

    def to_pandas(self, table: Optional[str] = None) -> pandas.DataFrame:
        """A list of rows as a table; by default the one that the command writes as CSV."""
        tables = [name for name in kinds(type(self)) if row_of(kinds(type(self))[name]) is not None]
        name = self._body if table is None else table
        if name not in tables:
            raise InvalidError(f"table: {type(self).__name__} has no table {name!r}, but {', '.join(tables) or 'none'}")
        columns = [key_of(column) for column in kinds(row_of(kinds(type(self))[name]))]
        frame: pandas.DataFrame = needed_pandas().DataFrame(copy.deepcopy(self._json[name]), columns=columns)
        return frame


@dataclass(frozen=True)
class Document(Row):
    """A whole document, which prints as the command does."""
    schema: str
    version: str

    @classmethod
    def of_texts(cls: Type[DocumentType], document: Dict[str, Any], table: str, page: Optional[str]) -> DocumentType:
        """The object of a document with its table and its HTML page, if it has one."""
        result = cls.of(document)
        object.__setattr__(result, "_table", table)
        object.__setattr__(result, "_page", page)
        return result

    def __str__(self) -> str:
        return str(self.__dict__["_table"]).rstrip("\n")

    __repr__ = __str__

    def _repr_html_(self) -> str:
        page = self.__dict__["_page"]
        if page is None:
            return f"<pre>{html.escape(str(self))}</pre>"
        return FRAME.format(html.escape(page))


DocumentType = TypeVar("DocumentType", bound=Document)


def key_of(name: str) -> str:
    """The key of an attribute: `class` of `class_`."""
    return name[:-1] if name.endswith("_") else name


KINDS: Dict[Any, Dict[str, Any]] = {}


def kinds(row: Any) -> Dict[str, Any]:
    """The attributes with their types, which are found once for a class."""
    if row not in KINDS:
        hints = typing.get_type_hints(row)
        KINDS[row] = {field.name: hints[field.name] for field in fields(row)}
    return KINDS[row]


def row_of(kind: Any) -> Any:
    """The class of the rows in a list; None of other types."""
    inner = typing.get_args(kind)[0] if typing.get_origin(kind) is list else None
    return inner if isinstance(inner, type) and issubclass(inner, Row) else None


def of_kind(kind: Any, value: Any) -> Any:
    """A value of JSON as its declared type."""
    if value is None:
        return None
    if typing.get_origin(kind) is typing.Union:
        kind = typing.get_args(kind)[0]
    if row_of(kind) is not None:
        return [row_of(kind).of(each) for each in value]
    if isinstance(kind, type) and issubclass(kind, Row):
        return kind.of(value)
    return float(value) if kind is float else value


def needed_pandas() -> Any:
    """The module, which is loaded by the first call that needs it."""
    try:
        import pandas
    except ImportError:
        raise UnavailableError("to_pandas: Python has no pandas here: pip install 'headroom[pandas]'") from None
    return pandas
