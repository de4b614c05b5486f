"""All cells of the corpus, by name."""

from __future__ import annotations

from tests.cells import data, frameworks, loops, models, optimizers, schedules, travelling

CELLS = {
    cell.name: cell
    for module in (loops, data, schedules, optimizers, models, travelling, frameworks)
    for cell in module.CELLS
}
