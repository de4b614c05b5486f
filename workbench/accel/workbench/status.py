"""What is live, and what could be: the answers of `%accel status` and `%accel accelerations`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from accel import html_parts as html

if TYPE_CHECKING:
    from accel.accelerations import Acceleration
    from accel.workbench.workbench import Workbench


@dataclass(frozen=True)
class Applicability:
    """One entry of the catalogue: why it cannot work here (no reasons: it can), and whether it is kept.

    >>> [each.name for each in workbench.accelerations() if each.is_applicable]
    """

    entry: type[Acceleration]
    reasons: tuple[str, ...]
    is_kept: bool

    @property
    def name(self) -> str:
        return self.entry.name

    @property
    def is_applicable(self) -> bool:
        return not self.reasons

    @property
    def summary(self) -> str:
        """The first line of the entry's card."""
        return (self.entry.__doc__ or "").strip().splitlines()[0]


@dataclass(frozen=True)
class Applicabilities:
    """The catalogue for this workload on this machine, as a table."""

    rows: tuple[Applicability, ...]
    workload_line: str

    def __str__(self) -> str:
        lines = [self.workload_line]
        for row in self.rows:
            mark = "kept" if row.is_kept else "yes " if row.is_applicable else "no  "
            lines.append(f"{mark}  {row.name:<18} {row.entry.layer:<12} {row.summary}")
            lines += [f"      {reason}" for reason in row.reasons]
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        return {
            "workload": self.workload_line,
            "accelerations": [
                {
                    "name": row.name,
                    "layer": row.entry.layer,
                    "effect": row.entry.effect,
                    "reasons": list(row.reasons),
                    "kept": row.is_kept,
                }
                for row in self.rows
            ],
        }

    def to_dataframe(self) -> Any:
        """One row an acceleration (pandas)."""
        import pandas

        return pandas.DataFrame(self.to_dict()["accelerations"])

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        rows = [
            (
                row.name,
                row.entry.layer,
                row.entry.effect,
                "kept" if row.is_kept else "yes" if row.is_applicable else "no: " + " ".join(row.reasons),
                row.summary,
            )
            for row in self.rows
        ]
        table = html.table(
            ["acceleration", "layer", "effect on training", "works here", "what it does"], rows
        )
        return {"text/plain": str(self), "text/html": html.block(html.note(self.workload_line), table)}


@dataclass(frozen=True)
class Status:
    """What the workload is, what is kept, and what the last trial said.

    >>> print(accel.status())
    """

    workload: str
    kept: str
    proofs: tuple[tuple[str, bool, str], ...]
    last_trial: str
    machine_line: str

    @classmethod
    def of(cls, workbench: Workbench) -> Status:
        from accel.workload.replica import merged

        live = workbench._live
        proofs = live.plan.proofs(merged(live.presented())) if live is not None and live.plan else []
        trial = workbench.trials[-1] if workbench.trials else None
        best = trial.ladder.best if trial else None
        return cls(
            workload=str(workbench.workload)
            if workbench.workload
            else "no cell was profiled yet: put %%accel profile over one",
            kept=str(workbench.kept) if workbench.kept else "nothing",
            proofs=tuple((name, proof.took_effect, proof.evidence) for name, proof in proofs),
            last_trial="none"
            if trial is None
            else f"{trial.state}" + (f"; best: {best.plan}, {best.sentence}" if best else ""),
            machine_line=workbench.machine.line,
        )

    @property
    def facts(self) -> list[tuple[str, str]]:
        """(what, value) in reading order."""
        proofs = [
            (
                f"  {name}",
                f"{'in effect' if took else 'no effect seen yet (run your cell, then ask again)'}: {evidence}",
            )
            for name, took, evidence in self.proofs
        ]
        return [
            ("Workload", self.workload),
            ("Kept", self.kept),
            *proofs,
            ("Last trial", self.last_trial),
            ("Machine", self.machine_line),
        ]

    def __str__(self) -> str:
        width = max(len(what) for what, _ in self.facts)
        return "\n".join(f"{what:<{width}}  {value}" for what, value in self.facts)

    def to_dict(self) -> dict[str, Any]:
        return dict(self.facts)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        return {"text/plain": str(self), "text/html": html.block(html.table(["", "status"], self.facts))}
