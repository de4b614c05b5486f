"""Which plan a launcher is for, and what its environment has."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import metadata

from accel.distributed.jobs.cluster import LAUNCHERS
from accel.environments.interpreter import distributions_of
from accel.environments.wanted import find
from accel.errors import AccelError, UnknownName
from accel.exporting.launcher import FILES, Launcher, launcher
from accel.plans.plan import Plan

OF_A_TRAINING = ("torch", "torchvision", "numpy")  # what a container gets, in the versions of the notebook


def launcher_for(form: str, plan: str | Plan | None) -> Launcher:
    """The file of this form for a plan.

    >>> launcher_for("shell", "omp_wait_policy").save("train.sh")

    Raises UnknownName for another form, and AccelError without a plan.
    """
    if form not in FILES:
        raise UnknownName("form of export", form, ["cell", "script", *FILES, *LAUNCHERS])
    if plan is None:
        raise AccelError(
            f"%accel export --to {form}", because="it starts a program with a plan, and none is named",
            do=f"Write for example %accel export --to {form} omp_wait_policy.",
        )  # fmt: skip
    wanted = Plan.parse(plan) if isinstance(plan, str) else plan
    names = [*OF_A_TRAINING, *(name for entry in wanted.started for name in entry.distributions)]
    return launcher(wanted, form, versions=_versions(wanted.start.environment, names))


def _versions(environment: str, names: Sequence[str]) -> dict[str, str]:
    """Those of the distributions that a training with the plan needs, not of all that the environment has."""
    if environment:
        _, found = distributions_of(find(environment).python, names, f"%accel export of {environment}")
        return found
    own: dict[str, str] = {}
    for name in names:
        try:
            own[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return own
