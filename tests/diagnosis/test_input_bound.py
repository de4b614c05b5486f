"""Waiting for data is found, with its slowest stage and as many workers as keep up; a loop that does not wait is not."""

from __future__ import annotations

import dataclasses
from functools import cache
from types import SimpleNamespace

import pytest

from accel.diagnosis import Evidence
from accel.diagnosis.input_bound import input_bound
from accel.machine import read_machine
from accel.machine.peaks.other_work import Taken
from accel.profiling.loader_time import LoaderTime, TransformTime
from accel.profiling.whole_run import WholeRun
from accel.workload.run_conditions import RunConditions
from tests.diagnosis.making import by_hand, notebook, real

LOOP = """
for x, y in loader:
    optimizer.zero_grad()
    criterion(model(x), y).backward()
    optimizer.step()
"""
SLOW = """
import time
class Slow(torch.utils.data.Dataset):
    def __len__(self):
        return 112
    def __getitem__(self, i):
        time.sleep(0.005)
        return torch.randn(16), i % 4
loader = torch.utils.data.DataLoader(Slow(), batch_size=8)
"""
IN_MEMORY = """
data = torch.utils.data.TensorDataset(torch.randn(896, 16), torch.randint(0, 4, (896,)))
loader = torch.utils.data.DataLoader(data, batch_size=64)
"""


@cache
def faulty():
    return real(LOOP, SLOW)


@cache
def sound():
    return real()


def waiting(share, *, cores=8, others=0.0, watched=0, on=LOOP, loaders=(), setup=SLOW, step_ms=10.0):
    machine = dataclasses.replace(read_machine(), usable_cores=cores, torch_threads=1)
    watched = watched or cores
    taken = Taken(others / watched, watched) if others is not None else None
    conditions = RunConditions(1, False, False, False, False, others=taken)
    evidence = by_hand(
        {"data": share, "forward": 1 - share}, source=on, namespace=notebook(setup), machine=machine, loaders=loaders,
        step_ms=step_ms, whole_run=WholeRun(conditions=conditions),
    )  # fmt: skip
    evidence.objects.loaders["loader"] = evidence.workload.namespace["loader"]
    return evidence


def test_a_slow_data_set_is_found_with_its_share():
    finding = input_bound(faulty())
    assert finding.share > 0.1
    assert finding.title.startswith("Waiting for data: ")
    assert "num_workers=0, batch_size=8" in finding.evidence[-1]


def test_as_many_workers_are_suggested_as_keep_up_with_the_model():
    assert input_bound(waiting(0.6)).suggests == ("loader_workers(n=2)",)
    assert input_bound(waiting(0.8)).suggests == ("loader_workers(n=5)",)
    assert input_bound(waiting(0.95)).suggests == ("loader_workers(n=7)",)


def test_the_prediction_is_bounded_by_what_remains_of_the_step():
    finding = input_bound(waiting(0.6))
    assert 1 < finding.prediction.low < finding.prediction.high <= 2.5
    fewer = input_bound(waiting(0.6, cores=2))
    assert fewer.prediction.ratio < finding.prediction.ratio


def test_on_a_busy_machine_less_is_expected_of_workers():
    unknown, quiet, little, busy = (
        input_bound(waiting(0.6, cores=2, others=others)).prediction for others in (None, 0.0, 0.3, 0.6)
    )
    assert unknown == quiet
    assert busy.ratio < little.ratio < quiet.ratio
    assert busy.low < little.low < quiet.low


def test_workers_gain_little_if_another_program_uses_the_second_core():
    finding = input_bound(
        waiting(0.92, cores=2, others=0.95, step_ms=6.4)
    )  # kept, the cell was 0.43 to 0.6 times as fast
    assert finding.suggests == ()
    assert "workers gain little here while other programs keep 0.9 CPUs busy" in finding.remedy


def test_a_neighbour_on_cpus_that_a_quota_leaves_free_changes_nothing():
    alone, next_to = (input_bound(waiting(0.6, cores=4, others=others, watched=64)) for others in (0.0, 10.0))
    assert next_to.prediction == alone.prediction
    crowded = input_bound(waiting(0.6, cores=4, others=62.0, watched=64))
    assert crowded.prediction.low < alone.prediction.low


def test_workers_that_run_already_are_counted_among_those_on_the_cores():
    few, more = (
        input_bound(
            waiting(
                0.9,
                cores=4,
                others=2.0,
                setup=with_workers(SLOW, had),
                loaders=timed(9.0 + 9.0 * bool(had), had),
            )
        ).prediction
        for had in (0, 2)
    )
    assert more.low > few.low


def test_the_slowest_stage_is_named():
    stages = (TransformTime("RandomRotation", 0.5, 0.7, 100), TransformTime("reading", 0.2, 0.3, 100))
    finding = input_bound(waiting(0.5, loaders=(LoaderTime("loader", 0, 5.0, 10, stages),)))
    assert "slowest stage of the data pipeline is RandomRotation: 70 % of its time" in finding.what
    assert any("RandomRotation" in said for said in finding.evidence)


def test_tensors_in_memory_are_to_be_taken_by_batch_and_not_by_workers():
    finding = input_bound(waiting(0.4, setup=IN_MEMORY))
    assert finding.suggests == ()
    assert "split" in finding.remedy


def test_a_loop_that_makes_its_batches_itself_is_told_to_use_a_loader():
    evidence = by_hand({"data": 0.4, "forward": 0.6})
    assert "DataLoader" in input_bound(evidence).remedy


@pytest.mark.parametrize("share", [0.0, 0.02])
def test_a_short_wait_is_none(share):
    assert input_bound(by_hand({"data": share, "forward": 1 - share})) is None


def with_workers(setup, n):
    return f"{setup.rstrip()[:-1]}, num_workers={n})"


def timed(ms, workers=2):
    """What making a batch takes one of these workers."""
    return (LoaderTime("loader", workers, ms, 10, ()),)


@pytest.mark.parametrize("setup", [IN_MEMORY, SLOW], ids=["tensors", "a data set"])
@pytest.mark.parametrize("workers", [1, 2, 4])
def test_where_waiting_for_a_worker_takes_longer_than_making_a_batch_no_worker_is_suggested(setup, workers):
    finding = input_bound(waiting(0.8, setup=with_workers(setup, workers), loaders=timed(1.0, workers)))
    assert finding.suggests == ("loader_workers(n=0)",)
    assert "takes longer than making one" in finding.what
    assert finding.prediction.basis == (
        "a worker makes a step's data in 1 ms, but the step waits 8 ms for it; making it in the training process may take 0.3 "
        "to 1.3 times as long as in the worker"
    )
    assert finding.prediction.low < finding.prediction.ratio < finding.prediction.high
    assert finding.prediction.ratio == pytest.approx(10 / (2 + 1))


@pytest.mark.parametrize("workers", [2, 4])
def test_workers_that_crowd_the_cores_may_hold_up_the_rest_of_the_step_too(workers):
    def predicted(cores):
        setup, loaders = with_workers(SLOW, workers), timed(1.0, workers)
        return input_bound(waiting(0.8, cores=cores, setup=setup, loaders=loaders)).prediction

    crowded, alone = predicted(2), predicted(8)
    assert crowded.high > alone.high
    assert crowded.ratio > alone.ratio
    assert crowded.low == alone.low


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("made_ms", [7.3, 7.9])
def test_where_a_wait_is_about_as_long_as_making_a_batch_more_workers_are_suggested(workers, made_ms):
    finding = input_bound(waiting(0.8, setup=with_workers(SLOW, workers), loaders=timed(made_ms, workers)))
    assert finding.what.startswith(
        "1 worker does not keep up" if workers == 1 else "2 workers do not keep up"
    )
    assert finding.suggests in [("loader_workers(n=6)",), ("loader_workers(n=7)",)]
    assert finding.prediction.ratio > 1.5


@pytest.mark.parametrize("made_ms", [8.5, 10.0])
def test_workers_that_are_slow_only_because_they_crowd_the_cores_are_to_be_dropped(made_ms):
    finding = input_bound(waiting(0.8, cores=2, setup=with_workers(SLOW, 2), loaders=timed(made_ms, 2)))
    assert finding.suggests == ("loader_workers(n=0)",)
    assert finding.prediction.basis.endswith(
        "without workers on every core, the step becomes up to 1.5 times as fast"
    )


@pytest.mark.parametrize(("cores", "made_ms"), [(8, 8.5), (8, 40.0), (2, 12.5), (2, 40.0)])
def test_workers_whose_work_is_hidden_are_not_to_be_dropped(cores, made_ms):
    evidence = waiting(0.8, cores=cores, setup=with_workers(SLOW, 2), loaders=timed(made_ms, 2))
    assert "loader_workers(n=0)" not in input_bound(evidence).suggests


def test_workers_that_accel_keeps_are_to_be_taken_back():
    evidence = waiting(0.8, setup=with_workers(IN_MEMORY, 2), loaders=timed(1.0))
    evidence = dataclasses.replace(evidence, live=("loader_workers",))
    evidence.objects.loaders["loader"] = evidence.workload.namespace["loader"]
    finding = input_bound(evidence)
    assert finding.suggests == ()
    assert "%accel undo loader_workers" in finding.remedy


@pytest.mark.parametrize(("made_ms", "batches"), [(12.0, 1), (4.0, 3)], ids=["one batch", "three batches"])
def test_workers_that_do_not_keep_up_are_to_be_more(made_ms, batches):
    evidence = waiting(0.8, setup=with_workers(SLOW, 2), loaders=timed(made_ms))
    workload = dataclasses.replace(evidence.workload, accumulation=batches)
    evidence = Evidence(evidence.profile, workload, evidence.machine)
    evidence.objects.loaders["loader"] = workload.namespace["loader"]
    finding = input_bound(evidence)
    assert finding.what.startswith("2 workers do not keep up")
    assert finding.suggests == ("loader_workers(n=7)",)


def test_of_workers_that_were_not_timed_nothing_is_claimed():
    finding = input_bound(waiting(0.8, setup=with_workers(SLOW, 2)))
    assert "could not time these workers" in finding.what
    assert finding.suggests == ()
    assert "num_workers=0" in finding.remedy


def test_where_workers_gain_nothing_none_are_suggested_and_no_loss_is_predicted():
    finding = input_bound(waiting(0.1, cores=1))
    assert finding.suggests == ()
    assert "cheaper" in finding.remedy
    assert finding.prediction.low >= 1


STEP = """
    optimizer.zero_grad()
    criterion(model(x), y).backward()
    optimizer.step()
"""
FETCHING = """
import asyncio, time
def make():
    time.sleep(0.004)
    return x, y
async def fetch():
    await asyncio.sleep(0.004)
    return x, y
"""


@pytest.mark.parametrize(
    "cell",
    [
        "for i in range(30):\n    x, y = make()" + STEP,
        "i = 0\nwhile i < 30:\n    i += 1\n    x, y = make()" + STEP,
        "for i in range(30):" + STEP.replace("criterion", "x, y = make()\n    criterion"),
        "events = asyncio.new_event_loop()\nfor i in range(30):\n    x, y = events.run_until_complete(fetch())"
        + STEP
        + "events.close()\n",
    ],
    ids=["for", "while", "after zero_grad", "awaited"],
)
def test_a_batch_that_the_loop_makes_before_forward_is_waited_for(cell):
    finding = input_bound(real(cell, FETCHING, timed=False))
    assert finding.title.startswith("Data fetching and other loop code before forward: ")
    assert finding.share > 0.2
    assert finding.suggests == ()
    assert "torch.utils.data.DataLoader" in finding.remedy


@pytest.mark.parametrize(
    ("phases", "is_found"),
    [
        ({"data": 0.01, "data → zero_grad": 0.9, "forward": 0.09}, True),
        ({"optimizer → copy": 0.15, "copy → forward": 0.15, "forward": 0.7}, True),
        ({"data → zero_grad": 0.1, "forward": 0.9}, False),  # logs, or sets a learning rate
        ({"forward → backward": 0.5, "forward": 0.5}, False),
        ({"backward → optimizer": 0.5, "forward": 0.5}, False),  # clips gradients
        ({"optimizer → data": 0.5, "forward": 0.5}, False),
    ],
)
def test_loop_code_is_taken_for_making_a_batch_where_it_stands_before_forward(phases, is_found):
    assert (input_bound(by_hand(phases)) is not None) == is_found


def test_where_the_loader_takes_longer_than_loop_code_it_is_the_loader_that_is_waited_for():
    finding = input_bound(by_hand({"data": 0.4, "data → zero_grad": 0.3, "forward": 0.3}))
    assert finding.title == "Waiting for data: 40 % of each step"


def on_gpu(phases, idle):
    """Evidence of a GPU that is idle for these shares of the step; None: it was not recorded."""

    class OnGpu(Evidence):
        objects = SimpleNamespace(device_type="cuda", loaders={})
        device = SimpleNamespace(idle_phases=tuple(idle.items())) if idle is not None else None

    evidence = by_hand(phases)
    return OnGpu(evidence.profile, evidence.workload, evidence.machine)


@pytest.mark.parametrize(("idle", "is_found"), [(0.5, True), (0.05, False), (None, False)])
def test_loop_code_counts_only_while_the_gpu_is_idle(idle, is_found):
    """Else it may be waiting for the GPU; nothing is known of a GPU that was not recorded."""
    idle_phases = {"optimizer → zero_grad": idle} if idle else None
    evidence = on_gpu({"optimizer → zero_grad": 0.6, "forward": 0.4}, idle_phases)
    assert (input_bound(evidence) is not None) == is_found


@pytest.mark.parametrize(
    ("idle", "share"),
    [
        ({"data": 0.02, "data → zero_grad": 0.4, "forward": 0.1}, 0.42),
        ({"data → zero_grad": 0.3}, 0.3),  # while it fetches, the GPU computes
        ({"data": 0.2, "data → zero_grad": 0.25}, 0.45),
    ],
)
def test_fetching_before_loop_code_counts_only_while_the_gpu_is_idle_too(idle, share):
    finding = input_bound(on_gpu({"data": 0.2, "data → zero_grad": 0.6, "forward": 0.2}, idle))
    assert finding.share == pytest.approx(share)
    assert finding.evidence == (
        f"data fetching and other loop code before forward: {10 * share:g} ms a step",
    )


TWO_LOADERS = """
import time
class Turn:
    def __call__(self, sample):
        time.sleep(0.002)
        return sample
class Blur:
    def __call__(self, sample):
        time.sleep(0.008)
        return sample
class Samples(torch.utils.data.Dataset):
    def __init__(self, count, transform):
        self.count, self.transform = count, transform
    def __len__(self):
        return self.count
    def __getitem__(self, i):
        return self.transform(torch.randn(16)), i % 4
train = torch.utils.data.DataLoader(Samples(56, Turn()), batch_size=4)
valid = torch.utils.data.DataLoader(Samples(16, Blur()), batch_size=8)
"""
TRAINING = LOOP.replace("loader", "train")
VALIDATION = """
with torch.no_grad():
    for x, y in valid:
        model(x)
"""


def in_functions(cell):
    return "def run():" + cell.replace("\n", "\n    ") + "\nrun()\n"


@pytest.mark.parametrize("form", [str, in_functions], ids=["in the cell", "in a function"])
@pytest.mark.parametrize(
    "cell", [TRAINING + VALIDATION, VALIDATION + TRAINING], ids=["train first", "validation first"]
)
def test_the_loader_that_training_waits_for_is_named_and_not_that_of_validation(cell, form):
    evidence = real(form(cell), TWO_LOADERS)
    finding = input_bound(evidence)
    assert evidence.workload.samples_per_step == 4
    assert "slowest stage of the data pipeline is Turn" in finding.what
    assert "num_workers=0, batch_size=4" in finding.evidence
    assert not any("Blur" in said for said in finding.evidence)


def test_a_loop_without_a_loader_is_not_told_about_the_loader_of_validation():
    waits = "def batches():\n    for i in range(14):\n        time.sleep(0.004)\n        yield x, y\n"
    cell = waits + VALIDATION + TRAINING.replace("in train", "in batches()")
    evidence = real(cell, TWO_LOADERS)
    assert evidence.profile.whole_run.step_loader == ""
    assert "The loop makes its batches itself" in input_bound(evidence).what


def test_a_loader_that_is_gone_with_its_function_is_not_taken_for_a_loop_without_one():
    setup, built = TWO_LOADERS.rsplit("train =", 1)
    evidence = real(in_functions("\ntrain =" + built + TRAINING), setup)
    assert evidence.profile.whole_run.step_loader not in ("", None)
    assert "makes its batches itself" not in input_bound(evidence).what
