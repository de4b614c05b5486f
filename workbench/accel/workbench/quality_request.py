"""What a trial by quality is asked for, checked before anything is copied."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

from accel.bounds import check_seconds
from accel.errors import AccelError, UnknownName
from accel.measuring.quality_target import QualityTarget
from accel.workload.new_weights import Start

Better = Literal["higher", "lower"]
SEEDS = 3  # fewer have no interval


@dataclass(frozen=True)
class QualityRequest:
    """A target or so many seconds of training, from how many seeds, and by which metric on which data.

    >>> QualityRequest.of(until="accuracy>=0.95")
    QualityRequest(target=QualityTarget(...), train_s=None, seeds=3, ...)
    """

    target: QualityTarget | None
    train_s: float | None
    seeds: int = SEEDS
    held_out: Any = None  # a loader, or its name; None: found
    metric: Any = None  # a function, or its name; None: found, or built in
    better: Better | None = (
        None  # which values of the metric are; None: known by its name, or by the target's sign
    )
    start: Start | None = (
        None  # from which weights; None: new ones where they can be drawn as the first ones were
    )

    @classmethod
    def of(
        cls, *, until: str | None = None, train_s: float | None = None, seeds: int | None = None,
        held_out: Any = None, metric: Any = None, better: Better | None = None, start: Start | None = None,
    ) -> QualityRequest | None:  # fmt: skip
        """The request; None when quality is not asked for. Raises AccelError for what makes no sense."""
        given = {"seeds": seeds, "held_out": held_out, "metric": metric, "better": better, "start": start}
        if until is None and train_s is None:
            for name, value in given.items():
                if value is not None:
                    raise AccelError(
                        f"try with {name}={value!r}", because="it belongs to a comparison by quality",
                        do='Say how good is good enough, as in --until "accuracy>=0.95", or how long to train: --train-s 30.',
                    )  # fmt: skip
            return None
        check_seconds(f"try with train_s={train_s}", train_s)
        if seeds is not None and (isinstance(seeds, bool) or not isinstance(seeds, int) or seeds < 1):
            raise AccelError(
                f"try with seeds={seeds!r}",
                because="a number of seeds is a whole number from 1 on",
                do="Use for example 3.",
            )
        _check_word("better", better, get_args(Better))
        _check_word("start", start, get_args(Start))
        if until is not None and better is not None:
            raise AccelError(
                f"try with better={better!r}", because="the sign of --until says which values are better",
                do="Leave --better out.",
            )  # fmt: skip
        target = None if until is None else QualityTarget.parse(until)
        return cls(target, train_s, SEEDS if seeds is None else seeds, held_out, metric, better, start)


def _check_word(name: str, word: Any, choices: tuple[str, ...]) -> None:
    if word is not None and word not in choices:
        raise UnknownName(f"value of {name}", str(word), choices)
