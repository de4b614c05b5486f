"""What ranks cannot do while they talk by oneCCL: refused before they begin, where it would hang or fail at the end."""

from __future__ import annotations

from collections.abc import Container
from typing import TYPE_CHECKING

from accel.distributed.data_parallel.gradient_compression import compression_of
from accel.errors import AccelError

if TYPE_CHECKING:
    from accel.distributed.cells.run_options import RunOptions


def check_limits(options: RunOptions, entries: Container[str]) -> None:
    """Raise AccelError for options, or entries of a plan, that oneCCL cannot carry here.

    >>> check_limits(RunOptions(compress="bf16"), entries=["autocast"])
    """
    if compression_of(options.compress).kind == "powersgd":
        raise AccelError(
            f"--backend ccl --compress {options.compress}",
            because="PowerSGD sends its second message when the first one is there, from the one thread in which oneCCL has to "
            "send the messages of a rank in turn, so each would wait for the other",
            do="Use --compress bf16, or --backend gloo.",
        )
    if "fully_shard" in entries:
        raise AccelError(
            "--backend ccl --plan fully_shard",
            because="the parts of the parameters are put together at the end by collectives that accel's backend of oneCCL does "
            "not have, and what was trained would be lost",
            do="Use --backend gloo, or leave fully_shard out.",
        )
