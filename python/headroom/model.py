# SPDX-License-Identifier: Apache-2.0
"""Whole models that run: the operators that `describe` lists, with a checkpoint's weights or random ones."""
from __future__ import annotations

import ctypes
import os
import threading
import weakref
from ctypes import byref
from typing import Any, Optional, Sequence, Tuple, Union

import numpy

from . import _bindings as c
from . import _models, _options
from ._advice_calls import default, owned
from ._interrupt import Interruptible
from ._library import advice as library
from ._library import call
from .device import Device
from .errors import InvalidError

Ids = Union[int, Sequence[int], Sequence[Sequence[int]], numpy.ndarray, Any]  # whatever numpy takes for an array
RANDOM = "random"


class Model:
    """A model on a device, with room for `slots` sequences of at most `tokens` tokens: None is the smaller of 4096 and
    the model's own. `weights`: a checkpoint's folder or file, "random", or None, those beside the configuration where
    there are some and random ones of `seed` otherwise; `weights_format` "q8_0" quantizes those of linear layers as they
    are read, on a CPU. Closed by close(), as a context manager, or with the last reference to it. Threads that share it
    wait for each other.

    Ids are rows of the token embedding, [tokens] of one sequence or [batch, tokens]; `slots` [batch] says where the
    sequences are kept, by default in the first ones. Logits are float32.

    With `trains` it has gradients and the states of AdamW in the place of slots: forward() and train() run, in fp32 or
    bf16. The five numbers behind it are AdamW's, of all weights alike; gradients are scaled to a norm of at most
    `max_norm`, 0: not."""

    def __init__(self, model: _models.ModelLike, *, device: str = "cpu", dtype: str = "fp32",
                 weights: Optional[_options.Path] = None, slots: int = 1, tokens: Optional[int] = None, seed: int = 1,
                 threads: int = 0, weights_format: Optional[str] = None, trains: bool = False,
                 learning_rate: float = 1e-3, beta1: float = 0.9, beta2: float = 0.999, weight_decay: float = 0.0,
                 max_norm: float = 0.0) -> None:
        if hasattr(model, "state_dict"):
            raise InvalidError("model: the weights of a module are not read; pass its checkpoint's folder or its config")
        read, found = _models.read(model)
        if weights_format is not None:
            _models.set_weights(read, "weights_format", weights_format)
        options = default(c.hr_executor_options)
        options.dtype, options.slots = _options.dtype_of(dtype), _options.whole("slots", slots)
        options.trains = _options.flag("trains", trains)
        for name, value in (("learning_rate", learning_rate), ("beta1", beta1), ("beta2", beta2),
                            ("weight_decay", weight_decay), ("max_norm", max_norm)):
            setattr(options, name, _options.number(name, value))
        options.tokens = 0 if tokens is None else _options.whole("tokens", tokens)
        seed, threads = _options.count("seed", seed), _options.count("threads", threads)
        checkpoint = checkpoint_of(read, found, weights)
        self.name, self._lock = read.name.decode(), threading.Lock()
        self._device = Device(_options.text("device", device), threads)
        executor = ctypes.c_void_p()
        try:
            call(library().hr_executor_open, self._device.handle, byref(read), byref(options), byref(executor))
        except Exception:
            self._device.close()
            raise
        self._executor: Optional[int] = executor.value
        self._close = weakref.finalize(self, _close, executor.value or 0, self._device, os.getpid())
        self._load(checkpoint, seed)

    def close(self) -> None:
        """Frees all that the model has; again does nothing."""
        with self._lock:
            self._executor = None
            self._close()

    def __enter__(self) -> Model:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Model({self.name!r}, device={self._device.name!r}{'' if self._executor else ', closed'})"

    @property
    def handle(self) -> int:
        """The hr_executor."""
        if self._executor is None:
            raise InvalidError(f"model {self.name} is closed")
        return self._executor

    @property
    def outputs(self) -> int:
        """Logits of a token."""
        return int(library().hr_executor_outputs(self.handle))

    @property
    def nbytes(self) -> int:
        """Bytes of weights and KV caches, or of what trains them."""
        return int(library().hr_executor_bytes(self.handle))

    def length(self, slot: int = 0) -> int:
        """Tokens of a slot."""
        return int(library().hr_executor_length(self.handle, _options.count("slot", slot)))

    def truncate(self, length: int, slot: int = 0) -> None:
        """Keeps the first tokens of a slot."""
        with self._lock:
            call(library().hr_executor_truncate, self.handle, _options.count("slot", slot),
                 _options.count("length", length))

    def forward(self, ids: Ids) -> numpy.ndarray:
        """The logits of all tokens, [tokens, outputs] or [batch, tokens, outputs], of sequences that are not kept."""
        array = ids_of("forward", ids)
        return self._step(c.HR_PHASE_FORWARD, array, None).reshape(*array.shape, -1)

    def train(self, ids: Ids, microbatches: int = 1) -> numpy.ndarray:
        """A step of AdamW on the mean loss of sequences, two tokens or more of each, whose gradients are those of so many
        equal parts of the sequences, one after another, added up. Returns the loss of each token before the step,
        [tokens] or [batch, tokens], 0 behind the last of a sequence."""
        array, count = ids_of("train", ids), _options.whole("microbatches", microbatches)
        if rows_of(array).shape[0] % count:
            raise InvalidError(f"train: microbatches: {count} do not divide {rows_of(array).shape[0]} sequences")
        return self._step(c.HR_PHASE_TRAIN, array, None, count).reshape(array.shape)

    def prefill(self, ids: Ids, slots: Optional[Sequence[int]] = None) -> numpy.ndarray:
        """The logits of the last token, [outputs] or [batch, outputs]. The tokens are the first of their slots."""
        array = ids_of("prefill", ids)
        return self._step(c.HR_PHASE_PREFILL, array, slots).reshape(*array.shape[:-1], -1)

    def decode(self, ids: Ids, slots: Optional[Sequence[int]] = None) -> numpy.ndarray:
        """The logits of further tokens of slots, 16 at most of each: [tokens, outputs] or [batch, tokens, outputs], and
        [outputs] of a number."""
        array = ids_of("decode", ids)
        return self._step(c.HR_PHASE_DECODE, array, slots).reshape(*array.shape, -1)

    def generate(self, ids: Ids, tokens: int = 16) -> numpy.ndarray:
        """The ids that follow a prompt, each the one with the largest logit. They are kept, in slot 0."""
        prompt, count = ids_of("generate", ids), _options.whole("tokens", tokens)
        if prompt.ndim > 1:
            raise InvalidError(f"generate: ids have {prompt.ndim} dimensions; expected 1, the prompt of one sequence")
        found, given = ctypes.c_void_p(), input_of(c.HR_PHASE_PREFILL, rows_of(prompt), None)
        with self._lock:
            call(library().hr_generate, self.handle, byref(given), count, byref(found))
        with owned(library().hr_generated_free, found):
            generated = c.hr_generated.from_address(found.value)
            size = generated.count * numpy.dtype(numpy.int32).itemsize
            return numpy.frombuffer(ctypes.string_at(generated.ids, size), numpy.int32).copy()

    def _load(self, checkpoint: Optional[str], seed: int) -> None:
        what = None if checkpoint is None else checkpoint.encode()
        try:
            with Interruptible() as interrupt:
                call(library().hr_executor_load, self.handle, what, seed, interrupt.progress, None)
        except BaseException:
            self.close()
            raise

    def _step(self, phase: int, array: numpy.ndarray, slots: Optional[Sequence[int]],
              microbatches: int = 1) -> numpy.ndarray:
        ids = rows_of(array)
        places = None if slots is None else slots_of(slots, ids.shape[0])
        with self._lock:
            rows = ids.shape[0] if phase == c.HR_PHASE_PREFILL else ids.size
            columns = 1 if phase == c.HR_PHASE_TRAIN else self.outputs
            logits = numpy.empty((rows, columns), numpy.float32)
            given = input_of(phase, ids, places)
            given.batch, given.microbatches = given.batch // microbatches, microbatches
            call(library().hr_executor_step, self.handle, byref(given), logits.ctypes.data)
        return logits


def _close(executor: int, device: Device, process: int) -> None:
    if os.getpid() == process:  # as a device
        library().hr_executor_close(executor)
        device.close()


def checkpoint_of(model: Any, found: str, weights: Optional[_options.Path]) -> Optional[str]:
    """What hr_executor_load() is to read; None: random weights."""
    if weights is None:
        return found if model.origin == c.HR_ORIGIN_FILES else None
    asked = _options.text("weights", weights)
    return None if asked == RANDOM else asked


# ---- arrays ----


def ids_of(what: str, ids: Ids, name: str = "ids") -> numpy.ndarray:
    """An array of the library's ids. It checks their range; here they only have to fit into 32 bits."""
    try:
        array = numpy.asarray(ids)
    except (TypeError, ValueError) as cause:
        raise InvalidError(f"{what}: {name}: {cause}") from None
    if array.ndim > 2 or (array.size > 0 and array.dtype.kind not in "iu"):
        raise InvalidError(f"{what}: {name} are {array.dtype.name} of {array.ndim} dimensions; expected whole numbers, "
                           "[tokens] or [batch, tokens]")
    numbers = numpy.ascontiguousarray(array, numpy.int32).reshape(array.shape)
    if not numpy.array_equal(numbers, array):
        raise InvalidError(f"{what}: {name} has {array[numbers != array].flat[0]}, which is no id")
    return numbers


def rows_of(array: numpy.ndarray) -> numpy.ndarray:
    """Ids as [batch, tokens]."""
    return array if array.ndim == 2 else array.reshape(1, -1)


def slots_of(slots: Sequence[int], batch: int) -> numpy.ndarray:
    """A slot for each sequence."""
    array = numpy.ascontiguousarray(ids_of("slots", slots, "slots"), numpy.int64)
    if array.shape != (batch,):
        raise InvalidError(f"slots: expected {batch}, one for each sequence, found {list(array.shape)}")
    return array


def input_of(phase: int, ids: numpy.ndarray, slots: Optional[numpy.ndarray]) -> Any:
    """An hr_executor_input, with the arrays that it points to."""
    given: Tuple[int, int] = ids.shape
    step = default(c.hr_executor_input)
    step.phase, (step.batch, step.tokens), step.ids = phase, given, ids.ctypes.data
    step.slots = None if slots is None else slots.ctypes.data
    step.owner = (ids, slots)
    return step
