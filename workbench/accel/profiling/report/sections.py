"""The sections of the report in reading order. A new one is a file beside this one, and a line in SECTIONS."""

from __future__ import annotations

from accel.profiling.report.compilation import COMPILATION
from accel.profiling.report.devices import DEVICES
from accel.profiling.report.findings import FINDINGS
from accel.profiling.report.headline import HEADLINE
from accel.profiling.report.lines import LINES
from accel.profiling.report.loaders import LOADERS
from accel.profiling.report.memory import MEMORY
from accel.profiling.report.modules import MODULES
from accel.profiling.report.notes import NOTES
from accel.profiling.report.operations import OPERATIONS
from accel.profiling.report.phases import PHASES
from accel.profiling.report.roofline import ROOFLINE
from accel.profiling.report.section import Section
from accel.profiling.report.steps import STEPS
from accel.profiling.report.synchronisations import SYNCHRONISATIONS

# fmt: off
SECTIONS: tuple[Section, ...] = (
    HEADLINE,      # how long a step takes
    STEPS,         # every step of the run: which were left out
    PHASES,        # where it goes
    FINDINGS,      # what to do about it
    LOADERS,       # what making a batch consists of
    OPERATIONS,    # the most expensive operations
    MODULES,       # the most expensive modules
    ROOFLINE,      # how near operations come to what this machine can do
    DEVICES,       # each GPU: busy or idle and why, copies, kernels, and whether its rows are complete
    LINES,         # the user's lines that led to them (--stacks)
    MEMORY,        # bytes held over the steps (--memory)
    SYNCHRONISATIONS,  # where tensors are read back
    COMPILATION,   # what torch.compile did
    NOTES,         # what a reader must know before believing it, and the machine
)
# fmt: on
