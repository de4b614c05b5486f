"""Means and peaks of a span of time: a line a quantity."""

from __future__ import annotations

import math
from collections.abc import Callable

from accel.html_parts import Markup, block, heading, note, table
from accel.machine.telemetry.load_in_words import NAMES, cores, rate, share_of
from accel.machine.telemetry.load_summary import LoadSummary
from accel.units import counted, percent, size


def text(summary: LoadSummary) -> str:
    """For a terminal."""
    rows = _rows(summary)
    width = max((len(what) for what, *_ in rows), default=0)
    lines = [f"  {what:<{width}}  {mean:>12} mean  {peak:>12} peak" for what, mean, peak in rows]
    return "\n".join([summary.headline, *lines, *_remarks(summary)])


def html(summary: LoadSummary) -> Markup:
    """For a notebook."""
    drawn = table(["", "mean", "peak"], _rows(summary), numeric=(1, 2))
    return block(heading(summary.headline), drawn, *map(note, _remarks(summary)))


def _remarks(summary: LoadSummary) -> list[str]:
    taken = f"{counted(summary.samples, 'sample')}; sampling took {percent(summary.cost, 2)} of one core."
    return [taken, *summary.notes] if summary.samples else list(summary.notes)


def _rows(summary: LoadSummary) -> list[tuple[str, str, str]]:
    """(what, mean, peak) of what was recorded."""
    return [row for row in (*_host_rows(summary), *_gpu_rows(summary)) if row is not None]


def _host_rows(summary: LoadSummary) -> list[tuple[str, str, str] | None]:
    lowest_free = summary.get("available_bytes")
    rows = [
        _row(summary, f"all {summary.cpu_count} CPUs", "cpu_busy", share_of),
        _row(summary, summary.own_cpus, "allowed_busy", share_of),
        _row(
            summary, f"of the container's quota of {summary.quota_cores or 0:g} cores", "quota_used", share_of
        ),
        _row(summary, "stopped by the quota, share of periods", "stopped_by_quota", share_of, least=0.005),
        _busiest_core(summary),
        _row(summary, "taken by other virtual machines", "stolen", share_of, least=0.005),
        _row(summary, "waiting for a disk", "waiting_for_disk", share_of, least=0.005),
        _row(summary, "this process: CPU", "process_cores", cores),
        _row(summary, "this process: memory", "process_rss_bytes", size),
    ]
    for kind, (_, what) in NAMES.items():
        count = summary.get(f"{kind}_count")
        if count is not None and count.peak > 0:
            rows.append(_row(summary, f"{what} ({count.peak:.0f}): CPU", f"{kind}_cores", cores))
            rows.append(_row(summary, f"{what} ({count.peak:.0f}): memory", f"{kind}_rss_bytes", size))
    if lowest_free is not None and summary.memory_bytes:
        used = [summary.memory_bytes - value for value in (lowest_free.mean, lowest_free.lowest)]
        rows.append((f"memory in use, of {size(summary.memory_bytes)}", size(used[0]), size(used[1])))
    rows.append(_row(summary, "swap in use", "swap_used_bytes", size, least=2**20))
    rows.append(_row(summary, "load average", "load", lambda value: f"{value:.2f}"))
    return rows


def _gpu_rows(summary: LoadSummary) -> list[tuple[str, str, str] | None]:
    rows = []
    for index, (name, memory) in enumerate(zip(summary.gpu_names, summary.gpu_memory_bytes, strict=True)):
        of = f", of {size(memory)}" if memory else ""
        rows += [
            _row(summary, f"GPU {index} ({name}): busy", f"gpu{index}_busy", share_of),
            _row(summary, f"GPU {index}: memory{of}", f"gpu{index}_memory_used_bytes", size),
            _row(summary, f"GPU {index}: power", f"gpu{index}_power_w", lambda value: f"{value:.0f} W"),
            _row(summary, f"GPU {index}: temperature", f"gpu{index}_temperature_c", lambda value: f"{value:.0f} °C"),
            _row(summary, f"GPU {index}: clock", f"gpu{index}_sm_mhz", lambda value: f"{value:.0f} MHz"),
            _row(summary, f"GPU {index}: slowed down, share of time", f"gpu{index}_is_slowed", share_of, least=0.005),
            *(
                _row(summary, f"GPU {index}: {link} {way}", f"gpu{index}_{column}_bytes_s", rate)
                for link, way, column in (
                    ("PCIe", "in", "pcie_in"), ("PCIe", "out", "pcie_out"),
                    ("NVLink", "in", "nvlink_in"), ("NVLink", "out", "nvlink_out"),
                )
            ),
        ]  # fmt: skip
    return rows


def _row(
    summary: LoadSummary, what: str, name: str, shown: Callable[[float], str], least: float = -math.inf
) -> tuple[str, str, str] | None:
    found = summary.get(name)
    return None if found is None or found.peak < least else (what, shown(found.mean), shown(found.peak))


def _busiest_core(summary: LoadSummary) -> tuple[str, str, str] | None:
    each_core = [
        each for each in summary.quantities if each.name.startswith("cpu") and each.name[3].isdigit()
    ]
    if len(each_core) < 2:
        return None
    busiest = max(each_core, key=lambda each: each.mean)
    number = busiest.name.removeprefix("cpu").removesuffix("_busy")
    return f"busiest: CPU {number}", share_of(busiest.mean), share_of(busiest.peak)
