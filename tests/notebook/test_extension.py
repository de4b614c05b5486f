"""Loading, reloading and unloading the extension."""

from __future__ import annotations

import re
import sys
from types import SimpleNamespace
from typing import Any

import pytest


def registered(shell) -> dict[str, Any]:
    """Everything of a shell that an extension can add to."""
    return {
        "line magics": set(shell.magics_manager.magics["line"]),
        "cell magics": set(shell.magics_manager.magics["cell"]),
        "registry": set(shell.magics_manager.registry),
        "matchers": len(shell.Completer.custom_matchers),
        "line transforms": list(shell.input_transformer_manager.line_transforms),
        "tree transformers": list(shell.ast_transformers),
        "events": {name: len(callbacks) for name, callbacks in shell.events.callbacks.items()},
        "variables": {name for name in shell.user_ns if not name.startswith("_")},
    }


def test_unloading_leaves_no_trace(bare_shell) -> None:
    bare_shell.run("%unload_ext accel")  # at its first use IPython loads its own magics for extensions
    before = registered(bare_shell)
    bare_shell.run("%load_ext accel")
    assert registered(bare_shell) != before
    bare_shell.run("%unload_ext accel")
    assert registered(bare_shell) == before


def test_loading_twice_and_reloading_is_as_loading_once(bare_shell) -> None:
    bare_shell.run("%load_ext accel")
    once = registered(bare_shell)
    bare_shell.run("%load_ext accel")
    bare_shell.run("%reload_ext accel")
    import accel

    accel.load_ipython_extension(bare_shell)
    again = registered(bare_shell)
    again["tree transformers"] = once["tree transformers"] if len(again["tree transformers"]) == 1 else again
    assert again == once
    assert bare_shell.run("%accel machine").success


def test_unloading_what_was_not_loaded_is_no_error(bare_shell) -> None:
    import accel

    before = registered(bare_shell)
    accel.unload_ipython_extension(bare_shell)
    assert registered(bare_shell) == before


def test_unloading_takes_back_what_is_kept(shell) -> None:
    shell.run("%%accel profile\ntrain();")
    shell.run("%accel keep fused_optimizer")
    optimizer = shell.user_ns["optimizer"]
    assert optimizer.param_groups[0]["fused"]
    shell.run("%unload_ext accel")
    assert not optimizer.param_groups[0]["fused"]


def test_unloading_inside_a_profiled_cell_ends_its_profile(shell) -> None:
    from accel.workload.phase_marks import active_marks

    assert shell.run("%%accel profile\ntrain()\n%unload_ext accel\nafter = 1").success
    assert active_marks() is None
    assert shell.user_ns["after"] == 1


def test_loading_greets_in_one_line_that_an_option_silences(bare_shell, capsys, monkeypatch) -> None:
    bare_shell.run("%load_ext accel")
    said, errors = capsys.readouterr()
    assert re.fullmatch(r"accel [\d.]+ · .*\d+ cores? · put %%accel profile above your training cell\n", said)
    monkeypatch.setattr("accel.options.status_line", False)
    bare_shell.run("%reload_ext accel")
    assert (errors, *capsys.readouterr()) == ("", "", "")


def test_another_accel_in_the_place_of_ours_is_warned_of(bare_shell, monkeypatch, tmp_path) -> None:
    from accel.notebook.extension import load, unload

    monkeypatch.setitem(sys.modules, "accel", SimpleNamespace(__file__=str(tmp_path / "accel.py")))
    with pytest.warns(UserWarning, match="pip uninstall accel"):
        load(bare_shell)
    unload(bare_shell)
