"""How long a notebook's page stays without a change, for everything that it waits for. `benchmarks.panel` runs it.

A kernel runs the commands as JupyterLab would, and every message that changes what the page shows is noted with its time.
A silence is the time between two changes, from the start of the cell to its end.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from jupyter_client.manager import start_new_kernel

SETUP = """
import torch
from torch import nn
torch.manual_seed(0)
images, labels = torch.randn(960, 1, 28, 28), torch.randint(10, (960,))
loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(images, labels), batch_size=32)
model = nn.Sequential(nn.Conv2d(1, 16, 3), nn.ReLU(), nn.Flatten(), nn.Linear(16 * 26 * 26, 10))
optimizer = torch.optim.Adam(model.parameters())
criterion = nn.CrossEntropyLoss()
def accuracy(model):
    with torch.no_grad():
        return (model(images[:96]).argmax(1) == labels[:96]).float().mean()
def train(epochs):
    for _ in range(epochs):
        for x, y in loader:
            optimizer.zero_grad()
            loss = criterion(model(x), y)
            loss.backward()
            optimizer.step()
%load_ext accel
"""
PROFILE = "%%accel profile\ntrain(1)"
# A wait's name, the cell, and after how many seconds it is interrupted (0: never).
WAITS = (
    ("profile", "%%accel profile\ntrain(4)", 0),
    ("profile again", PROFILE, 0),
    ("try", "%accel try fused_optimizer channels_last --budget-s 20", 0),
    ("compiling", "%accel try compile_model --budget-s 40", 0),
    ("confirming", "%accel try steady_allocator --budget-s 20", 0),
    ("quality", "%accel try fused_optimizer --train-s 3 --seeds 1 --metric accuracy", 0),
    ("batch", "%accel batch --budget-s 20", 0),
    ("tune", "%accel tune --budget-s 30", 0),
    ("sweep", "%accel sweep --processes 1,2 --threads 1 --steps 20", 0),
    ("ddp", "%%accel ddp -n 2\ntrain(2)", 0),
    ("stopping", "%accel try compile_model", 8),
)
QUICK = ("profile again", "try", "ddp")


@dataclass
class Silence:
    """The longest one of a wait: how long, and what stood there during it."""

    seconds: float = 0.0
    during: str = ""
    whole_s: float = 0.0


@dataclass
class Page:
    """What a page would show of a cell, and when that changed."""

    began: float
    longest: Silence = field(default_factory=Silence)
    shown: dict[str, str] = field(default_factory=dict)
    last: float = 0.0

    def __post_init__(self) -> None:
        self.last = self.began

    def hear(self, message: dict[str, Any]) -> None:
        """A message of the kernel."""
        content, kind = message["content"], message["header"]["msg_type"]
        if kind in ("display_data", "update_display_data", "execute_result"):
            place = str(content.get("transient", {}).get("display_id", kind))
            self._change(
                place, json.dumps(content["data"], sort_keys=True), content["data"].get("text/plain", "")
            )
        elif kind in ("stream", "error"):
            self._change(f"{kind} {time.monotonic()}", json.dumps(content), str(content.get("text", kind)))
        elif kind == "comm_msg" and content["data"].get("state"):
            self._change(content["comm_id"], json.dumps(content["data"], default=str), "a widget")

    def end(self) -> Silence:
        """The cell is over."""
        self._note("its end")
        self.longest.whole_s = time.monotonic() - self.began
        return self.longest

    def _change(self, place: str, now: str, line: str) -> None:
        if self.shown.get(place) != now:
            self.shown[place] = now
            self._note(line)

    def _note(self, line: str) -> None:
        now = time.monotonic()
        if now - self.last > self.longest.seconds:
            self.longest = Silence(
                now - self.last, f"before: {line.strip().splitlines()[0][:90] if line.strip() else ''}"
            )
        self.last = now


def silences(names: tuple[str, ...] = tuple(name for name, *_ in WAITS)) -> dict[str, Silence]:
    """The longest silence of each of these waits, in one kernel after the other cells."""
    manager, client = start_new_kernel(extra_arguments=["--log-level=ERROR"])
    try:
        _run(client, manager, SETUP)
        _run(client, manager, PROFILE)
        return {name: _run(client, manager, cell, stop_s) for name, cell, stop_s in WAITS if name in names}
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


def _run(client: Any, manager: Any, cell: str, stop_s: float = 0) -> Silence:
    page = Page(time.monotonic())
    if stop_s:
        timer = threading.Timer(stop_s, manager.interrupt_kernel)
        timer.daemon = True
        timer.start()
    client.execute_interactive(
        cell, timeout=400, output_hook=page.hear, store_history=True, allow_stdin=False
    )
    return page.end()


@contextmanager
def busy(processes: int) -> Iterator[None]:
    """So many processes that do nothing but take a core."""
    started = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(processes)]
    try:
        yield
    finally:
        for each in started:
            each.kill()
            each.wait()
