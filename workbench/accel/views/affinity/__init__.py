"""How an Affinity looks: a line a CPU as text, boxes of sockets, caches and cores in a notebook."""

from __future__ import annotations

from accel.views.affinity.core_map_html import html as html
from accel.views.affinity.core_map_text import text as text
