"""A notebook as an app by Voila: on this machine alone, behind a token, and without a word to any other machine."""

from __future__ import annotations

import json
import os
import secrets
import socket
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from accel.errors import AccelError
from accel.shown import Shown

LOOPBACK = "127.0.0.1"
_START_S, _END_S, _LOOK_S = 60.0, 20.0, 0.1
# Asks to be ended with us, and becomes Voila.
_SERVER = (
    "import ctypes, json, os, sys\n"
    "sys.platform == 'linux' and ctypes.CDLL(None).prctl(1, 15)\n"
    "os.getppid() == int(sys.argv[1]) or os._exit(1)\n"
    "sys.path[:] = filter(None, sys.path)\n"  # no voila.py of the folder that we are in
    "from traitlets.config import Config\n"
    "from voila.app import Voila\n"
    "Voila.launch_instance(sys.argv[3:], config=Config(json.loads(sys.argv[2])))\n"
)
# Voila's own page asks a CDN for icons: the browser is told to ask this server only.
_POLICY = (
    "default-src 'self' data: blob:; script-src 'self' 'unsafe-inline' 'unsafe-eval' data: blob:; "
    f"style-src 'self' 'unsafe-inline' data: blob:; connect-src 'self' data: blob: ws://{LOOPBACK}:* ws://localhost:*; "
    "frame-ancestors 'self'"
)
_HEADERS = {"Voila": {"tornado_settings": {"headers": {"Content-Security-Policy": _POLICY}}}}


@dataclass(frozen=True)
class EndedApp(Shown):
    """Which notebook was served, and for how long.

    >>> print(EndedApp("training.ipynb", seconds=62.0))
    The app of training.ipynb has ended, after 1 min 2 s.
    """

    notebook: str
    seconds: float

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values."""
        return asdict(self)


def serve(file: str | Path, *, port: int | None = None) -> EndedApp:
    """Serve it until Ctrl-C, an interrupt of the cell, or the end of this process.

    >>> serve("training.ipynb", port=8866).seconds
    """
    path, asked = Path(file).expanduser(), f"accel app {file}".rstrip()
    if path.suffix != ".ipynb" or not path.is_file():
        raise AccelError(asked, because="that is no notebook", do="Name a file that ends in .ipynb.")
    if find_spec("voila") is None:
        do = "pip install 'accel-workbench[app]', then try again."
        raise AccelError(asked, because="Voila, which serves it, is not installed", do=do)
    port, token = _free_port(port, asked), secrets.token_urlsafe(16)
    print(f"Starting Voila on {path.name} …", flush=True)
    began = time.monotonic()
    server = subprocess.Popen(
        [sys.executable, "-c", _SERVER, str(os.getpid()), json.dumps(_HEADERS), *_settings(path, port)],
        env={**os.environ, "JUPYTER_TOKEN": token},  # no argument: those every user of the machine can read
    )
    try:
        _wait_until_it_listens(server, port, asked)
        address = f"http://{LOOPBACK}:{port}/?token={token}"
        print(f"{path.name} as an app, on this machine and for you alone: {address}")
        print("Each page that is opened runs the notebook from its start. Ctrl-C ends the app.", flush=True)
        server.wait()
    except KeyboardInterrupt:
        pass
    finally:
        _end(server)
    return EndedApp(path.name, round(time.monotonic() - began, 1))


def _settings(path: Path, port: int) -> list[str]:
    """Of the command line: no file of settings overrides them."""
    return [
        str(path.resolve()), f"--Voila.ip={LOOPBACK}", f"--port={port}", "--Voila.port_retries=0", "--Voila.auto_token=True",
        "--Voila.open_browser=False", "--Voila.log_level=ERROR",
        "--VoilaConfiguration.show_tracebacks=True",
    ]  # fmt: skip


def _free_port(port: int | None, asked: str) -> int:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port or 0))
        except (OSError, OverflowError) as error:
            because = f"port {port} cannot be used ({getattr(error, 'strerror', error)})"
            raise AccelError(asked, because=because, do="Leave --port out: a free one is taken.") from None
        return int(probe.getsockname()[1])


def _wait_until_it_listens(server: subprocess.Popen[bytes], port: int, asked: str) -> None:
    """It, and no other program that took the port in between: the address that is shown has the token."""
    import psutil

    end = time.monotonic() + _START_S
    while time.monotonic() < end and server.poll() is None:
        with suppress(psutil.Error):
            here = psutil.Process(server.pid).net_connections("tcp4")
            if any(one.status == psutil.CONN_LISTEN and one.laddr.port == port for one in here):
                return
        time.sleep(_LOOK_S)
    raise AccelError(asked, because="Voila did not start", do="What it printed above says why.")


def _end(server: subprocess.Popen[bytes]) -> None:
    """Voila ends its kernels as it ends; a second Ctrl-C does not wait for that."""
    server.terminate()
    try:
        server.wait(_END_S)
    except (subprocess.TimeoutExpired, KeyboardInterrupt):
        server.kill()
        server.wait()
