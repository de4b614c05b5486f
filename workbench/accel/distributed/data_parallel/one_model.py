"""The ranks stay one model: before each exchange and each step they compare where they are and what they train with.

A cell's own `if` may send one rank elsewhere: past a batch, out of the loop, to another learning rate. Then gradients of
different batches would be averaged, or a rank would wait for ever. All see the same words, so all stop at the same place.
"""

from __future__ import annotations

import math
import time
import weakref
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from accel.distributed.data_parallel.own_distribution import COLLECTIVES, announcing
from accel.distributed.data_parallel.parted import (
    KINDS,
    RanksParted,
    why_of_numbers,
    why_of_parameters,
    why_of_place,
)
from accel.distributed.ranks.rank_words import RankWords, Word
from accel.hooks.training_loop import is_inside_another_step

if TYPE_CHECKING:
    from types import FrameType

    from accel.distributed.data_parallel.bucket_exchange import BucketExchange
    from accel.distributed.data_parallel.gradient_exchange import GradientExchange
    from accel.distributed.data_parallel.whereabouts import Whereabouts
    from accel.hooks.attribute_patches import AttributePatches

_SAMPLE = 1024  # elements that are added up: 8 µs
_STEPS_BETWEEN_GPU_SAMPLES = 20  # reading a number waits for the GPU
_ROUNDING = 1e-5  # of a parameter's size: ranks on machines of two kinds round otherwise


class OneModel:
    """Compares the ranks; the first difference is the `reason` for which all of them stop.

    >>> one_model = OneModel(words, whereabouts, exchange, buckets, lane.waited)
    >>> one_model.meet("step", 0)        # raises RanksParted where another rank is elsewhere

    Without words it compares nothing.
    """

    def __init__(
        self, words: RankWords | None, whereabouts: Whereabouts, exchange: GradientExchange, buckets: BucketExchange,
        on_wait: Callable[[float], None],
    ) -> None:  # fmt: skip
        exchange.before, buckets.may_exchange = self.exchange_begins, self.may_exchange
        self._words, self._whereabouts, self._exchange, self._on_wait = words, whereabouts, exchange, on_wait
        self._optimizers: list[weakref.ref[Any]] = []
        self._versions: tuple[int, int] = (0, 0)  # how many parameters, and how often they were changed
        self._known: tuple[tuple[int, ...], list[Any]] = ((), [])
        self._turn, self._samples, self._rest, self._next_rest = 0, 0, 0, 1
        self._is_met = False  # in this backward pass
        self.reason = ""
        self.notes: list[str] = []

    def leave_alone(self) -> None:
        """The cell distributes its training itself."""
        self._words = None

    def pass_begins(self) -> None:
        """A backward pass: its gradients have not been exchanged yet."""
        self._is_met = False

    def may_exchange(self) -> bool:
        """Whether the gradients of this pass belong together; False from the moment on where the ranks parted."""
        if not self._is_met and not self.reason:
            self._is_met = True
            self._compare("backward")
        return not self.reason

    def exchange_begins(self) -> None:
        """As `may_exchange`; raises RanksParted."""
        self.may_exchange()
        self.go_on()

    def meet(self, kind: str, detail: int = 0) -> None:
        """All ranks are about to do this; raises RanksParted where one is not."""
        if not self.reason:
            self._compare(kind, detail)
        self.go_on()

    def step_begins(self, optimizer: Any, step: FrameType) -> None:
        """All ranks are about to step the same optimizer, by equal numbers; `step` is the frame of torch's wrapper of it."""
        if self._words is None or is_inside_another_step(step):
            return
        number = next((n for n, each in enumerate(self._optimizers) if each() is optimizer), None)
        if number is None:
            self._optimizers = [each for each in self._optimizers if each() is not None]
            number = len(self._optimizers)
            self._optimizers.append(weakref.ref(optimizer))
        self.meet("step", number)

    def go_on(self) -> None:
        """Raises RanksParted where the ranks have parted."""
        if self.reason:
            raise RanksParted(self.reason)

    def ends(self, *, is_agreed: bool) -> None:
        """The cell is over on this rank: so it is on all, or they have parted; unless they agreed to stop here."""
        if not is_agreed:
            self.meet("end")

    def hear_collectives(self, patches: AttributePatches, module: Any) -> None:
        """Of the cell: all ranks come to the same. A model that exchanges something in its call is waited for before it."""

        def hear(number: int, *, is_of_cell: bool) -> None:
            if self._words is None or not patches.are_on:
                return
            if is_of_cell:
                self.meet("collective", number)
            for each in self._exchange.models:
                each.talks |= each.is_inside

        for name in COLLECTIVES:
            patches.wrap(module, name, announcing(name, hear))

    def _compare(self, kind: str, detail: int = 0) -> None:
        if self._words is None:
            return
        mine = self._word(kind, detail)
        began = time.perf_counter()
        words = self._words.exchange(mine)
        self._on_wait(time.perf_counter() - began)
        is_end = kind == "end"
        if len({each.place for each in words}) > 1:
            self.reason = why_of_place(words, self._whereabouts.loops)
        elif why := why_of_numbers(words):
            self._differ(why, is_end=is_end)
        elif is_end or any(word.parameters_seen != mine.parameters_seen for word in words):
            self._look_at_all(is_end=is_end)
            if any(word.sample != mine.sample for word in words):  # by rounding: seldom looked at from now on
                self._rest = self._next_rest = 2 * self._next_rest

    def _differ(self, why: str, *, is_end: bool) -> None:
        if is_end:
            self.notes.append(f"After the last step, {why}")
        else:
            self.reason = why

    def _look_at_all(self, *, is_end: bool) -> None:
        """What was changed on one rank alone may be equal nevertheless: all parameters, by their sums."""
        import torch
        import torch.distributed as dist

        parameters = self._parameters()
        self._versions = (len(parameters), _versions(parameters))
        if not parameters:
            return
        with torch.no_grad():
            sums = [(p.sum(dtype=torch.float64), p.abs().sum(dtype=torch.float64)) for p in parameters]
            mine = torch.stack(
                [torch.stack([each.to(parameters[0].device) for each in pair]) for pair in sums]
            )
        everyone = [torch.empty_like(mine) for _ in range(dist.get_world_size())]
        dist.all_gather(everyone, mine)
        sizes = everyone[0][:, 1].clamp_min(1e-12)
        apart = [float(((each - everyone[0]).abs().amax(1) / sizes).max()) for each in everyone]
        others = [rank for rank, each in enumerate(apart) if each > _ROUNDING]
        if others:
            self._differ(why_of_parameters(others[0], max(apart)), is_end=is_end)

    def _word(self, kind: str, detail: int) -> Word:
        """With parameters before gradients are exchanged, and with the optimizers' numbers before they are used."""
        here, ended = self._whereabouts.here, self._whereabouts.ended
        count, versions, sample = self._of_parameters() if kind in ("backward", "end") else (0, 0, 0.0)
        numbers, rate = _numbers(self._optimizers) if kind in ("step", "end") else (0, 0.0)
        return Word(
            KINDS.index(kind), detail, here.number, here.batch, here.skipped, ended.number, ended.batch, int(ended.ended_early),
            numbers, versions, count, rate, sample,
        )  # fmt: skip

    def _of_parameters(self) -> tuple[int, int, float]:
        """How many, how often they were changed since all were compared, and a sample."""
        parameters = self._parameters()
        versions = _versions(parameters)
        if self._versions[0] != len(parameters):
            self._versions = (len(parameters), versions)
        return len(parameters), versions - self._versions[1], self._sample(parameters)

    def _parameters(self) -> list[Any]:
        """Those of models: what else has gradients, as an input that is searched for, may be each rank's own."""
        import torch
        from torch.nn.parameter import is_lazy

        held = [each.parameters for each in self._exchange.models]
        if (seen := tuple(map(id, held))) != self._known[0]:
            every = (p for each in held for p in each if not is_lazy(p))
            real = [p for p in every if p.layout == torch.strided and p.is_floating_point() and p.numel()]
            self._known = (seen, real)
        return self._known[1]

    def _sample(self, parameters: list[Any]) -> float:
        """The beginning of one parameter, each time of another one."""
        import torch

        self._turn += 1
        self._rest = max(0, self._rest - 1)
        if not parameters or self._rest:
            return 0.0
        if parameters[0].device.type != "cpu" and self._turn % _STEPS_BETWEEN_GPU_SAMPLES:
            return 0.0
        self._samples += 1
        chosen = parameters[self._samples % len(parameters)].detach()
        if chosen.numel() > _SAMPLE and chosen.dim():
            chosen = chosen[: max(1, _SAMPLE * len(chosen) // chosen.numel())]
        value = float(torch.sum(chosen))
        return value if math.isfinite(value) else 0.0


def _versions(parameters: Iterable[Any]) -> int:
    return sum(p._version for p in parameters)


def _numbers(optimizers: Iterable[weakref.ref[Any]]) -> tuple[int, float]:
    """All numbers of the optimizers' parameter groups as one, and their learning rates added up."""
    found: list[float] = []
    rate = 0.0
    for each in optimizers:
        for group in getattr(each(), "param_groups", ()):
            for name, value in group.items():
                if name == "params":
                    continue
                if (kind := type(value)) is float or kind is int:
                    found.append(value)
                elif kind is not bool and value is not None:
                    found += _plain(value)
            rate += sum(_plain(group.get("lr")))
    return hash(tuple(number if number == number else 0.0 for number in found)), rate


def _plain(value: Any) -> list[float]:
    """The numbers in it, if any; one that lies on a GPU would be waited for."""
    import torch

    if isinstance(value, (int, float)):
        return [value]
    if isinstance(value, tuple):
        return [number for part in value for number in _plain(part)]
    if isinstance(value, torch.Tensor) and value.numel() == 1 and value.device.type == "cpu":
        return _plain(value.item())
    return []
