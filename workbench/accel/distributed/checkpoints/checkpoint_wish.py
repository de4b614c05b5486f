"""Whether what was asked about checkpoints makes sense for a cell, before anything is started."""

from __future__ import annotations

import ast
from pathlib import Path

from accel.distributed.cells.run_options import RunOptions
from accel.errors import AccelError


def checked_folder(options: RunOptions, source: str) -> str:
    """The folder's whole path, made where it was not there; empty where none is wanted. Raises AccelError.

    >>> checked_folder(RunOptions(checkpoint="checkpoints"), "for x in loader: step(x)")
    '/…/checkpoints'
    """
    folder, max_restarts = options.checkpoint, options.max_restarts
    if not folder:
        if max_restarts:
            raise AccelError(
                f"--max-restarts {max_restarts}",
                because="there is no checkpoint to start again from",
                do="Say where to: --checkpoint DIR --every N.",
            )
        return ""
    if not any(isinstance(node, ast.For) for node in _lines_of_cell(ast.parse(source))):
        raise AccelError(
            f"--checkpoint {folder}",
            because="a checkpoint is taken where a for loop of the cell itself comes round, and this cell has none: what "
            "a function is in the middle of cannot be written",
            do="Put the loop over epochs into the cell: for epoch in range(n): train_one_epoch(...).",
        )
    path = Path(folder).expanduser().absolute()
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise AccelError(
            f"--checkpoint {folder}", because=f"the folder cannot be made: {error}", do="Name another."
        ) from None
    return str(path)


def _lines_of_cell(tree: ast.AST) -> list[ast.AST]:
    """Everything that is not inside a function or a class."""
    inside = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
    found: list[ast.AST] = []
    for node in ast.iter_child_nodes(tree):
        if not isinstance(node, inside):
            found += [node, *_lines_of_cell(node)]
    return found
