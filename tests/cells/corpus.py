"""All cells of the corpus, by name."""

from __future__ import annotations

from tests.cells import data, frameworks, loops, models, optimizers, schedules

CELLS = {
    cell.name: cell
    for module in (loops, data, schedules, optimizers, models, frameworks)
    for cell in module.CELLS
}
