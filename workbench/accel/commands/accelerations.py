"""`%accel accelerations`: as a table, and with a workload what works on it."""

from __future__ import annotations

import argparse
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from accel.accelerations.acceleration import by_layer
from accel.commands.command import OUT, Command
from accel.shown import Shown

if TYPE_CHECKING:
    import pandas

    from accel.accelerations import Acceleration
    from accel.accelerations.acceleration import Layer
    from accel.commands.place import Place
    from accel.workbench import Workbench
    from accel.workbench.status import Applicabilities


@dataclass(frozen=True)
class ListedAcceleration:
    """One acceleration: its name, the layer it changes, its effect on the result, and the first line of its card."""

    name: str
    layer: Layer
    effect: str
    summary: str

    @classmethod
    def of(cls, entry: type[Acceleration]) -> ListedAcceleration:
        """The row of a catalogue entry."""
        return cls(entry.name, entry.layer, entry.effect, (entry.__doc__ or "").strip().splitlines()[0])


@dataclass(frozen=True)
class AccelerationList(Shown):
    """Every acceleration of the catalogue, by the layer of the stack that it changes.

    >>> print(AccelerationList.of_catalogue())
    """

    rows: tuple[ListedAcceleration, ...]

    @classmethod
    def of_catalogue(cls) -> AccelerationList:
        """What there is."""
        from accel.accelerations import CATALOGUE

        return cls(tuple(map(ListedAcceleration.of, CATALOGUE)))

    @property
    def groups(self) -> list[tuple[str, list[ListedAcceleration]]]:
        """Titles of layers, each with its rows."""
        return by_layer(self.rows, lambda row: row.layer)

    def to_dict(self) -> dict[str, Any]:
        """The rows as plain values."""
        return {"accelerations": [asdict(row) for row in self.rows]}

    def to_dataframe(self) -> pandas.DataFrame:
        """One row an acceleration."""
        import pandas

        return pandas.DataFrame(self.to_dict()["accelerations"])


def accelerations_of(workbench: Workbench) -> AccelerationList | Applicabilities:
    """With a workload the table says what works on it; without one it cannot.

    >>> print(accelerations_of(workbench))
    """
    if workbench.workload is None:
        return AccelerationList.of_catalogue()
    from accel.workbench.status import Applicabilities

    return Applicabilities(tuple(workbench.accelerations()), str(workbench.workload))


def _run(options: argparse.Namespace, place: Place) -> object:
    return accelerations_of(place.workbench) if place.has_workbench else AccelerationList.of_catalogue()


COMMAND = Command(
    "accelerations",
    "list the accelerations: what each does, and why it cannot work here if it cannot",
    "%accel accelerations",
    _run,
    (OUT,),
    needs_notebook=False,
)
