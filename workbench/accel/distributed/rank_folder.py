"""A rank's folder: what its Python and its cell put into files, and the name of the process that used oneCCL."""

from __future__ import annotations

from accel.distributed.oneccl.leftovers import remove_of
from accel.workers import kernel_folder


class RankFolder(kernel_folder.KernelFolder):
    """A folder of this user alone, until `close`.

    >>> folder = RankFolder(); folder.path
    '/tmp/accel-rank-k3j2h1g0'
    """

    def __init__(self) -> None:
        super().__init__("rank")

    def close(self) -> None:
        """Remove it with all that is in it."""
        if self.is_open:
            remove_of(self.path)
        super().close()


def remove_abandoned() -> None:
    """Remove the folders that kernels left which were killed: nobody holds them any more."""
    kernel_folder.remove_abandoned("rank", "meet", before=remove_of)
