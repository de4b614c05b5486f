"""Packages that are commands too: `accel.machine.Machine` is a class in one, and `accel.machine()` runs a function.

What such a command needs lies above its package, so the package imports none of it: `accel/__init__.py` fills `FUNCTION_OF`.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from inspect import Signature

FUNCTION_OF: dict[str, Callable[..., object]] = {}


class CallablePackage(ModuleType):
    """A package that runs its function when it is called.

    >>> sys.modules[__name__].__class__ = CallablePackage
    """

    @property
    def __signature__(self) -> Signature:
        """The function's, which `inspect.signature` and `accel.history?` read."""
        from inspect import signature

        return signature(FUNCTION_OF[self.__name__])

    def __call__(self, *args: Any, **options: Any) -> object:
        return FUNCTION_OF[self.__name__](*args, **options)
