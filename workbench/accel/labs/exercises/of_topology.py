"""Checks of GPUs: which ones a choice joins, under which number torch sees them, and what several of them gained."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

from accel.labs.exercises.seen import Seen, function_of, is_near, is_same, outcome, wrong_work
from accel.machine.topology.topology import Topology
from accel.units import percent

CASES = 20  # random lists of visible GPUs
CLOSE = 0.01


def best_joined(topology: object, gpus: object, *, count: float) -> Seen:
    """Whether so many GPUs were chosen that no other group has a better slowest link.

    >>> best_joined(topology, (0, 3), count=2).passed
    True
    """
    if not isinstance(topology, Topology):
        raise wrong_work(
            "a choice of GPUs",
            "the first value is no topology",
            "Pass the topology, then the numbers of the GPUs.",
        )
    if not isinstance(gpus, Sequence) or not all(isinstance(each, int) for each in gpus):
        raise wrong_work(
            "a choice of GPUs", f"{gpus!r} are no numbers of GPUs", "Pass them as a tuple, such as (0, 1)."
        )
    known = [gpu.index for gpu in topology.usable_gpus]
    asked = f"{count:g} GPUs of which the two that are joined worst are as near as in any group of {count:g}."
    if len(gpus) != count or len(set(gpus)) != count or not set(gpus) <= set(known):
        return Seen(
            False,
            f"You chose {', '.join(map(str, gpus)) or 'none'}.",
            asked,
            {},
            f"Choose {count:g} different ones of {min(known)} to {max(known)}.",
        )
    chosen = [gpu for gpu in topology.usable_gpus if gpu.index in gpus]
    mine = min(link for _, _, link in topology.pairs(chosen))
    best = topology.best_gpus(int(count))
    shown = ", ".join(map(str, sorted(gpus)))
    saw = f"Of GPUs {shown}, the two that are joined worst have {mine.label}."
    hint = "A group is as fast as its slowest pair: look at every pair of your group in the matrix, not only at its neighbours."
    return Seen(not mine < best.slowest, saw, asked, {"gpus": shown, "slowest": mine.label}, hint)


def renumbered(device_of: object) -> Seen:
    """Whether a function (variables, GPU by nvidia-smi) → torch's number follows CUDA_VISIBLE_DEVICES; None where it is hidden.

    >>> renumbered(lambda variables, gpu: gpu).passed
    False
    """
    work = function_of(device_of)
    asked = "The number that torch gives to each GPU, for any list of visible ones."
    draw = random.Random(0)
    lists = [["0", "3"], ["3", "0"], ["4", "6", "7"], None]
    lists += [[str(gpu) for gpu in draw.sample(range(8), draw.randint(1, 8))] for _ in range(CASES)]
    for visible in lists:
        variables = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"} | (
            {} if visible is None else {"CUDA_VISIBLE_DEVICES": ",".join(visible)}
        )
        for gpu in range(8):
            right = gpu if visible is None else visible.index(str(gpu)) if str(gpu) in visible else None
            given = outcome(work, dict(variables), gpu)
            if not is_same(given, right):
                said = variables.get("CUDA_VISIBLE_DEVICES", "not set")
                return Seen(False, f"With CUDA_VISIBLE_DEVICES {said}, your function gives {given!r} for GPU {gpu}.", asked,
                            {"visible": said, "gpu": float(gpu)}, _hint(visible, right))  # fmt: skip
    return Seen(
        True, f"All GPUs of {len(lists)} lists have their number.", asked, {"lists": float(len(lists))}
    )


def _hint(visible: Sequence[str] | None, right: int | None) -> str:
    if visible is None:
        return "Without the variable a process sees all GPUs, under their own numbers."
    if right is None:
        return "A GPU that is not in the list cannot be seen: give None for it."
    return "Inside the process the numbers begin at 0 and follow the order of the list."


def efficiencies(found: object, *, seconds: Mapping[str, float]) -> Seen:
    """Whether {GPUs: efficiency} are right for these seconds by number of GPUs.

    >>> efficiencies({1: 1.0, 8: 0.81}, seconds={"1": 707, "8": 109}).passed
    True
    """
    if not isinstance(found, Mapping):
        raise wrong_work(
            "efficiencies", "this is no dict", "Pass {number of GPUs: efficiency}, 1.0 for the ideal."
        )
    given = {str(count): value for count, value in found.items()}
    asked = "The parallel efficiency for each number of GPUs, as a share of 1."
    for count, took in seconds.items():
        right = seconds["1"] / took / int(count)
        value = given.get(count)
        if not is_near(value, right, CLOSE):
            saw = f"For {count} GPUs you have {value!r}."
            hint = "Divide the time on one GPU by the time on all, then by the number of GPUs."
            if is_near(value, right * int(count), CLOSE):
                hint = "That is the speed-up. An efficiency divides it by the number of GPUs."
            return Seen(False, saw, asked, {"gpus": count}, hint)
    last = max(seconds, key=int)
    return Seen(
        True, f"{last} GPUs are used to {percent(given[last])}.", asked, {"efficiency": float(given[last])}
    )
