"""What the notebook itself changed while a copy of it trained elsewhere, and what thus was lost when that came home."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from accel.distributed.cells.home_objects import Path

if TYPE_CHECKING:
    import torch


class ChangedDuringRun:
    """The tensors at home as they were when they were packed, by torch's own count of their changes.

    >>> changes = ChangedDuringRun(home)      # as they are packed
    >>> changes.begin()                       # what is kept in the notebook is on again
    >>> changes.look()                        # before it is put off, and the state comes home
    >>> changes.note                          # after

    A fused optimizer leaves no mark on a tensor; a step of one in the notebook is not seen.
    """

    def __init__(self, home: Mapping[Path, Any]) -> None:
        import torch
        from torch.nn.parameter import is_lazy

        self._tensors = {
            path: value
            for path, value in home.items()
            if isinstance(value, torch.Tensor)
            and not is_lazy(value)
            and not value.is_inference()  # these count nothing, and cannot change
        }
        self._packed: dict[Path, tuple[torch.Tensor, int]] = {}
        self._changed: dict[Path, tuple[torch.Tensor, int]] | None = None
        self.begin()

    def begin(self) -> None:
        """What changes from now on is the notebook's doing."""
        self._packed = {path: (value, value._version) for path, value in self._tensors.items()}

    def look(self) -> None:
        """Note what has changed since; the first time counts."""
        if self._changed is not None:
            return
        self._changed = {
            path: (value, value._version)
            for path, (value, version) in self._packed.items()
            if value._version != version
        }

    @property
    def note(self) -> str:
        """Which variables had changed and were then replaced; empty where none were."""
        changed = (self._changed or {}).items()
        replaced = [path[0] for path, (value, version) in changed if value._version != version]
        names = ", ".join(dict.fromkeys(replaced))
        if not names:
            return ""
        return f"{names} changed in the notebook during this run, and that is lost: what the ranks trained stands there now."

    def forget(self) -> None:
        """Keep no tensor alive."""
        self._tensors, self._packed, self._changed = {}, {}, {}
