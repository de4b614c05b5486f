"""What the board shows of the catalogue: each entry with its knobs and reasons, and what cannot work here by its reason."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from accel.accelerations.acceleration import LAYERS
from accel.environments.environment import environments
from accel.environments.recipes import recipe
from accel.plans.knobs import knobs_of
from accel.units import percent
from accel.views.profile.findings import parts_of
from accel_widgets.knob_values import knob_shown

if TYPE_CHECKING:
    from accel.accelerations.acceleration import Acceleration
    from accel.errors import Reason
    from accel.profiling.findings import Finding

_EFFECTS = {
    "exact": "Losses stay equal, bit for bit",
    "close": "Losses stay equal up to rounding",
    "changes training": "The model learns differently: compare the quality reached (--until)",
}
Reasons = Mapping[str, Sequence["Reason"]]  # by the name of an entry; none: it can work


def entries_shown(
    entries: Sequence[type[Acceleration]], reasons: Reasons, *, kept: Collection[str], advised: Collection[str],
    chosen: Collection[str],
) -> list[dict[str, Any]]:  # fmt: skip
    """What can be switched on: what findings advise and what is kept first, then by layer.

    >>> entries_shown(CATALOGUE, {}, kept=(), advised=("channels_last",), chosen=())[0]["name"]
    'channels_last'
    """
    layers = list(LAYERS)
    known = [entry for entry in entries if entry.name in chosen or not is_refused(reasons, entry.name)]
    first = [*advised, *kept]
    known.sort(
        key=lambda entry: (
            first.index(entry.name) if entry.name in first else len(first),
            layers.index(entry.layer),
        )
    )
    return [
        _entry(entry, reasons.get(entry.name, ()), is_kept=entry.name in kept, is_first=entry.name in first)
        for entry in known
    ]


def _entry(
    entry: type[Acceleration], reasons: Sequence[Reason], *, is_kept: bool, is_first: bool
) -> dict[str, Any]:
    lacks = reasons[0] if _lacks_environment(reasons) else None
    return {
        "name": entry.name,
        "layer": LAYERS[entry.layer],
        "effect": entry.effect,
        "effect_means": _EFFECTS[entry.effect],
        "summary": (entry.__doc__ or "").strip().partition("\n")[0].replace("`", ""),
        "is_kept": is_kept,
        "is_first": is_first,
        "knobs": [knob_shown(knob) for knob in knobs_of(entry)],
        "why_not": [] if lacks else [str(reason) for reason in reasons],
        "make": _make(lacks) if lacks else None,
    }


def _make(lacks: Reason) -> dict[str, str]:
    """The button that makes the environment which is missing."""
    needs = recipe(lacks.environment).needs(environments())
    return {
        "environment": lacks.environment,
        "words": f"Make {lacks.environment} ({needs})",
        "because": lacks.because,
    }


def refused_shown(
    entries: Sequence[type[Acceleration]], reasons: Reasons, *, chosen: Collection[str]
) -> list[dict[str, Any]]:
    """What cannot work here, those with the same reason together; of each name whether it has knobs that may change that.

    >>> refused_shown(CATALOGUE, {"gpu_a": [Reason("no GPU", "Use one.")], "gpu_b": [Reason("no GPU", "Use one.")]}, chosen=())
    [{'names': [...], 'because': 'no GPU. Use one.'}]
    """
    groups: dict[str, list[dict[str, Any]]] = {}
    for entry in entries:
        if entry.name not in chosen and is_refused(reasons, entry.name):
            because = " ".join(map(str, reasons[entry.name]))
            groups.setdefault(because, []).append({"name": entry.name, "has_knobs": bool(knobs_of(entry))})
    return [{"names": names, "because": because} for because, names in groups.items()]


def is_refused(reasons: Reasons, name: str) -> bool:
    """Whether it cannot work here, and an environment would not change that."""
    own = reasons.get(name, ())
    return bool(own) and not _lacks_environment(own)


def _lacks_environment(reasons: Sequence[Reason]) -> bool:
    return bool(reasons) and all(reason.environment for reason in reasons)


def findings_shown(findings: Sequence[Finding]) -> list[dict[str, Any]]:
    """The findings as cards, largest gain first."""
    return [
        {
            "id": finding.kind,
            "title": finding.title,
            "share": finding.share,
            "share_text": percent(finding.share),
            "predicted": _predicted(finding),
            "plans": list(finding.suggests),
            "details": [
                [label, said] for label, said in parts_of(finding) if label != "Try"
            ],  # its button does
        }
        for finding in findings
    ]


def _predicted(finding: Finding) -> str:
    if finding.prediction is None:
        return ""
    return f"Predicted: {finding.prediction.low:.2f} to {finding.prediction.high:.2f}× as fast"
