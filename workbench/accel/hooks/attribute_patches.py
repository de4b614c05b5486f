"""Attributes replaced for a while, and given back as the same objects, in whatever order.

One rule holds wherever accel replaces something of torch. A replacement that lies on top is taken off, and with it all below it
whose time is over. One that something else covers stays there until that goes: whoever put it on top calls it, and it passes
calls on. So an undo neither drops what came later nor brings back what was over.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

_MISSING = object()
_taken_back: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()  # replacements → what they replaced
_seen_by_dynamo: list[AttributePatches] = []
_places: WeakKeyDictionary[Any, set[str]] = WeakKeyDictionary()  # owners → names that once had a replacement


class Patch(NamedTuple):
    """One replaced attribute; `own` is what its owner itself held, if anything."""

    owner: Any
    name: str
    replacement: Any
    own: Any


class AttributePatches:
    """Replacements that `take_back` undoes, last first.

    While dynamo traces, the originals are in place, below all patches that see it: it would guard on a replacement, and
    compile a second time when that is gone.

    >>> patches.wrap(torch.Tensor, "to", watching)   # watching(original) gives the replacement
    >>> patches.take_back()

    A replacement that does more than note asks `are_on` first: it may be called after its time, by what lies on top of it.
    """

    def __init__(self) -> None:
        self.are_on = False
        self._patches: list[Patch] = []
        self._with_them: list[Callable[[], object]] = []
        self._compiler: Any = (
            None  # dynamo's callback handler, once dynamo is there and we registered with it
        )

    def wrap(self, owner: Any, name: str, make: Callable[[Any], Any]) -> None:
        """Replace an attribute by what `make` gives for it."""
        self.add(owner, name, make(getattr(owner, name)))

    def add(self, owner: Any, name: str, replacement: Any) -> None:
        """Replace an attribute; the replacement is a new object, never one that was taken back before."""
        patch = Patch(owner, name, replacement, vars(owner).get(name, _MISSING))
        self._patches.append(patch)
        _places.setdefault(owner, set()).add(name)
        self.are_on = True
        setattr(owner, name, replacement)

    def with_them(self, undo: Callable[[], object]) -> None:
        """Something else to undo when they are taken back, before them."""
        self.are_on = True
        self._with_them.append(undo)

    def take_back(self) -> None:
        """Put the originals back for good. What the cell itself put over a replacement stays."""
        self.are_on = False
        with contextlib.ExitStack() as undoing:  # whatever one of them raises, the others are undone
            undoing.callback(self._end_patches)
            while self._with_them:
                undoing.callback(self._with_them.pop(0))

    def _end_patches(self) -> None:
        if self in _seen_by_dynamo:
            _seen_by_dynamo.remove(self)
            for callbacks in (self._compiler.start_callbacks, self._compiler.end_callbacks):
                callbacks[:] = [
                    callback for callback in callbacks if callback not in (self._stand_back, self._return)
                ]
        self._put_originals()
        _taken_back.update({patch.replacement: patch.own for patch in self._patches})
        self._patches.clear()

    @property
    def can_see_compiler(self) -> bool:
        """Whether the originals will be put back while dynamo traces; False while dynamo has not been imported."""
        return self._compiler is not None

    def see_compiler(self) -> None:
        """Ask dynamo, if it has been imported by now, to tell when it begins and ends compiling."""
        callback = sys.modules.get("torch._dynamo.callback")
        handler = getattr(callback, "callback_handler", None)
        if handler is not None and self._compiler is None:
            self._compiler = handler
            _seen_by_dynamo.append(self)
            handler.register_start_callback(self._stand_back)
            handler.register_end_callback(self._return)

    def _stand_back(self, *_: Any) -> None:
        # one that covered another may be off now
        while any(patches._put_originals() for patches in _seen_by_dynamo):
            pass

    def _return(self, *_: Any) -> None:
        # one that another lies on may be there now
        while any(patches._put_replacements() for patches in _seen_by_dynamo):
            pass

    def _put_originals(self) -> int:
        """How many it took off: those that lie on top."""
        count = 0
        for patch in reversed(self._patches):
            if vars(patch.owner).get(patch.name) is patch.replacement:
                _put(patch.owner, patch.name, _still_on(patch.own))
                count += 1
        return count

    def _put_replacements(self) -> int:
        """How many it put on: those whose own is in place."""
        count = 0
        for patch in self._patches:
            if vars(patch.owner).get(patch.name, _MISSING) is _still_on(patch.own):
                setattr(patch.owner, patch.name, patch.replacement)
                count += 1
        return count


def repair_patches() -> None:
    """Put originals back where a cell restored a replacement that it had saved while that was in force.

    >>> saved = nn.Module.__call__   # in a cell that is profiled
    >>> nn.Module.__call__ = saved   # in a later one
    """
    for owner, names in list(_places.items()):
        for name in names:
            found = vars(owner).get(name)
            if callable(found) and found in _taken_back:
                _put(owner, name, _still_on(found))


def _still_on(own: Any) -> Any:
    """What lies there, or below it the first whose time is not over."""
    while own in _taken_back:
        own = _taken_back[own]
    return own


def _put(owner: Any, name: str, own: Any) -> None:
    if own is _MISSING:
        delattr(owner, name)
    else:
        setattr(owner, name, own)
