"""The stand-in for `srun` in a rehearsal: it starts a command once for each task, one after the other, with SLURM's variables."""

import os
import subprocess
import sys

SHORT = {"-n": "--ntasks", "-N": "--nodes", "-c": "--cpus-per-task"}
FLAGS = (
    "-l",
    "-u",
    "-K",
    "-v",
    "-Q",
    "--label",
    "--verbose",
    "--quiet",
    "--pty",
    "--unbuffered",
    "--exclusive",
    "--overlap",
    "--kill-on-bad-exit",
    "--exact",
)
NUMBERS = ("--ntasks", "--nodes", "--ntasks-per-node")


def asked(words: list[str]) -> tuple[dict[str, str], list[str]]:
    """The options, and the command after them."""
    found, left = {}, list(words)
    while left and left[0].startswith("-"):
        word = left.pop(0)
        if word == "--":
            break
        if word in FLAGS:
            continue
        name, equals, value = word.partition("=") if word.startswith("--") else (word[:2], word[2:], word[2:])
        if not equals:
            if not left:
                sys.exit(f"srun: {word} has no value")
            value = left.pop(0)
        found[SHORT.get(name, name)] = value
    return found, left


options, command = asked(sys.argv[1:])
if not command:
    sys.exit("srun: no command")
wrong = [name for name in NUMBERS if name in options and not options[name].isdigit()]
if wrong:
    sys.exit(f"srun: {wrong[0]} {options[wrong[0]]} is no number")
nodes = int(options.get("--nodes", os.environ["REHEARSED_NODES"]))
tasks = int(options.get("--ntasks-per-node", os.environ["REHEARSED_TASKS"]))
every = int(options.get("--ntasks", nodes * tasks))
if nodes > int(os.environ["REHEARSED_NODES"]) or not 1 <= every <= 64:
    sys.exit("srun: more than the job has")
tasks = -(-every // nodes)
codes = []
for rank in range(every):
    node = f"n{rank // tasks + 1}"
    own: dict[str, object] = {
        "SLURM_PROCID": rank,
        "SLURM_LOCALID": rank % tasks,
        "SLURM_NODEID": rank // tasks,
        "SLURM_NTASKS": every,
    }
    own |= {"SLURMD_NODENAME": node, "HOSTNAME": node}
    codes.append(subprocess.call(command, env=os.environ | {name: str(value) for name, value in own.items()}))
sys.exit(next((code for code in codes if code), 0))
