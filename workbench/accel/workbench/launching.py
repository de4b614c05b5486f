"""Which plan a launcher is for, and what its environment has."""

from __future__ import annotations

from importlib import metadata

from accel.environments.environment import find
from accel.environments.interpreter import distributions_of
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
        raise UnknownName("form of export", form, ["cell", *FILES])
    if plan is None:
        raise AccelError(
            f"%accel export --to {form}", because="it starts a program with a plan, and none is named",
            do=f"Write for example %accel export --to {form} omp_wait_policy.",
        )  # fmt: skip
    wanted = Plan.parse(plan) if isinstance(plan, str) else plan
    return launcher(wanted, form, versions=_versions(wanted.start.environment))


def _versions(environment: str) -> dict[str, str]:
    if environment:
        found = find(environment)
        _, beside = distributions_of(found.python, OF_A_TRAINING, f"%accel export of {environment}")
        return {**beside, **found.versions}
    own: dict[str, str] = {}
    for name in OF_A_TRAINING:
        try:
            own[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return own
