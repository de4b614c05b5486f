"""The monitor in a terminal: a few lines that are drawn over again in place, until the time is over or Ctrl-C."""

from __future__ import annotations

import shutil
import sys
import threading
from typing import TextIO

from accel.machine.telemetry.load_in_words import Tile, tiles
from accel.machine.telemetry.monitor import Monitor, monitor
from accel.machine.telemetry.sample import Sample

BLOCKS = " ▁▂▃▄▅▆▇█"
BAR_CELLS = 20
UP_AND_CLEAR = "\x1b[{lines}F\x1b[J"
LOOK_S = 0.2


def watch(seconds: float | None = None, *, every: float = 0.5, screen: TextIO | None = None) -> Monitor:
    """Watch the machine in the terminal; gives the monitor, ended, with its samples.

    >>> print(watch(10).summary())

    Where `screen` (default: standard error, so that the result can be piped) is no terminal, nothing is drawn, and without
    `seconds` one sample is taken.
    """
    screen = sys.stderr if screen is None else screen
    is_terminal = screen.isatty()
    watched = monitor(seconds if seconds is not None or is_terminal else every, every=every)
    with watched:
        if is_terminal:
            _draw_until_over(watched, screen)
        else:
            _wait(watched)
    return watched


def lines_of(sample: Sample, history: dict[str, list[float | None]], *, width: int) -> list[str]:
    """What the terminal shows: each thing with its value and a bar of now; for CPUs a bar of eighths each."""
    return [_line(tile, history.get(tile.key, []), width) for tile in tiles(sample)]


def _line(tile: Tile, past: list[float | None], width: int) -> str:
    shares = [share for _, share in tile.lines]
    if tile.key == "cpu":
        bar = "".join(map(_block, shares[: max(BAR_CELLS, width // 3)]))
    else:
        bar = "".join(map(_block, past[-BAR_CELLS:]))
    return f"{tile.label:<13} {tile.value:<18} {bar:<{BAR_CELLS}} {tile.detail}"[: width - 1].rstrip()


def _block(share: float | None) -> str:
    return "?" if share is None else BLOCKS[round(min(max(share, 0.0), 1.0) * (len(BLOCKS) - 1))]


def _draw_until_over(watched: Monitor, screen: TextIO) -> None:
    history: dict[str, list[float | None]] = {}
    drawn, lock = 0, threading.Lock()

    def draw(sample: Sample) -> None:
        nonlocal drawn
        with lock:
            for tile in tiles(sample):
                past = history.setdefault(tile.key, [])
                past.append(tile.lines[0][1] if tile.lines else None)
                del past[:-BAR_CELLS]
            lines = lines_of(sample, history, width=shutil.get_terminal_size().columns)
            screen.write(
                (UP_AND_CLEAR.format(lines=drawn) if drawn else "") + "".join(f"{line}\n" for line in lines)
            )
            screen.flush()
            drawn = len(lines)

    screen.write("Ctrl-C ends it.\n" if watched.sampler.for_s is None else "")
    watched.sampler.listeners.append(draw)
    is_interrupted = _wait(watched)
    watched.sampler.listeners.remove(draw)
    if is_interrupted:
        screen.write("\n")  # after the ^C


def _wait(watched: Monitor) -> bool:
    """Until it ends by itself, or the user ends it: then True. Ctrl-C is how a monitor is ended, and no error."""
    try:
        while watched.is_running:
            watched.sampler.join(LOOK_S)
    except KeyboardInterrupt:
        return True
    return False
