"""Several things in one pickle: what they share stays shared, and one that cannot travel takes none of the others along."""

from __future__ import annotations

import gc
import io
import pickle
import sys
import types
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from accel.errors import first_line
from accel.workload.memory_file import MemoryFile
from accel.workload.shipping import Found, make_pickler

Parts = Sequence[tuple[Hashable, Any]]
FOREIGN = (Exception, SystemExit)  # what code of the user's may raise while it is pickled or put together


def pack_parts(parts: Parts, known: Mapping[int, Any]) -> tuple[bytes, MemoryFile, dict[Any, str]]:
    """The (key, value) pairs as one blob with its memory, and by key why a value is not among them.

    >>> blob, memory, refused = pack_parts([("a", model), ("b", lock)], known={})
    >>> refused
    {'b': "cannot pickle '_thread.lock' object"}
    """
    try:
        return _packed(parts, known, is_careful=False)
    except FOREIGN:
        return _packed(parts, known, is_careful=True)


def _packed(
    parts: Parts, known: Mapping[int, Any], *, is_careful: bool
) -> tuple[bytes, MemoryFile, dict[Any, str]]:
    memory, stream, buffers = MemoryFile(), io.BytesIO(), list[tuple[int, int]]()
    pickler = make_pickler(stream, memory, known, buffers, lambda _: None)  # the notebook has the owners
    index: list[tuple[Any, int, int]] = []  # where each part's bytes and buffers end
    refused: dict[Any, str] = {}
    try:
        for key, value in parts:
            seen = pickler.memo.copy() if is_careful else None
            try:
                pickler.dump(value)
            except FOREIGN as error:
                if seen is None:
                    raise
                refused[key] = first_line(error)
                _, stream_end, buffers_end = index[-1] if index else (None, 0, 0)
                pickler.memo = seen
                stream.seek(stream_end)
                stream.truncate()
                del buffers[buffers_end:]
            else:
                index.append((key, stream.tell(), len(buffers)))
        blob = pickle.dumps((buffers, index, stream.getvalue()))
    except BaseException:
        memory.close()
        raise
    memory.seal()
    return blob, memory, refused


def unpack_parts(
    blob: bytes, memory: MemoryFile, known: Mapping[Any, Any]
) -> tuple[list[tuple[Any, Any]], dict[Any, str]]:
    """What `pack_parts` packed, and by key why a part cannot be put together here."""
    spans, index, stream = pickle.loads(blob)
    buffers = [memory.view(offset, size) for offset, size in spans]
    with _no_word_of_the_unfinished():
        return _unpacked(stream, index, buffers, memory, known)


@contextmanager
def _no_word_of_the_unfinished() -> Iterator[None]:
    """Objects that were half made may raise as they are let go, and Python would print that."""
    hook, sys.unraisablehook = sys.unraisablehook, lambda _: None
    try:
        yield
        gc.collect(0)  # those in a cycle, as errors are
    finally:
        sys.unraisablehook = hook


def _unpacked(
    stream: bytes, index: list[tuple[Any, int, int]], buffers: list[memoryview], memory: MemoryFile,
    known: Mapping[Any, Any],
) -> tuple[list[tuple[Any, Any]], dict[Any, str]]:  # fmt: skip
    try:
        unpickler = _Whole(io.BytesIO(stream), buffers=buffers)
        unpickler.found = Found(memory, known)
        return [(key, unpickler.load()) for key, _, _ in index], {}
    except FOREIGN:
        return _unpacked_carefully(stream, index, buffers, Found(memory, known))


def _unpacked_carefully(
    stream: bytes, index: list[tuple[Any, int, int]], buffers: list[memoryview], found: Found
) -> tuple[list[tuple[Any, Any]], dict[Any, str]]:
    """Part by part, by Python's own unpickler, which lets us go on behind what fails: later parts refer to the rest."""
    arrived, refused = [], dict[Any, str]()
    memo = _Memo()
    begin = first_buffer = 0
    for key, end, last_buffer in index:
        before, memo.has_lost = len(memo), False
        part = _Forgiving(io.BytesIO(stream[begin:end]), buffers=iter(buffers[first_buffer:last_buffer]))
        part.memo, part.found, part.errors = memo, found, []
        value = part.load()
        if part.errors or memo.has_lost:
            refused[key] = first_line(part.errors[0]) if part.errors else _SHARED
            unfinished = [at for at in range(before, len(memo)) if not _is_whole_when_made(memo.get(at))]
            memo.update(dict.fromkeys(unfinished, _LOST))
        else:
            arrived.append((key, value))
        begin, first_buffer = end, last_buffer
    return arrived, refused


def _is_whole_when_made(value: Any) -> bool:
    """What no later instruction of a pickle completes; anything else of a part that failed may lack its contents."""
    import torch

    if isinstance(value, tuple):
        return all(map(_is_whole_when_made, value))
    if isinstance(
        value, (type, types.FunctionType)
    ):  # by name; those of the notebook are made piece by piece
        return value.__module__ != "__main__" and "<locals>" not in value.__qualname__
    made = (torch.Tensor, torch.storage.TypedStorage, torch.dtype, torch.device, types.BuiltinFunctionType)
    return isinstance(value, (str, bytes, int, float, *made))


class _Lost:
    """In the place of what could not be made; takes whatever a pickle does with it."""

    def _take(self, *_: Any) -> _Lost:
        return self

    append = extend = update = add = __setitem__ = __setstate__ = __call__ = _take


_LOST = _Lost()
_SHARED = "it shares something with another variable that could not be put together"


class _Memo(dict[int, Any]):
    has_lost = False  # something lost was asked for

    def __getitem__(self, place: int) -> Any:
        value = super().__getitem__(place)
        self.has_lost |= value is _LOST
        return value


class _Whole(pickle.Unpickler):
    found: Found

    def persistent_load(self, key: Any) -> Any:
        return self.found(key)


class _Forgiving(pickle._Unpickler):
    """Notes what fails and goes on behind it, so that every later place in the memo is what it should be."""

    memo: _Memo
    found: Found
    errors: list[BaseException]
    stack: list[Any]

    def persistent_load(self, key: Any) -> Any:
        try:
            return self.found(key)
        except FOREIGN as error:
            self.errors.append(error)
            return _LOST

    def find_class(self, module: str, name: str) -> Any:
        try:
            return super().find_class(module, name)
        except FOREIGN as error:
            self.errors.append(error)
            return _LOST


def _forgiving(load: Callable[[Any], None], lost: str) -> Callable[[Any], None]:
    def load_anyway(self: Any) -> None:
        try:
            load(self)
        except FOREIGN as error:
            self.errors.append(error)
            if lost == "instead":
                self.stack[-1] = _LOST
            elif lost == "on top":
                self.stack.append(_LOST)

    return load_anyway


# Instructions that call code of the user's, and where their result belongs on the stack once they have taken their operands.
_RESULTS = {
    pickle.REDUCE: "instead", pickle.NEWOBJ: "on top", pickle.NEWOBJ_EX: "on top", pickle.FROZENSET: "on top",
    pickle.BUILD: "", pickle.APPEND: "", pickle.APPENDS: "", pickle.SETITEM: "", pickle.SETITEMS: "", pickle.ADDITEMS: "",
}  # fmt: skip
_Forgiving.dispatch = pickle._Unpickler.dispatch | {
    code[0]: _forgiving(pickle._Unpickler.dispatch[code[0]], lost) for code, lost in _RESULTS.items()
}
