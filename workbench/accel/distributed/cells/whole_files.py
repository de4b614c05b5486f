"""Files that all ranks save and load, as a best checkpoint: each appears as a whole, and no rank reads a half of one."""

from __future__ import annotations

import functools
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from accel.hooks.attribute_patches import AttributePatches


@contextmanager
def saving_whole_files(rank: int) -> Iterator[None]:
    """While entered, `torch.save` to a path writes next to it first, and then puts the file in its place.

    >>> with saving_whole_files(rank=1):
    ...     torch.save(model.state_dict(), "best.pt"); torch.load("best.pt")
    """
    import torch

    def saving(original: Any) -> Any:
        @functools.wraps(original)
        def save(obj: Any, f: Any, *args: Any, **kwargs: Any) -> None:
            if not isinstance(f, (str, os.PathLike)) or (os.path.exists(f) and not os.path.isfile(f)):
                original(obj, f, *args, **kwargs)
                return
            place = os.path.realpath(f)
            own = f"{place}.of-rank-{rank}"
            try:
                original(obj, own, *args, **kwargs)
                if os.path.exists(place):
                    with suppress(OSError):  # a file system without permission bits
                        shutil.copymode(place, own)
                os.replace(own, place)
            finally:
                if os.path.exists(own):
                    os.unlink(own)

        return save

    patches = AttributePatches()
    patches.wrap(torch, "save", saving)
    try:
        yield
    finally:
        patches.take_back()
