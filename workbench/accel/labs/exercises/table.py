"""Every check by its name; torch is imported only when one runs."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from accel.errors import UnknownName
from accel.labs.exercises.seen import Seen

# The name of a check, and the file next to this one that it stands in.
CHECKS: dict[str, str] = {
    "best_joined": "of_topology",
    "efficiencies": "of_topology",
    "bound_threads": "of_threads",
    "cores_on_one_socket": "of_ranks",
    "earned_back": "of_compiling",
    "even_ranks": "of_ranks",
    "faster_plan": "of_plans",
    "few_shapes": "of_compiling",
    "hidden_exchange": "of_collectives",
    "knows_itself": "of_job_scripts",
    "mixed_step": "of_formats",
    "narrow_format": "of_formats",
    "one_graph": "of_compiling",
    "one_cpu_a_core": "of_threads",
    "own_scaler": "of_formats",
    "pays_off": "of_models",
    "ranks_meet": "of_ranks",
    "remembers": "of_loaders",
    "renumbered": "of_topology",
    "ring_all_reduce": "of_collectives",
    "same_picture_faster": "of_transforms",
    "shape_left": "of_models",
    "shared_out": "of_collectives",
    "smaller_share": "of_profiles",
    "smaller_model": "of_models",
    "speed_up_of_parts": "of_plans",
    "starts_all_ranks": "of_job_scripts",
    "time_on_the_wire": "of_job_scripts",
    "updates_of_training": "of_profiles",
    "waiting_below": "of_loaders",
}


def check_named(name: str) -> Callable[..., Seen]:
    """The check of that name; raises UnknownName.

    >>> check_named("waiting_below")(profile, most=0.1).passed
    True
    """
    if name not in CHECKS:
        raise UnknownName("check", name, list(CHECKS))
    found: Any = getattr(import_module(f"accel.labs.exercises.{CHECKS[name]}"), name)
    return found  # type: ignore[no-any-return]
