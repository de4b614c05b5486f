"""Put an attribute on one object in place of its class's, and take it away again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def own_attribute(thing: object, name: str, ours: Any) -> Iterator[None]:
    """While entered, `ours` stands on the object under this name; on leaving, what stood there before does.

    >>> with own_attribute(optimizer, "zero_grad", types.MethodType(zero_grad, optimizer)):
    ...     train()

    What somebody else put there meanwhile stays: it is theirs, and may go on calling ours.
    """
    state = vars(thing)  # not setattr: OptimizedModule would hand it on to the module inside
    was_set, before = name in state, state.get(name)
    state[name] = ours
    try:
        yield
    finally:
        if state.get(name) is ours:
            if was_set:
                state[name] = before
            else:
                del state[name]
