"""Tab after `%accel` or `%%accel`: IPython asks this matcher first, and shows nothing else when it answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from IPython.core.completer import SimpleCompletion, SimpleMatcherResult, context_matcher

from accel.commands import complete, fragment

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

IDENTIFIER = "accel.magic"


def matcher_for(shell: InteractiveShell) -> Callable[[Any], SimpleMatcherResult]:
    """A matcher in IPython's terms over what `accel.commands.complete` says."""

    @context_matcher(identifier=IDENTIFIER, priority=200)  # type: ignore[untyped-decorator]
    def accel_matcher(context: Any) -> SimpleMatcherResult:
        before = context.line_with_cursor[: context.cursor_position]
        if not before.lstrip().startswith(("%accel ", "%%accel ")):
            return {"completions": []}
        words = complete(before, namespace=shell.user_ns)
        return {
            "completions": [SimpleCompletion(word, type="magic") for word in words],
            "matched_fragment": fragment(before),
            "suppress": True,
            "ordered": True,
        }

    return accel_matcher  # type: ignore[no-any-return]


def add_completion(shell: InteractiveShell) -> None:
    """Let this shell complete accel's lines; twice is as once."""
    remove_completion(shell)
    shell.Completer.custom_matchers.append(matcher_for(shell))


def remove_completion(shell: InteractiveShell) -> None:
    """Take the matcher off again."""
    matchers = shell.Completer.custom_matchers
    matchers[:] = [known for known in matchers if getattr(known, "matcher_identifier", "") != IDENTIFIER]
