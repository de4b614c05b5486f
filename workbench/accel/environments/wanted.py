"""Which environment has what somebody asks for, or how to make one."""

from __future__ import annotations

from accel.environments.environment import Environment, environments
from accel.environments.recipes import can_be_made, is_version
from accel.errors import Reason, UnknownName


def find(name: str) -> Environment:
    """The environment of this name. Raises UnknownName."""
    for each in environments():
        if each.name == name:
            return each
    raise UnknownName(
        "environment",
        name,
        [each.name for each in environments()],
        instead=f"Make it: %accel env create {name}" if can_be_made(name) else "",
    )


def environment_with(distribution: str, version: str = "") -> Environment | None:
    """The first environment that has it, and where cells of this notebook can run; None where none has.

    >>> environment_with("torch", "2.8").name
    'intel'
    """
    for each in environments():
        if (
            distribution in each.versions
            and not each.why_not
            and (not version or is_version(each.versions[distribution], version))
        ):
            return each
    return None


def no_environment(what: str, name: str) -> Reason:
    """Why an entry cannot be tried yet, and how to make what it needs.

    >>> print(no_environment("NNI", "nni"))
    No environment here has NNI. Make one: %accel env create nni.
    """
    for each in environments():
        if each.name == name.replace("==", "-"):  # somebody changed it
            return Reason(
                f"{what} is not in the environment {each.name}{f': {each.why_not}' if each.why_not else ''}",
                f"Remove it, and make it again: %accel env remove {each.name}.",
            )
    return Reason(f"No environment here has {what}", f"Make one: %accel env create {name}.", environment=name)
