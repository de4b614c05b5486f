"""Tools of other makers that people ask for by name, and what of ours serves in their place."""

from __future__ import annotations

_IPEX = (
    "Write %accel try ipex, which runs it in an environment of its own. Intel ended it, and torch has taken up what it did: "
    "%accel try channels_last+autocast+compile_model."
)
_NNI = (
    "NNI is no longer developed. Its pruning with speed-up is here: write %accel try prune. "
    "For searches over settings there is %%accel sweep."
)
INSTEAD = {"ipex": _IPEX, "intel_extension_for_pytorch": _IPEX, "nni": _NNI}


def instead_of(name: str) -> str:
    """What serves in place of a tool that is not in the catalogue; empty where nothing is known.

    >>> instead_of("nni")
    'NNI is no longer developed. Its pruning with speed-up is here: write %accel try prune. ...'
    """
    return INSTEAD.get(name.lower(), "")
