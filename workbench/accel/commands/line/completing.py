"""What may come next on an %accel line: commands, options, choices, plans, and the knobs of an acceleration."""

from __future__ import annotations

import glob
import re
import sys
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from accel.commands.command import Argument, Command
from accel.commands.table import COMMAND_NAMES, COMMANDS

if TYPE_CHECKING:
    from accel.accelerations import Acceleration

KNOBS = re.compile(r"(?:^|\+)(?P<entry>\w+)\((?P<written>[^()]*)$")


def complete(
    line: str, cursor: int | None = None, namespace: Mapping[str, object] | None = None
) -> list[str]:
    """The words that may stand at the cursor; each replaces what `fragment` returns.

    >>> complete("%accel try channels_last+auto")
    ['autocast', 'autocast_off']
    """
    before = line[: len(line) if cursor is None else cursor].lstrip()
    is_cell = before.startswith("%%")
    words = _words(before)
    typed = fragment(before)
    candidates = _candidates(words, is_cell=is_cell, namespace=namespace or {})
    return [candidate for candidate in candidates if candidate.startswith(typed) and candidate != typed]


def fragment(before: str) -> str:
    """The part of the text before the cursor that a completion replaces.

    >>> fragment('%accel try channels_last+autocast(dtype="b')
    '"b'
    """
    word = _words(before)[-1]
    knobs = KNOBS.search(word)
    if knobs:
        return knobs["written"].split(",")[-1].split("=")[-1].lstrip()
    return word if word.startswith("-") else re.split(r"[+=]", word)[-1]


def _words(before: str) -> list[str]:
    """Words after the magic's name; the last, perhaps empty, is being typed. Spaces in brackets do not separate."""
    rest = re.sub(r"^%{0,2}accel\b", "", before.lstrip())
    words, word, depth = [], "", 0
    for letter in rest:
        depth += {"(": 1, ")": -1}.get(letter, 0)
        if letter.isspace() and depth <= 0:
            words.append(word)
            word = ""
        else:
            word += letter
    return [*filter(None, words), word]


def _candidates(words: list[str], *, is_cell: bool, namespace: Mapping[str, object]) -> Iterable[str]:
    *earlier, word = words
    if not earlier:
        return [name for name in COMMAND_NAMES if not is_cell or _takes_cell(name)]
    command = next((known for known in COMMANDS if known.name == earlier[0]), None)
    if command is None:
        return []
    asking = next(
        (option for option in command.options if option.takes_value and earlier[-1] in option.flags), None
    )
    if asking:
        return _values(asking, word, namespace)
    if word.startswith("-"):
        return _options(command, earlier)
    positional = next((argument for argument in command.arguments if not argument.is_option), None)
    plain = _values(positional, word, namespace) if positional else []
    return plain if plain or word else _options(command, earlier)


def _takes_cell(name: str) -> bool:
    return any(command.takes_cell for command in COMMANDS if command.name == name)


def _options(command: Command, earlier: list[str]) -> list[str]:
    """Long spellings of the options not given yet."""
    unused = [option for option in command.options if not set(option.flags) & set(earlier)]
    return [
        *(option.flags[-1] for option in unused),
        *(f for o in unused for f in o.flags[:-1]),
        "--help",
        "-h",
    ]


def _values(argument: Argument, word: str, namespace: Mapping[str, object]) -> list[str]:
    if argument.choices:
        return list(argument.choices)
    if argument.completes == "backend":
        return ["gloo", "nccl", "ccl"]
    if argument.completes == "command":
        return list(COMMAND_NAMES)
    if argument.completes == "file":
        return sorted(path for path in glob.glob(f"{glob.escape(word)}*") if " " not in path)
    if argument.completes == "variable":
        return sorted(name for name in namespace if not name.startswith("_"))
    if argument.completes == "object":
        return sorted(name for name, value in namespace.items() if _is_of_training(value))
    if argument.completes == "loader":
        return sorted(name for name, value in namespace.items() if _is_of_training(value, "loader"))
    if argument.completes == "cluster":
        return sorted(_clusters())
    if argument.completes == "compression":
        return ["none", "fp16", "bf16", "powersgd:"]
    if argument.completes == "plan" and (knobs := KNOBS.search(word)):
        return _knob_words(knobs["entry"], knobs["written"])
    if argument.completes in ("plan", "acceleration"):
        return sorted(_entries())
    return []


def _clusters() -> list[str]:
    """Those of accel.toml; an unreadable file completes nothing, and gives its error when it is used."""
    from accel.distributed.jobs.cluster_file import clusters
    from accel.errors import AccelError

    try:
        return list(clusters())
    except AccelError:
        return []


def _is_of_training(value: object, kind: str = "") -> bool:
    """Whether it is a model, an optimizer or a loader, or of that one kind; where torch was not imported, nothing is."""
    if "torch" not in sys.modules:
        return False
    import torch

    kinds = {
        "model": torch.nn.Module,
        "optimizer": torch.optim.Optimizer,
        "loader": torch.utils.data.DataLoader,
    }
    return isinstance(value, kinds[kind] if kind else tuple(kinds.values()))


def _entries() -> dict[str, type[Acceleration]]:
    from accel.accelerations import CATALOGUE

    return {entry.name: entry for entry in CATALOGUE}


def _knob_words(entry: str, written: str) -> list[str]:
    """After `name(`: the knobs not written yet; after `knob=`: its values."""
    from accel.plans.chosen import ON
    from accel.plans.knobs import as_literal, knobs_of

    known = _entries().get(entry)
    if known is None:
        return []
    knobs = {knob.name: knob for knob in knobs_of(known)}
    *earlier, last = written.split(",")
    if "=" not in last:
        used = {part.split("=")[0].strip() for part in earlier}
        return [f"{name}=" for name in (*knobs, ON) if name not in used]
    knob = knobs.get(last.split("=")[0].strip())
    if knob is None:
        return []
    if known.layer == "compile" and knob.name == "backend" and "torch" in sys.modules:
        from accel.techniques.compiling.compile_backends import compile_backends

        return [as_literal(row.name) for row in compile_backends().rows if row.is_usable]
    values = [*knob.choices, *((True, False) if knob.type is bool else ()), knob.default]
    return list(dict.fromkeys(map(as_literal, values)))
