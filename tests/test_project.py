"""What the documents, notebooks and files promise is there, and stays within the rules of CONTRIBUTING.md."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import grimp
import ipywidgets
import networkx
import pytest
from docs.generated_pages import PAGES

from accel.shown import PANELS, VIEWS, Drawn, Shown

ROOT = Path(__file__).resolve().parent.parent
DOCUMENTS = [
    ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))
]  # fmt: skip
SOURCES = sorted([*(ROOT / "workbench").rglob("*.py"), *(ROOT / "widgets").rglob("*.py")])
BENCHMARKS = [
    path.stem
    for path in sorted((ROOT / "benchmarks").glob("*.py"))
    if '__name__ == "__main__"' in path.read_text()
]
MOST_LINES, MOST_LINES_OF_A_FUNCTION = 600, 60


def tracked_text() -> dict[str, str]:
    """Every text file that git knows or would take, by its path."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    if listed.returncode:
        pytest.skip(f"this is no git checkout, so there is no list of files: {listed.stderr.strip()}")
    texts = {}
    for name in filter(None, listed.stdout.split("\0")):
        content = (ROOT / name).read_bytes() if (ROOT / name).is_file() else b""
        if b"\0" not in content:
            texts[name] = content.decode("utf-8")
    return texts


def make_targets() -> set[str]:
    """The commands that `make help` lists."""
    return set(re.findall(r"^([a-z-]+):.*## ", (ROOT / "Makefile").read_text(), re.MULTILINE))


@pytest.mark.parametrize("document", ["README.md", "CONTRIBUTING.md"])
def test_each_make_command_of_a_document_exists_and_is_listed_by_make_help(document):
    named = set(re.findall(r"(?:^|`)make ([a-z-]+)", (ROOT / document).read_text(), re.MULTILINE))
    assert {"demo", "lab", "test", "check"} <= named
    assert named <= make_targets() | {"help"}


def test_ci_runs_what_the_readme_says():
    assert "\nmake check test clusters environments labs\n" in (ROOT / ".ci" / "run").read_text()
    assert "`make check test clusters environments labs`" in (ROOT / "README.md").read_text()


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_each_link_and_picture_of_a_document_leads_to_a_file(document):
    text = document.read_text()
    targets = re.findall(r"\]\(([^)#]+)[^)]*\)", text) + re.findall(r'(?:src|srcset|href)="([^"#]+)', text)
    inside = [target for target in targets if not re.match(r"[a-z]+:", target)]
    assert [target for target in inside if not (document.parent / target).exists()] == []


def test_pages_made_from_code_and_results_are_as_committed():
    stale = [name for name, page in PAGES.items() if (ROOT / name).read_text(encoding="utf-8") != page()]
    assert stale == [], "run: .venv/bin/python -m docs.generated_pages"


def test_the_readme_is_short_and_each_page_is_in_the_menu_of_the_site():
    assert len((ROOT / "README.md").read_text().splitlines()) <= 150
    menu = (ROOT / "mkdocs.yml").read_text()
    pages = {str(path.relative_to(ROOT / "docs")) for path in (ROOT / "docs").rglob("*.md")}
    assert {page for page in pages if page not in menu and not page.startswith("decisions/")} == set()


def test_each_decision_is_linked_and_numbered_without_a_gap():
    decisions = sorted(path for path in (ROOT / "docs/decisions").glob("*.md") if path.name != "README.md")
    linking = "\n".join(path.read_text() for path in DOCUMENTS if path not in decisions)
    assert [path.name for path in decisions if path.name not in linking] == []
    assert [int(path.name[:4]) for path in decisions] == list(range(1, len(decisions) + 1))


def test_each_file_and_folder_that_the_architecture_names_exists():
    there = ["/" + name for name in tracked_text()]
    pages = [ROOT / "docs/architecture.md", *(ROOT / "docs/architecture").glob("*.md")]
    named = {name for page in pages for name in re.findall(r"`([\w/]+(?:\.(?:py|js)|/))`", page.read_text())}
    assert len(named) > 100
    assert [name for name in sorted(named) if not any(f"/{name}" in path for path in there)] == []


def test_the_layers_on_the_page_are_those_that_are_checked():
    settings = (ROOT / "pyproject.toml").read_text().split("layers = [")[1].split("]")[0]
    layers = re.findall(r'"([^"]+)"', settings)
    page = (ROOT / "docs/architecture.md").read_text().split("## Imports point one way")[1].split("```")[1]
    assert page.strip().splitlines() == [layer.replace("accel.", "") for layer in layers]


def test_each_package_is_on_a_page_of_the_architecture():
    overview = (ROOT / "docs/architecture.md").read_text()
    packages = {path.parent.name for path in (ROOT / "workbench/accel").glob("*/__init__.py")}
    assert {package for package in packages if f"`{package}/`" not in overview} == set()


def test_the_licence_is_apache_2():
    assert "Apache License" in (ROOT / "LICENSE").read_text()[:200]
    assert 'license = "Apache-2.0"' in (ROOT / "pyproject.toml").read_text()


def test_each_packed_data_file_says_where_it_is_from():
    data = ROOT / "workbench/accel/labs/data"
    for path in data.iterdir():
        notice = path if path.suffix == ".txt" else data / f"{path.stem}.LICENSE.txt"
        assert "Source" in notice.read_text()
        assert path.stat().st_size <= 60_000


def test_the_changelog_opens_with_what_is_unreleased_in_one_sentence_each():
    sections = re.findall(r"^## (.+)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert re.match(r"Unreleased|\[?\d+\.\d+\.\d+", sections[0])
    entries = re.findall(r"^- ((?:.+\n(?:  .+\n)*))", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert entries
    assert [entry for entry in entries if not entry.rstrip().endswith(".")] == []


def test_the_version_is_the_same_everywhere():
    import accel

    assert f'\nversion = "{accel.__version__}"\n' in (ROOT / "pyproject.toml").read_text()
    extension = json.loads((ROOT / "widgets/labextension/package.json").read_text())
    assert extension["version"] == accel.__version__


@pytest.mark.parametrize("path", sorted((ROOT / "notebooks").rglob("*.ipynb")), ids=lambda path: path.name)
def test_a_notebook_is_stored_without_outputs(path):
    code = [cell for cell in json.loads(path.read_text())["cells"] if cell["cell_type"] == "code"]
    assert code
    assert [cell["id"] for cell in code if cell["outputs"] or cell["execution_count"]] == []


def test_no_file_names_a_folder_of_one_machine_or_a_package_registry():
    folders = r"(?<![\w.}])/(?:root|home|work|opt|Users)/[\w.-]+"
    registries = r"[\w-]*\.?(?:pypi|pythonhosted|npmjs)\.(?:org|com)|(?:extra-)?index-url"
    found = {
        name: match.group()
        for name, text in tracked_text().items()
        if name != "tests/test_project.py" and (match := re.search(f"{folders}|{registries}", text))
    }
    assert found == {}


def test_no_source_file_is_too_long_or_named_after_nothing():
    vague = {"utils", "util", "helpers", "helper", "common", "misc"}
    lines = {str(path.relative_to(ROOT)): len(path.read_text().splitlines()) for path in SOURCES}
    assert [f"{path}: {count} lines" for path, count in lines.items() if count > MOST_LINES] == [], (
        f"{MOST_LINES} at most"
    )
    assert [path.name for path in SOURCES if path.stem in vague] == []


def test_no_function_is_longer_than_a_screen():
    too_long = [
        f"{path.name}: {node.name}"
        for path in SOURCES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef) and _lines_of_code(node) >= MOST_LINES_OF_A_FUNCTION
    ]
    assert too_long == []


def _lines_of_code(function: ast.FunctionDef) -> int:
    """Without its docstring, which grows with the arguments of a public function."""
    first = function.body[0]
    is_text = (
        isinstance(first, ast.Expr)
        and isinstance(first.value, ast.Constant)
        and isinstance(first.value.value, str)
    )
    return function.end_lineno - function.lineno - (first.end_lineno - first.lineno + 1 if is_text else 0)


def test_nothing_swallows_every_exception():
    silent = [
        f"{path.name}:{node.lineno}"
        for path in SOURCES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ExceptHandler)
        and (node.type is None or ast.unparse(node.type) in ("Exception", "BaseException"))
        and all(isinstance(statement, ast.Pass) for statement in node.body)
    ]
    assert silent == []


ASK_ALL_FOR_HELP = """
import contextlib, io, runpy, sys
for name in sys.argv[1:]:
    sys.argv, said = [name, "--help"], io.StringIO()
    with contextlib.suppress(SystemExit), contextlib.redirect_stdout(said):
        runpy.run_module(f"benchmarks.{name}", run_name="__main__")
    print(name, "--quick" in said.getvalue())
"""


def test_every_benchmark_can_be_run_quickly():
    asked = subprocess.run(
        [sys.executable, "-c", ASK_ALL_FOR_HELP, *BENCHMARKS],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert asked.returncode == 0, asked.stderr
    assert asked.stdout.split() == [word for name in BENCHMARKS for word in (name, "True")]


def test_the_benchmark_of_loading_gives_its_figures():
    before = tracked_text().get("benchmarks/results/load_ext.json")
    ran = subprocess.run(
        [sys.executable, "-m", "benchmarks.load_ext", "--quick"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=150,
    )
    assert ran.returncode == 0, ran.stderr
    figures = json.loads(ran.stdout.splitlines()[-1])["figures"]
    assert 0 < figures["load_ext_s_low"] <= figures["load_ext_s"] <= figures["load_ext_s_high"]
    assert figures["heavy_modules"] == 0
    assert tracked_text().get("benchmarks/results/load_ext.json") == before  # --quick writes nothing


def test_every_make_command_says_what_it_does():
    asked = ["make", "--no-print-directory", "help"]  # the tests may themselves run under make
    shown = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert {line.split()[1] for line in shown.splitlines()} == make_targets()


def test_no_files_import_each_other_in_a_circle():
    """Imports inside functions and those for types count: a reader has to follow them, too."""
    graph = grimp.build_graph("accel", "accel_widgets", cache_dir=None)
    arrows = [(file, of) for file in graph.modules for of in graph.find_modules_directly_imported_by(file)]
    parts = networkx.strongly_connected_components(networkx.DiGraph(arrows))
    assert [sorted(part) for part in parts if len(part) > 1] == []


def test_the_table_of_views_names_each_result_and_its_module():
    for result, view in VIEWS.items():
        module, _, name = result.rpartition(".")
        shown = getattr(import_module(module), name)
        assert issubclass(shown, Shown)
        functions = {"text", "html"} | ({"figure"} if issubclass(shown, Drawn) else set())
        assert functions <= set(vars(import_module(view))), view


def test_the_table_of_panels_names_each_result_and_its_widget():
    for result, (panel, widget) in PANELS.items():
        module, _, name = result.rpartition(".")
        assert callable(getattr(import_module(module), name).panel)
        assert issubclass(getattr(import_module(panel), widget), ipywidgets.DOMWidget)


def test_no_result_says_itself_how_it_looks():
    """A monitor shows its panel, a run on ranks its lanes or its result."""
    own = [
        path.name
        for path in (ROOT / "workbench").rglob("*.py")
        if "def _repr_mimebundle_" in path.read_text()
    ]
    assert sorted(own) == ["monitor.py", "shown.py", "watched_run.py"]
