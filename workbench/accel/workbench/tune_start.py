"""Prepare a search: which parts a plan may be made of here, what is expected of them, and the trial that is ready to start."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any

from accel.accelerations import CATALOGUE, Acceleration, by_name
from accel.accelerations.batch_size import BatchSize
from accel.accelerations.ddp import Ddp
from accel.accelerations.gradient_accumulation import GradientAccumulation
from accel.accelerations.started import Started
from accel.errors import AccelError, Reason, in_words
from accel.measuring.comparison import CHANGES
from accel.measuring.tuning import LeftOut
from accel.plans.plan import Plan
from accel.tuning.candidates import Candidates, Hint
from accel.tuning.gain_model import Choice
from accel.workbench.hints import HISTORY, hints_for
from accel.workbench.quality_request import QualityRequest
from accel.workbench.quality_start import asked_of_quality
from accel.workbench.time_for_parts import TimeForParts
from accel.workbench.trial_start import load_without_what_is_kept, packed, trial_setting, unchanged_check
from accel.workers.quality_seeds import QualitySetting
from accel.workers.tune_search import Aim
from accel.workers.tune_trial import SEARCH_SHARE, TuneTrial

if TYPE_CHECKING:
    from accel.machine import Machine
    from accel.workbench.notebook_state import NotebookState
    from accel.workers.time_budget import TimeBudget
    from accel.workload.shipping import Parcel
    from accel.workload.workload import Workload

EXCLUDED, NOT_INCLUDED = "you excluded it", "you did not include it"
# As many samples a step as before, in smaller batches.
SMALLER_BATCHES = tuple(
    Plan((BatchSize(factor=1 / times), GradientAccumulation(micro_batches=times))) for times in (2, 4)
)


def prepared_tuning(
    workbench: NotebookState, workload: Workload, *, include: Sequence[str], exclude: Sequence[str],
    changes_training: bool, aim: Aim, budget: TimeBudget, timeout_s: float,
) -> TuneTrial:  # fmt: skip
    """Collect the parts, pack and guard; the trial is ready to start."""
    from accel.distributed.trials.trial_group import group_for

    asked = _Asked(include, exclude, changes_training, saves_memory=aim.fit_bytes is not None)
    quality, (parcel, while_packing), unproven = _parcel_for(
        workbench, workload, asks_quality=asked.asks_quality, budget=budget, timeout_s=timeout_s
    )
    try:
        with workbench.live.suspended():
            candidates = _candidates_for(
                workbench, workload, asked, steps=aim.steps, search_s=SEARCH_SHARE * budget.seconds, unproven=unproven
            )  # fmt: skip
        return TuneTrial(
            candidates, parcel, load_without_what_is_kept(workbench, parcel, workload), workbench.pool,
            trial_setting(workbench, workload, budget=budget, timeout_s=timeout_s), aim,
            check=unchanged_check(workbench, workload, while_packing), groups=group_for,
            quality=quality if candidates.changing else None,
        )  # fmt: skip
    except BaseException:
        parcel.close()
        raise


def _parcel_for(
    workbench: NotebookState, workload: Workload, *, asks_quality: bool, budget: TimeBudget, timeout_s: float
) -> tuple[QualitySetting | None, tuple[Parcel, list[str]], str]:
    """The workload packed, with what its quality is measured by, where that is asked; else why it cannot be measured."""
    unproven = ""
    if asks_quality:
        try:
            request = QualityRequest(None, None)
            quality, shipped = asked_of_quality(
                workbench, workload, request, budget=budget, timeout_s=timeout_s
            )
            return quality, packed(workbench, shipped), ""
        except AccelError as error:  # the rest can be searched
            unproven = f"it changes training, and its quality cannot be compared: {error.because}. {error.do}"
    return None, packed(workbench, workload), unproven


def _candidates_for(
    workbench: NotebookState, workload: Workload, asked: _Asked, *, steps: int, search_s: float, unproven: str
) -> Candidates:
    """The parts that can work here; every other entry with the reason. `unproven` says why none that changes training can be."""
    hints = hints_for(workbench, workload)
    collected = _Collected(workbench, workload, asked)
    time = TimeForParts(workbench, workload, steps=steps, search_s=search_s)
    for entry in CATALOGUE:
        smaller = SMALLER_BATCHES if asked.saves_memory and entry is BatchSize and not asked.included else ()
        for part in (*smaller, *_first_settings(entry, asked.included, hints, workbench.machine)):
            if why := asked.why_not(part):
                collected.leave_out(part, why)
            elif unproven and part.effect == CHANGES and part not in SMALLER_BATCHES:
                collected.leave_out(part, unproven, is_news=True)
            elif why := time.too_short_for(
                part, is_asked=bool(asked.included) or _is_of_history(part, hints)
            ):
                collected.leave_out(part, why, is_news=True)
            else:
                collected.consider(part)
    if not collected.parts and not collected.of_process:
        reasons = [each for each in collected.left_out if each.why not in (NOT_INCLUDED, EXCLUDED)]
        told = " ".join(f"{each.plan}: {each.why}" for each in reasons[:3])
        raise AccelError(
            "%accel tune", because="nothing that may be tried can work here",
            do=f"%accel accelerations has the reasons of each. {told}",
        )  # fmt: skip
    return collected.candidates(hints)


class _Asked:
    """What the user wants in the search; refuses what names no acceleration, or one twice."""

    def __init__(
        self, include: Sequence[str], exclude: Sequence[str], changes_training: bool, *, saves_memory: bool
    ) -> None:
        self.included, self._exclude = _single(include, "--include"), _single(exclude, "--exclude")
        self._changes_training, self.saves_memory = changes_training, saves_memory
        self._names = {plan.names[0] for plan in self.included}
        self._exact = {plan.names[0] for plan in self.included if plan != _usual(plan.names[0])}
        if both := [plan for plan in self.included if plan in self._exclude]:
            raise AccelError(
                "%accel tune", because=f"--include and --exclude both name {both[0]}", do="Leave it out of one of them."
            )  # fmt: skip

    @property
    def asks_quality(self) -> bool:
        """Whether plans that change training take part, and have to be proven."""
        return self._changes_training or any(plan.effect == CHANGES for plan in self.included)

    def why_not(self, part: Plan) -> str:
        """Why a part is not searched; empty where it is."""
        entry = part.entries[0]
        if any(part == each or each in map(_usual, part.names) for each in self._exclude):
            return EXCLUDED
        if self._names and entry.name not in self._names:
            return NOT_INCLUDED
        if isinstance(entry, Started) and entry.name not in self._names:
            return "it needs a process of its own: --include adds it"
        if getattr(entry, "needs_ranks", False):
            return "it works on ranks only: %%accel ddp --plan"
        if entry.name not in self._names and part.saves_memory and not self.saves_memory:
            return "it saves memory and costs time: --include takes it in, and so does --fit"
        if entry.effect == CHANGES and not self._changes_training and entry.name not in self._names:
            return "it changes the training: --changes-training takes it in"
        return ""

    def takes_other_settings_of(self, part: Plan) -> bool:
        """Whether only the entry was named, so that which settings are best is for the search to find."""
        return part.entries[0].name not in self._exact


def _usual(name: str) -> Plan:
    return Plan((by_name(name)(),))


class _Collected:
    """Parts as they are found to work, with what each excludes."""

    def __init__(self, workbench: NotebookState, workload: Workload, asked: _Asked) -> None:
        self._workbench, self._workload, self._asked = workbench, workload, asked
        self.parts: dict[str, Plan] = {}
        self.settings: dict[str, dict[str, Plan]] = {}
        self.of_process = Plan()
        self.left_out: list[LeftOut] = []

    def leave_out(self, part: Plan, why: str, *, is_news: bool = False) -> None:
        """Go on without a part, and remember why."""
        self.left_out.append(LeftOut(str(part), why, is_news))

    def consider(self, part: Plan) -> None:
        """Take a part in, and its other settings, where they can work."""
        if reasons := self._refused(part):
            self.leave_out(part, in_words(reasons))
        elif part.needs_own_process:
            self.of_process = self.of_process.updated(part)
        else:
            self.parts[str(part)] = part
            if not self._asked.takes_other_settings_of(part):
                return
            other = {str(each): each for each in _other_settings(part, self._workbench.machine)}
            self.settings[str(part)] = {
                text: each.resolved(self._workload)
                for text, each in other.items()
                if not self._asked.why_not(each) and not self._refused(each)
            }

    def _refused(self, part: Plan) -> list[Reason]:
        entry = part.entries[0]
        if part.needs_own_process and entry.name in self._workbench.kept.names:
            return [Reason("It is live in this process, and so in the baseline", "Undo it first to compare.")]
        plan = part.resolved(self._workload)
        reasons = plan.why_not(self._workload, self._workbench.machine)
        return [reason for name in part.names for reason in reasons.get(name, [])]

    def candidates(self, hints: dict[str, Hint]) -> Candidates:
        """All of it, the likeliest parts first, and what cannot be in one plan."""
        settings = {
            part: {text: plan for text, plan in each.items() if text not in self.parts}
            for part, each in self.settings.items()
        }
        known = {**self.parts, **{text: plan for each in settings.values() for text, plan in each.items()}}
        first = sorted(self.parts, key=lambda part: -hints[part].prior.mean if part in hints else 0.0)
        first.sort(key=lambda part: not self.parts[part].saves_memory)  # only they may have room for others
        return Candidates(
            parts={part: self.parts[part].resolved(self._workload) for part in first},
            settings=settings,
            of_process=self.of_process,
            excluded=frozenset(self._excluded({**known, str(self.of_process): self.of_process})),
            hints={part: hint for part, hint in hints.items() if part in known},
            left_out=tuple(self.left_out),
        )

    def _excluded(self, known: dict[str, Plan]) -> Iterable[Choice]:
        for one, other in combinations(known, 2):
            try:
                plan = Plan((*known[one].entries, *known[other].entries), (*known[one].on, *known[other].on))
            except AccelError:  # one entry twice, or two that exclude each other
                yield frozenset({one, other})
                continue
            asks = any(hasattr(entry, "why_not_beside") for entry in plan.entries)
            if asks and plan.why_not(self._workload, self._workbench.machine):
                yield frozenset({one, other})


def _first_settings(
    entry: type[Acceleration], included: Sequence[Plan], hints: Mapping[str, Hint], machine: Machine
) -> list[Plan]:
    """The settings of an entry that the search begins with: as included, as a finding names them, or the usual one."""
    own = [plan for plan in included if plan.names == (entry.name,) and plan != Plan((entry(),))]
    usual = Plan((Ddp(batch="global") if entry is Ddp else entry(),))
    if own:
        return list(dict.fromkeys(own))
    hinted = [
        plan for text, hint in hints.items() if hint.prior.mean > 0 for plan in _plans_of(text, entry.name)
    ]
    hinted = sorted(hinted, key=lambda plan: -hints[str(plan)].prior.mean)[:1]
    # Whether more threads or fewer help is not known: all are begun with.
    others = _other_settings(usual, machine) if entry.layer == "threads" else []
    return list(dict.fromkeys([usual, *hinted, *others]))


def _is_of_history(part: Plan, hints: Mapping[str, Hint]) -> bool:
    """Whether it was measured here before: what it compiles is likely to lie on disk."""
    return str(part) in hints and hints[str(part)].source == HISTORY


def _plans_of(text: str, name: str) -> list[Plan]:
    """A plan of this one entry; none where the text is of another, or of an accel that called things otherwise."""
    try:
        plan = Plan.parse(text)
    except AccelError:
        return []
    return [plan] if plan.names == (name,) and str(plan) == text else []


def _other_settings(part: Plan, machine: Machine) -> list[Plan]:
    """The same entry with other knobs that are worth a try, on the same objects."""
    settings: Callable[[Any], Sequence[Acceleration]] = getattr(
        part.entries[0], "other_settings", lambda _: ()
    )
    return [Plan((entry,), tuple((entry.name, names) for _, names in part.on)) for entry in settings(machine)]


def _single(texts: Sequence[str], option: str) -> list[Plan]:
    """Accelerations, each perhaps with its knobs; raises UnknownName, or AccelError where one is a whole plan."""
    plans = [Plan.parse(text) for text in texts]
    for text, plan in zip(texts, plans, strict=True):
        if len(plan.names) != 1:
            raise AccelError(
                f"%accel tune {option} {text}", because="each word is one acceleration",
                do=f"Write them apart by spaces: {option} {' '.join(plan.names) or 'channels_last autocast'}",
            )  # fmt: skip
    return plans
