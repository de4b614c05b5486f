"""What `mkdocs.yml` calls as it builds the site: CONTRIBUTING.md, which lies above `docs/`, is a page of it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

CONTRIBUTING = Path(__file__).resolve().parent.parent / "CONTRIBUTING.md"
INSIDE = ("architecture", "decisions/", "contributing")


def on_files(files: Files, config: Any) -> Files:
    """Add the page, with its links as they are within `docs/`."""
    text = CONTRIBUTING.read_text(encoding="utf-8").replace("](docs/", "](")
    files.append(File.generated(config, "contributing.md", content=text))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Let links to CONTRIBUTING.md lead to that page, and let a search find pages for users before those on the inside."""
    if page.file.src_uri.startswith(INSIDE):
        page.meta["search"] = {"boost": 0.2}
    return re.sub(r"\]\(\.\./((?:\.\./)*)CONTRIBUTING\.md", r"](\1contributing.md", markdown)
