"""The files that start a training on a cluster, as they are written."""

from __future__ import annotations

from accel.exporting.cluster_scripts import ClusterScripts
from accel.html_parts import Markup, block, details, heading, note, preformatted


def text(scripts: ClusterScripts) -> str:
    """For a terminal: what to know, and the script; the program is long."""
    (program, code), (script, text_of_script) = scripts.files
    head = f"{script} starts {program} ({len(code.splitlines())} lines) with {scripts.launcher}."
    return "\n".join([head, *scripts.notes, "", f"── {script} ──", text_of_script.rstrip()])


def html(scripts: ClusterScripts) -> Markup:
    """For a notebook: the script open, the program folded."""
    (program, code), (script, text_of_script) = scripts.files
    return block(
        heading(f"{script} starts {program} with {scripts.launcher}"), *map(note, scripts.notes), preformatted(text_of_script),
        details(program, preformatted(code)),
    )  # fmt: skip
