"""The stand-in for `torchrun` in a rehearsal: it starts the ranks of its node, with the variables that torchrun sets."""

import os
import subprocess
import sys

options = {}
for at, word in enumerate(sys.argv):
    if word.startswith("--"):
        name, equals, value = word[2:].replace("_", "-").partition("=")
        options[name] = value if equals else [*sys.argv, ""][at + 1]
here, nodes = options.get("nproc-per-node", "1"), options.get("nnodes", "1")
if not here.isdigit() or not nodes.isdigit():
    sys.exit("torchrun: --nproc-per-node and --nnodes are numbers in a rehearsal")
place = (
    options.get("rdzv-endpoint", "")
    or f"{options.get('master-addr', '')}:{options.get('master-port', '29500')}"
)
node = int(options.get("node-rank") or os.environ.get("SLURM_NODEID", "0"))
for local in range(min(int(here), 64)):
    own: dict[str, object] = {
        "RANK": node * int(here) + local,
        "LOCAL_RANK": local,
        "WORLD_SIZE": int(here) * int(nodes),
    }
    own |= {
        "MASTER_ADDR": place.partition(":")[0] or "localhost",
        "MASTER_PORT": place.partition(":")[2] or "29500",
    }
    subprocess.call(["python"], env=os.environ | {name: str(value) for name, value in own.items()})
