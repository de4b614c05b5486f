"""What starts the ranks of a job: torchrun, Open MPI's mpirun, SLURM's sbatch; one file each, one interface.

launcher.py   what all of them do, and the script that each writes
here.py       a launcher that is a process of this machine: started apart from the notebook, which may end
table.py      which there are
"""
