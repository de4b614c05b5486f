"""Typed JSON messages over an inherited socket pair.

The kernel may send a child a pickle (it is the child's parent and made the socket); a worker never sends one back. Every message
from a child is decoded by msgspec against types: whatever a crashed or foreign process writes, nothing is unpickled by that. Only
a rank's answer to a run is followed by a pickle (docs/decisions/0013).
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

_BETWEEN_LOOKS_S = 0.2
_HEADER = struct.Struct("!IQ?")  # bytes of JSON, bytes of blob, whether a file descriptor follows


class Closed(Exception):
    """The other side is gone."""


class Channel:
    """Messages over one end of a socket pair.

    >>> channel.send(Hello(pid, python, torch)); message, blob, descriptor = channel.receive()
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
