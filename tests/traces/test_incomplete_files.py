"""A file that has lost events is never called complete, and claims nothing that the lost events would have denied."""

from __future__ import annotations

import gzip
import json
import random

import pytest

import accel
from accel.errors import AccelError
from tests.profiling.gpu_trace import training_on_gpu
from tests.traces.test_ranks import rank_events, write_ranks
from tests.traces.writing import H100, as_torch_writes, trace, training_events, write

ON_GPU = as_torch_writes(training_on_gpu().events)
SOUND = json.dumps(trace(ON_GPU, deviceProperties=[H100]), indent=1).encode()
ON_CPU = json.dumps(trace(training_events()), indent=1).encode()
RANDOM = random.Random(12)


def claims(path):
    """What the report claims of the GPU and of what to do; None where the file is refused or said to be incomplete."""
    try:
        report = accel.open_trace(path)
    except AccelError:
        return None
    if report.completeness.is_complete:
        return report.devices, [finding.kind for finding in report.findings]
    assert str(report.completeness) in " ".join(str(report).split())
    assert "Complete:" not in str(report)
    if report.damage:
        assert (report.devices, report.findings) == ((), ())
        assert "Copy the file again" in " ".join(str(report).split())
    return None


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    found = claims(write(tmp_path_factory.mktemp("whole") / "sound.json", SOUND))
    assert found
    assert found[0][0].busy_share > 0
    assert found[1]
    return found


@pytest.mark.parametrize("content", [SOUND, ON_CPU], ids=["GPU", "CPU"])
def test_a_file_cut_off_anywhere_is_not_complete(tmp_path, content):
    at_seams = [content.index(b"},", place) + 1 for place in (2000, 5000, len(content) - 2000)]
    for cut in (*at_seams, *RANDOM.sample(range(len(content) - 1), 40), len(content) - 2):
        assert claims(write(tmp_path / "cut.json", content[:cut])) is None, cut


def test_a_packed_file_that_is_cut_off_or_changed_anywhere_is_not_complete(tmp_path, whole):
    packed = gzip.compress(SOUND, mtime=0)
    assert claims(write(tmp_path / "sound.json", packed)) == whole
    for place in (len(packed) - 1, len(packed) - 8, *RANDOM.sample(range(20, len(packed)), 25)):
        assert claims(write(tmp_path / "cut.json", packed[:place])) is None, place
        flipped = packed[:place] + bytes([packed[place] ^ 16]) + packed[place + 1 :]
        assert claims(write(tmp_path / "flipped.json", flipped)) is None, place


def test_one_byte_that_makes_the_file_no_json_is_enough(tmp_path):
    places = [place for place, byte in enumerate(SOUND) if byte in b'{}[]",:']
    broken = 0
    for place in RANDOM.sample(places, 80):
        changed = SOUND[:place] + b"x" + SOUND[place + 1 :]
        try:
            json.loads(changed)
        except ValueError:
            broken += 1
            assert claims(write(tmp_path / "broken.json", changed)) is None, place
    assert broken > 40


@pytest.mark.parametrize("end", [b"", b"]", b"]]", b"\n  }", b"}"])
def test_a_list_of_events_that_is_not_closed_as_json_closes_it_is_not_complete(tmp_path, end):
    assert claims(write(tmp_path / "open.json", SOUND[: SOUND.rindex(b"]")].rstrip() + end)) is None


@pytest.mark.parametrize("kind", ["kernel", "gpu_memcpy", "cuda_runtime"])
def test_some_events_of_the_gpu_removed_from_a_file_that_is_json_again_are_missed(tmp_path, kind):
    of_kind = [
        i for i, event in enumerate(ON_GPU) if event["cat"] == kind and "Synchronize" not in event["name"]
    ]
    removed = set(of_kind[len(of_kind) // 2 :: 2])
    rest = [event for i, event in enumerate(ON_GPU) if i not in removed]
    path = write(tmp_path / "removed.json", trace(rest, deviceProperties=[H100]))
    assert claims(path) is None
    assert "missing" in str(accel.open_trace(path).completeness)


def test_what_was_launched_before_the_recording_began_is_not_missed(tmp_path):
    first = next(event for event in ON_GPU if event["cat"] == "cuda_runtime")
    rest = [event for event in ON_GPU if event is not first]
    report = accel.open_trace(write(tmp_path / "late.json", trace(rest, deviceProperties=[H100])))
    assert report.completeness.is_complete


def test_a_rank_whose_file_lost_events_is_no_straggler(tmp_path):
    write_ranks(tmp_path, rank_events(), rank_events(loading=250.0), rank_events())
    assert accel.open_trace(tmp_path).straggler.rank == 1
    packed = (tmp_path / "trace.1.json.gz").read_bytes()
    (tmp_path / "trace.1.json.gz").write_bytes(packed[:-200])
    report = accel.open_trace(tmp_path)
    assert (report.straggler, report.damaged, report.missing) == (None, (1,), ())
    assert report.verdict.startswith("The file of rank 1 has lost events")
    assert report.to_dict()["damaged"] == [1]


def test_a_list_alone_as_older_versions_of_torch_wrote_it_is_complete_when_it_is_closed(tmp_path, whole):
    listed = json.dumps(ON_GPU).encode()
    assert claims(write(tmp_path / "list.json", listed + b"\n"))[0] == whole[0]
    assert claims(write(tmp_path / "more.json", listed + b"}")) is None
    assert claims(write(tmp_path / "open.json", listed[:-1])) is None
