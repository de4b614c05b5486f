"""The stand-in for `python` in a rehearsal: a file with the variables that say who it is."""

import json
import os
import uuid
from pathlib import Path

NAMES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT", "SLURM_PROCID", "SLURM_LOCALID")
noted = {name: os.environ[name] for name in NAMES if name in os.environ}
noted["node"] = os.environ["SLURMD_NODENAME"]
order = f"{int(noted.get('SLURM_PROCID') or 0):03}-{noted.get('LOCAL_RANK', '')}-{uuid.uuid4().hex}"
(Path(os.environ["REHEARSED_FOLDER"]) / order).write_text(json.dumps(noted), encoding="utf-8")
