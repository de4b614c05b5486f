"""Where a job runs: as it is asked for, and as accel.toml has it."""

from __future__ import annotations

from pathlib import Path

import pytest

from accel.distributed.jobs.cluster import Cluster
from accel.distributed.jobs.cluster_asked import cluster_asked
from accel.distributed.jobs.cluster_file import cluster_named, clusters
from accel.distributed.jobs.launched_place import _VARIABLES, place_of
from accel.distributed.jobs.launchers.slurm import request_lines, seconds_of
from accel.distributed.jobs.meeting import interface_among
from accel.distributed.ranks.rank_place import RankPlace
from accel.errors import AccelError
from accel.exporting.training_on_ranks import VARIABLES

FILE = """
[clusters.big]
launcher = "slurm"
nodes = 4
ranks_per_node = 8
gpus_per_node = 8
time = "2:00:00"
setup = ["module load cuda"]
env = { NCCL_DEBUG = "WARN" }

[clusters.desk]
launcher = "mpirun"
hosts = "left:2,right:2"
"""


@pytest.fixture
def project(tmp_path, monkeypatch):
    (tmp_path / "accel.toml").write_text(FILE)
    (tmp_path / "notebooks").mkdir()
    (tmp_path / ".git").mkdir()
    monkeypatch.chdir(tmp_path / "notebooks")
    return tmp_path


def asked(**given):
    return cluster_asked(**({"n": None} | given))


def test_a_cluster_is_named_in_one_word_and_changed_for_one_run(project):
    assert cluster_named("big").ranks == 32
    assert asked(on="big", nodes=2).ranks == 16
    assert asked(on="big", n=8).ranks_per_node == 2
    assert asked(on="desk").hosts == (("left", 2), ("right", 2))


def test_without_a_launcher_ranks_are_the_notebooks_own():
    assert asked(n=4) is None
    assert asked(n=4, launcher="local") is None


def test_ranks_come_from_what_was_asked_for():
    assert asked(launcher="torchrun").ranks == 2
    assert asked(launcher="torchrun", n=4).ranks == 4
    assert asked(launcher="mpirun", hosts="h1:4,h2:4").ranks == 8
    assert asked(launcher="slurm", nodes=2, gpus_per_node=8).ranks == 16
    assert asked(launcher="slurm", nodes=2, n=6).ranks_per_node == 3


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"hosts": "h1"}, "Say what starts them there"),
        ({"launcher": "torchrum"}, "Did you mean 'torchrun'"),
        ({"launcher": "torchrun", "nodes": 2}, "only SLURM gives machines by number"),
        ({"launcher": "slurm", "hosts": "h1"}, "SLURM chooses the machines"),
        ({"launcher": "mpirun", "hosts": "h1:two"}, "'two' is no number of ranks"),
        ({"launcher": "mpirun", "hosts": "h1,h1"}, "named twice"),
        ({"launcher": "mpirun", "hosts": "h1;reboot"}, "no name of a host"),
        ({"launcher": "mpirun", "hosts": "h1:2,h2:2", "n": 3}, "the hosts take 4 ranks"),
        ({"launcher": "slurm", "nodes": 2, "n": 3}, "each node takes as many"),
        ({"launcher": "slurm", "partition": "a b"}, "letters, digits"),
        ({"launcher": "slurm", "time": "soon"}, "no time as SLURM writes it"),
        ({"launcher": "slurm", "time": "1-UNLIMITED"}, "or UNLIMITED"),
        ({"on": "nowhere"}, "describes a cluster"),
    ],
)
def test_what_does_not_go_together_says_why(given, why, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(AccelError, match=why):
        asked(**given)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[clusters.a]\nlauncher = 'pbs'", "'pbs'"),
        ("[clusters.a]\nnode = 2", "Did you mean nodes"),
        ("[clusters.a]\nfrobs = 2", "There are: launcher"),
        ("[clusters.a]\nnodes = 'two'", "int"),
        ("[clusters", "accel.toml"),
        ('[clusters.a]\noptions = ["--x\\nrm"]', "one line"),
    ],
)
def test_a_file_with_a_mistake_names_file_and_mistake(text, why, project):
    (project / "accel.toml").write_text(text)
    with pytest.raises(AccelError, match=why) as error:
        cluster_named("a")
    assert str(project / "accel.toml") in str(error.value) or "one line" in why


MPI = {f"OMPI_COMM_WORLD_{name}": value for name, value in
       {"RANK": "5", "SIZE": "8", "LOCAL_RANK": "1", "LOCAL_SIZE": "4"}.items()}  # fmt: skip
SLURM = {"SLURM_PROCID": "5", "SLURM_NTASKS": "8", "SLURM_LOCALID": "1", "SLURM_TASKS_PER_NODE": "4(x2)",
         "SLURM_NODEID": "1"}  # fmt: skip
TORCHRUN = {"RANK": "5", "WORLD_SIZE": "8", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "4"}
PMI = {"PMI_RANK": "5", "PMI_SIZE": "8"}
INTEL = {**PMI, "MPI_LOCALRANKID": "1", "MPI_LOCALNRANKS": "4"}
MVAPICH = {**PMI, "MV2_COMM_WORLD_LOCAL_RANK": "1", "MV2_COMM_WORLD_LOCAL_SIZE": "4"}
MPICH = {**PMI, "PMI_LOCAL_RANK": "1", "PMI_LOCAL_SIZE": "4"}
CRAY = {**PMI, "PALS_LOCAL_RANKID": "1", "PMI_LOCAL_SIZE": "4"}


@pytest.mark.parametrize(
    ("launcher", "variables"),
    [
        ("torchrun", TORCHRUN), ("mpirun", MPI), ("mpirun", INTEL), ("mpirun", MVAPICH), ("mpirun", MPICH), ("mpirun", CRAY),
        ("slurm", SLURM),
    ],
)  # fmt: skip
def test_the_variables_of_each_launcher_give_the_same_place(launcher, variables):
    stray = {"RANK": "0", "WORLD_SIZE": "1"} if launcher != "torchrun" else {"SLURM_PROCID": "0"}
    place, attempt = place_of(launcher, {**stray, **variables, "MASTER_ADDR": "node1"})
    assert (place, attempt) == (RankPlace(5, 8, 1, 4, "node1"), 0)


@pytest.mark.parametrize(
    ("launcher", "variables"),
    [
        ("torchrun", {**TORCHRUN, "TORCHELASTIC_RESTART_COUNT": "2"}),
        ("slurm", {**SLURM, "ACCEL_START": "1"}),
        ("mpirun", {**MPI, "ACCEL_START": "1"}),
    ],
)
def test_a_rank_that_was_started_again_knows_it(launcher, variables):
    assert (
        place_of(launcher, variables)[1]
        > place_of(launcher, {**variables, "ACCEL_START": "0", "TORCHELASTIC_RESTART_COUNT": "1"})[1]
    )


def test_a_process_that_no_launcher_started_says_so():
    with pytest.raises(AccelError, match="OMPI_COMM_WORLD_RANK or PMI_RANK is not set"):
        place_of("mpirun", TORCHRUN)


@pytest.mark.parametrize(
    ("launcher", "variables", "why"),
    [
        (
            "mpirun",
            PMI,
            "MPI_LOCALRANKID is not set, nor is MV2_COMM_WORLD_LOCAL_RANK or PMI_LOCAL_RANK or PALS_LOCAL_RANKID",
        ),
        ("mpirun", {**MPI, "OMPI_COMM_WORLD_SIZE": ""}, "OMPI_COMM_WORLD_SIZE is not set"),
        ("slurm", {**SLURM, "SLURM_LOCALID": "one"}, "SLURM_LOCALID is 'one'"),
        ("torchrun", {"RANK": "5"}, "WORLD_SIZE is not set"),
    ],
)
def test_a_variable_that_a_launcher_did_not_set_is_named(launcher, variables, why):
    with pytest.raises(AccelError, match=f"A rank of a job for {launcher}: {why}"):
        place_of(launcher, variables)


@pytest.mark.parametrize("launcher", ["mpirun", "slurm"])
def test_an_exported_program_knows_all_variables_that_a_rank_of_a_job_knows(launcher):
    for rank, size, local_rank, *_ in _VARIABLES[launcher]:
        for names, ours in ((rank, "RANK"), (size, "WORLD_SIZE"), (local_rank, "LOCAL_RANK")):
            assert {VARIABLES.get(name) for name in names.split()} == {ours}


def test_nodes_with_different_numbers_of_tasks():
    described = {**SLURM, "SLURM_TASKS_PER_NODE": "4(x1),2,1(x2)", "SLURM_NODEID": "1"}
    assert place_of("slurm", described)[0].local_world_size == 2


@pytest.mark.parametrize(("time", "seconds"), [
    ("90", 5400), ("1:30", 90), ("1:30:00", 5400), ("2-0", 172_800), ("1-2:03:04", 93_784), ("1-02:30", 95_400), ("", None),
    ("UNLIMITED", None), ("unlimited", None), ("INFINITE", None),
])  # fmt: skip
def test_times_are_read_as_slurm_reads_them(time, seconds):
    assert seconds_of(Cluster(launcher="slurm", time=time).time) == seconds


def test_a_job_without_a_limit_asks_for_none():
    cluster = Cluster(launcher="slurm", time="UNLIMITED")
    assert "#SBATCH --time=UNLIMITED" in request_lines(cluster, name="train", output="train.txt")


def test_a_rank_a_gpu_where_nothing_else_is_said():
    assert Cluster(launcher="slurm", nodes=2, gpus_per_node=8).ranks == 16
    assert Cluster(launcher="slurm", nodes=2, gpus_per_node=8, ranks_per_node=4).ranks == 8


@pytest.mark.parametrize(("given", "why"), [
    ({"launcher": "slurm", "hosts": (("a", 2),)}, "SLURM chooses the machines"),
    ({"launcher": "torchrun", "nodes": 3}, "only SLURM gives machines by number"),
    ({"launcher": "slurm", "time": "soon"}, "no time as SLURM writes it"),
    ({"launcher": "slurm", "partition": "gpu;rm"}, "letters, digits, dots"),
])  # fmt: skip
def test_a_cluster_that_means_two_things_is_refused(given, why):
    with pytest.raises(AccelError, match=why):
        Cluster(**given)


def test_a_description_that_others_can_write_is_not_read(project):
    (project / "accel.toml").chmod(0o666)
    with pytest.raises(AccelError, match=r"others than you may write there.*chmod go-w"):
        clusters()


def test_descriptions_above_the_project_are_not_read(tmp_path, monkeypatch):
    (tmp_path / "accel.toml").write_text('[clusters.big]\nlauncher = "slurm"\n')
    work = tmp_path / "project/notebooks"
    work.mkdir(parents=True)
    monkeypatch.setattr(Path, "home", lambda: tmp_path / "home")
    assert clusters(work) == {}
    (tmp_path / "project/.git").mkdir()
    assert clusters(work) == {}
    (tmp_path / "project/accel.toml").write_text('[clusters.own]\nlauncher = "slurm"\n')
    assert [*clusters(work)] == ["own"]


def test_ranks_on_several_machines_never_talk_over_loopback(monkeypatch):
    monkeypatch.setattr("accel.distributed.jobs.meeting.interface_towards", {"me": "lo", "other": "eth3"}.get)
    assert interface_among(["me", "other"]) == "eth3"
