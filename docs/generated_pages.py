"""Pages of the documentation that come from the code and the measured results, so that nothing is typed twice.

    python -m docs.generated_pages

writes them anew; a test compares. Commands come from their table, findings from the rules' docstrings, accelerations from their
cards, options from their table, benchmarks from benchmarks/results/*.json and the docstring of each benchmark.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable
from functools import partial
from pathlib import Path
from runpy import run_path
from typing import Any

from docs.architecture_diagram import diagram
from docs.result_tables import benchmarks_page, results_table

ROOT = Path(__file__).resolve().parent.parent
ACCELERATIONS = """# The accelerations

They stand in the order in which a plan applies them. *exact*: losses stay equal bit for bit. *close*: rounding differs; a trial
compares the losses with the measured noise.

Figures were measured once, on a two-core AMD EPYC with avx512_bf16 and torch 2.15, by the prototypes of this project. They say
when an acceleration is worth a try; what it gives you, `%accel try` measures on your machine."""


def commands_page() -> str:
    """Every command with its arguments, as `%accel help` explains them."""
    from accel.commands.table import COMMANDS

    lines = [
        "# Commands",
        "Type a command as a magic (`%accel try`) or, where it needs no notebook, in a shell (`accel doctor`). "
        "`%accel help COMMAND` explains one. The [functions](functions.md) do the same from Python.",
    ]
    for command in COMMANDS:
        where = "notebook" if command.needs_notebook else "notebook and shell"
        lines += [
            f"## {command.name}",
            f"{_sentence(command.help)} ({where})",
            f"```python\n{command.example}\n```",
        ]
        rows = [
            f"| `{', '.join(argument.flags)}{_metavar(argument)}` | {_cell(argument.help)} |"
            for argument in command.arguments
        ]
        lines += ["\n".join(["| argument | meaning |", "|---|---|", *rows])] if rows else []
    return "\n\n".join(lines) + "\n"


def findings_page() -> str:
    """Every rule of diagnosis with what it looks for."""
    from accel.diagnosis import RULES

    lines = [
        "# Findings",
        "A report on a profile names what costs time and what to do about it. These rules look for it, in this order. Each "
        "finding carries its evidence, the gain to expect with an interval, the line to type, and when the advice is wrong.",
    ]
    for rule in RULES:
        lines += [f"## {rule.__name__}", inspect.getdoc(rule) or ""]
    return "\n\n".join(lines) + "\n"


def _metavar(argument: Any) -> str:
    settings = dict(argument.settings)
    value = settings.get("metavar") or "\\|".join(settings.get("choices", ()))
    return f" {value}" if argument.is_option and value else ""


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:] + "."


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def accelerations_page() -> str:
    """The card of each acceleration, in the order in which a plan applies them."""
    from accel.accelerations import CATALOGUE

    return "\n\n".join([ACCELERATIONS, *map(_card, CATALOGUE)]) + "\n"


def _card(entry: Any) -> str:
    from accel.accelerations.acceleration import card
    from accel.plans.knobs import as_literal, knobs_of

    sentence, sections = card(entry)
    process = ", belongs to the whole process" if entry.needs_own_process else ""
    knobs = [
        f"- `{knob.name}` = `{as_literal(knob.default)}`: {knob.allowed.replace(' or None', ' or None (chosen here)')}"
        for knob in knobs_of(entry)
    ]
    parts = [
        f"## {entry.name}",
        sentence,
        f"Layer: {entry.layer}. Effect on training: *{entry.effect}*{process}.",
    ]
    parts += ["\n".join(["Knobs:", "", *knobs])] if knobs else []
    parts += [f"**{heading}**\n\n{_under(heading, text)}" for heading, text in sections.items()]
    return "\n\n".join(parts)


def _under(heading: str, text: str) -> str:
    if heading == "In plain PyTorch":
        return f"```{'python' if _is_python(text) else 'sh'}\n{text}\n```"
    return "\n".join(f"- {line}" for line in text.splitlines()) if heading == "References" else text


def _is_python(text: str) -> bool:
    try:
        ast.parse(text)
    except SyntaxError:
        return False
    return True


def options_table() -> str:
    """What `accel.options` holds, with what each is from the start."""
    from accel import options

    from_the_start = run_path(options.__file__)  # this process may have set others
    rows = [
        f"| `{name}` | `{from_the_start[name]}` | {meaning} |" for name, meaning in options.MEANINGS.items()
    ]
    return "\n".join(["| option | from the start | meaning |", "|---|---|---|", *rows])


def between_marks(page: str, name: str, table: Callable[[], str]) -> str:
    """A page with a table between its two marks; the rest is as it is."""
    begin, end = f"<!-- {name} -->\n", f"<!-- /{name} -->"
    before, rest = (ROOT / page).read_text(encoding="utf-8").split(begin)
    return f"{before}{begin}{table()}\n{end}{rest.split(end)[1]}"


PAGES: dict[str, Callable[[], str]] = {
    "README.md": partial(between_marks, "README.md", "results", results_table),
    "docs/reference/functions.md": partial(
        between_marks, "docs/reference/functions.md", "options", options_table
    ),
    "docs/accelerations.md": accelerations_page,
    "docs/benchmarks.md": benchmarks_page,
    "docs/reference/commands.md": commands_page,
    "docs/reference/findings.md": findings_page,
    "docs/pictures/architecture_light.svg": partial(diagram, "light"),
    "docs/pictures/architecture_dark.svg": partial(diagram, "dark"),
}

if __name__ == "__main__":
    for name, page in PAGES.items():
        (ROOT / name).write_text(page(), encoding="utf-8")
