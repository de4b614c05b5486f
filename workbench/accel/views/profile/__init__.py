"""A Profile shown: the report in sections, one file a section with its text and its HTML, and figures.

report.py        SECTIONS in reading order and FIGURES by kind: the text, HTML and figures of a Profile
section.py       Section: what a section is
parts.py         tables that fold away, bars in a phase's colour, for the HTML
steps.py         every step of the run: warm-up, profiled and slow ones marked
phases.py        where a step goes
findings.py      what to do about it; the view of Findings, too
loaders.py       what making a batch consists of
operations.py    the most expensive operations
modules.py       the most expensive modules
roofline.py      how near operations come to what this machine can do; the view of Roofline, too
devices.py       each GPU: busy or idle and why, copies, kernels; the view of DeviceActivity, too
lines.py         what each line of the user's code costs
memory.py        bytes held over the profiled steps
synchronisations.py  where tensors are read back
compilation.py   what torch.compile did
figures/         one file a kind, in plotly
"""
