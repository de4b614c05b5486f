"""Scripts for clusters: read by shellcheck, free of accel, and made of the cells that the training needs."""

from __future__ import annotations

import ast
import math
import os
import shutil
import subprocess

import pytest
import torch

from accel.distributed.jobs.cluster import Cluster
from accel.errors import AccelError
from accel.exporting.cluster_scripts import ClusterScripts, script_for
from accel.exporting.whole_script import inputs_of, needed_cells

CLUSTERS = {
    "torchrun": Cluster(ranks_per_node=2),
    "torchrun on hosts": Cluster(hosts=(("h1", 4), ("h2", 4))),
    "mpirun": Cluster(launcher="mpirun", hosts=(("h1", 4), ("h2", 4)), env={"NCCL_DEBUG": "WARN"}),
    "slurm": Cluster(
        launcher="slurm", nodes=2, ranks_per_node=8, gpus_per_node=8, partition="gpu", time="1:00:00",
        setup=("module load cuda",), options=("--exclusive",),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CLUSTERS)
def test_a_script_is_clean_and_names_nothing_of_accel(name):
    script = script_for(CLUSTERS[name])
    assert "accel" not in script
    subprocess.run(["bash", "-n"], input=script, text=True, check=True)
    if shutil.which("shellcheck") is None:
        missing = pytest.fail if os.environ.get("ACCEL_REQUIRE_CLUSTERS") == "1" else pytest.skip
        missing("shellcheck is not installed")
    done = subprocess.run(["shellcheck", "-"], input=script, text=True, capture_output=True, check=False)
    assert done.stdout == ""


def test_slurms_wishes_are_in_its_head():
    script = script_for(CLUSTERS["slurm"])
    for line in (
        "--nodes=2",
        "--ntasks-per-node=8",
        "--gpus-per-node=8",
        "--partition=gpu",
        "--time=1:00:00",
        "--exclusive",
    ):
        assert f"\n#SBATCH {line}\n" in script


@pytest.mark.parametrize(("name", "started"), [
    ("torchrun", "-m torch.distributed.run"), ("mpirun", ""), ("slurm", ""),
])  # fmt: skip
@pytest.mark.parametrize("programs", [(), ("nvidia-smi",)])
def test_in_a_container_each_rank_is_started_by_apptainer(name, started, programs, tmp_path):
    launchers = {"mpirun": 'while [ "$1" != apptainer ]; do shift; done; exec "$@"',
                 "srun": 'shift; exec "$@"', "scontrol": "echo node1", "apptainer": 'echo "$@"'}  # fmt: skip
    for program, text in {**launchers, **dict.fromkeys(programs, "true")}.items():
        (tmp_path / program).write_text(f"#!/bin/bash\n{text}\n")
        (tmp_path / program).chmod(0o755)
    script = tmp_path / "train.sh"
    script.write_text(script_for(Cluster(launcher=name, ranks_per_node=2)))
    variables = {"PATH": f"{tmp_path}:/usr/bin:/bin", "CONTAINER": "my image.sif", "SLURM_JOB_NODELIST": "node1",
                 "SLURM_JOB_ID": "7", "SLURM_SUBMIT_DIR": str(tmp_path)}  # fmt: skip
    said = subprocess.run(
        ["bash", str(script)], env=variables, capture_output=True, text=True, check=True
    ).stdout
    assert said.startswith(f"exec {'--nv ' if programs else ''}my image.sif python {started}")
    assert "train.py" in said


NAMESPACE = {name: object() for name in ("model", "loader", "optimizer", "x")} | {
    "helper": script_for,
    "torch": torch,
}


def test_the_cells_that_a_training_needs_come_in_their_order():
    inputs = [
        "import torch", "print('hello')", "x = 1\nget_ipython().run_line_magic('load_ext', 'accel')",
        "def helper():\n    return x", "model = helper()", "get_ipython().system('ls')", "model = helper() + 1",
    ]  # fmt: skip
    found = needed_cells(inputs, "torch.step(model)", NAMESPACE)
    assert found.cells == ("import torch", "x = 1", "def helper():\n    return x", "model = helper() + 1")
    assert found.left_out == 2
    ast.parse("\n".join(found.cells))


def test_a_cell_that_trained_before_is_left_out():
    training = "for batch in loader:\n    optimizer.step()"
    found = needed_cells(["loader = 1", "optimizer = 2", training], training, NAMESPACE)
    assert found.cells == ("loader = 1", "optimizer = 2")


def test_a_cell_under_a_magic_counts_and_seeds_go_along():
    under_time = "get_ipython().run_cell_magic('time', '', 'model = 1\\n')"
    inputs = ["import torch", "torch.manual_seed(3)", under_time, "loader = optimizer = 2"]
    found = needed_cells(inputs, "optimizer.step(model, loader)", NAMESPACE)
    assert found.cells == ("import torch", "torch.manual_seed(3)", "model = 1", "loader = optimizer = 2")


def test_what_a_startup_file_imported_is_imported_by_the_script():
    found = needed_cells(
        ["model = 1"], "fit(model, functional)", {**NAMESPACE, "functional": ast, "ast": ast}
    )
    assert found.cells == ("import ast as functional", "model = 1")


def test_a_name_that_no_cell_makes_is_told_before_the_cluster_finds_out():
    with pytest.raises(AccelError, match="no cell of this notebook defines loader"):
        needed_cells(["model = 1"], "fit(model, loader)", NAMESPACE)


def test_what_the_training_binds_itself_need_not_be_made_before():
    """As a loss that is printed after the loop."""
    cell = "for x in loader:\n    for y in x:\n        loss = model(y)\n    print(loss)"
    found = needed_cells(["loader = model = 1"], cell, {**NAMESPACE, "loss": 1, "y": 1})
    assert found.cells == ("loader = model = 1",)


def test_cells_that_trained_before_are_left_out_and_named():
    inputs = [
        "model = 1",
        "model.loss().backward()",
        "def fit(it):\n    it.step()",
        "fit(model)",
        "print(model)",
    ]
    found = needed_cells(inputs, "model.train()", NAMESPACE)
    assert (found.cells, found.left_out) == (("model = 1",), 4)
    assert found.touching == ("model.loss().backward()", "fit(model)")


@pytest.mark.parametrize("change", [
    "model.load_state_dict(weights)\nprint('loaded')", "model.head = None", "model['a'] = 1", "prepare(model)", "model += 1",
    "for each in model:\n    each.frozen = True", "first = next(iter(model))",
])  # fmt: skip
def test_cells_that_may_have_changed_what_is_trained_belong_to_it(change):
    found = needed_cells(["model = 1", change, "print(model)", "y = model"], "fit(model)", NAMESPACE)
    assert (found.cells, found.left_out) == (("model = 1", change), 2)


@pytest.mark.parametrize("asking", [
    "count = sum(each.numel() for each in model.parameters())\nprint(count, told)", "print(model.state_dict().keys(), told)",
    "for name, module in model.named_modules():\n    print(name, told)", "shape = model.weight.size()\nprint(shape, told)",
])  # fmt: skip
def test_cells_that_only_ask_the_model_do_not_belong_to_it_nor_what_they_read(asking):
    found = needed_cells(
        ["model = 1", asking], "fit(model)", {**NAMESPACE, "told": object()}
    )  # a magic made `told`
    assert (found.cells, found.left_out) == (("model = 1",), 1)


@pytest.mark.parametrize("change", ["head.load(model.state_dict())", "optimizer = SGD(model.parameters())"])
def test_a_question_within_a_call_that_may_change_it_does(change):
    assert change in needed_cells(["model = optimizer = head = 1", change], "fit(model, head, optimizer)",
                                  {**NAMESPACE, "head": object()}).cells  # fmt: skip


@pytest.mark.parametrize("held", [
    "parts = list(model.parameters())", "parts = [each for each in model.modules()]", "parts = model.state_dict()",
    "if model:\n    parts = dict(model.named_parameters()).values()", "print(parts := list(model.children()))",
])  # fmt: skip
def test_a_change_through_parts_that_a_variable_holds_belongs_to_it(held):
    change = f"{held}\nfor each in parts:\n    each.zero_()"
    assert needed_cells(["model = 1", change], "fit(model)", NAMESPACE).cells == ("model = 1", change)


def test_cells_after_the_training_do_not_belong_to_it():
    found = needed_cells(["model = 1", "fit(model)", "model = 2", "model.x = 3"], "fit(model)", NAMESPACE)
    assert found.cells == ("model = 1",)


@pytest.mark.parametrize(("inputs", "cell", "taken"), [
    (["def fit():\n    return step(loader)", "def step(it):\n    return it", "loader = 1"], "fit()", 3),  # defined later
    (["def fit(loader, *x, torch=1, **model):\n    helper = 1\n    return [x for x in helper]"], "fit(1)", 1),
    (["if 1:\n    model = 1\nelse:\n    model = 2", "for x in range(2):\n    pass"], "model(x)", 2),
    (["model = 1", "if x0:\n    model = 2"], "model", 2),  # perhaps the second, perhaps the first
    (["with a() as loader, b() as x:\n    pass", "try:\n    model = 1\nexcept OSError as optimizer:\n    model = 2"],
     "model(loader, x)", 2),
    (["match 1:\n    case [model, *loader]:\n        pass", "[(x := 1) for helper in range(1)]"], "model(loader, x)", 2),
    (["x = 1", "class A:\n    model = x\n    def f(self, loader):\n        return self.model", "optimizer = A()"],
     "optimizer", 3),
    (["def make():\n    global model\n    model = 1", "make()"], "model", 2),
    (["def outer():\n    x = 1\n    def inner():\n        nonlocal x\n        x += 1\n    return inner"], "outer()", 1),
    (["from math import *"], "x0 = sqrt(pi)", 1),
    (["x = 1", "def deco(f):\n    return f", "@deco\ndef helper(a=x):\n    return lambda loader=a: loader"], "helper()", 3),
    (["x = 1", "x += 1"], "x", 2),
])  # fmt: skip
def test_names_are_looked_up_as_python_does(inputs, cell, taken):
    namespace = {
        **NAMESPACE,
        "sqrt": math.sqrt,
        "pi": math.pi,
        **dict.fromkeys(("fit", "step", "A", "make", "outer", "deco"), 1),
    }
    found = needed_cells(inputs, cell, namespace)
    assert found.cells == tuple(inputs[-taken:] if taken < len(inputs) else inputs)


def test_what_every_notebook_has_is_there_in_a_program_too():
    inputs = [
        "with open('a') as file:\n    x = file",
        "if 'colab' in str(get_ipython()):\n    get_ipython().system('ls')",
        "display(x)",
    ]
    found = needed_cells(
        inputs, "display(x, get_ipython)", {**NAMESPACE, "open": 1, "display": 1, "get_ipython": 1}
    )
    assert found.cells[0].startswith("def display(")
    assert found.cells[1].startswith("def get_ipython")
    assert found.cells[2:] == (inputs[0],)


def test_settings_of_the_process_and_lines_that_are_timed_go_along():
    inputs = ["import os", "os.environ['A'] = '1'", "def seeds(n):\n    torch.manual_seed(n)", "seeds(1)", "import torch",
              "get_ipython().run_line_magic('time', 'model = 1')"]  # fmt: skip
    found = needed_cells(inputs, "fit(model)", {**NAMESPACE, "os": os, "seeds": 1})
    assert found.cells == (*inputs[:5], "model = 1")


def test_setup_comes_before_the_shell_is_strict_and_each_host_has_its_own_number_of_ranks():
    script = script_for(Cluster(hosts=(("h1", 4), ("h2", 2)), setup=("module load cuda",)))
    assert script.index("module load cuda") < script.index("set -euo pipefail")
    assert "ranks=(4 2)" in script
    assert '--nproc-per-node "${ranks[$NODE]}"' in script


def test_a_script_that_is_no_notebook_has_no_cells_to_write():
    with pytest.raises(AccelError, match="only a notebook remembers"):
        inputs_of({})


def test_a_folder_that_cannot_be_made_is_refused_with_what_to_do(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(AccelError, match="Give a path in a folder that you can write to"):
        ClusterScripts("torchrun", "", "").save(tmp_path / "file" / "job")
