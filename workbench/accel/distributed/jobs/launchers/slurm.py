"""SLURM: the job's script goes to sbatch, its ranks are the tasks of one srun; squeue says how far it is."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass

from accel.distributed.jobs.cluster import NO_LIMIT, Cluster, LauncherName
from accel.distributed.jobs.job_folder import JobDescription, JobFolder, Launched
from accel.distributed.jobs.launched_place import RESTARTS_A_START
from accel.distributed.jobs.launchers.here import how_it_ended
from accel.distributed.jobs.launchers.launcher import Blame, LaunchState, framed, last_blame, words
from accel.errors import AccelError

_ASK_TIMEOUT_S = 30
_LEAD_S, _LEAST_LEAD_S = 300, 60  # SLURM looks once a minute
_SRUN_ENDS_S = 45  # once a rank has failed: it ends the others itself, where it can reach them
_NODE_LOST = "node_lost"  # a file in the job's folder
_NO_CONTROLLER = ("Unable to contact", "configuration source", "Connection refused")
_WAITING = ("PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_HOLD", "SPECIAL_EXIT", "SUSPENDED", "STOPPED")
_RUNNING = ("RUNNING", "COMPLETING", "SIGNALING", "STAGE_OUT", "RESIZING")
_IN_WORDS = {
    "Resources": "for nodes to be free",
    "Priority": "behind jobs of higher priority",
    "QOSMaxJobsPerUserLimit": "for your other jobs: your limit is reached",
    "PartitionTimeLimit": "for ever: it asks for more time than its partition allows",
    "PartitionNodeLimit": "for ever: it asks for more nodes than its partition has",
    "ReqNodeNotAvail": "for nodes that are down or reserved",
    "BeginTime": "a minute or two, as every job that is started again",
}


@dataclass(frozen=True)
class Slurm:
    """`sbatch launch.sh`, in which `srun` starts one task a rank."""

    name: LauncherName = "slurm"
    patience_s: float = 150.0  # it finds out by itself that a node is lost

    def check(self, cluster: Cluster) -> None:
        """Its programs have to be on PATH."""
        for program in ("sbatch", "squeue", "scontrol", "scancel"):
            _program(program)

    def script(self, folder: JobFolder, description: JobDescription) -> str:
        """The lines of #SBATCH, and srun."""
        cluster = description.cluster
        output = str(folder.launcher_output).replace("%", "%%")
        head = [
            *request_lines(cluster, name=folder.name, output=output), "#SBATCH --open-mode=append",
            f"#SBATCH --signal=B:USR1@{_before_the_limit_s(cluster)}",
            "#SBATCH --requeue" if description.max_restarts else "#SBATCH --no-requeue",
        ]  # fmt: skip
        ranks = ("srun", "--mpi=none", "--kill-on-bad-exit=1", "--cpu-bind=none")
        step = words(*ranks, cluster.interpreter, "-u", str(folder.script))
        return framed(
            folder, cluster, _steps(folder, description.max_restarts, step), head=head, starter="sbatch"
        )

    def start(self, folder: JobFolder, description: JobDescription) -> Launched:
        """Submit it."""
        said = _asked([_program("sbatch"), "--parsable", str(folder.launch_script)], is_new=True)
        job, _, cluster = said.stdout.strip().partition(";")
        if said.returncode or not _is_job(said.stdout.strip()):
            silent = any(words in said.stderr for words in _NO_CONTROLLER)
            raise AccelError(
                "Submitting the job to SLURM", because=_last(said.stderr) or _last(said.stdout) or "sbatch says nothing",
                do="No SLURM answers here: see what sinfo says in a terminal, ask those who run it, or use --launcher torchrun."
                if silent else f"Change what it asks for; the script is {folder.launch_script}.",
            )  # fmt: skip
        return Launched(job=f"{job};{cluster}" if cluster else job)

    def look(self, launched: Launched, folder: JobFolder) -> LaunchState:
        """What squeue says; once it has forgotten the job, what scontrol and the job's own exit status say."""
        job, where = _place(launched)
        said = _asked([_program("squeue"), *where, "--noheader", "--jobs", job, "--format", "%T|%r|%N"])
        state, _, rest = (
            said.stdout.strip().splitlines()[-1].partition("|") if said.stdout.strip() else ("", "", "")
        )
        reason, _, nodes = rest.partition("|")
        if state in _WAITING:
            return LaunchState("queued", f"Queued in SLURM as job {job}, {_waits(reason)}")
        if state in _RUNNING:
            return LaunchState("running", hosts=nodes)
        if (
            said.returncode and "Invalid job id" not in said.stderr
        ):  # the controller is busy, or away for a moment
            return LaunchState("running", f"SLURM does not answer ({_last(said.stderr)})")
        if (folder.path / _NODE_LOST).exists():
            return LaunchState("ended", "srun waited for a node that does not answer any more")
        if not state:
            shown = _asked([_program("scontrol"), *where, "--oneliner", "show", "job", job]).stdout
            found = re.search(r"JobState=(\w+)", shown)
            state = found[1] if found else ""
        if state in ("", "COMPLETED", "FAILED"):
            return LaunchState("ended", how_it_ended(folder))
        return LaunchState("ended", f"SLURM ended it: {state.lower().replace('_', ' ')}")

    def cancel(self, launched: Launched, folder: JobFolder) -> None:
        """Take it out of the queue, or end it."""
        job, where = _place(launched)
        said = _asked([_program("scancel"), *where, "--me", job])
        if said.returncode and "Invalid job id" not in said.stderr:
            raise AccelError(
                f"Cancelling {folder.name}", because=_last(said.stderr), do=f"Try scancel {job} in a terminal."
            )  # fmt: skip

    def blames(self, text: str) -> Blame | None:
        """The first task that srun saw end."""
        return last_blame(
            r"task (?P<rank>\d+): (?P<how>Killed|Exited[^\n]*|Aborted|Segmentation fault)", text
        )


def _steps(folder: JobFolder, max_restarts: int, step: str) -> list[str]:
    """Before its time is over the job is queued again, where it may be; else its ranks stop and answer."""
    stop, again = f"touch {folder.wish_to_stop.name}", 'scontrol requeue "$SLURM_JOB_ID"'
    may = f'[ "${{SLURM_RESTART_COUNT:-0}}" -lt {max_restarts} ] && [ ! -e {folder.wish_to_cancel.name} ]'
    answers = f'ranks/*.answer-"$((start * {RESTARTS_A_START}))".json'
    lost = [
        "# Once more, where a rank was lost; not where one failed by itself.",
        f"if [ \"$status\" -ne 0 ] && {may} && ! grep -qs '\"is_communication\": false' {answers}; then", f"  {again}", "fi",
    ]  # fmt: skip
    near_the_end = f"  if {may}; then {again} || {stop}; else {stop}; fi" if max_restarts else f"  {stop}"
    return [
        'MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)', "export MASTER_ADDR",
        "# shellcheck disable=SC2317  # the trap calls it", "near_the_end() {", near_the_end, "}",
        "trap near_the_end USR1", f"{step} &", "step=$!",
        "# srun waits for ever for a node that was lost and is back without its ranks.",
        "(", "  trap 'exit 0' USR1", f"  until grep -qs '\"is_communication\"' {answers}; do sleep 5; done",
        f"  sleep {_SRUN_ENDS_S}", f"  touch {_NODE_LOST}", '  kill -KILL "$step"', ") &", "watch=$!",
        'wait "$step"', "status=$?",
        'while kill -0 "$step" 2>/dev/null; do wait "$step"; status=$?; done  # a signal ends a wait, not the step',
        'kill "$watch" 2>/dev/null', *(lost if max_restarts else []), '(exit "$status")',
    ]  # fmt: skip


def request_lines(cluster: Cluster, *, name: str, output: str) -> list[str]:
    """What a batch script asks SLURM for.

    >>> request_lines(Cluster(launcher="slurm", nodes=2, time="1:00:00"), name="train", output="train-%j.txt")[-1]
    '#SBATCH --time=1:00:00'
    """
    asked = {
        "job-name": name, "nodes": cluster.nodes, "ntasks-per-node": cluster.ranks_of_node, "output": output,
        "partition": cluster.partition, "gpus-per-node": cluster.gpus_per_node, "time": cluster.time,
    }  # fmt: skip
    lines = [f"#SBATCH --{option}={shlex.quote(str(value))}" for option, value in asked.items() if value]
    return [*lines, *(f"#SBATCH {shlex.quote(option)}" for option in cluster.options)]


def seconds_of(time: str) -> int | None:
    """A time as SLURM writes it: minutes, minutes:seconds, hours:minutes:seconds, or days before a dash.

    >>> seconds_of("1:30:00"), seconds_of("90"), seconds_of("1-0"), seconds_of("")
    (5400, 5400, 86400, None)

    None without a limit.
    """
    if not time or time.lower() in NO_LIMIT:
        return None
    days, dash, rest = time.rpartition("-")
    parts = [int(part) for part in rest.split(":")]
    parts += [0] * (3 - len(parts)) if dash else []
    hours, minutes, seconds = ([0, *parts, 0] if len(parts) == 1 else [0, *parts])[-3:]
    return ((int(days or 0) * 24 + hours) * 60 + minutes) * 60 + seconds


def _before_the_limit_s(cluster: Cluster) -> int:
    """Ranks hear of a wish within a minute where disks are shared, end their step, and write their state."""
    limit_s = seconds_of(cluster.time)
    return _LEAST_LEAD_S if limit_s is None else min(_LEAD_S, max(_LEAST_LEAD_S, limit_s // 4))


def _waits(reason: str) -> str:
    return f"waits {_IN_WORDS[reason]}" if reason in _IN_WORDS else f"waits ({reason})" if reason else "waits"


def _program(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise AccelError(
            "--launcher slurm", because=f"there is no {name} on PATH",
            do="Open the notebook on a machine from which you submit jobs, or use --launcher torchrun.",
        )  # fmt: skip
    return found


def _is_job(text: str) -> bool:
    return re.fullmatch(r"\d+(;[\w.-]+)?", text) is not None


def _place(launched: Launched) -> tuple[str, list[str]]:
    """The number of the job, and the option that names its cluster, where SLURM has several."""
    if not _is_job(launched.job):
        raise AccelError(
            "Looking for the job", because=f"{launched.job!r} is no number of a job in SLURM", do="Remove it: %accel jobs remove."
        )  # fmt: skip
    job, _, cluster = launched.job.partition(";")
    return job, [f"--clusters={cluster}"] if cluster else []


def _asked(command: Sequence[str], *, is_new: bool = False) -> subprocess.CompletedProcess[str]:
    """A new job does not inherit what the notebook's own job was given, where that runs in SLURM itself."""
    own = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("SLURM_") or name == "SLURM_CONF"
    }
    try:
        return subprocess.run(
            command, capture_output=True, text=True, timeout=_ASK_TIMEOUT_S, check=False, env=own if is_new else None
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(command, 1, "", f"no answer within {_ASK_TIMEOUT_S} s")


def _last(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1].strip() if lines else ""
