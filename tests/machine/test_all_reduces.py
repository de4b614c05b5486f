"""All-reduce between processes of this machine: bandwidths as nccl-tests define them, ranks that are right, pinned and gone."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys

import pytest
import torch

from accel.errors import AccelError
from accel.machine.affinity import allocate
from accel.machine.peaks import AllReducePeak, AllReduces, all_reducing
from accel.machine.peaks.all_reduces import traffic
from accel.machine.peaks.all_reducing import RANK, measure_all_reduces, run_ranks
from accel.processes.child_main import become_rank

needs_gloo = pytest.mark.skipif(
    not (torch.distributed.is_available() and torch.distributed.is_gloo_available()),
    reason="this torch is built without Gloo",
)
JOB = {"backend": "gloo", "device": "cpu", "sizes_bytes": [4096, 1 << 18], "budget_s": 0.01}
MADE_UP = AllReduces(
    tuple(AllReducePeak("gloo", "cpu", 2, size, ms / 1e3) for size, ms in ((4096, 0.1), (1 << 20, 1.1), (1 << 24, 16.1)))
)  # fmt: skip


def test_bandwidths_are_those_of_nccl_tests():
    eight = AllReducePeak("nccl", "cuda", 8, 1 << 30, 0.01)
    assert eight.algorithmic_bytes_per_s == (1 << 30) / 0.01
    assert eight.bus_bytes_per_s == pytest.approx(eight.algorithmic_bytes_per_s * 14 / 8)
    two = AllReducePeak("gloo", "cpu", 2, 1 << 20, 0.001)
    assert two.bus_bytes_per_s == two.algorithmic_bytes_per_s
    assert str(two) == "1 MiB in 1 ms (algorithmic 1.05 GB/s, bus 1.05 GB/s)"


def test_a_time_lies_on_a_line_between_two_sizes_and_beyond_the_largest_its_rate_goes_on():
    assert MADE_UP.seconds(1 << 20, 2) == pytest.approx(1.1e-3)
    assert MADE_UP.seconds(((1 << 20) + (1 << 24)) / 2, 2) == pytest.approx(8.6e-3)
    assert MADE_UP.seconds(1 << 25, 2) == pytest.approx(32.2e-3)
    assert MADE_UP.seconds(1, 2) == pytest.approx(0.1e-3)


def test_more_ranks_send_more_and_take_more_turns():
    one_turn = MADE_UP.seconds(4096, 2)
    assert MADE_UP.seconds(4096, 4) == pytest.approx(3 * one_turn)
    assert MADE_UP.seconds(1 << 24, 4) == pytest.approx(3 * one_turn + 16e-3 * traffic(4))
    assert MADE_UP.seconds(1 << 24, 1) == 0
    assert MADE_UP.seconds(1 << 20, 2, "cuda:0") is None
    assert AllReduces().seconds(1 << 20, 2) is None


def test_a_larger_size_never_takes_less_however_noisy_the_measured_times():
    noisy = AllReduces(
        tuple(AllReducePeak("gloo", "cpu", 2, 1 << k, ms / 1e3) for k, ms in ((12, 2), (20, 1), (24, 9)))
    )
    times = [noisy.seconds(1 << k, 2) for k in range(10, 30)]
    assert times == sorted(times)


def test_the_number_of_ranks_nearest_to_the_wanted_one_is_taken():
    both = AllReduces(
        (
            *MADE_UP.rows,
            AllReducePeak("nccl", "cuda", 2, 1024, 1e-3),
            AllReducePeak("nccl", "cuda", 8, 1024, 4e-3),
        )
    )
    assert both.seconds(1024, 8, "cuda:3") == 4e-3
    assert both.seconds(1024, 2, "cuda") == 1e-3


def test_measuring_again_keeps_the_shorter_time_and_survives_json():
    slow = AllReducePeak("gloo", "cpu", 2, 4096, 5.0)
    merged = AllReduces((slow,), ("a note",), was_busy=True).shorter(MADE_UP)
    assert merged.seconds(4096, 2) == pytest.approx(0.1e-3)
    assert len(merged.rows) == 3
    told = json.loads(json.dumps(merged.to_dict()))
    assert told["rows"][0]["bus_bytes_per_s"] == merged.rows[0].bus_bytes_per_s
    assert AllReduces.from_dict(told) == merged


@needs_gloo
def test_two_ranks_add_up_on_cpus_of_their_own_and_each_tells_its_turns():
    try:
        cpus = [each.cpus for each in allocate(2, 1).ranks]
    except AccelError:
        cpus = []
    told = run_ranks(RANK, 2, JOB, cpus, 120.0)
    assert [one["rank"] for one in told] == [0, 1]
    for size in ("4096", str(1 << 18)):
        turns = [one["seconds"][size] for one in told]
        assert len(turns[0]) == len(turns[1]) >= 3
        assert all(seconds > 0 for own in turns for seconds in own)
    if cpus:
        assert [tuple(one["cpus"]) for one in told] == cpus  # read back by each rank from its own mask


@needs_gloo
def test_measured_times_give_bandwidths_and_say_what_there_is_not():
    measured = measure_all_reduces(sizes_bytes=(4096, 1 << 20), budget_s=0.01)
    assert [(row.backend, row.ranks, row.bytes) for row in measured.rows if row.device == "cpu"] == [
        ("gloo", 2, 4096),
        ("gloo", 2, 1 << 20),
    ]
    assert measured.seconds(1 << 20, 2) >= measured.seconds(4096, 2) > 0
    assert torch.cuda.device_count() or "nccl: no GPU here." in measured.notes
    assert "gloo, 2 ranks on cpu:" in str(measured)


def alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@needs_gloo
@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("raise RuntimeError('the cable is cut')", "rank 1 ended with 1: RuntimeError: the cable is cut"),
        ("os._exit(7)", "rank 1 ended with 7"),
        ("os.close(int(sys.argv[1]))", "rank 1 closed its connection: it said nothing"),
    ],
)
def test_a_rank_that_fails_is_named_with_its_last_words_and_none_is_left(tmp_path, monkeypatch, fault, said):
    (tmp_path / "failing_rank.py").write_text(
        "import json, os, pathlib, sys, threading\n"
        "rank = json.loads(sys.argv[3])['rank']\n"
        f"pathlib.Path({str(tmp_path)!r}, f'pid{{rank}}').write_text(str(os.getpid()))\n"
        f"if rank == 1:\n    {fault}\n"
        "threading.Event().wait()\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(AccelError) as caught:
        run_ranks("failing_rank", 2, JOB, [], 60.0)
    assert said in str(caught.value)
    assert not any(alive(int(path.read_text())) for path in tmp_path.glob("pid*"))


@needs_gloo
def test_ranks_that_hang_are_ended_at_the_deadline(tmp_path, monkeypatch):
    (tmp_path / "hanging_rank.py").write_text("import threading\nthreading.Event().wait()\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    started = []
    start = all_reducing.measuring_child
    monkeypatch.setattr(
        all_reducing, "measuring_child", lambda *a, **k: started.append(start(*a, **k)) or started[-1]
    )
    with pytest.raises(AccelError, match=r"not done after 0 s.*--links"):
        run_ranks("hanging_rank", 2, JOB, [], 0.2)
    assert len(started) == 2
    assert not any(child.is_alive for child in started)


@needs_gloo
def test_what_fails_is_a_note_and_not_an_error(monkeypatch):
    monkeypatch.setattr(all_reducing, "RANK", "accel.no_such_rank")
    measured = measure_all_reduces(sizes_bytes=(4096,))
    assert measured.rows == ()
    assert any(note.startswith("gloo: rank") and "no_such_rank" in note for note in measured.notes)


@needs_gloo
def test_a_store_that_cannot_be_opened_is_a_note_too(monkeypatch):
    def no_store(deadline_s):
        raise OSError("Too many open files")

    monkeypatch.setattr(all_reducing, "_store", no_store)
    assert "gloo: Too many open files." in measure_all_reduces(sizes_bytes=(4096,)).notes


@needs_gloo
def test_the_meeting_place_is_on_this_machine_alone_and_is_gone_afterwards():
    with all_reducing._store(5.0) as port:
        with socket.create_connection(("127.0.0.1", port), timeout=5):
            pass
        if sys.platform == "linux":
            assert listening_on(port) == {
                "0100007F"
            }  # 127.0.0.1; torch by itself would listen on all networks
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), timeout=5).close()


def listening_on(port):
    """The addresses, as /proc writes them, on which a port listens."""
    found = set()
    for family in ("tcp", "tcp6"):
        with open(f"/proc/net/{family}") as lines:
            for fields in map(str.split, lines):
                address, _, hexadecimal = fields[1].rpartition(":")
                if fields[3] == "0A" and int(hexadecimal, 16) == port:
                    found.add(address)
    return found


LISTENING = """
import glob, os
from accel.processes.child_main import become_rank
become_rank()
import torch
torch.cuda.nccl.unique_id()  # opens the port at which NCCL's ranks meet, and needs no GPU
held = [os.readlink(link) for link in glob.glob("/proc/self/fd/*") if os.path.islink(link)]
own = {name.removeprefix("socket:[").removesuffix("]") for name in held}
for family in ("tcp", "tcp6"):
    for fields in map(str.split, open(f"/proc/net/{family}")):
        if fields[3] == "0A" and fields[9] in own:
            print(fields[1].rpartition(":")[0])
"""


@pytest.mark.skipif(sys.platform != "linux", reason="what is listened on is read from /proc")
@pytest.mark.skipif(not torch.distributed.is_nccl_available(), reason="this torch is built without NCCL")
def test_ranks_of_nccl_listen_on_this_machine_alone():
    told = subprocess.run(
        [sys.executable, "-c", LISTENING],
        capture_output=True,
        text=True,
        check=True,
    )
    assert set(told.stdout.split()) == {"0100007F"}, told.stdout  # 127.0.0.1


def test_a_rank_that_pins_itself_is_not_bound_by_the_variables_of_its_parent(monkeypatch):
    monkeypatch.setenv("OMP_PROC_BIND", "close")
    monkeypatch.setenv("GOMP_CPU_AFFINITY", "0")
    for name in ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"):
        monkeypatch.setenv(name, "eth0")
    become_rank()
    assert not {"OMP_PROC_BIND", "GOMP_CPU_AFFINITY"} & os.environ.keys()
