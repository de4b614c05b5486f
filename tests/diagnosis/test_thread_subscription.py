"""Too many threads for the cores, too many loader processes, and too few threads are found; as many as cores are not."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest

from accel.diagnosis import Evidence
from accel.diagnosis.thread_subscription import thread_subscription
from accel.machine import read_machine
from accel.machine.peaks.other_work import Taken
from accel.plans import Plan
from accel.profiling.loader_time import LoaderTime
from accel.profiling.whole_run import WholeRun
from accel.workload.run_conditions import RunConditions
from tests.diagnosis.making import TRAIN, by_hand, notebook, real, row
from tests.threads import threads

CORES = read_machine().usable_cores
LARGE = "model = nn.Linear(1024, 1024); x, y = torch.randn(256, 1024), torch.randint(0, 4, (256,))\n" + (
    "optimizer = torch.optim.SGD(model.parameters())\n"
)


def on_cores(evidence, count, others=0.0):
    """The same evidence, read on a machine with that many cores, of which other programs kept so many busy."""
    machine = replace(evidence.machine, usable_cores=count, physical_cores=count)
    whole_run = evidence.profile.whole_run
    conditions = replace(whole_run.conditions, others=Taken(others / count, count))
    profile = replace(evidence.profile, whole_run=replace(whole_run, conditions=conditions))
    return Evidence(profile, evidence.workload, machine)


@cache
def faulty():
    with threads(2 * CORES):
        return real(TRAIN, LARGE)


@cache
def sound():
    with threads(CORES):
        return on_cores(real(TRAIN, LARGE), CORES)


def test_threads_set_in_the_cell_itself_are_seen():
    with threads(CORES):
        finding = thread_subscription(real(f"torch.set_num_threads({3 * CORES})" + TRAIN, LARGE, timed=False))
    assert finding.title == f"More threads than cores: {3 * CORES} on {CORES}"
    assert finding.line == 1


def test_the_suggested_number_is_that_of_the_physical_cores():
    machine = replace(faulty().machine, usable_cores=CORES, physical_cores=1)
    finding = thread_subscription(Evidence(faulty().profile, faulty().workload, machine))
    assert finding.suggests == ("intraop_threads(n=1)",)


def test_one_thread_on_many_cores_is_found_where_long_operations_dominate():
    with threads(1):
        evidence = on_cores(real(TRAIN, LARGE), 8)
    finding = thread_subscription(evidence)
    assert finding.title == "Idle cores: 1 thread on 8"
    assert finding.prediction.low < 1 < finding.prediction.ratio < finding.prediction.high
    assert finding.suggests == ("intraop_threads(n=8)",)


def test_one_thread_is_right_for_a_model_of_short_operations():
    def of(calls):  # that take 5 ms in total, in a step of 10 ms
        whole_run = WholeRun(conditions=RunConditions(1, False, False, False, False))
        rows = (row("aten::addmm", "forward", 0.5, calls=calls),)
        return thread_subscription(on_cores(by_hand({"forward": 1.0}, rows, whole_run=whole_run), 8))

    assert of(calls=100.0) is None
    assert of(calls=10.0) is not None


@pytest.mark.filterwarnings("ignore:This DataLoader will create")
def test_more_loader_processes_than_cores_are_found_and_fewer_suggested():
    loader = "from torch.utils.data import DataLoader, TensorDataset\n" + (
        f"loader = DataLoader(TensorDataset(x, y), batch_size=4, num_workers={CORES + 1})"
    )
    cell = "for x, y in loader:" + TRAIN.replace("for _ in range(50):\n", "").replace("\n", "\n    ")
    with threads(CORES):
        finding = thread_subscription(real(cell.replace("        ", "    "), loader, timed=False))
    assert f"loader: num_workers={CORES + 1}" in finding.evidence
    assert Plan.parse(finding.suggests[0]).names == ("loader_workers",)


def test_what_set_the_number_from_outside_is_told(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", str(2 * CORES))
    with threads(2 * CORES):
        assert f"OMP_NUM_THREADS={2 * CORES}" in thread_subscription(real(TRAIN, LARGE)).evidence


def test_a_kept_number_of_threads_is_not_called_too_few():
    with threads(1):
        evidence = on_cores(real(TRAIN, LARGE), 8)
    kept = Evidence(evidence.profile, evidence.workload, evidence.machine, ("intraop_threads",))
    assert thread_subscription(kept) is None


def test_cores_that_other_work_keeps_busy_are_not_idle():
    with threads(1):
        evidence = real(TRAIN, LARGE)
    quiet, half, full = (on_cores(evidence, 8, others) for others in (0.0, 4.0, 8.0))
    assert thread_subscription(quiet).suggests == ("intraop_threads(n=8)",)
    assert thread_subscription(half).suggests == ("intraop_threads(n=4)",)
    assert thread_subscription(half).prediction.high < thread_subscription(quiet).prediction.high
    assert thread_subscription(half).prediction.low < thread_subscription(quiet).prediction.low
    assert thread_subscription(full) is None


@pytest.mark.parametrize(
    ("made_ms", "workers", "suggests"), [(70.0, 7, ()), (30.0, 7, ("intraop_threads(n=5)",)), (0.0, 7, ())]
)
def test_cores_on_which_loader_workers_compute_are_not_idle(made_ms, workers, suggests):
    whole_run = WholeRun(
        conditions=RunConditions(1, False, False, False, False, loader_workers=workers), step_loader="loader"
    )
    rows = (row("aten::addmm", "forward", 0.5, calls=10.0),)
    loaders = (LoaderTime("loader", workers, made_ms, 10, ()),) if made_ms else ()
    evidence = by_hand(
        {"forward": 1.0}, rows, whole_run=whole_run, loaders=loaders, namespace=notebook(f"""
data = torch.utils.data.TensorDataset(torch.randn(64, 16), torch.randint(0, 4, (64,)))
loader = torch.utils.data.DataLoader(data, batch_size=8, num_workers={workers})
"""),
    )  # fmt: skip
    evidence = on_cores(evidence, 8)
    evidence.objects.loaders["loader"] = evidence.workload.namespace["loader"]
    found = thread_subscription(evidence)
    assert (found.suggests if found is not None else ()) == suggests


def test_a_little_other_work_leaves_a_second_core_idle():
    with threads(1):
        evidence = real(TRAIN, LARGE)
    assert thread_subscription(on_cores(evidence, 2, others=0.3)).suggests == ("intraop_threads(n=2)",)
    assert thread_subscription(on_cores(evidence, 2, others=0.7)) is None
