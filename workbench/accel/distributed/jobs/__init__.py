"""A cell as a job: in a folder, started by torchrun, Open MPI or SLURM, followed and brought home, also by another kernel.

cluster.py                 where a job runs; accel.toml
job_folder.py              a job on disk: what every file in it is called, and who may read it
job_run.py · job_rank.py   the notebook's side and the rank's
rank_lines.py              what each rank tells, a line at a time
launchers/                 torchrun, mpirun, sbatch: one interface
jobs_here.py               the jobs that a notebook finds again
"""
