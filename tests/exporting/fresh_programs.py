"""Programs run in processes of their own, on one rank or several, without accel; forked from one that has imported torch.

Run as a script: a JSON list of a file and its number of ranks on a line; a JSON list of exit codes and what was printed back.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import types
from pathlib import Path

_TELL = """
import json as _json
with open({out!r} + str({rank}), "w") as _file:
    _json.dump([
        part.detach().double().flatten().tolist() for each in ({names},)
        for part in (each.state_dict().values() if isinstance(each, torch.nn.Module) else [torch.as_tensor(each)])
    ], _file)
"""


class FreshPrograms:
    """Ends with the context.

    >>> with FreshPrograms() as programs:
    ...     (weights,) = programs.run(code, "model")
    """

    def __enter__(self) -> FreshPrograms:
        variables = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "0"}
        self._folder = tempfile.TemporaryDirectory()
        self._process = subprocess.Popen(
            [sys.executable, str(Path(__file__))], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env=variables,
        )  # fmt: skip
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._process.stdin.close()  # type: ignore[union-attr]
        self._process.wait(120)
        self._folder.cleanup()

    def run(self, code: str, names: str, ranks: int = 1) -> list[list[list[float]]]:
        """Numbers of models and tensors on each rank, at the end; raises RuntimeError with what a program wrote that failed."""
        out = str(Path(self._folder.name) / "numbers")
        tell = _TELL.format(out=out, names=names, rank="_ranks.rank" if ranks > 1 else "0")
        code = code.replace("_ranks.end()", f"{tell}\n_ranks.end()") if ranks > 1 else code + tell
        file = Path(self._folder.name) / "train.py"
        file.write_text(code)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps([str(file), ranks]) + "\n")
        self._process.stdin.flush()
        codes, text = json.loads(self._process.stdout.readline())
        if any(codes):
            raise RuntimeError(text)
        return [json.loads(Path(f"{out}{rank}").read_text()) for rank in range(ranks)]


def _as_rank(file: str, rank: int, ranks: int, port: int) -> None:
    import traceback

    import torch

    variables = {
        "RANK": rank,
        "LOCAL_RANK": rank,
        "WORLD_SIZE": ranks,
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": port,
    }
    os.environ |= {name: str(value) for name, value in variables.items()} if ranks > 1 else {}
    module = sys.modules["__main__"] = types.ModuleType("__main__")
    torch.set_num_threads(1)
    try:
        exec(compile(Path(file).read_text(), file, "exec"), vars(module))
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)
    os._exit(0)


def main() -> None:
    import socket

    import torch
    import torch.distributed

    sys.modules["accel"] = None  # type: ignore[assignment]  # an import of it fails
    answers = os.fdopen(os.dup(1), "w")
    assert torch.distributed.is_available()
    for line in sys.stdin:
        file, ranks = json.loads(line)
        with socket.socket() as free, tempfile.TemporaryFile("w+") as said:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
            free.close()
            children = []
            for rank in range(ranks):
                child = os.fork()
                if not child:
                    os.dup2(said.fileno(), 1)
                    os.dup2(said.fileno(), 2)
                    _as_rank(file, rank, ranks, port)
                children.append(child)
            codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
            said.seek(0)
            answers.write(json.dumps([codes, said.read()]) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
