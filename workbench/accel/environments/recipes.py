"""What goes into an environment, and what that takes."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from accel.errors import AccelError, UnknownName
from accel.units import size

if TYPE_CHECKING:
    from accel.environments.environment import Environment

KERNEL = ("ipykernel",)
"""So that a Jupyter kernel can be of it: %accel keep --as-kernel."""
WORKER = ("cloudpickle>=3", "markupsafe>=2.1", "msgspec>=0.19", "numpy", "nvidia-ml-py>=12", "psutil>=5.9")
"""What a worker of ours needs, torch aside."""
OLDEST = "2.8"  # torch that this package runs on
_TORCH = re.compile(r"torch==(\d+\.\d+(?:\.\d+)?)")
_OF_TORCH_BYTES = 6_900_000_000  # torch and torchvision with the libraries of CUDA


@dataclass(frozen=True)
class Recipe:
    """An environment that can be made; `shown` are the distributions whose versions people ask for.

    >>> recipe("intel").requirements
    ('torch==2.8.0', 'torchvision==0.23.0', 'intel-extension-for-pytorch==2.8.0', 'intel-openmp')
    """

    name: str
    requirements: tuple[str, ...]
    needs_bytes: int
    what: str
    shown: tuple[str, ...] = ("torch",)
    runs_cells: bool = True
    """Whether cells run in it; one that only lends libraries to others has no torch."""

    @property
    def everything(self) -> tuple[str, ...]:
        """All that is installed."""
        return (*self.requirements, *((*WORKER, *KERNEL) if self.runs_cells else ()))

    def needed_bytes(self, beside: Iterable[Environment]) -> int:
        """What it takes from the disk where these are there: files are shared, and torch is most of them."""
        wanted = self.requirements[0].partition("torch==")[2].removesuffix(".*")
        is_there = wanted and any(
            each.folder and is_version(each.versions.get("torch", ""), wanted) for each in beside
        )
        return max(self.needs_bytes - _OF_TORCH_BYTES, 100_000_000) if is_there else self.needs_bytes

    def needs(self, beside: Iterable[Environment]) -> str:
        """What it takes, in words, before it is made."""
        needed = self.needed_bytes(beside)
        return f"up to {size(needed)} and {'some seconds' if needed < 1e9 else 'some minutes'}"


RECIPES = (
    Recipe(
        "intel", ("torch==2.8.0", "torchvision==0.23.0", "intel-extension-for-pytorch==2.8.0", "intel-openmp"), 7_300_000_000,
        "torch 2.8 with Intel's extension, which ended with it", ("torch", "intel-extension-for-pytorch", "intel-openmp"),
    ),
    Recipe(
        "nni", ("torch==2.8.0", "torchvision==0.23.0", "nni==3.0", "setuptools<81"), 7_500_000_000,
        "NNI's pruners, with the versions that it pins", ("torch", "nni"),
    ),
    Recipe(
        "openmp", ("intel-openmp",), 200_000_000, "Intel's OpenMP runtime alone, for the notebook's own torch",
        ("intel-openmp",), runs_cells=False,
    ),
)  # fmt: skip


def recipe(text: str) -> Recipe:
    """The recipe of a name, or of a version of torch. Raises UnknownName.

    >>> recipe("torch==2.9").requirements
    ('torch==2.9.*', 'torchvision')
    """
    if (version := _TORCH.fullmatch(text.replace(" ", ""))) is not None:
        number = version.group(1)
        if too_old(number):
            raise AccelError(
                f"%accel env create {text}", because=f"cells are tried on torch {OLDEST} and later",
                do=f"Write for example torch=={OLDEST}.",
            )  # fmt: skip
        exactly = number if number.count(".") == 2 else f"{number}.*"
        return Recipe(
            f"torch-{number}", (f"torch=={exactly}", "torchvision"), _OF_TORCH_BYTES, f"torch {number}"
        )
    for each in RECIPES:
        if each.name == text:
            return each
    raise UnknownName("environment", text, [*(each.name for each in RECIPES), "torch==2.8"])


def can_be_made(name: str) -> bool:
    """Whether there is a recipe of this name.

    >>> can_be_made("intel"), can_be_made("torch==2.9"), can_be_made("mine")
    (True, True, False)
    """
    return any(each.name == name for each in RECIPES) or _TORCH.fullmatch(name) is not None


def is_version(found: str, wanted: str) -> bool:
    """Whether a version is the wanted one, as far as that is written.

    >>> is_version("2.8.0+cu128", "2.8"), is_version("2.80.0", "2.8")
    (True, False)
    """
    numbers = wanted.split(".")
    return found.split("+")[0].split(".")[: len(numbers)] == numbers


def too_old(version: str) -> bool:
    """Whether this version of torch is older than this package runs on.

    >>> too_old("2.7"), too_old("2.10.0+cpu")
    (True, False)
    """
    numbers, oldest = ([int(each) for each in re.findall(r"\d+", text)[:2]] for text in (version, OLDEST))
    return numbers < oldest
