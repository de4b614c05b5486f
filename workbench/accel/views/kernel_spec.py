"""A kernel that was installed: where, with what, and how to choose it."""

from __future__ import annotations

from accel.html_parts import Markup, block, note
from accel.html_parts import table as html_table
from accel.units import table
from accel.workbench.kernelspec import KernelSpec


def text(kernel: KernelSpec) -> str:
    """For a terminal."""
    return "\n".join([*table(_facts(kernel)), _next(kernel)])


def html(kernel: KernelSpec) -> Markup:
    """For a notebook."""
    return block(html_table(["kernel", kernel.name], _facts(kernel)), note(_next(kernel)))


def _facts(kernel: KernelSpec) -> list[tuple[str, str]]:
    variables = [(name, value) for name, value in kernel.variables]
    return [
        ("starts with", kernel.plan),
        *variables,
        ("Python", kernel.interpreter),
        ("lies in", kernel.folder),
        *([("run there", kernel.lines)] if kernel.lines else []),
    ]


def _next(kernel: KernelSpec) -> str:
    choose = f"Choose it in JupyterLab: Kernel, Change Kernel, {kernel.name}."
    return f"{choose} jupyter kernelspec remove {kernel.name} takes it away."
