"""A rank as torchrun would have launched it: its variables and arguments, and a process group that the cell joins and leaves.

The functions of torch that a script for torchrun begins and ends with are replaced once a process, so that modules which took
them by name in an earlier run do not call into that run.
"""

from __future__ import annotations

import functools
import inspect
import os
import sys
import types
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from accel.distributed.data_parallel.gradient_readers import is_of_library, with_nested
from accel.distributed.ranks.rank_place import RankPlace
from accel.errors import AccelError

if TYPE_CHECKING:
    from accel.distributed.ranks.process_group import JoinedGroup

_JOIN = "init_process_group"
_current: LaunchedCell | None = None


class LaunchedCell:
    """While entered, this rank looks to the cell like a process that torchrun, or mp.spawn, has started.

    >>> with LaunchedCell(place, timeout_s=60) as launched, process_group(...) as group:
    ...     launched.begins(group, name="<cell>", codes=codes)

    `distributes_itself` once the cell joined the process group by itself; `on_join` is called then.
    """

    def __init__(self, place: RankPlace, *, timeout_s: float) -> None:
        self._place, self.rank, self.world_size = place, place.rank, place.world_size
        self._timeout = timedelta(seconds=timeout_s)
        self._group: JoinedGroup | None = None
        self._joins = 0
        self._holds_own = False  # the group that is there is one that the cell made
        self._undo = ExitStack()
        self.backend = ""
        self.distributes_itself = False
        self.on_join: Callable[[], object] = lambda: None
        self.notes: list[str] = []

    def __enter__(self) -> LaunchedCell:
        global _current
        _replace_once()
        _current = self
        self._undo.callback(setattr, sys, "argv", sys.argv)
        return self

    def __exit__(self, *exc_info: object) -> None:
        global _current
        _current = None
        self._undo.close()

    def begins(self, group: JoinedGroup, *, name: str, codes: Iterable[types.CodeType]) -> None:
        """The ranks have met: what torchrun tells its processes is there from now on. `codes` is what the cell may run."""
        self._group, self.backend = group, group.backend
        sys.argv = [name]
        os.environ.update(launch_variables(self._place, _free_port(self._place, group.store)))
        codes = list(codes)
        if any("launch" in name for code in with_nested(codes) for name in code.co_names):
            _replace_launcher_once()
        if any({_JOIN, "is_initialized"} <= set(code.co_names) for code in with_nested(codes)):
            self._watch_guards()

    def joins(self, original: Callable[..., Any], given: dict[str, Any]) -> None:
        """The cell calls `init_process_group` with these arguments: the ranks meet anew, as it wants, and by our store."""
        import torch.distributed as dist

        assert self._group is not None
        if self._holds_own and dist.is_initialized():
            original(**given)  # twice, which torch refuses
        self._check(given)
        backend = self._backend(given.get("backend"))
        if not (backend == self._group.backend == "ccl"):  # oneCCL's ranks meet once
            if dist.is_initialized():
                inspect.unwrap(dist.destroy_process_group)()
            self._joins += 1
            store = dist.PrefixStore(f"cell {self._joins}", self._group.store)  # type: ignore[attr-defined]
            device = given.get("device_id")
            original(
                backend, store=store, rank=self.rank, world_size=self.world_size, timeout=self._timeout, device_id=device
            )  # fmt: skip
            if backend == "gloo":
                dist.barrier()  # a rank that is done at once would leave before another has connected to it
            self._holds_own, self.backend = True, dist.get_backend()
        self.is_joined()

    def leaves(self, original: Callable[..., Any], group: Any) -> None:
        """The cell calls `destroy_process_group`; the group that the ranks had before it began stays until they are done."""
        import torch.distributed as dist

        if self._holds_own or group not in (None, dist.group.WORLD):
            original(group)

    def starts(self, function: Callable[..., Any], args: Any, nprocs: int, join: bool) -> None:
        """The cell calls `torch.multiprocessing.spawn`: the ranks are the processes that it asks for."""
        asked = f"Starting {nprocs} processes (mp.spawn, start_processes) on {self.world_size} ranks"
        if nprocs != self.world_size:
            raise AccelError(
                asked, because="each rank calls the function once, as one of the processes",
                do=f"Use -n {nprocs}, or nprocs={self.world_size}." if nprocs > 0 else f"Use nprocs={self.world_size}.",
            )  # fmt: skip
        if not join:
            raise AccelError(
                asked, because="join=False gives processes to wait for, and here there are none", do="Leave join=False out."
            )  # fmt: skip
        function(self.rank, *args)

    def refuse_launch(self, by: str) -> None:
        """A library is about to start processes that train together."""
        raise AccelError(
            f"A cell on {self.world_size} ranks in which {by} launches ranks",
            because="%%accel ddp has already launched the ranks, and each of them would launch as many again",
            do="Call the training function itself, or let the library train in one process: the ranks of %%accel ddp then "
            "train together. Or run the cell without %%accel ddp.",
        )

    def is_joined(self) -> None:
        """From now on the cell's own doing decides who trains what."""
        if not self.distributes_itself:
            self.distributes_itself = True
            self.on_join()

    def _watch_guards(self) -> None:
        """`if not dist.is_initialized(): dist.init_process_group()` is joining, too."""
        import torch.distributed as dist

        def is_initialized() -> bool:
            caller = sys._getframe(1)
            if _JOIN in caller.f_code.co_names and not str(caller.f_globals.get("__name__")).startswith(
                "accel."
            ):
                self.is_joined()
            return original()

        original = dist.is_initialized
        dist.is_initialized = is_initialized
        self._undo.callback(setattr, dist, "is_initialized", original)

    def _check(self, given: dict[str, Any]) -> None:
        size, rank = given.get("world_size", -1), given.get("rank", -1)
        if size not in (-1, self.world_size):
            raise AccelError(
                f"init_process_group(world_size={size}) on {self.world_size} ranks", because="all ranks are in it",
                do=f"Use -n {size}, or leave world_size out.",
            )  # fmt: skip
        if rank not in (-1, self.rank, int(os.environ["LOCAL_RANK"])):
            raise AccelError(
                f"init_process_group(rank={rank}) in rank {self.rank}", because="each rank has its number already",
                do='Leave rank out, or take int(os.environ["RANK"]).',
            )  # fmt: skip

    def _backend(self, asked: str | None) -> str | None:
        """What the cell asks for, where that can be; else gloo, and a note."""
        import torch

        assert self._group is not None
        asked = str(asked).lower() if asked is not None else None
        ours = self._group.backend
        if asked == "ccl" and ours != "ccl":
            self.notes.append(
                "The cell asks for ccl: its ranks talked by gloo. --backend ccl lets them use oneCCL."
            )
            return "gloo"
        if asked is None:
            return ours
        if "nccl" not in asked or ours == "nccl":
            return asked
        why = "" if torch.cuda.device_count() else ", which needs a GPU for each rank, and there is none"
        self.notes.append(
            f"The cell asks for {asked}{why}: its ranks talked by gloo, as this run was started."
        )
        return "gloo"


def launch_variables(place: RankPlace, port: int) -> dict[str, str]:
    """What torchrun tells a process. A rank with one GPU to itself is a node of its own: its GPU has the number 0 there.

    >>> launch_variables(RankPlace.of_one_machine(1, 2), 29500)["WORLD_SIZE"]
    '2'
    """
    import torch

    is_node = torch.cuda.device_count() == 1
    return {
        "RANK": str(place.rank), "LOCAL_RANK": "0" if is_node else str(place.local_rank),
        "WORLD_SIZE": str(place.world_size), "LOCAL_WORLD_SIZE": "1" if is_node else str(place.local_world_size),
        "MASTER_ADDR": place.first_host, "MASTER_PORT": str(port),
    }  # fmt: skip


def _free_port(place: RankPlace, store: Any) -> int:
    """The same on all ranks; nothing listens there unless the cell makes something that does."""
    import socket

    if place.rank == 0:
        with socket.socket() as free:
            free.bind((place.first_host if place.is_alone else "", 0))  # its name may be that of a gateway
            store.set("accel port", str(free.getsockname()[1]))
    return int(store.get("accel port"))


@functools.cache
def _replace_once() -> None:
    import torch.distributed as dist
    import torch.multiprocessing as mp

    core, spawning = (
        sys.modules["torch.distributed.distributed_c10d"],
        sys.modules["torch.multiprocessing.spawn"],
    )
    for name, make in (("init_process_group", _joining), ("destroy_process_group", _leaving)):
        replacement = make(getattr(core, name))
        for owner in (core, dist):
            setattr(owner, name, replacement)
    for owner in (spawning, mp):
        vars(owner)["spawn"] = _spawning(inspect.unwrap(vars(owner)["spawn"]))
        vars(owner)["start_processes"] = _starting(inspect.unwrap(vars(owner)["start_processes"]))


@functools.cache
def _replace_launcher_once() -> None:
    """What torchrun does in a process; importing it takes a tenth of a second."""
    import torch.distributed.launcher.api as launcher

    launcher.launch_agent = _launching(launcher.launch_agent)


def called_by_us() -> bool:
    """Whether the caller of the function that asks is of this package: then it is not the cell's doing."""
    return str(sys._getframe(2).f_globals.get("__name__", "")).startswith("accel.")


def _joining(original: Callable[..., Any]) -> Callable[..., Any]:
    parameters = inspect.signature(original)

    @functools.wraps(original)
    def init_process_group(*args: Any, **kwargs: Any) -> None:
        if _current is None or called_by_us():
            original(*args, **kwargs)
        else:
            _current.joins(original, dict(parameters.bind(*args, **kwargs).arguments))

    return init_process_group


def _leaving(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def destroy_process_group(group: Any = None) -> None:
        if _current is None or called_by_us():
            original(group)
        else:
            _current.leaves(original, group)

    return destroy_process_group


def _spawning(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def spawn(
        fn: Any, args: Any = (), nprocs: int = 1, join: bool = True, daemon: bool = False, start_method: str = "spawn"
    ) -> Any:  # fmt: skip
        if _current is None or called_by_us():
            return original(fn, args, nprocs, join, daemon, start_method)
        return _current.starts(fn, args, nprocs, join)

    return spawn


def _starting(original: Callable[..., Any]) -> Callable[..., Any]:
    parameters = inspect.signature(original)

    @functools.wraps(original)
    def start_processes(*args: Any, **kwargs: Any) -> Any:
        caller = sys._getframe(1)
        name = str(caller.f_globals.get("__name__"))
        if _current is None or name.startswith(("accel.", "torch.multiprocessing.")):
            return original(*args, **kwargs)
        if is_of_library(caller.f_code):
            _current.refuse_launch(name.partition(".")[0])
        given = parameters.bind(*args, **kwargs)
        given.apply_defaults()
        return _current.starts(*(given.arguments[each] for each in ("fn", "args", "nprocs", "join")))

    return start_processes


def _launching(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def launch_agent(*args: Any, **kwargs: Any) -> Any:
        if _current is not None:
            _current.refuse_launch("torch's elastic launcher")
        return original(*args, **kwargs)

    return launch_agent
