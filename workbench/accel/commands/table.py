"""Every command and its options, once. Magics, completion, the command line and help read this table.

An option is a keyword of the Python function of the same name: `--timeout-s 30` is `timeout_s=30`.
"""

from __future__ import annotations

from accel.commands.command import ON, OUT, Argument, Command, seconds, switch
from accel.commands.ddp_command import DDP
from accel.commands.oneccl_command import ONECCL
from accel.commands.sweep_command import SWEEP

COMMANDS: tuple[Command, ...] = (
    Command(
        "profile",
        "run this cell, say where the time of each training step goes, and remember the cell as the workload",
        "%%accel profile --steps 5",
        (
            Argument(
                ("--steps",),
                "how many steps to look into with torch.profiler; all steps are timed (default: 5)",
                (("metavar", "N"), ("type", int), ("default", 5)),
            ),
            switch("--shapes", "record input shapes: FLOPs and bytes of each operation, and the roofline"),
            switch("--stacks", "record the line of your code that led to each operation"),
            switch("--memory", "record allocations: bytes over the step, and the peak by phase and module"),
            OUT,
        ),
        takes_cell=True,
    ),
    Command(
        "try",
        "measure one or more plans against the baseline, on copies: nothing of yours changes",
        '%accel try channels_last autocast(dtype="bf16")+fused_optimizer',
        (
            Argument(
                ("plans",),
                "accelerations joined by +, several plans apart by spaces",
                (("metavar", "PLAN"), ("nargs", "*")),
                completes="plan",
            ),
            ON,
            Argument(
                ("--background",),
                "return at once; the trial goes on and the kernel stays free",
                (("action", "store_false"), ("dest", "wait")),
            ),
            seconds(
                "--budget-s",
                None,
                "end the trial after so many seconds, decided or not (default: 240; with --until 600, with --train-s enough)",
            ),
            seconds("--timeout-s", 60.0, "a worker silent for so long is stuck (default: 60)"),
            Argument(
                ("--until",),
                'train each plan until it is as good on held-out data, as in "accuracy>=0.95"; compares seconds of training',
                (("metavar", "TARGET"), ("default", None)),
            ),
            seconds(
                "--train-s", None, "train each plan for so many seconds; compares quality on held-out data"
            ),
            Argument(
                ("--seeds",),
                "with --until or --train-s: from how many seeds (default: 3, the fewest that have an interval)",
                (("metavar", "N"), ("type", int), ("default", None)),
            ),
            Argument(
                ("--held-out",),
                "with --until or --train-s: the loader that tells quality (default: the one whose name says so)",
                (("metavar", "NAME"), ("default", None)),
                completes="variable",
            ),
            Argument(
                ("--metric",),
                "with --until or --train-s: accuracy, loss, or a function of yours (model, loader) that gives a number",
                (("metavar", "NAME"), ("default", None)),
                completes="variable",
            ),
            Argument(
                ("--better",),
                "with --train-s: which values of the metric are better (default: known by its name)",
                (("choices", ("higher", "lower")), ("default", None)),
            ),
            Argument(
                ("--start",),
                "with --until or --train-s: each seed starts from new weights, or from yours as they are now, with other "
                "batches and dropout (default: new where torch's own initialisation can draw them)",
                (("choices", ("new", "same")), ("default", None)),
            ),
            OUT,
        ),
    ),
    DDP,
    SWEEP,
    Command(
        "batch",
        "find the batch that trains the most samples a second, by measuring; nothing of yours changes",
        "%accel batch --largest 512",
        (
            Argument(
                ("--largest",),
                "try no batch of more samples than this (default: 64 times yours)",
                (("metavar", "N"), ("type", int), ("default", None)),
            ),
            seconds("--budget-s", None, "end the search after so many seconds (default: 360)"),
            OUT,
        ),
    ),
    Command(
        "keep",
        "make a plan live in this notebook: the fastest plan of the last trial whose loss follows, or the one named",
        "%accel keep channels_last",
        (
            Argument(("plan",), "the plan to keep", (("metavar", "PLAN"), ("nargs", "?")), completes="plan"),
            ON,
            OUT,
        ),
    ),
    Command(
        "undo",
        "take back what was kept, all or one acceleration, bit for bit",
        "%accel undo channels_last",
        (
            Argument(
                ("name",),
                "the acceleration to take back (default: all)",
                (("metavar", "NAME"), ("nargs", "?")),
                completes="acceleration",
            ),
            OUT,
        ),
    ),
    Command(
        "findings",
        "show again what costs time in the last profile, and what to do about it",
        "%accel findings",
        (OUT,),
    ),
    Command(
        "history",
        "list the trials of this machine, or what was predicted beside what was measured",
        "%accel history --predictions",
        (
            Argument(
                ("--predictions",),
                "each finding's predicted gain beside the measured one, and how good they have been",
                (("action", "store_true"),),
            ),
            OUT,
        ),
        needs_notebook=False,
    ),
    Command(
        "graph",
        "show a model as operations with parameters, FLOPs and bytes on each, also with one more layer",
        "%accel graph model --add Linear(256) --after linear1",
        (
            Argument(
                ("model",),
                "a variable that holds a model (default: the workload's)",
                (("metavar", "MODEL"), ("nargs", "?")),
                completes="variable",
            ),
            Argument(
                ("inputs",),
                "a variable with what it is called with (default: shapes as in the profiled cell)",
                (("metavar", "INPUTS"), ("nargs", "?")),
                completes="variable",
            ),
            Argument(
                ("--add",),
                "what if this layer were added: Linear(512→256), Linear(256), ReLU, Conv2d(64→64, 3, padding=1)",
                (("metavar", "LAYER"), ("default", None)),
            ),
            Argument(
                ("--after",),
                "the module that the added layer would come after, such as linear1",
                (("metavar", "MODULE"), ("default", None)),
            ),
            Argument(
                ("--onnx",),
                "also write the model to this file, as ONNX",
                (("metavar", "FILE"), ("default", None)),
            ),
            OUT,
        ),
    ),
    Command("status", "say what the workload is and which accelerations are live", "%accel status", (OUT,)),
    Command(
        "export",
        "write what is kept as plain PyTorch, without any dependency on accel",
        "%accel export --to cell",
        (
            Argument(
                ("--to",),
                "the form to write: cell is your own cell with the accelerations written in",
                (("choices", ("cell",)), ("default", "cell")),
            ),
            OUT,
        ),
    ),
    Command(
        "accelerations",
        "list the accelerations: what each does, and why it cannot work here if it cannot",
        "%accel accelerations",
        (OUT,),
        needs_notebook=False,
    ),
    Command(
        "backends",
        "list the backends that models can be compiled by: which can be used here, and why the others cannot",
        "%accel backends",
        (OUT,),
        needs_notebook=False,
    ),
    ONECCL,
    Command(
        "machine",
        "show the hardware and software that measurements are made on",
        "%accel machine",
        (OUT,),
        needs_notebook=False,
    ),
    Command(
        "peaks",
        "measure once what this machine can do at most: FLOP/s by dtype, bytes/s, copies to and from GPUs",
        "%accel peaks --links",
        (
            Argument(
                ("--links",),
                "also all-reduce between processes and copies between GPUs, which takes some seconds more",
                (("action", "store_true"),),
            ),
            Argument(
                ("--again",),
                "measure anew and keep the higher rates: a busy machine makes them too low",
                (("action", "store_true"),),
            ),
            OUT,
        ),
        needs_notebook=False,
    ),
    Command(
        "formats",
        "list number formats: what each can hold, and what the devices of this machine do with it",
        "%accel formats",
        (OUT,),
        needs_notebook=False,
    ),
    Command(
        "affinity",
        "show the cores and which threads, loader workers and ranks are on them, and what is amiss",
        "%accel affinity",
        (
            Argument(
                ("--pid",),
                "show another process, with its workers and ranks, by its number",
                (("metavar", "PID"), ("type", int), ("default", None)),
            ),
            OUT,
        ),
        needs_notebook=False,
    ),
    Command(
        "topology",
        "show how GPUs and network cards are joined, and which GPUs to use together",
        "%accel topology --from topo.txt",
        (
            Argument(
                ("--from",),
                "read what `nvidia-smi topo -m` printed on another machine (- reads standard input)",
                (("metavar", "FILE"), ("default", None), ("dest", "from_file")),
                completes="file",
            ),
            Argument(
                ("--html",),
                "also write it to this file, as a page of its own for a browser",
                (("metavar", "FILE"), ("default", None)),
                completes="file",
            ),
            OUT,
        ),
        takes_cell=True,
        needs_notebook=False,
    ),
    Command(
        "monitor",
        "watch CPUs, memory, this process and its workers, and GPUs while they work: live, and as means and peaks",
        "%accel monitor -o load",
        (
            seconds(
                "--seconds",
                None,
                "end after so many seconds (default: when it is closed; in a terminal, Ctrl-C)",
            ),
            seconds("--every", 0.5, "take a sample every so many seconds (default: 0.5)"),
            OUT,
        ),
        needs_notebook=False,
    ),
    Command(
        "open",
        "read PyTorch profiler traces from a file, or from a folder with one a rank, and report on them",
        "%accel open trace.json.gz",
        (
            Argument(
                ("files",),
                "a .json or .json.gz file, several, or a folder",
                (("metavar", "FILE"), ("nargs", "*")),
                completes="file",
            ),
            OUT,
        ),
        needs_notebook=False,
    ),
    Command(
        "panel",
        "open the workbench: phases, operations, switches and trials, all live",
        "%accel panel",
        (OUT,),
    ),
    Command(
        "doctor",
        "say what is installed, what is missing, and what each missing part would enable",
        "%accel doctor",
        (OUT,),
        needs_notebook=False,
    ),
    Command(
        "help",
        "explain all commands, or one",
        "%accel help try",
        (
            Argument(
                ("topic",),
                "the command to explain",
                (("metavar", "COMMAND"), ("nargs", "?")),
                completes="command",
            ),
        ),
        needs_notebook=False,
    ),
)

COMMAND_NAMES = tuple(command.name for command in COMMANDS)


def command_named(name: str) -> Command:
    """The command of that name; UnknownName with the nearest right word when there is none."""
    from accel.errors import UnknownName
    from accel.techniques.source.other_tools import instead_of

    for command in COMMANDS:
        if command.name == name:
            return command
    raise UnknownName("command", name, COMMAND_NAMES, instead=instead_of(name))
