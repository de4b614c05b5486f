"""The report on a Profile, in sections: one file a section, with its text and its HTML; `sections.py` lists them in order.

section.py       Section: what a section is
sections.py      SECTIONS: all of them, in reading order
parts.py         tables that fold away, bars in a phase's colour, for the HTML
headline.py      how long a step takes
steps.py         every step of the run: warm-up, profiled and slow ones marked
phases.py        where a step goes
findings.py      what to do about it
loaders.py       what making a batch consists of
operations.py    the most expensive operations
modules.py       the most expensive modules
lines.py         what each line of the user's code costs
memory.py        bytes held over the profiled steps
synchronisations.py  where tensors are read back
compilation.py   what torch.compile did
roofline.py      how near operations come to what this machine can do
notes.py         what a reader must know before believing it
"""
