"""Keyword arguments added to a call in the style in which the call is written: on one line, or one a line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import libcst as cst


def takes_keywords_safely(call: cst.Call, *, positional: int, unless: tuple[str, ...] = ()) -> bool:
    """Whether keywords can be set: no star arguments, at most `positional` positional ones, none of `unless`."""
    given = [argument.keyword.value for argument in call.args if argument.keyword is not None]
    plain = all(argument.star == "" for argument in call.args)
    return plain and len(call.args) - len(given) <= positional and not set(given) & set(unless)


def with_keywords(call: cst.Call, values: dict[str, object]) -> cst.Call:
    """The call with these keywords: values of given ones replaced, the others appended.

    >>> import libcst as cst
    >>> call = cst.parse_expression("Adam(weights, lr=1e-3)")
    >>> cst.Module([]).code_for_node(with_keywords(call, {"fused": True}))
    'Adam(weights, lr=1e-3, fused=True)'
    """
    import libcst as cst

    values = dict(values)
    arguments = []
    for argument in call.args:
        name = argument.keyword.value if argument.keyword is not None else None
        if name in values:
            argument = argument.with_changes(value=cst.parse_expression(repr(values.pop(name))))
        arguments.append(argument)
    for name, value in values.items():
        arguments = _appended(call, arguments, name, value)
    return call.with_changes(args=arguments)


def _appended(call: cst.Call, arguments: list[cst.Arg], name: str, value: object) -> list[cst.Arg]:
    import libcst as cst

    new = cst.Arg(
        value=cst.parse_expression(repr(value)),
        keyword=cst.Name(name),
        equal=cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace("")),
    )
    if not arguments:
        return [new]
    last = arguments[-1]
    gap = _gap_between(call, arguments)
    if isinstance(
        last.comma, cst.Comma
    ):  # `Adam(weights, lr=1e-3,)`: the new one takes over the trailing comma
        end = last.comma.whitespace_after
        return [
            *arguments[:-1],
            last.with_changes(comma=last.comma.with_changes(whitespace_after=_keeping_comment(end, gap))),
            new.with_changes(comma=cst.Comma(whitespace_after=_without_comment(end))),
        ]
    end = last.whitespace_after_arg
    return [
        *arguments[:-1],
        last.with_changes(
            comma=cst.Comma(whitespace_after=_keeping_comment(end, gap)),
            whitespace_after_arg=cst.SimpleWhitespace(""),
        ),
        new.with_changes(whitespace_after_arg=_without_comment(end)),
    ]


def _gap_between(call: cst.Call, arguments: list[cst.Arg]) -> Any:
    """What stands between two arguments of this call: a space, or a line break with indentation."""
    import libcst as cst

    if len(arguments) > 1 and isinstance(arguments[-2].comma, cst.Comma):
        return _without_comment(arguments[-2].comma.whitespace_after)
    if isinstance(call.whitespace_before_args, cst.ParenthesizedWhitespace):
        return _without_comment(call.whitespace_before_args)
    return cst.SimpleWhitespace(" ")


def _without_comment(space: Any) -> Any:
    import libcst as cst

    if isinstance(space, cst.ParenthesizedWhitespace):
        return space.with_changes(first_line=cst.TrailingWhitespace(), empty_lines=())
    return space


def _keeping_comment(end: Any, gap: Any) -> Any:
    """The gap to the next argument, with the comment that stood behind the last one."""
    import libcst as cst

    if not isinstance(end, cst.ParenthesizedWhitespace):
        return gap
    if isinstance(gap, cst.ParenthesizedWhitespace):
        return gap.with_changes(first_line=end.first_line, empty_lines=end.empty_lines)
    has_comment = end.first_line.comment is not None or any(
        line.comment is not None for line in end.empty_lines
    )
    return end.with_changes(last_line=cst.SimpleWhitespace("    ")) if has_comment else gap
