"""Each GPU over the profiled steps: busy or idle and why, its copies, its kernels, and whether its rows are complete."""

from __future__ import annotations

from collections.abc import Iterator
from textwrap import wrap
from typing import TYPE_CHECKING

from accel.html_parts import Markup, block, heading, note, table
from accel.profiling.phase_words import phase_words
from accel.units import counted, milliseconds, percent, size
from accel.views.profile.parts import count_cell, long_table, time_cell, whole
from accel.views.profile.section import WIDTH, Section, shortened

if TYPE_CHECKING:
    from accel.profiling.device_activity import CopyRow, DeviceActivity, KernelTotal
    from accel.profiling.profile import Profile

LINE_WIDTH = 125
SHOWN_KERNELS, SHOWN_CAUSES, SHOWN_DEVICES = 8, 4, 8
NAME_WIDTH = 60
WORTH_TELLING = 0.01
UNKNOWN = 0.5  # of kernel time: from there on a share of 0 says nothing
UNSEEN = "On the GPU"
OF_FILE = "A damaged file"


def text(activity: DeviceActivity) -> str:
    """One GPU for a terminal, its title first."""
    return "\n".join(_lines(activity))


def html(activity: DeviceActivity) -> Markup:
    """One GPU for a notebook."""
    return block(*_pieces(activity))


def _lines(activity: DeviceActivity) -> Iterator[str]:
    yield _title(activity)
    for said in _sentences(activity):
        yield from wrap(said, WIDTH, initial_indent="  ", subsequent_indent="    ")
    for kernel in activity.kernels_by_name[:SHOWN_KERNELS]:
        figures = f"  {percent(kernel.share):>7}  {milliseconds(kernel.ms):>9}"
        yield shortened(f"{figures}  {_kernel_name(kernel)}  · {_launched_by(kernel)}", LINE_WIDTH)


def _pieces(activity: DeviceActivity) -> Iterator[object]:
    yield heading(_title(activity))
    of, a = _words(activity)
    yield table(["", f"Share of the {of}", f"Time {a}"], _shares(activity), numeric=(1, 2))
    if activity.copies:
        yield _copies(activity)
    yield note(_about_kernels(activity))
    if activity.kernels:
        headings = ["Kernel", "Launched by", "Time", "Share of kernel time", "Calls", "Tensor cores"]
        yield from long_table(
            headings, [*map(_kernel_cells, activity.kernels_by_name)], numeric=(2, 3, 4), shown=SHOWN_KERNELS,
            rest_in=".devices[…].kernels",
        )  # fmt: skip


def _text(profile: Profile) -> Iterator[str]:
    for i, activity in enumerate(_busiest(profile)):
        yield from [""] * (i > 0)
        yield from _lines(activity)
    yield from _others(profile)
    if title := _title_of_stamp(profile):
        yield title
    for said in _stamp(profile):
        yield from wrap(said, WIDTH, initial_indent="  ", subsequent_indent="    ")


def _html(profile: Profile) -> Iterator[object]:
    for activity in _busiest(profile):
        yield from _pieces(activity)
    yield from map(note, _others(profile))
    if title := _title_of_stamp(profile):
        yield heading(title)
    yield from map(note, _stamp(profile))


def _busiest(profile: Profile) -> list[DeviceActivity]:
    """All of a machine's; of more the busiest, in the order of their numbers."""
    busiest = sorted(profile.devices, key=lambda device: -device.busy_share)[:SHOWN_DEVICES]
    return [device for device in profile.devices if device in busiest]


def _others(profile: Profile) -> Iterator[str]:
    if (more := len(profile.devices) - SHOWN_DEVICES) > 0:
        yield f"{more:,} GPUs that were less busy are not shown; .devices has all of them."


def _title(activity: DeviceActivity) -> str:
    busy, whole_ms = percent(activity.busy_share), milliseconds(activity.step_ms)
    of = "each step" if activity.has_steps else "the whole run"
    return f"On the GPU ({activity.device}): busy {busy} of {of} ({whole_ms})"


def _words(activity: DeviceActivity) -> tuple[str, str]:
    """The whole that shares refer to, and the words after a time."""
    return ("step", "per step") if activity.has_steps else ("run", "in total")


def _sentences(activity: DeviceActivity) -> Iterator[str]:
    """What a terminal reads between the title and the kernels."""
    _, a = _words(activity)
    if activity.idle_share >= WORTH_TELLING:
        yield _about_idle_time(activity)
    for copy in activity.copies:
        amount = f", {size(copy.bytes)} at {copy.gb_per_s:.3g} GB/s" if copy.bytes and copy.ms else ""
        yield f"{_copy_words(copy)}: {milliseconds(copy.ms)} {a} in {_times(copy.calls)}{amount}"
    if activity.communication_ms:
        yield _about_communication(activity)
    if len(activity.streams) > 1:
        each = ", ".join(f"{number}: {milliseconds(ms)}" for number, ms in activity.streams)
        yield f"Time per stream: {each}"
    yield _about_kernels(activity)


def _about_idle_time(activity: DeviceActivity) -> str:
    late = percent(activity.launch_gaps_share)
    causes = [
        f"{phase_words(name)} {percent(share)}"
        for name, share in activity.idle_phases[:SHOWN_CAUSES]
        if share >= WORTH_TELLING
    ]
    cpu_did = f". What the CPU did in that time: {', '.join(causes)}" if causes else ""
    return f"Idle {percent(activity.idle_share)}, {late} because the CPU launched its work late{cpu_did}"


def _about_kernels(activity: DeviceActivity) -> str:
    count, median = activity.kernels_per_step, milliseconds(activity.median_kernel_us / 1e3)
    return f"{count:,.3g} kernels {_words(activity)[1]}, median {median}; {_about_cores(activity)}"


def _about_cores(activity: DeviceActivity) -> str:
    known, unknown = activity.tensor_core_share, activity.unknown_core_share
    said = f"{percent(known)} of kernel time on tensor cores (AMD: matrix cores), judging by kernel names"
    if unknown < WORTH_TELLING:
        return said
    if not known and unknown > UNKNOWN:
        return f"kernel names do not say whether {percent(unknown)} of kernel time used tensor cores"
    return f"{said}; for another {percent(unknown)}, the names do not say which cores ran"


def _about_communication(activity: DeviceActivity) -> str:
    hidden = percent(activity.communication_overlap)
    time = f"{milliseconds(activity.communication_ms)} {_words(activity)[1]}"
    return f"Communication between GPUs: {time}, {hidden} of it while other kernels ran"


def _shares(activity: DeviceActivity) -> Iterator[tuple[str, str, str]]:
    """Busy, idle, and what the idle time was for; communication is part of the busy time."""
    shares = [
        ("Busy", activity.busy_share),
        ("Idle", activity.idle_share),
        ("   because the CPU launched its work late", activity.launch_gaps_share),
    ]
    shares += [(f"   while the CPU: {phase_words(name)}", share) for name, share in activity.idle_phases]
    for words, share in shares:
        if share >= WORTH_TELLING:
            yield words, whole(percent(share)), time_cell(share * activity.step_ms)
    if activity.communication_ms:
        hidden = f"Communication, {percent(activity.communication_overlap)} of it while other kernels ran"
        share = activity.communication_ms / activity.step_ms
        yield hidden, whole(percent(share)), time_cell(activity.communication_ms)


def _copies(activity: DeviceActivity) -> Markup:
    rows = [
        (_copy_words(row), time_cell(row.ms), count_cell(row.calls))
        + ((whole(size(row.bytes)), f"{row.gb_per_s:.3g}") if row.bytes and row.ms else ("–", "–"))
        for row in activity.copies
    ]
    return table(
        [f"Copies {_words(activity)[1]}", "Time", "Calls", "Size", "GB/s"], rows, numeric=range(1, 5)
    )


def _copy_words(copy: CopyRow) -> str:
    words = copy.kind[:1].upper() + copy.kind[1:]
    return f"{words}, {copy.memory} memory" if copy.memory in ("pageable", "pinned", "managed") else words


def _kernel_cells(kernel: KernelTotal) -> tuple[str, ...]:
    used = {True: "yes", False: "", None: "unknown"}[kernel.rows[0].uses_tensor_cores]
    share = whole(percent(kernel.share))
    return (
        _kernel_name(kernel), _launched_by(kernel), time_cell(kernel.ms), share, count_cell(kernel.calls), used
    )  # fmt: skip


def _launched_by(kernel: KernelTotal) -> str:
    """What launched most of the kernel's time, and the number of other callers."""
    most, *others = kernel.rows
    said = " · ".join(part for part in (most.op, most.module, phase_words(most.phase)) if part)
    return f"{said} (and {counted(len(others), 'other caller')})" if others else said


def _kernel_name(row: KernelTotal) -> str:
    """The beginning: names of C++ templates run to thousands of characters, the function's own name stands in front."""
    return shortened(row.name.removeprefix("void "), NAME_WIDTH)


def _times(calls: float) -> str:
    return "1 copy" if calls == 1 else f"{calls:.3g} copies"


def _title_of_stamp(profile: Profile) -> str:
    """A GPU was at work and nothing is known of it, or nothing is reported: the stamp then needs a title of its own."""
    if profile.devices or profile.completeness.is_complete:
        return ""
    return OF_FILE if profile.completeness.is_of_file else UNSEEN


def _stamp(profile: Profile) -> Iterator[str]:
    """Said where there is a GPU: complete, or what is missing and what to do."""
    completeness = profile.completeness
    if not completeness.is_complete:
        yield f"{completeness}. {completeness.remedy}"
    elif profile.devices:
        yield "Complete: every launch has a matching kernel or copy, and GPU times are consistent with CPU times."


DEVICES = Section("devices", _text, _html)
