"""What profile remembers of a cell: its objects, its names, its steps, also when it failed or never trained."""

from __future__ import annotations

import gc
import subprocess
import sys

import pytest
import torch
from capturing import capture, notebook

from accel.errors import AccelError
from accel.workload import CellCapture, Role

STEP = """
for x, y in loader:
    optimizer.zero_grad()
    loss = criterion(model(x), y)
    loss.backward()
    optimizer.step()
"""


def test_importing_the_package_loads_no_torch() -> None:
    code = "import sys, accel.workload; from accel.workload import CellCapture, Steps, Workload; print('torch' in sys.modules)"
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
        == "False\n"
    )


def test_a_cell_is_remembered_with_the_names_it_reads_and_the_objects_it_used() -> None:
    namespace = notebook("scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)")
    workload, recording = capture(STEP + "scheduler.step()", namespace)
    assert workload.reads == ("loader", "optimizer", "criterion", "model", "scheduler")
    assert workload.writes == ("x", "y", "loss")
    objects = workload.objects()
    assert objects.models == {"model": namespace["model"]}
    assert objects.optimizers == {"optimizer": namespace["optimizer"]}
    assert objects.criteria == {"criterion": namespace["criterion"]}
    assert objects.schedulers == {"scheduler": namespace["scheduler"]}
    assert objects.loaders == {"loader": namespace["loader"]}
    assert not any(role.is_built_by_cell for role in workload.roles)
    assert (
        recording.started_ns < recording.marks[0].time_ns <= recording.marks[-1].time_ns < recording.ended_ns
    )
    assert "6 steps" in str(workload)


def by_name(roles: tuple[Role, ...]) -> dict[str, bool]:
    return {role.name: role.is_built_by_cell for role in roles}


def test_what_the_cell_builds_is_told_from_what_was_there() -> None:
    cell = "optimizer = torch.optim.Adam(model.parameters())\nmodel = model.to('cpu')" + STEP
    workload, _ = capture(cell, notebook())
    assert by_name(workload.roles) == {"model": False, "criterion": False, "optimizer": True, "loader": False}


def test_objects_that_only_a_function_knows_get_a_label() -> None:
    namespace = notebook(
        """
        def train(model):
            adam = torch.optim.Adam(model.parameters())
            for x, y in DataLoader(TensorDataset(X, Y), batch_size=8):
                adam.zero_grad()
                F.cross_entropy(model(x), y).backward()
                adam.step()
        """
    )
    workload, _ = capture("train(model)", namespace)
    assert by_name(workload.roles) == {"model": False, "Adam_1": True, "DataLoader_1": True}
    assert workload.samples_per_step == 8


def test_attributes_of_a_trainer_are_named_by_their_path() -> None:
    namespace = notebook(
        """
        class Trainer:
            def __init__(self):
                self.net = nn.Linear(8, 3)
                self.sgd = torch.optim.SGD(self.net.parameters(), lr=0.1)
            def fit(self):
                for x, y in loader:
                    self.sgd.zero_grad()
                    F.cross_entropy(self.net(x), y).backward()
                    self.sgd.step()
        trainer = Trainer()
        """
    )
    workload, _ = capture("trainer.fit()", namespace)
    assert by_name(workload.roles) == {"loader": False, "trainer.net": False, "trainer.sgd": False}
    namespace["trainer"] = namespace["Trainer"]()
    assert workload.objects().models == {"trainer.net": namespace["trainer"].net}


def test_objects_follow_the_notebook_and_leave_out_what_is_gone() -> None:
    namespace = notebook()
    workload, _ = capture(STEP, namespace)
    namespace["model"] = newer = torch.nn.Sequential(torch.nn.Linear(8, 3))
    assert workload.objects().models == {"model": newer}
    namespace["model"] = "a string"
    namespace["optimizer"] = None
    gc.collect()
    assert workload.objects().models == {}


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_a_cell_that_stops_early_leaves_a_partial_recording(error: type[BaseException]) -> None:
    namespace = notebook()
    namespace["error"] = error
    cell = "count = 0" + STEP + "    count += 1\n    if count == 4: raise error('stop')"
    workload, recording = capture(cell, namespace, raises=error)
    assert (workload.steps, len(recording.steps.steps), workload.boundary) == (4, 4, "optimizer")
    assert workload.objects().models == {"model": namespace["model"]}


def test_a_cell_without_a_training_step_can_still_be_profiled() -> None:
    workload, recording = capture("with torch.no_grad():\n    for x, y in loader: model(x)", notebook())
    assert (workload.boundary, workload.steps, workload.has_training_step) == ("none", 0, False)
    assert (recording.steps.rule, len(recording.steps.steps)) == ("loop over data", 6)
    assert "without a training step" in str(workload)


def test_a_cell_that_does_nothing_of_torch_is_remembered_too() -> None:
    workload, recording = capture("answer = 6 * 7", notebook())
    assert (workload.roles, workload.reads, workload.writes) == ((), (), ("answer",))
    assert str(recording.steps) == "no steps found"


def test_a_capture_runs_once_and_finishes_after_its_run() -> None:
    captured = CellCapture("1", "1", {})
    with pytest.raises(AccelError, match="the cell has not run"):
        captured.finish()
    with captured:
        pass
    with pytest.raises(AccelError, match="run already"), captured:
        pass


def test_steps_under_the_profiler_and_steps_that_compile_are_not_timed() -> None:
    torch._dynamo.reset()
    namespace = notebook("compiled = torch.compile(model, backend='eager')\nloader = list(loader) * 3")
    profiler = torch.profiler.profile()

    def stop_after_four(capture: CellCapture) -> None:
        def stop(boundaries: int) -> None:
            if boundaries >= 4:
                capture.marks.on_idle = None
                profiler.stop()

        capture.marks.on_idle = stop
        profiler.start()

    cell = STEP.replace("model(x)", "(compiled if x is loader[5][0] else model)(x)")
    _, recording = capture(cell, namespace, ready=stop_after_four)
    steps = recording.steps
    assert [step.is_profiled for step in steps.steps] == [True] * 4 + [False] * 14
    warm_up = [index for index, step in enumerate(steps.steps) if step.is_warm_up]
    assert warm_up == [0, 5]
    assert len(steps.timed) == 13
    assert sum(steps.shares().values()) == pytest.approx(1)


def test_memory_that_a_cell_frees_is_free_while_it_runs() -> None:
    namespace = notebook("import gc, weakref")
    cell = "weak = weakref.ref(X)\ndel X, loader\ngc.collect()\ngone = weak() is None"
    capture(cell, namespace)
    assert namespace["gone"]


def test_a_cell_that_is_over_at_once_does_not_say_what_other_programs_took() -> None:
    workload, _ = capture(STEP, notebook())
    assert workload.conditions is not None
    assert workload.conditions.others is None
