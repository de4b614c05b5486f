"""What an interpreter says of itself, without anything of the notebook's."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence

from accel.errors import AccelError

_ASKED_S = 120.0
_ASK = """
import json, platform, sys
from importlib import metadata
found = {}
for name in sys.argv[1:]:
    try:
        found[name] = metadata.version(name)
    except metadata.PackageNotFoundError:
        pass
print(json.dumps([platform.python_version(), found]))
"""


def distributions_of(python: str, names: Sequence[str], asked: str) -> tuple[str, dict[str, str]]:
    """Its version, and those of these distributions that it has.

    >>> distributions_of("/usr/bin/python3", ["torch"], "%accel env create mine")
    ('3.11.2', {})

    Raises AccelError, for what was `asked`, where it does not answer.
    """
    try:
        done = subprocess.run(
            [python, "-I", "-c", _ASK, *names], capture_output=True, text=True, timeout=_ASKED_S, check=True
        )
        version, found = json.loads(done.stdout)
        return str(version), dict(found)
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        said = (getattr(error, "stderr", "") or str(error)).strip()
        raise AccelError(
            asked, because=f"{python} does not answer: {said.splitlines()[-1] if said else type(error).__name__}",
            do="Check that it runs: it must be the file of an interpreter.",
        ) from error  # fmt: skip
