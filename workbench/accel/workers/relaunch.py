"""One relaunch: fresh workers, one for each variant, stepped by tokens in random order, one at a time.

Only one worker computes at any moment, so all variants see the same machine; drift of the machine hits every variant
alike and the order within a round is drawn anew. Each turn is a block of steps (`step_block.py`). A candidate whose worker
fails leaves the others to go on.
"""

from __future__ import annotations

import math
import random
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from statistics import mean, median, median_low

import msgspec

from accel.errors import AccelError
from accel.machine.peaks.other_work import OtherWork
from accel.measuring.interval import median_variance, paired_log_ratios
from accel.measuring.per_sample import compared_times, differ, usual
from accel.processes.start import Start
from accel.workers.messages import (
    EffectRead,
    Finish,
    Finished,
    Load,
    Loaded,
    ReadEffect,
    StepsDone,
    StepToken,
)
from accel.workers.pool import WorkerPool
from accel.workers.samples import LONGEST_PASS_S, Effort, Samples
from accel.workers.starting import load_of
from accel.workers.step_block import Pipeline, StepBlock
from accel.workers.time_budget import PhaseClock
from accel.workers.variant_worker import GroupFactory, Variant, VariantWorker, no_groups
from accel.workload.shipping import Parcel

LEAST_ROUNDS = 10  # fewer pairs are bootstrapped only where the time is up
FEWEST_ROUNDS = 5  # with fewer a relaunch tells nothing
SAFELY = 1.5  # FEWEST_ROUNDS must fit even if steps become this many times as long
LEAST_WARM_UP = 2  # the second step may compile anew
FLOOR_SHARE = 0.2  # of the time that is left, for the noise floor
LEAST_FLOOR_STEPS = 8  # fewer tell nothing
FLOOR_STEPS = (
    24  # time is kept back for so many: chaotic networks part by noise alone, and only the floor tells
)
RESERVE_SHARE = 0.2  # of a relaunch's time, for measuring the others when one does not warm up
PLAINLY_SLOWER = -0.15  # log of the speed-up, beyond what processes and rounds vary by
WARM_UP_SHARE = 0.25  # of the time that is left, for warming up where steps are long
WATCHED_S, MOST_WATCHED = 0.1, 6  # memory: so long, or so many steps, beyond the two that it takes
COMPARED_STEPS = 64  # losses of so many steps are compared: later ones of a chaotic network tell little
COMPILING_TIMEOUT_S = 900.0  # the first step of a compiled model may take minutes


class Relaunch:
    """Fresh workers that hold one replica each; the first variant is the baseline.

    >>> with Relaunch(pool, parcel, variants, load=load, timeout_s=60) as relaunch:
    ...     samples = relaunch.measure(Effort(), stop=threading.Event(), deadline=time.monotonic() + 60)

    What goes wrong with the baseline is raised; what goes wrong with a candidate is the `error` of its samples. `groups` gives
    a group of workers for a variant that needs one.
    """

    def __init__(
        self, pool: WorkerPool, parcel: Parcel, variants: list[Variant], *, load: Load, timeout_s: float,
        groups: GroupFactory = no_groups, phases: PhaseClock | None = None,
    ) -> None:  # fmt: skip
        self._phases = phases or PhaseClock("preparing")
        self._pool, self._parcel, self._variants, self._load = pool, parcel, variants, load
        self._timeout_s, self._groups = timeout_s, groups
        self.began = time.monotonic()
        self.prelude_s = 0.0  # until the first round: starting, shipping, compiling, warming up
        self._round_s: list[float] = []
        self.others = OtherWork(counts_children=True)  # than us, during the rounds
        self._workers: dict[str, VariantWorker] = {}
        self._lock = threading.Lock()
        self._randomness = random.Random()  # never the notebook's own generator
        self._ended = False
        self._pipeline = Pipeline.of([variant.plan for variant in variants], load)
        self._epochs: dict[str, int] = {}  # steps of an epoch, by variant
        self._usual_warm_up = LEAST_WARM_UP  # steps, where no pass over the data is needed
        self._left: set[str] = set()  # plainly slower: in no further round
        self._lost: set[str] = set()  # that stopped while memory was counted, when all else was known
        self.known_bytes: dict[str, int] = {}  # what tensors hold, of those that need not be counted again
        self.disks: set[str] = set()  # what keeps the workers' writes from the user's files
        self.samples = {variant.label: Samples() for variant in variants}

    @property
    def _running(self) -> list[Variant]:
        return [variant for variant in self._variants if self.samples[variant.label].error is None]

    @property
    def _in_race(self) -> list[Variant]:
        return [variant for variant in self._running if variant.label not in self._left]

    def __enter__(self) -> Relaunch:
        workers = f"{len(self._variants)} of them"
        try:
            self._phases.enter("starting workers", workers)
            self._start()
            for variant in self._running:
                with self._isolated(variant.label):
                    self._workers[variant.label].wait_until_ready()
            self._phases.enter("shipping the cell")
            for variant in self._running:
                with self._isolated(variant.label):
                    self._give(variant, self._load)
        except BaseException:
            self.end()
            raise
        return self

    def _start(self) -> None:
        """All processes begin to import at once; a stop during the start ends them too."""
        alone = []
        for variant in self._variants:
            with self._isolated(variant.label):
                group = self._groups(variant, self._load)
                if group is None and not variant.start:
                    alone.append(variant.label)
                else:
                    self._take({variant.label: group or self._pool.take([variant.start])[0]})
        self._take(dict(zip(alone, self._pool.take([Start()] * len(alone)), strict=True)))

    def _take(self, workers: Mapping[str, VariantWorker]) -> None:
        with self._lock:
            self._workers |= workers
            if self._ended:  # stopped while they started
                self._close_all()

    def __exit__(self, *exc_info: object) -> None:
        self.end()

    def end(self) -> None:
        """End all workers at once; may be called from any thread, also while a step is awaited."""
        with self._lock:
            self._ended = True
            self._close_all()

    def _close_all(self) -> None:
        for worker in self._workers.values():
            worker.close()

    @contextmanager
    def _isolated(self, label: str) -> Iterator[None]:
        """A candidate that fails is out of this relaunch; the baseline takes everything with it."""
        try:
            yield
        except AccelError as error:
            if label == self._variants[0].label or self._ended:
                raise
            self.samples[label].error = error
            if label in self._workers:
                self._workers[label].close()

    def _give(self, variant: Variant, load: Load) -> None:
        worker = self._workers[variant.label]
        worker.label = f"{variant.label!r}"
        worker.send(load_of(variant, load), self._parcel.blob, self._parcel.memory.descriptor)
        self.disks.add(worker.receive(Loaded, timeout_s=self._timeout_s).disk)

    def measure(
        self, effort: Effort, *, stop: threading.Event, deadline: float, give_up_at: float = math.inf,
        keeps_floor: bool = False, on_round: Callable[[int], None] = lambda _: None,
    ) -> dict[str, Samples]:  # fmt: skip
        """Warm up, then rounds in random order until precise enough or out of time; returns samples by label.

        Rounds end at the deadline, or early enough for a noise floor. A plan whose first step would leave the others no time
        until `give_up_at` is left out.
        """
        self._warm_up_all(effort, stop, give_up_at)
        self.prelude_s = time.monotonic() - self.began
        fills = effort.fills and deadline >= give_up_at
        with self.others:
            self._rounds(effort, stop, deadline, on_round, keeps_floor=keeps_floor, fills=fills)
        if stop.is_set() or len(self._running) == 1:
            return self.samples
        self._phases.enter("comparing")
        for variant in self._running:
            with self._isolated(variant.label):
                self._read_effect(variant.label)
        if time.monotonic() + self._memory_s() < give_up_at:
            for label in self._of_unknown_memory:
                with self._isolated(label):
                    self._watch_memory(label)
        return self.samples

    def _rounds(
        self, effort: Effort, stop: threading.Event, deadline: float, on_round: Callable[[int], None], *,
        keeps_floor: bool, fills: bool,
    ) -> None:  # fmt: skip
        """Run rounds until precise enough; with `fills`, go on past the usual time if another relaunch would not fit."""
        began, full = time.monotonic(), self._blocks()
        blocks, most_floor_s = full, FLOOR_SHARE * (deadline - began) if keeps_floor else 0.0
        for number in count(1):
            of = f" of at most {effort.most_rounds}" if number <= effort.most_rounds else ""
            self._phases.enter("measuring", f"round {number}{of}")
            round_began, in_race = time.monotonic(), self._in_race
            step_s = self._one_round(blocks, stop)
            if stop.is_set() or len(self._running) == 1:
                return
            on_round(number)
            if effort.leaves_slower and number >= FEWEST_ROUNDS:
                self._leave_slower()
            now = time.monotonic()
            if len(step_s) == len(in_race):  # else the round's time includes that of a variant that failed
                self._round_s.append(now - round_began)
            left_s = deadline - now - self._memory_s() - max(min(self._floor_s, most_floor_s), 0.0)
            if self._pipeline is not None:
                blocks = self._blocks()
            else:
                blocks = self._that_fit(full, step_s, number, left_s, are_full=blocks == full)
            is_enough = number >= self._least_rounds(effort.least_rounds) and self._is_precise(effort)
            is_last = number >= FEWEST_ROUNDS and self._takes_s(blocks, step_s) > left_s
            has_another = not fills or self.least_s <= left_s or self._is_plain()
            is_usual = now > began + effort.seconds and number >= self._least_rounds()
            if is_enough or is_last or ((is_usual or number >= effort.most_rounds) and has_another):
                return

    @property
    def least_s(self) -> float:
        """The shortest time in seconds for another relaunch, if its first rounds take as long as those of this relaunch."""
        rounds = self._least_rounds()
        return 1.1 * (self.prelude_s + rounds * mean(self._round_s[:rounds] or [0.0]))

    def _least_rounds(self, usual: int = LEAST_ROUNDS) -> int:
        """A pipeline's turn has many steps, so fewer rounds suffice."""
        return usual if self._pipeline is None else min(usual, FEWEST_ROUNDS)

    def _is_plain(self) -> bool:
        """Whether every candidate is so much faster or slower that more rounds would not change the verdict."""
        pairs = self._log_ratios()
        return all(
            abs(median(pair)) - 4 * median_variance(tuple(pair)) ** 0.5 > -PLAINLY_SLOWER for pair in pairs
        )

    def _leave_slower(self) -> None:
        """Take out what is plainly slower, so that the others have the time."""
        base, *candidates = (self.samples[variant.label] for variant in self._running)
        for variant, own in zip(self._running[1:], candidates, strict=True):
            ratios = paired_log_ratios(*compared_times(base, own))
            if median(ratios) + 4 * median_variance(tuple(ratios)) ** 0.5 < PLAINLY_SLOWER:
                self._left.add(variant.label)

    def _warm_up_all(self, effort: Effort, stop: threading.Event, give_up_at: float) -> None:
        """Those that compile come last, and leave time to measure the others."""
        steps, warm = effort.warm_up + self._ahead, 0
        self._usual_warm_up = steps
        if any(variant.plan.gains_from_second_epoch for variant in self._running):
            steps = max(steps, self._load.pass_steps)
        for variant in sorted(self._running, key=lambda variant: variant.plan.compiles):
            with self._isolated(variant.label):
                is_free = warm <= 1 or give_up_at == math.inf
                leave_off = math.inf if is_free else give_up_at - self._reserve_s(give_up_at)
                steps = self._warm_up(variant, steps, stop, leave_off, give_up_at)
                warm += 1

    def _affordable(self, steps: int, step_s: float, deadline: float, taken: int) -> int:
        """Warm-up steps that fit the time: `steps` (perhaps a whole pass), else the usual number, else `taken`: it ends now."""
        # The time that was left when the warm-up began, so that the answer is the same after each step.
        left_s = WARM_UP_SHARE * (deadline - time.monotonic() + taken * step_s)
        variants = len(self._running)
        for wanted, most_s in ((steps, LONGEST_PASS_S), (self._usual_warm_up, math.inf)):
            is_short = wanted <= self._usual_warm_up or wanted * variants * step_s <= most_s
            if is_short and wanted * variants * step_s <= left_s:
                return wanted
        return taken

    def _reserve_s(self, give_up_at: float) -> float:
        """What measuring those that are warm takes, amply: their steps are known from a few."""
        known = [own.usual_step_s for own in self.samples.values() if own.usual_step_s and own.error is None]
        least_s = FEWEST_ROUNDS * sum(StepBlock.of(step_s, self._pipeline).steps * step_s for step_s in known)
        return max(2 * least_s, RESERVE_SHARE * (give_up_at - self.began))

    def _warm_up(
        self, variant: Variant, steps: int, stop: threading.Event, leave_off: float, deadline: float
    ) -> int:
        """Warm one up, and say how many steps it took: all variants take as many, fewer where they are long for the time left.

        Past `leave_off` it gives up, so that the others are measured.
        """
        samples = self.samples[variant.label]
        compiles = variant.plan.compiles or "compile" in self._load.source
        timeout_s = COMPILING_TIMEOUT_S if compiles or variant.plan.is_slow_to_begin else self._timeout_s
        self._phases.enter("compiling" if compiles else "warming up", variant.label)
        started = time.monotonic()
        self._first_step(variant.label, timeout_s, leave_off)
        samples.first_step_s = time.monotonic() - started
        samples.step_ns.clear()
        samples.step_samples.clear()
        taken = 1
        while taken < max(steps, LEAST_WARM_UP) and not stop.is_set():
            if taken >= LEAST_WARM_UP and variant is self._variants[0]:
                step_s = self._usual_ns(samples.step_ns) / 1e9 if samples.step_ns else 0.0
                steps = self._affordable(steps, step_s, deadline, taken)
                if steps <= taken:
                    break
            self._step(variant.label, StepBlock(), timeout_s)
            taken += 1
        samples.warm_up_s, samples.warm_up_steps = time.monotonic() - started, samples.steps
        samples.usual_step_s = self._usual_ns(samples.step_ns or [1e9]) / 1e9
        samples.minor_faults = samples.steps = 0
        samples.step_ns.clear()
        samples.step_samples.clear()
        return max(steps, taken)

    @property
    def _ahead(self) -> int:
        return self._pipeline.ahead if self._pipeline is not None else 0

    def _usual_ns(self, step_ns: list[float]) -> float:
        """With a pipeline, the mean after the first steps, which use up prefetched batches; otherwise the median."""
        if self._pipeline is None:
            return median(step_ns)
        return mean(step_ns[min(self._ahead, len(step_ns) // 2) :])

    def _first_step(self, label: str, timeout_s: float, leave_off: float) -> None:
        """The step that may compile: as long as the others still have time to be measured afterwards."""
        patience_s = leave_off - time.monotonic()
        if patience_s <= 0:
            raise _no_time_for(label, "there was only time for the other plans")
        try:
            self._step(label, StepBlock(), min(patience_s, timeout_s))
        except AccelError:
            if time.monotonic() < leave_off:
                raise
            after = f"its first step was not over after {patience_s:.0f} s, when the time was nearly up"
            raise _no_time_for(label, after) from None

    def _blocks(self) -> dict[str, StepBlock]:
        """One full block that all variants share, so that all run the same number of steps. Its size suits the fastest variant,
        or the slowest one if there is a pipeline.

        One of its own for each whose steps hold another number of samples than the baseline's: eight times the batch in as
        many steps would make turns eight times as long, and what is compared would lie that far apart.
        """
        base = self.samples[self._variants[0].label]
        running = {variant.label: self.samples[variant.label] for variant in self._running}
        of_same_size = {
            label: own
            for label, own in running.items()
            if not differ(base.every_step_samples, own.every_step_samples)
        }
        known = [own.usual_step_s for own in of_same_size.values()]
        shared = StepBlock.of(min(known) if self._pipeline is None else max(known), self._pipeline)
        blocks = {}
        for label, own in running.items():
            pipeline = self._pipeline if label in of_same_size else self._pipeline_of(own, base)
            blocks[label] = shared if label in of_same_size else StepBlock.of(own.usual_step_s, pipeline)
            epoch = pipeline.epoch_steps if pipeline is not None else 0
            own.baseline_workers = self._load.loader_workers
            self._epochs[label] = epoch
            own.epoch_steps, own.pass_steps = epoch or self._load.pass_steps, self._load.pass_steps
        return blocks

    def _takes_s(self, blocks: Mapping[str, StepBlock], step_s: Mapping[str, float]) -> float:
        return sum(blocks[variant.label].steps * step_s[variant.label] for variant in self._in_race)

    def _that_fit(
        self, full: dict[str, StepBlock], step_s: Mapping[str, float], number: int, left_s: float, *,
        are_full: bool,
    ) -> dict[str, StepBlock]:  # fmt: skip
        """The blocks of the next round: full ones, or ones that suit `step_s` if FEWEST_ROUNDS might not fit into `left_s`.

        `number` is the number of the round that has just ended, and `are_full` says whether that round had full blocks. If its
        blocks were short, the next ones are full again only if FEWEST_ROUNDS full rounds fit into `left_s`. If the blocks are
        full when round FEWEST_ROUNDS ends, later rounds do not shorten them.

        Short blocks differ in their number of steps, so the variants no longer train on the same steps. In return, each variant
        gets as many untimed steps at the start of its turn as it needs. While other programs use the CPUs, the threads of an
        operation wait for each other, so a step that usually takes 0.3 ms can take 50 ms. A short warm-up may contain none of
        these slow steps.
        """
        rounds = max(FEWEST_ROUNDS - number, 0) if are_full else FEWEST_ROUNDS
        if SAFELY * rounds * self._takes_s(full, step_s) <= max(left_s, 0.0):
            return full
        return {
            label: min(block, StepBlock.of(step_s.get(label, 0.0)), key=lambda each: each.steps)
            for label, block in full.items()
        }

    def _pipeline_of(self, own: Samples, base: Samples) -> Pipeline | None:
        """The pipeline of a variant with another number of samples per step: its epochs have another number of steps."""
        if self._pipeline is None or not self._pipeline.epoch_steps:
            return self._pipeline
        times = usual(base.every_step_samples) / usual(own.every_step_samples)
        return replace(self._pipeline, epoch_steps=max(math.ceil(self._pipeline.epoch_steps * times), 1))

    def _one_round(self, blocks: dict[str, StepBlock], stop: threading.Event) -> dict[str, float]:
        """Run one turn of each variant, in random order.

        Returns each variant's step time in seconds: the time per step of this turn or the usual step time, whichever is longer.
        """
        order, step_s = self._in_race, {}
        self._randomness.shuffle(order)
        for variant in order:
            if not stop.is_set():
                label, block = variant.label, blocks[variant.label]
                with self._isolated(label):
                    began = time.monotonic()
                    self._step(label, block, self._timeout_s)
                    epoch, own = self._epochs[label], self.samples[label]
                    is_whole = epoch > 0 and block.timed % epoch == 0
                    own.times_epochs = is_whole and (own.times_epochs or len(own.step_ns) == 1)
                    # The turns include waits that the warm-up does not show.
                    own.usual_step_s = median_low(own.step_ns) / 1e9
                    step_s[label] = max((time.monotonic() - began) / block.steps, own.usual_step_s)
        return step_s

    def _step(self, label: str, block: StepBlock, timeout_s: float) -> None:
        worker, samples = self._workers[label], self.samples[label]
        worker.send(StepToken(block.steps, block.settle))
        done = worker.receive(StepsDone, timeout_s=timeout_s + block.steps * samples.usual_step_s)
        samples.step_ns.append(mean(done.wall_ns[block.settle :]))
        samples.step_samples.append(mean(done.samples[block.settle :]))
        samples.every_step_samples += done.samples
        samples.losses += done.losses[: max(COMPARED_STEPS - len(samples.losses), 0)]
        samples.applied_s = max([samples.applied_s, *(ns / 1e9 for ns in done.apart_ns)])
        samples.minor_faults += done.minor_faults
        samples.steps += block.steps

    def _is_precise(self, effort: Effort) -> bool:
        errors = [median_variance(tuple(pair)) ** 0.5 for pair in self._log_ratios()]
        return all(error < effort.precise_enough for error in errors)

    def _log_ratios(self) -> list[list[float]]:
        """Log ratios per round of each candidate that still takes part."""
        base, *candidates = (self.samples[variant.label] for variant in self._in_race)
        return [paired_log_ratios(*compared_times(base, own)) for own in candidates]

    def _watched_steps(self) -> int:
        """How many steps each variant takes for its memory, once nothing is timed any more; a GPU counts by itself."""
        if self._load.trains_on not in ("", "cpu"):
            return 0
        step_s = max(self.samples[variant.label].usual_step_s for variant in self._running)
        return 2 + min(int(WATCHED_S / step_s), MOST_WATCHED)

    def _memory_s(self) -> float:
        """What that takes, amply."""
        steps = self._watched_steps()
        return 1.5 * steps * sum(self.samples[label].usual_step_s for label in self._of_unknown_memory)

    @property
    def _of_unknown_memory(self) -> list[str]:
        return [each.label for each in self._running if each.label not in self.known_bytes]

    def _watch_memory(self, label: str) -> None:
        """Count what tensors hold; once more where the last step was one of fewer samples, as at the end of an epoch.

        All else is known by now: where it fails, as with a cell that starts a profiler of its own, resident pages remain.
        """
        steps, worker, samples = self._watched_steps(), self._workers[label], self.samples[label]
        if not steps:
            return
        try:
            for _ in range(2):
                worker.send(StepToken(steps, watches_memory=True))
                done = worker.receive(StepsDone, timeout_s=self._timeout_s + steps * samples.usual_step_s)
                if max(done.samples[1:], default=0) >= usual(samples.every_step_samples):
                    break
            samples.tensor_bytes = self._effect(label).tensor_bytes
        except AccelError:
            if self._ended:
                raise
            self._lost.add(label)

    def _read_effect(self, label: str) -> None:
        read, samples = self._effect(label), self.samples[label]
        samples.proofs, samples.compilation = tuple(read.proofs), read.compilation
        samples.resident_bytes = read.resident_bytes
        samples.tensor_bytes = read.tensor_bytes or self.known_bytes.get(label, 0)

    def _effect(self, label: str) -> EffectRead:
        self._workers[label].send(ReadEffect())
        return self._workers[label].receive(EffectRead, timeout_s=self._timeout_s)

    @property
    def _floor_s(self) -> float:
        """What the steps of a noise floor take for which time is kept back."""
        return FLOOR_STEPS * self.samples[self._variants[0].label].usual_step_s

    def noise_floor(
        self, steps: int, *, longer_than: int = 0, stop: threading.Event, deadline: float
    ) -> list[float | None]:
        """The baseline once more in its own worker, each parameter moved by one unit in the last place: its losses.

        Of fewer steps where these would take much of the time that is left; of none where that is not `longer_than` is known.
        """
        variant, left_s = self._variants[0], deadline - time.monotonic()
        spare_s = max(FLOOR_SHARE * left_s, min(left_s, self._floor_s))
        if spare_s < math.inf:
            steps = min(steps, int(spare_s / self.samples[variant.label].usual_step_s))
        if steps < max(LEAST_FLOOR_STEPS, longer_than + 1) or variant.label in self._lost:
            return []
        self._phases.enter("comparing", "losses with those of a nudged baseline")
        worker = self._workers[variant.label]
        worker.send(Finish())
        worker.receive(Finished, timeout_s=self._timeout_s)
        self._give(variant, msgspec.structs.replace(self._load, perturb=True))
        losses: list[float | None] = []
        while len(losses) < steps and not stop.is_set():
            worker.send(StepToken(1))
            losses += worker.receive(StepsDone, timeout_s=self._timeout_s).losses
        return losses


class NoTime(AccelError):
    """A plan that was not measured, because the time that is left goes to the others."""


def _no_time_for(label: str, because: str) -> NoTime:
    return NoTime(
        f"Warming up {label}",
        because=because,
        do="Give the trial more time with --budget-s, or try this plan alone.",
    )
