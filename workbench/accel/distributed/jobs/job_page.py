"""The page of a rank whose others are on other machines: its own lane in memory, and the step to stop at by the store."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from accel.distributed.ranks.rank_page import RankPage
from accel.distributed.ranks.rank_words import GroupWords, RankWords

_SEEN, _STOPS_AT = "accel wish seen", "accel stops at"


class JobPage(RankPage):
    """A page with one lane in use; the wish to stop is heard by each rank for itself, and the step agreed on by the store.

    >>> page = JobPage(place.world_size, store)
    >>> page.ask_to_stop()                  # from the thread that looks for the wish

    No rank asks the store anything before it has heard the wish.
    """

    def __init__(self, ranks: int, store: Any) -> None:
        super().__init__(ranks)
        self._store, self._ranks_that_know = store, 0
        self._wish = threading.Event()

    def ask_to_stop(self) -> None:
        """This rank has heard the wish."""
        self._wish.set()

    def stops_after(self, rank: int, step: int, catch_up: Callable[[], object] | None = None) -> bool:
        """Whether a rank that has just done this step stops here.

        Each rank says once that it has heard the wish. When all have, rank 0 proposes the step after its next one. It catches
        up with what it queued on a GPU first, as all do from the wish on; so no rank can have come further than that without
        rank 0, for each step ends with an exchange of gradients, and all see the proposal before they are past it.
        """
        if not self._wish.is_set():
            return False
        if catch_up is not None:
            catch_up()
        if not self._ranks_that_know:
            self._store.add(_SEEN, 1)
        self._ranks_that_know = int(self._store.add(_SEEN, 0))
        if self._ranks_that_know < self.ranks:
            return False
        if rank == 0 and not self._store.check([_STOPS_AT]):
            self._store.set(_STOPS_AT, str(step + 2))
            return False
        return bool(self._store.check([_STOPS_AT])) and step >= int(self._store.get(_STOPS_AT))

    def words(self, rank: int, timeout_s: float) -> RankWords:
        """By messages: no memory is shared."""
        return GroupWords(timeout_s)
