"""The profiled cell, what is kept and the cells before it, as a plain program with a script that starts it on a cluster."""

from __future__ import annotations

from accel.accelerations.ddp import Ddp
from accel.distributed.jobs.cluster import Cluster
from accel.exporting.cluster_scripts import VARIABLES, ClusterScripts, script_for
from accel.exporting.export import export_cell
from accel.exporting.whole_script import EarlierCells, inputs_of, needed_cells
from accel.plans.plan import Plan
from accel.techniques.source.user_names import names_of
from accel.units import counted
from accel.workload import Workload

_LISTED = 5
_ON_CPU = 'dist.init_process_group("gloo")'
_ON_EITHER = 'dist.init_process_group("cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo")'
_END = """
import gc

dist.barrier()
{without_wrappers}
gc.collect()  # while a wrapper holds the group, its threads may abort the program as it ends
dist.destroy_process_group()
"""


def cluster_export(workload: Workload, kept: Plan, cluster: Cluster) -> ClusterScripts:
    """A program and its script.

    >>> cluster_export(workload, workbench.kept, cluster_named("big")).save("job")

    Raises AccelError outside of a notebook, which alone remembers the cells.
    """
    earlier = needed_cells(inputs_of(workload.namespace), workload.cell, workload.namespace)
    export = export_cell(workload, kept.with_(Ddp(max(2, cluster.ranks))))
    without_wrappers = "\n".join(f"{name} = {name}.module" for name in names_of(workload, "models"))
    parts = [
        '"""Trains data-parallel: a notebook\'s cells in plain PyTorch, one process a rank."""\n', VARIABLES, *earlier.cells,
        _without_hints(export.code_with_notes), _END.format(without_wrappers=without_wrappers),
    ]  # fmt: skip
    program = "\n\n".join(part.strip("\n") for part in parts) + "\n"
    return ClusterScripts(
        cluster.launcher,
        program,
        script_for(cluster),
        tuple(_notes(kept, earlier, cluster, is_on_cpu=workload.objects().device_type == "cpu")),
    )


def _without_hints(code: str) -> str:
    """The script beside it says how it is started, and its last lines leave the group. What cells put on a GPU goes by NCCL."""
    hints = ("# For a script:", "# At the end: dist.destroy")
    code = code.replace(_ON_CPU, _ON_EITHER)
    return "\n".join(line for line in code.splitlines() if not line.lstrip().startswith(hints))


def _notes(kept: Plan, earlier: EarlierCells, cluster: Cluster, *, is_on_cpu: bool) -> list[str]:
    notes = [
        'made = accel.export(...) and made.save("folder") write both files; print(made.program) shows the first.'
    ]
    notes.append(f"It trains with {kept}." if kept else "Nothing is kept: it trains the cell as it is.")
    if is_on_cpu:
        notes.append(
            "It trains where your cells put the model: on the CPU, as here, also where there are GPUs. For these, write "
            'device = "cuda" if torch.cuda.is_available() else "cpu" into the cells.'
        )
    notes.append("It writes no weights: add torch.save(...) in rank 0, or save them in the cell.")
    if earlier.left_out:
        notes.append(
            f"{counted(earlier.left_out, 'cell')} of the notebook had no part: what the training reads is made by the others."
        )
    if earlier.touching:
        listed = "; ".join(earlier.touching[:_LISTED])
        more = f" and {len(earlier.touching) - _LISTED} more" if len(earlier.touching) > _LISTED else ""
        notes.append(f"Left out, though they use what it trains, and perhaps change it: {listed}{more}.")
    if cluster.launcher == "slurm":
        notes.append("Submit it with sbatch. With CONTAINER=image.sif it runs in Apptainer.")
    return notes
