"""What the kernel and its workers say to each other: typed JSON headers over an inherited socket pair.

The kernel may send a worker a pickle (it is the worker's parent and made the socket); a worker never sends one back. Every
message from a worker is decoded by msgspec against these types: whatever a crashed or foreign process writes, nothing is
unpickled in the notebook.
"""

from __future__ import annotations

import array
import errno
import os
import select
import socket
import struct
import time
from collections.abc import Callable
from typing import Any

import msgspec

from accel.errors import shortened
from accel.profiling.compilation import Compilation
from accel.workload.read_backs import ReadBack

_LONGEST_LINE = 500  # characters


class QualityQuestion(msgspec.Struct, frozen=True):
    """How a worker tells the quality of what it trains, and from which weights it starts.

    `metric` is "accuracy" or "loss", or a function of the namespace that takes so many `arguments` (of model, loader).
    """

    metric: str
    is_built_in: bool
    arguments: int
    held_out: str
    model: str
    model_class: str
    criterion: str
    training_loader: str
    seed: int  # of all random numbers
    start: str  # "same": from the weights as they are in the notebook; "new": from new ones
    repeats: bool  # False: the cell builds its model itself, so that a second run of it would begin anew


class Load(msgspec.Struct, tag="load", frozen=True):
    """Kernel → worker: take this workload (the pickle follows), apply this plan, wait at the first step."""

    plan: str
    allocator: str  # as `notebook_allocator` says it
    source: str
    filename: str
    boundary: str
    folder: str
    import_path: list[str]
    roles: dict[str, list[str]]
    finds_objects: bool
    trains_on: str = ""  # the device of the workload's models
    samples_per_batch: int = 0  # what a backward pass counts where no DataLoader is seen to give batches
    reads_back: list[ReadBack] = []  # by the cell and its functions, where that makes them wait
    perturb: bool = False
    quality: QualityQuestion | None = None


class Steps(msgspec.Struct, tag="steps", frozen=True):
    """Kernel → worker: a token for so many steps, of which the first ones do not count."""

    count: int
    settle: int = 0


class ReadEffect(msgspec.Struct, tag="read_effect", frozen=True):
    """Kernel → worker: say whether the plan took effect."""


class Evaluate(msgspec.Struct, tag="evaluate", frozen=True):
    """Kernel → worker: say how good the model is now, on held-out data; training stands still meanwhile."""


class Finish(msgspec.Struct, tag="finish", frozen=True):
    """Kernel → worker: leave the cell; the worker is free for another workload."""


class Hello(msgspec.Struct, tag="hello", frozen=True):
    """Worker → kernel: imported and ready."""

    pid: int
    python: str
    torch: str


class Loaded(msgspec.Struct, tag="loaded", frozen=True):
    """Worker → kernel: the workload is there and the plan applied; the cell has not begun."""

    disk: str = ""  # what keeps the cell's writes from the user's files


class StepsDone(msgspec.Struct, tag="steps_done", frozen=True):
    """Worker → kernel: the steps of one token. Lists have one entry a step; a loss is NaN where none was seen."""

    wall_ns: list[int]
    losses: list[float | None]
    samples: list[int]  # that each step trained on; 0 where nothing tells
    minor_faults: int
    preempted: int
    cell_ended: bool = (
        False  # the cell is over and is not run again: there may be fewer steps than were asked for
    )
    apart_ns: list[int] = []  # applying the plan to what the cell built: not in `wall_ns`


class Evaluated(msgspec.Struct, tag="evaluated", frozen=True):
    """Worker → kernel: the metric's value, None where it is not a number (NaN); the cell may not have made its model yet."""

    value: float | None
    seconds: float
    has_model: bool = True


class EffectRead(msgspec.Struct, tag="effect_read", frozen=True):
    """Worker → kernel: one (acceleration, took effect, evidence) for each entry, and what torch.compile did so far."""

    proofs: list[tuple[str, bool, str]]
    compilation: Compilation | None = None


class Finished(msgspec.Struct, tag="finished", frozen=True):
    """Worker → kernel: out of the cell."""


class Failed(msgspec.Struct, tag="failed", frozen=True):
    """Worker → kernel: something raised; `traceback` has the user's lines."""

    kind: str
    message: str
    traceback: str
    asked: str = ""
    because: str = ""
    do: str = ""

    @property
    def said(self) -> str:
        """The first line of what it said; the traceback has it all."""
        return shortened(self.message.strip().split("\n", 1)[0], _LONGEST_LINE)


ToWorker = Load | Steps | Evaluate | ReadEffect | Finish
FromWorker = Hello | Loaded | StepsDone | Evaluated | EffectRead | Finished | Failed

_BETWEEN_LOOKS_S = 0.2
_HEADER = struct.Struct("!IQ?")  # bytes of JSON, bytes of blob, whether a file descriptor follows


class Closed(Exception):
    """The other side is gone."""


class Channel:
    """Messages over one end of a socket pair.

    >>> channel.send(Steps(count=1)); message, blob, descriptor = channel.receive()
    """

    def __init__(self, end: socket.socket, incoming: Any) -> None:
        self._socket = end
        self._decode: Callable[[bytes], Any] = msgspec.json.Decoder(incoming).decode

    def send(self, message: msgspec.Struct, blob: bytes = b"", descriptor: int | None = None) -> None:
        body = msgspec.json.encode(message)
        try:
            self._socket.sendall(_HEADER.pack(len(body), len(blob), descriptor is not None) + body)
            if blob:
                self._socket.sendall(blob)
            if descriptor is not None:
                socket.send_fds(self._socket, [b"d"], [descriptor])
        except OSError as error:
            raise Closed from error

    def receive(
        self, timeout_s: float | None = None, look: Callable[[], object] | None = None
    ) -> tuple[Any, bytes, int | None]:
        """The next message with its blob and descriptor; raises TimeoutError or Closed. `look` is called while it waits."""
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while look is not None and not self._is_readable(_BETWEEN_LOOKS_S):
            look()
            if deadline is not None and time.monotonic() > deadline:
                raise TimeoutError
        if timeout_s is not None and not self._is_readable(timeout_s):
            raise TimeoutError
        body_bytes, blob_bytes, has_descriptor = _HEADER.unpack(self._exactly(_HEADER.size))
        message = self._decode(bytes(self._exactly(body_bytes)))
        blob = bytes(self._exactly(blob_bytes)) if blob_bytes else b""
        return message, blob, self._descriptor() if has_descriptor else None

    @property
    def has_more(self) -> bool:
        """Whether something came that was not received yet."""
        return self._is_readable(0.0)

    def _is_readable(self, timeout_s: float) -> bool:
        poll = select.poll()  # not select(): a notebook may have more than 1,024 files open
        poll.register(self._socket, select.POLLIN)
        return bool(poll.poll(timeout_s * 1000))

    def _exactly(self, count: int) -> bytearray:
        data = bytearray(count)
        view, got = memoryview(data), 0
        while got < count:
            try:
                read = self._socket.recv_into(view[got:])
            except OSError as error:
                raise Closed from error
            if read == 0:
                raise Closed
            got += read
        return data

    def _descriptor(self) -> int:
        _, ancillary, flags, _ = self._socket.recvmsg(1, socket.CMSG_SPACE(array.array("i").itemsize))
        if flags & socket.MSG_CTRUNC:  # it came, and could not be taken
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        for level, kind, data in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                return int(array.array("i", data[: array.array("i").itemsize])[0])
        raise Closed

    def close(self) -> None:
        self._socket.close()

    def fileno(self) -> int:
        return self._socket.fileno()
