"""Every option of every command with values that make no sense: a result or an error in words, at once."""

from __future__ import annotations

import itertools
import math

import pytest

from accel.accelerations import CATALOGUE
from accel.commands import COMMANDS, Place, parse
from accel.errors import AccelError
from accel.plans.knobs import knobs_of
from accel.plans.plan import Plan
from accel.workbench import Workbench

VALUES = [
    "", " ", "0", "-1", "-0.5", "nan", "inf", "-inf", "1e308", "1e-320", "99999999999999999999", "1,2,x", "½", "٣", "None",
    "\0", "a\0b", "\x1b[31m", "\u202egpj", "\ud800", "x" * 5000, "[" * 500, "../../..", ".", "/dev/zero", "/dev/null",
    "/proc/self/mem", "model", "for", "print", "accuracy>=", "accuracy>=nan", "ddp(n=2)", "--", "=",
]  # fmt: skip
LONGEST = 1200
# What a cell belongs to, what a value would start that takes long, or reads from this process; parsing them is asked above.
NOT_RUN = {
    "profile",
    "sweep",
    "cluster",  # starts ranks for each line, which took minutes beside other tests
    "peaks",
    "oneccl",
    "monitor",
    "panel",
    "doctor",
    "machine",
    "formats",
    "backends",
}


def lines(command):
    """Each argument with each value, the others as they would be written."""
    needed = {"try": ["channels_last"], "open": ["trace.json"]}.get(command.name, [])
    for argument, value in itertools.product(command.arguments, VALUES):
        if argument.takes_value:
            yield [command.name, *needed, argument.flags[0], value]
            yield [command.name, *needed, f"{argument.flags[-1]}={value}"]
        elif not argument.is_option:
            yield [command.name, value]
    for flag in ("-h", "--help", *(flag for option in command.options for flag in option.flags)):
        yield [command.name, *needed, flag]
        yield [command.name, *needed, flag, flag]
        yield [command.name, *needed, f"{flag}="]


def outcome(call):
    """What came of it: the result, or the error, which has to be one in words and of a length that can be read."""
    try:
        return call()
    except AccelError as error:
        refused = error
    assert refused.because
    assert refused.do
    assert len(str(refused)) < LONGEST, str(refused)[:200]
    assert "\x1b" not in str(refused)
    return refused


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name)
@pytest.mark.parametrize("program", ["%accel", "accel"])
def test_every_option_with_every_value_is_parsed_or_refused_in_words(command, program):
    for words in lines(command):
        outcome(lambda words=words: parse(words, program=program))


@pytest.mark.parametrize(
    "command", [each for each in COMMANDS if each.name not in NOT_RUN], ids=lambda command: command.name
)
def test_what_is_parsed_runs_or_is_refused_in_words(command, tmp_path, monkeypatch):
    (deep := tmp_path / "some" / "folder" / "below").mkdir(parents=True)  # ../../.. holds no traces of others
    monkeypatch.chdir(deep)
    place = Place(Workbench({"model": object()}))
    for words in lines(command):
        options = outcome(lambda words=words: parse(words))
        if not isinstance(options, AccelError) and not options.help:
            outcome(lambda options=options: str(command.run(options, place))[:100])


NUMBERS = [0, -1, 10**20, 1e308, -1e308, 5e-324, math.inf, math.nan, True]


@pytest.mark.parametrize("entry", CATALOGUE, ids=lambda entry: entry.name)
def test_knobs_with_numbers_that_make_no_sense_are_refused_where_the_plan_is_written(entry):
    for knob in knobs_of(entry):
        for number in NUMBERS:
            written = f"{entry.name}({knob.name}={'1e999' if number == math.inf else number})"
            found = outcome(lambda written=written: Plan.parse(written))
            if isinstance(number, (int, float)) and not abs(number) <= 1e6:
                assert isinstance(found, AccelError), written


def test_a_knob_given_twice_is_refused():
    with pytest.raises(AccelError, match="factor is given twice"):
        Plan.parse("batch_size(factor=4,factor=8)")
    with pytest.raises(AccelError, match="on is given twice"):
        Plan.parse('channels_last(on="a",on="b")')
