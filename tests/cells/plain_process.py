"""A process without accel, warm for many cells: it runs sources one after the other in a namespace and tells the weights.

Run as a script: a JSON list of sources and the names of weights on a line, a JSON list on a line back: weights after each source.
"""

from __future__ import annotations

import functools
import json
import subprocess
import sys
from pathlib import Path
from typing import Any


class PlainProcess:
    """Ends with the context.

    >>> with PlainProcess() as plain:
    ...     plain.run([earlier, cell], "model")
    """

    def __enter__(self) -> PlainProcess:
        self._process = subprocess.Popen(
            [sys.executable, str(Path(__file__))], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._process.stdin.close()  # type: ignore[union-attr]
        self._process.wait(120)

    def run(self, sources: list[str], weights: str) -> list[list[list[float]]]:
        """Weights after each source; raises RuntimeError with the traceback of one that fails."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps([sources, weights]) + "\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline())
        if isinstance(answer, str):
            raise RuntimeError(answer)
        return answer  # type: ignore[no-any-return]


def numbers_of(namespace: dict[str, Any], names: str) -> list[list[float]]:
    """All numbers of modules and tensors, by their names in a namespace (dotted for an attribute: `trainer.net`)."""
    import torch

    found: list[list[float]] = []
    for name in names.split(","):
        first, *attributes = name.strip().split(".")
        value = functools.reduce(getattr, attributes, namespace[first])
        tensors = (
            list(value.state_dict().values())
            if isinstance(value, torch.nn.Module)
            else [torch.as_tensor(value)]
        )
        found += [each.detach().double().flatten().tolist() for each in tensors]
    return found


def main() -> None:
    import asyncio
    import builtins
    import contextlib
    import inspect
    import os
    import traceback
    import types
    from ast import PyCF_ALLOW_TOP_LEVEL_AWAIT

    sys.modules["accel"] = None  # type: ignore[assignment]  # an import of it fails
    builtins.display = lambda *shown, **options: types.SimpleNamespace(update=print)  # type: ignore[attr-defined]  # as in a notebook
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    import torch

    torch.set_num_threads(1)
    threads = torch.get_num_threads()
    for line in sys.stdin:
        sources, weights = json.loads(line)
        module = sys.modules["__main__"] = types.ModuleType("__main__")  # where pickle finds a cell's classes
        namespace = vars(module)
        try:
            found = []
            for source in sources:
                code = compile(source, "<plain>", "exec", PyCF_ALLOW_TOP_LEVEL_AWAIT)
                with contextlib.redirect_stdout(sys.stderr):
                    if code.co_flags & inspect.CO_COROUTINE:
                        asyncio.run(eval(code, namespace))
                    else:
                        exec(code, namespace)
                found.append(numbers_of(namespace, weights) if source is not sources[0] else [])
            answers.write(json.dumps(found) + "\n")
        except BaseException:
            answers.write(json.dumps(traceback.format_exc()) + "\n")
        answers.flush()
        torch.set_num_threads(threads)


if __name__ == "__main__":
    main()
