"""The profiled cell, what is kept and the cells before it, as a plain program; on ranks, with a script that starts it."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from accel.distributed.jobs.cluster import Cluster
from accel.errors import AccelError, in_words
from accel.exporting.cluster_scripts import ClusterScripts, script_for
from accel.exporting.export import Export, export_cell
from accel.exporting.program import Program
from accel.exporting.rank_program import NAME, rank_program
from accel.exporting.whole_script import EarlierCells, inputs_of, needed_cells, without_magics
from accel.plans.plan import Plan
from accel.techniques.source.user_names import nothing_seen
from accel.units import counted
from accel.workload import Workload
from accel.workload.names_used import names_used

_LISTED = 5
_RANKS = "_ranks"


def program_export(workload: Workload, kept: Plan) -> Program:
    """The training as one program, for one process.

    >>> program_export(workload, workbench.kept).save("train.py")

    Raises AccelError outside of a notebook, which alone remembers the cells, and for cells that make no program.
    """
    export = export_cell(workload, kept)
    earlier = _earlier(workload, export)
    head = '"""Trains as a notebook did: its cells, in plain PyTorch."""'
    code = _program([head, *earlier.cells, without_magics(export.code_with_notes)])
    notes = ['To save it: import accel; accel.export("script").save("train.py")', *_notes(export, earlier)]
    return Program(code, tuple(notes))


def cluster_export(workload: Workload, kept: Plan, cluster: Cluster) -> ClusterScripts:
    """A program for ranks, and its script.

    >>> cluster_export(workload, workbench.kept, cluster_named("big")).save("job")

    The program does what `%%accel ddp` does. Raises AccelError as `program_export` does, and where no loader trains.
    """
    _check_can_be_shared(workload, cluster)
    export = export_cell(workload, kept)
    earlier = _earlier(workload, export)
    code = _program([
        '"""Trains data-parallel: a notebook\'s cells in plain PyTorch, one process a rank."""', rank_program(),
        f"{_RANKS} = {NAME}(globals())", *earlier.cells, f"{_RANKS}.start()", without_magics(export.code_with_notes),
        f"{_RANKS}.end()",
    ])  # fmt: skip
    is_on_cpu = workload.objects().device_type == "cpu"
    notes = _notes(export, earlier) + _notes_of_cluster(cluster, is_on_cpu=is_on_cpu)
    return ClusterScripts(cluster.launcher, code, script_for(cluster), tuple(notes))


def _earlier(workload: Workload, export: Export) -> EarlierCells:
    return needed_cells(inputs_of(workload.namespace), workload.cell, workload.namespace, code=export.code)


def _program(parts: Sequence[str]) -> str:
    code = "\n\n".join(part.strip("\n") for part in parts) + "\n"
    try:
        ast.parse(code)
        compile(code, "<program>", "exec", dont_inherit=True)
    except SyntaxError as error:
        line = code.splitlines()[(error.lineno or 1) - 1].strip()
        raise AccelError(
            "Writing a whole script", because=f"this line is not valid Python outside a notebook: {line} ({error.msg})",
            do="Write the line as a script needs it: for example, put an await inside asyncio.run(…).",
        ) from None  # fmt: skip
    return code


def _check_can_be_shared(workload: Workload, cluster: Cluster) -> None:
    because = in_words(nothing_seen(workload, "loaders"))
    if "init_process_group" in names_used(workload):
        because = (
            "The cell makes its own process group, so it distributes the training itself. Export it as it is: "
            "%accel export --to script."
        )
    if because:
        raise AccelError(
            f"%accel export --to {cluster.launcher}",
            because=because,
            do="Or train on one process: --to script.",
        )


def _notes(export: Export, earlier: EarlierCells) -> list[str]:
    left = list(dict.fromkeys(note.acceleration for note in export.notes))
    written = "+".join(name for name in export.plan.split("+") if name.partition("(")[0] not in left)
    is_plain = not written or written == str(Plan())
    notes = ["It trains the cell as it is." if is_plain else f"It trains with {written}."]
    notes += [f"{str(note).splitlines()[0]} The lines are at the program's end." for note in export.notes]
    notes.append(
        "accel added no code that saves the weights: if your cells do not save them, add torch.save(...)."
    )
    if earlier.left_out:
        notes.append(
            f"The program leaves out {counted(earlier.left_out, 'cell')} that the training does not need. If one of them draws "
            "random numbers, the program's results may differ from the notebook's."
        )
    if earlier.touching:
        listed = "; ".join(earlier.touching[:_LISTED])
        more = f" and {len(earlier.touching) - _LISTED} more" if len(earlier.touching) > _LISTED else ""
        notes.append(
            f"The program leaves out these cells, because they train its objects or use training results: "
            f"{listed}{more}. The program therefore starts with untrained weights."
        )
    return notes


def _notes_of_cluster(cluster: Cluster, *, is_on_cpu: bool) -> list[str]:
    notes = [
        "As under %%accel ddp, each rank reads its part of every loader that trains, and reads all other loaders whole.",
        f'To save both files: import accel; accel.export("{cluster.launcher}").save("folder"). Pass the options of your command '
        "as arguments of accel.export, such as nodes=2.",
    ]
    if is_on_cpu:
        notes.append(
            "The program trains where your cells put the model: on the CPU, as here, even on machines with GPUs. To use "
            'GPUs, write device = "cuda" if torch.cuda.is_available() else "cpu" into the cells.'
        )
    if cluster.launcher == "slurm":
        notes.append("Submit it with sbatch. With CONTAINER=image.sif it runs in Apptainer.")
    return notes
