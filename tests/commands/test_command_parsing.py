"""From a line to Python keywords, or to an error that names the nearest right word."""

from __future__ import annotations

import inspect

import pytest
from hypothesis import given
from hypothesis import strategies as st

import accel
from accel.commands import COMMANDS, help_on, parse, split_words
from accel.errors import AccelError, UnknownName
from accel.plans.plan import Plan


def test_plans_keep_their_quotes_and_may_have_spaces() -> None:
    options = parse('try autocast(dtype="bf16", x=1) + channels_last fused_optimizer --timeout-s 30 -o best')
    assert options.plans == ['autocast(dtype="bf16", x=1)+channels_last', "fused_optimizer"]
    assert (options.timeout_s, options.budget_s, options.wait, options.out) == (30.0, None, True, "best")


def test_a_plan_in_quotes_is_the_plan() -> None:
    assert parse("""keep 'autocast(dtype="bf16")'""").plan == 'autocast(dtype="bf16")'


def test_options_may_stand_between_plans() -> None:
    options = parse("try channels_last --background autocast")
    assert options.plans == ["channels_last", "autocast"]
    assert options.wait is False


def test_an_empty_line_is_no_command_and_help_is_one() -> None:
    assert parse("").command == ""
    assert parse("-h").command == "help"
    assert parse("help try").topic == "try"


@pytest.mark.parametrize(
    ("line", "nearest"),
    [
        ("profil", "'profile'"),
        ("tyr channels_last", "'try'"),
        ("profile --stpes 3", "'--steps'"),
        ("export --too x", "'--to'"),
        ("try a --timeout 3", "'--timeout-s'"),
        ("export --to cel", "'cell'"),
    ],
)
def test_a_wrong_word_gets_the_nearest_right_one(line: str, nearest: str) -> None:
    with pytest.raises(UnknownName, match=f"Did you mean {nearest}"):
        parse(line)


@pytest.mark.parametrize(
    ("word", "serves"), [("intel_extension_for_pytorch", "%accel try ipex"), ("nni", "%accel try prune")]
)
def test_tools_of_other_makers_are_answered_with_what_serves_instead(word: str, serves: str) -> None:
    for read in (parse, Plan.parse):
        with pytest.raises(UnknownName, match=serves) as unknown:
            read(word)
        assert "Known:" not in str(unknown.value)


@pytest.mark.parametrize(
    ("line", "because"),
    [
        ("keep a b", "'b' is one word too many"),
        ("profile --steps x", "invalid int value: 'x'"),
        ("try", "no plan is named"),
        ("open", "no file is named"),
        ("profile --steps 0", "at least one step"),
        ("profile --steps -3", "at least one step"),
        ("try a --budget-s 0", "a time is a number of seconds above 0"),
        ("try a --budget-s nan", "a time is a number of seconds above 0"),
        ("try a --timeout-s inf", "a time is a number of seconds above 0"),
        ("try a --timeout-s=-1", "a time is a number of seconds above 0"),
        ("status -o 2x", "not a name for a variable"),
        ("profile --steps", "expected one argument"),
    ],
)
def test_other_mistakes_say_why_and_what_to_do(line: str, because: str) -> None:
    with pytest.raises(AccelError, match=because) as caught:
        parse(line)
    assert caught.value.do


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name)
def test_every_option_is_a_keyword_of_the_function_of_that_name(command) -> None:
    keywords = set(inspect.signature(getattr(accel, command.function)).parameters)
    words = {"try": "try x", "open": "open x"}.get(command.name, command.name)
    options = set(vars(parse(words))) - {"command", "help", "out", "full"}
    assert {"command" if option == "topic" else option for option in options} <= keywords


def test_the_functions_refuse_the_same_numbers() -> None:
    for wrong in (0, -1.0, float("nan"), float("inf")):
        with pytest.raises(AccelError, match="above 0"):
            accel.try_("channels_last", budget_s=wrong)
        with pytest.raises(AccelError, match="above 0"):
            accel.try_("channels_last", timeout_s=wrong)
    with pytest.raises(AccelError, match="at least one step"):
        accel.profile("pass", steps=0)
    with pytest.raises(AccelError, match="a number of steps is a whole number"):
        accel.profile("pass", steps=2.5)
    with pytest.raises(AccelError, match="neither True nor False"):
        accel.profile("pass", memory="yes")


def test_what_a_profile_looks_into_is_off_unless_asked_for():
    assert vars(parse("profile")) | {"shapes": False, "stacks": False, "memory": False} == vars(
        parse("profile")
    )
    asked = parse("profile --memory --steps 3 --stacks --shapes")
    assert (asked.steps, asked.shapes, asked.stacks, asked.memory) == (3, True, True, True)


def test_the_catalogue_is_also_the_command_that_lists_it() -> None:
    listed = str(accel.accelerations())
    assert [entry.name for entry in accel.accelerations.CATALOGUE if entry.name not in listed] == []


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name)
def test_every_command_is_explained_with_its_options_and_an_example(command) -> None:
    text = " ".join(str(help_on(command.name)).split())
    assert " ".join(command.example.split()) in text
    assert all(option.flags[-1] in text for option in command.options)
    assert all(" ".join(option.help.split()) in text for option in command.options)  # a % is a %
    assert f"  {command.name} " in str(help_on())
    assert parse(f"{command.name} -h").help


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name)
def test_every_example_can_be_parsed(command) -> None:
    line = command.example.lstrip("%").removeprefix("accel ")
    assert parse(line).command == command.name


PLAIN = st.text(
    st.characters(exclude_characters="\"'()[]{}+", exclude_categories=("Z", "C")), min_size=1, max_size=8
)


@given(st.lists(PLAIN))
def test_plain_words_are_split_at_spaces(words: list[str]) -> None:
    assert split_words("  ".join(words)) == words


@given(st.text(max_size=60))
def test_any_line_is_parsed_or_refused_as_ours(line: str) -> None:
    try:
        known = parse(line).command
    except AccelError as error:
        known, refusal = "", error.do
        if not refusal:
            raise
    assert known == "" or known in {command.name for command in COMMANDS}
