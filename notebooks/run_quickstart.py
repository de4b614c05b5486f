"""Run quickstart.ipynb without a browser, print what it shows, and write it as one HTML page that reads offline.

    python notebooks/run_quickstart.py --html quickstart.html

Exits with 1 and the cell's traceback when a cell fails.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from nbconvert import HTMLExporter
from nbconvert.filters import strip_ansi

QUICKSTART = Path(__file__).parent / "quickstart.ipynb"
WIDGET = "application/vnd.jupyter.widget-view+json"
# nbconvert's page asks two CDNs for scripts that none of our cells need
OFFLINE_TEMPLATE = (
    "{% extends 'lab/index.html.j2' %}"
    "{% block html_head_js %}{% endblock %}"
    "{% block html_head_js_mathjax %}{% endblock %}"
    "{% block html_head_js_mermaidjs %}{% endblock %}"
)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("notebook", type=Path, nargs="?", default=QUICKSTART, help="another notebook to run")
    parser.add_argument("--html", type=Path, default=Path("quickstart.html"), help="where the page goes")
    asked = parser.parse_args()
    notebook = nbformat.read(asked.notebook, as_version=4)
    started = time.perf_counter()
    failure = run(notebook, asked.notebook.absolute().parent)
    write_page(notebook, asked.html, title=asked.notebook.stem)
    took_s = time.perf_counter() - started
    print(f"\n{asked.notebook.name} ran in {took_s:.0f} s; read it in {asked.html.absolute()}")
    if failure:
        print(failure, file=sys.stderr)
    return 1 if failure else 0


def run(notebook: Any, folder: Path) -> str:
    """Run every cell and print each one's text as soon as it is there; gives the traceback of a cell that fails."""
    client = NotebookClient(
        notebook, timeout=300, store_widget_state=False, resources={"metadata": {"path": str(folder)}},
        extra_arguments=["--log-level=ERROR"],  # without: a warning that the kernel talks over loopback TCP
        on_cell_start=lambda cell, cell_index: show_text(cell),
        on_cell_executed=lambda cell, cell_index, execute_reply: show_outputs(cell),
    )  # fmt: skip
    try:
        client.execute()
    except CellExecutionError as error:
        return str(strip_ansi(str(error)))
    return ""


def show_text(cell: Any) -> None:
    """Print the headings on the way, and what runs under them."""
    if cell.cell_type == "markdown":
        headings = [line.lstrip("# ") for line in cell.source.splitlines() if line.startswith("#")]
        print("".join(f"\n{heading}\n{'=' * len(heading)}\n" for heading in headings), end="", flush=True)
    elif cell.source.lstrip().startswith("%"):
        print(f">>> {cell.source.strip().splitlines()[0]}", flush=True)


def show_outputs(cell: Any) -> None:
    """Print the plain text of a cell's outputs."""
    for output in cell.outputs:
        if WIDGET in output.get("data", {}):
            print("(a live panel: make lab shows it)", flush=True)
            continue
        text = output.get("text") or output.get("data", {}).get("text/plain", "")
        if text.strip():
            print(strip_ansi(text.rstrip()), flush=True)


def write_page(notebook: Any, page: Path, *, title: str, theme: str = "light") -> None:
    """One HTML file, without widgets: they would need a kernel, and a script from the internet."""
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            output.get("data", {}).pop(WIDGET, None)
    exporter = HTMLExporter(raw_template=OFFLINE_TEMPLATE, theme=theme)
    body, _ = exporter.from_notebook_node(notebook, resources={"metadata": {"name": title}})
    page.write_text(body, encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
