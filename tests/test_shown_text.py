"""What a terminal would obey, or what turns a line round, reaches neither terminal nor page, wherever it comes from."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import pytest

import accel
from accel.cli import answer
from accel.errors import AccelError, UnknownName, WorkerError
from accel.html_parts import text
from accel.shown_text import LONGEST_NAME, one_line, shown
from tests.profiling.gpu_trace import GEMM, GpuTrace, training_on_gpu
from tests.traces.writing import H100, as_torch_writes, span, trace, training_events, write

HOSTILE = "\x1b]0;title\x07\x1b[2Jaten::\u202emm\r\x00\x9b\u2066\ud800"
OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def test_each_such_character_is_written_out_and_all_others_stay():
    assert not OBEYED.search(shown(HOSTILE))
    assert shown("\x1b[1m") == "\\x1b[1m"
    plain = "tab\there\nline · ▲ 1.2× ü 漢字 👩‍🔬 עברית"
    assert shown(plain) is plain
    assert one_line("a\nb") == "a\\nb"
    assert len(one_line("x" * 5_000_000)) == LONGEST_NAME


@pytest.mark.parametrize(
    "error",
    [
        AccelError(f"open {HOSTILE}", because=HOSTILE, do=HOSTILE),
        UnknownName("command", HOSTILE, ["try"]),
        WorkerError("try", because="a worker raised", do="Mend it.", traceback_text=f"ValueError: {HOSTILE}"),
    ],
)
def test_errors_are_written_out(error):
    assert not OBEYED.search(str(error))
    assert not OBEYED.search("".join(error._render_traceback_()))


def test_html_is_written_out():
    assert not OBEYED.search(text(HOSTILE))


def hostile_trace(tmp_path):
    events = [
        *training_events(6),
        *(span(HOSTILE, 1000.0 * n + 300, 90.0, sequence=1, forward=0) for n in range(6)),
    ]
    events.append(span("aten::" + "x" * 5_000_000, 5130, 100.0, sequence=1, forward=0))
    gpus = [{"name": f"GPU {HOSTILE} {n}"} for n in range(3000)]
    return write(tmp_path / "hostile\x1b[31m.json", trace(events, host_name=HOSTILE, deviceProperties=gpus))


def test_names_in_a_trace_reach_terminal_and_page_written_out_and_short(tmp_path):
    report = accel.open_trace(hostile_trace(tmp_path))
    for said in (str(report), report._repr_mimebundle_()["text/html"], answer(["open", report.source.path])):
        assert not OBEYED.search(said)
        assert "aten::\\u202emm" in said
    assert len(str(report)) < 10_000
    assert len(json.dumps(report.to_dict())) < 1_000_000


def test_thousands_of_gpus_are_shown_on_a_screen(tmp_path):
    made = GpuTrace()
    for _ in range(4):
        made.phase("forward", 0, 500)
        made.launch("aten::mm", 10, GEMM, 20, 400)
        made.phase("backward", 500, 900)
        made.end_step()
    events = as_torch_writes(made.events)
    (kernel, *_) = [event for event in events if event["cat"] == "kernel"]
    for number in range(1, 400):
        events.append(
            {
                **kernel,
                "dur": 1.0,
                "args": {**kernel["args"], "device": number, "correlation": 0, "External id": 0},
            }
        )
    report = accel.open_trace(write(tmp_path / "many.json", trace(events, deviceProperties=[H100])))
    assert len(report.devices) == 400
    assert str(report).count("On the GPU") == 8
    assert "On the GPU (cuda:0)" in str(report)
    assert "392 GPUs that were less busy are not shown" in report._repr_mimebundle_()["text/html"]


def test_opening_a_trace_in_a_shell_imports_no_torch(tmp_path):
    files = [
        write(tmp_path / "cpu.json", trace(training_events(10))),
        write(
            tmp_path / "gpu.json", trace(as_torch_writes(training_on_gpu().events), deviceProperties=[H100])
        ),
    ]
    code = "import sys; from accel.cli import answer; print(answer(['open', sys.argv[1]])); assert 'torch' not in sys.modules"
    for file in files:
        ran = subprocess.run(
            [sys.executable, "-c", code, str(file)], capture_output=True, text=True, check=False
        )
        assert ran.returncode == 0, ran.stderr
        assert "a step" in ran.stdout
