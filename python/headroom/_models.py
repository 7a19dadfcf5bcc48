# SPDX-License-Identifier: Apache-2.0
"""What a user names as a model, read by the library."""
from __future__ import annotations

import ctypes
import json
import os
import warnings
from ctypes import byref
from typing import Any, List, Mapping, Tuple, Union

from . import _bindings as c
from ._advice_calls import default
from ._library import advice as library
from ._library import call
from ._options import text
from .errors import InvalidError, NotFoundError

# A path, a name, the content of a config.json, a transformers.PretrainedConfig, or a module that has one.
ModelLike = Union[str, "os.PathLike[str]", Mapping[str, Any], Any]
NOTE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p)


class Note(UserWarning):
    """A remark of the library on what it has read."""


class Notes:
    """Collects the library's remarks; those on what was left out become warnings."""

    def __init__(self) -> None:
        self.left_out: List[str] = []
        self._function = NOTE(self._take)

    def _take(self, _: Any, kind: int, message: bytes) -> None:
        if kind == c.HR_NOTE_LEFT_OUT:
            self.left_out.append(message.decode("utf-8", "replace"))

    @property
    def address(self) -> Any:
        return ctypes.cast(self._function, ctypes.c_void_p)

    def warn(self) -> None:
        for message in self.left_out:
            warnings.warn(message, Note, stacklevel=5)


def read(model: ModelLike) -> Tuple[Any, str]:
    """An hr_model, and the name by which its checkpoint is found: "" for what is no file."""
    if isinstance(model, (str, os.PathLike)):
        name = text("model", model)
        if name == "-":
            raise InvalidError("model: \"-\", standard input, is for the command; read it and pass a dict")
        return resolved(name), "" if name.startswith("{") else name
    return parsed(*configuration(model)), ""


def configuration(model: Any) -> Tuple[Mapping[str, Any], str]:
    """The content of a config.json, and a name for it."""
    config = model if isinstance(model, Mapping) else getattr(model, "config", model)
    content = config.to_dict() if hasattr(config, "to_dict") else config
    if not isinstance(content, Mapping):
        raise InvalidError("model: expected a path, a name, a dict, a configuration or a module with one, found "
                           f"{type(model).__name__}")
    named = content.get("_name_or_path") or getattr(config, "name_or_path", None)
    return content, named if isinstance(named, str) and named else content.get("model_type") or "config"


def resolved(name: str) -> Any:
    model, notes = default(c.hr_model), Notes()
    call(library().hr_resolve_model, name.encode(), notes.address, None, byref(model))
    notes.warn()
    return model


def parsed(content: Mapping[str, Any], name: str) -> Any:
    """A model of the content of a config.json. Values that JSON has not, such as a number format of PyTorch, are
    written as text."""
    try:
        written = json.dumps(dict(content), default=str).encode()
    except (TypeError, ValueError) as cause:
        raise InvalidError(f"{name}: {cause}") from None
    model, notes = default(c.hr_model), Notes()
    given = c.hr_input(written, len(written), str(name).encode())
    call(library().hr_model_from_json, byref(given), notes.address, None, byref(model))
    notes.warn()
    return model


def checkpoint(name: str) -> Any:
    """The safetensors files beside a configuration; none, with a warning, if they have not been fetched."""
    found = c.hr_checkpoint()
    if not name:
        return found
    try:
        call(library().hr_resolve_checkpoint, name.encode(), byref(found))
    except NotFoundError as missing:
        if ".safetensors" in name:
            raise
        warnings.warn(f"the checkpoint is not read: {missing}", Note, stacklevel=4)
        return c.hr_checkpoint()
    return found


def set_weights(model: Any, name: str, given: Any) -> None:
    """Gives all linear layers the format of an option."""
    try:
        call(library().hr_model_set_weights, byref(model), text(name, given).encode())
    except NotFoundError as unknown:
        raise InvalidError(f"{name}: {unknown}") from None
