"""What is live, and what could be: the answers of `%accel status` and `%accel accelerations`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from accel.accelerations.acceleration import by_layer
from accel.shown import Shown
from accel.workbench.best_tried import summary

if TYPE_CHECKING:
    from accel.accelerations import Acceleration
    from accel.errors import Reason
    from accel.workbench.notebook_state import NotebookState


@dataclass(frozen=True)
class Applicability:
    """One entry of the catalogue: why it cannot work here (no reasons: it can), and whether it is kept.

    >>> [each.name for each in workbench.accelerations() if each.is_applicable]
    """

    entry: type[Acceleration]
    reasons: tuple[Reason, ...]
    is_kept: bool

    @property
    def name(self) -> str:
        return self.entry.name

    @property
    def is_applicable(self) -> bool:
        return not self.reasons

    @property
    def answer(self) -> str:
        """Whether it works here, in one word."""
        return "kept" if self.is_kept else "yes" if self.is_applicable else "no"

    @property
    def summary(self) -> str:
        """The first line of the entry's card."""
        return (self.entry.__doc__ or "").strip().splitlines()[0]


@dataclass(frozen=True)
class Applicabilities(Shown):
    """The catalogue for this workload on this machine, as a table."""

    rows: tuple[Applicability, ...]
    workload_line: str

    @property
    def groups(self) -> list[tuple[str, list[Applicability]]]:
        """Titles of layers, each with its rows: what is kept first, then what can work, then the others."""
        grouped = by_layer(self.rows, lambda row: row.entry.layer)
        return [
            (title, sorted(rows, key=lambda row: (not row.is_kept, bool(row.reasons))))
            for title, rows in grouped
        ]

    def to_dict(self) -> dict[str, Any]:
        return {
            "workload": self.workload_line,
            "accelerations": [
                {
                    "name": row.name,
                    "layer": row.entry.layer,
                    "effect": row.entry.effect,
                    "reasons": list(map(str, row.reasons)),
                    "kept": row.is_kept,
                }
                for row in self.rows
            ],
        }

    def to_dataframe(self) -> Any:
        """One row an acceleration (pandas)."""
        import pandas

        return pandas.DataFrame(self.to_dict()["accelerations"])


@dataclass(frozen=True)
class Status(Shown):
    """What the workload is, what is kept, and what the last trial said.

    >>> print(accel.status())
    """

    workload: str
    kept: str
    proofs: tuple[tuple[str, bool, str], ...]
    last_trial: str
    machine_line: str
    ranks: str = ""
    has_trained: bool = False  # since the plan is kept
    came_back: tuple[str, ...] = ()  # by an undo
    last_result: Shown | None = None  # of the last trial

    @classmethod
    def of(
        cls,
        workbench: NotebookState,
        ranks: str = "",
        came_back: tuple[str, ...] = (),
        *,
        shows_trial: bool = False,
    ) -> Status:
        from accel.workload.replica import merged

        live, trials = workbench._live, workbench.trials[workbench.first_trial :]
        proofs = live.plan.proofs(merged(live.presented())) if live is not None and live.plan else []
        return cls(
            workload=str(workbench.workload)
            if workbench.workload
            else "no cell was profiled yet: put %%accel profile over one",
            kept=str(workbench.kept) if workbench.kept else "nothing",
            proofs=tuple((name, proof.took_effect, proof.evidence) for name, proof in proofs),
            last_trial=summary(trials[-1] if trials else None),
            machine_line=workbench.machine.line,
            ranks=ranks,
            has_trained=live is not None and live.has_trained,
            came_back=came_back,
            last_result=trials[-1].result if trials and shows_trial else None,
        )

    @property
    def facts(self) -> list[tuple[str, str]]:
        """(what, value) in reading order."""
        proofs = [(f"  {name}", self._effect(took, evidence)) for name, took, evidence in self.proofs]
        return [
            ("Workload", self.workload),
            ("Kept", self.kept),
            *proofs,
            *([("Undone", "; ".join(self.came_back))] if self.came_back else []),
            ("Last trial", self.last_trial),
            *([("Ranks", self.ranks)] if self.ranks else []),
            ("Machine", self.machine_line),
        ]

    def _effect(self, took: bool, evidence: str) -> str:
        """Before anything was trained with it, an effect that is not seen is no fault."""
        if not took and not self.has_trained:
            return "live; confirmed by your next cell"
        return f"{'in effect' if took else 'no effect seen'}: {evidence}"

    def to_dict(self) -> dict[str, Any]:
        return dict(self.facts)
