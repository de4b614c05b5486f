"""The notebook's side of a job: launch it, follow its folder, take home what its ranks answer; of another kernel's job too."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from functools import cached_property

from accel.distributed.jobs.job_failures import EndedJob, error_of_job
from accel.distributed.jobs.job_folder import JobDescription, JobFolder, Launched
from accel.distributed.jobs.launchers.here import ENDED_WELL
from accel.distributed.jobs.launchers.launcher import Blame, LaunchState
from accel.distributed.jobs.launchers.table import launcher_of
from accel.distributed.jobs.rank_lines import Began, Lane, WhenChanged, began_in, last_line
from accel.distributed.jobs.rank_texts import RankTexts
from accel.distributed.ranks.rank_answers import RankAnswer
from accel.distributed.ranks.rank_messages import RunDone, RunFailed
from accel.distributed.ranks.rank_page import RankLane
from accel.distributed.ranks.run_outcome import Print, RunOutcome, Watch
from accel.workload.uninterrupted import lost_interrupts

_LOOK_S = 0.2
_ASK_LAUNCHER_EVERY_S = 2.0  # squeue asks a server that many others ask
_SAME_DISK_S, _LOST_S, _SHARED_DISK_S = 1.0, 5.0, 90.0  # NFS shows what another machine wrote within a minute
_RESTARTING_S = 300.0
_FEW_RANKS = 32  # so many are looked at five times a second
_ENDING_S = 60.0  # a launcher whose ranks have all answered


class JobRun:
    """A job that is followed; `go` waits for its end, `stop` and `cancel` may be called from any thread.

    >>> run = JobRun(folder)
    >>> run.state().word, run.lanes
    >>> outcome = run.go()

    It needs nothing but the folder: the kernel that launched the job may be gone.
    """

    def __init__(
        self, folder: JobFolder, *, watch: Watch | None = None, on_print: Print | None = None
    ) -> None:  # fmt: skip
        self.folder, self._watch = folder, watch
        self.description: JobDescription = folder.description()
        self._launcher = launcher_of(self.description.cluster.launcher)
        self._texts = RankTexts(folder, self.description.ranks, on_print)
        ranks = range(self.description.ranks)
        self._told = [WhenChanged(folder.ranks / f"{rank}.jsonl", last_line) for rank in ranks]
        self._began = [WhenChanged(folder.ranks / f"{rank}.began.json", began_in) for rank in ranks]
        self._lines: list[float | None] = []
        self._changed_at = time.monotonic()
        self._gave_up = False
        self._lock = threading.Lock()
        self._state, self._asked_at = LaunchState("queued"), float("-inf")

    @property
    def lanes(self) -> tuple[RankLane, ...]:
        """What each rank is doing now; none before the first has begun."""
        newest = self._newest()
        if not any(newest):
            return ()
        return tuple(lane.of(rank) if lane else RankLane(rank) for rank, lane in enumerate(newest))

    @property
    def waits_for(self) -> str:
        """What it waits for in a queue."""
        return self._state.because if self._state.word == "queued" else ""

    def state(self) -> LaunchState:
        """How far the launcher is; asked again after some seconds."""
        with self._lock:
            if self._state.word != "ended" and time.monotonic() - self._asked_at > _ASK_LAUNCHER_EVERY_S:
                self._state = self._launcher.look(self.launched, self.folder)
                self._asked_at = time.monotonic()
            return self._state

    @property
    def launched(self) -> Launched:
        """What the launcher goes by."""
        found: Launched = self.folder.read_json("launched.json", Launched)
        return found

    def stop(self) -> None:
        """All ranks end after the same step, and the state of that step comes home."""
        self.folder.wish_to_stop.touch(0o600)

    def cancel(self) -> None:
        """End it now: what it trained is lost, but for its checkpoints."""
        self.folder.wish_to_cancel.touch(0o600)
        self._launcher.cancel(self.launched, self.folder)
        self._asked_at = float("-inf")

    def launch(self) -> None:
        """Start it, or start it again."""
        launched = self._launcher.start(self.folder, self.description)
        self.folder.write_json("launched.json", launched)
        self._state, self._asked_at = LaunchState("queued"), float("-inf")

    def go(self) -> RunOutcome:
        """Wait for its end; raises RankError with the rank that caused a failure.

        An interrupt ends the waiting alone: a kernel that is restarted or shut down sends one, too.
        """
        try:
            with lost_interrupts() as raise_lost:
                self._wait(raise_lost)
        except KeyboardInterrupt:
            name = self.folder.name
            raise KeyboardInterrupt(
                f"the job goes on. %accel jobs home {name} waits for it again; %accel jobs cancel {name} ends it."
            ) from None
        self._show()
        return self._outcome()

    # --- waiting ---------------------------------------------------------------------------------------------------------

    def _wait(self, raise_lost: Callable[[], None]) -> None:
        answered_at = failed_at = float("inf")
        while True:
            raise_lost()
            self._show()
            state, (attempt, answers) = self.state(), self.folder.answers()
            failed = any(isinstance(each, RunFailed) for each in answers.values()) and not self._is_past(
                attempt
            )
            failed_at = (
                min(failed_at, time.monotonic()) if failed and state.word == "running" else float("inf")
            )
            if self._is_whole(answers):
                answered_at = min(answered_at, time.monotonic())
                if state.word == "ended" or time.monotonic() - answered_at > _ENDING_S:
                    return
            elif state.word == "ended":
                if self._everything_came(state, raise_lost):
                    return
            elif time.monotonic() - failed_at > self._patience_s or self._all_stand_still():
                self._gave_up = (
                    True  # the launcher waits for a machine that is gone, or for a rank that does not come on
                )
                self.cancel()
                return
            time.sleep(max(_LOOK_S, _LOOK_S * self.description.ranks / _FEW_RANKS))

    @property
    def _patience_s(self) -> float:
        """How long after a failure: where ranks may be started again, they also import torch from a busy disk."""
        return _RESTARTING_S if self.description.max_restarts else self._launcher.patience_s

    def _is_whole(self, answers: Mapping[int, RunDone | RunFailed]) -> bool:
        return len(answers) == self.description.ranks and all(
            isinstance(each, RunDone) for each in answers.values()
        )

    def _is_past(self, attempt: int) -> bool:
        """Whether ranks were started again since."""
        began = [self.began(rank) for rank in range(self.description.ranks)]
        return any(each is not None and each.attempt > attempt for each in began)

    def _everything_came(self, state: LaunchState, raise_lost: Callable[[], None]) -> bool:
        """Once the launcher has ended: another machine's last words may still be on their way over a shared disk."""
        cluster = self.description.cluster
        is_here = len(cluster.hosts) < 2 and cluster.nodes == 1
        patience_s = _SAME_DISK_S if is_here else _SHARED_DISK_S if state.because == ENDED_WELL else _LOST_S
        until = time.monotonic() + patience_s
        while time.monotonic() < until:
            raise_lost()
            self.folder.look_anew()
            if len(self.folder.answers()[1]) == self.description.ranks:
                break
            time.sleep(_LOOK_S)
        return (
            self._launcher.look(self.launched, self.folder).word == "ended"
        )  # it may have been queued again

    def _all_stand_still(self) -> bool:
        """Whether a rank has said that it does not come on, and none has answered since: by itself this would not end.

        Clocks of other machines may be wrong, so that what counts is when their lines last changed as seen from here.
        """
        if self.folder.answers()[1]:
            return False
        newest = self._newest()
        lines = [lane.at_s if lane else None for lane in newest]
        if lines != self._lines:
            self._lines, self._changed_at = lines, time.monotonic()
        is_old = time.monotonic() - self._changed_at > 2 * self._timeout_s
        return is_old and all(newest) and any(lane.stands for lane in newest if lane)

    @cached_property
    def _timeout_s(self) -> float:
        return self.folder.request().options.timeout_s

    def _newest(self) -> list[Lane | None]:
        return [
            lane
            if (began := self.began(rank)) is not None and lane is not None and lane.at_s >= began.at_s
            else None
            for rank, lane in enumerate(lines.newest() for lines in self._told)
        ]

    def _blamed(self) -> Blame | None:
        """The rank that the launcher saw end first."""
        try:
            return self._launcher.blames(self.folder.launcher_output.read_text(errors="replace"))
        except OSError:
            return None

    def began(self, rank: int) -> Began | None:
        """Where a rank is, in its latest attempt; None before it has begun."""
        return self._began[rank].newest()

    def _ended_s(self) -> float:
        """When the last rank answered."""
        return max(file.stat().st_mtime for file in self.folder.ranks.glob("*.answer-*.json"))

    def _show(self) -> None:
        self._texts.show()
        if self._watch is not None:
            self._watch(self.lanes)

    # --- what became of it -----------------------------------------------------------------------------------------------

    def _outcome(self) -> RunOutcome:
        _, answers = self.folder.answers()
        ranks = range(self.description.ranks)
        done = {rank: answer for rank, answer in answers.items() if isinstance(answer, RunDone)}
        if len(done) < len(ranks):
            ended = EndedJob(
                self.folder, self.description, self.lanes, tuple(map(self.began, ranks)), self.state(), self._blamed(),
                self.folder.wish_to_cancel.exists() and not self._gave_up,
            )  # fmt: skip
            failed = {rank: answer for rank, answer in answers.items() if isinstance(answer, RunFailed)}
            raise error_of_job(ended, failed, done)
        taken = []
        for rank in ranks:
            blob, memory = self.folder.home(rank)
            taken.append(RankAnswer(done[rank], blob, memory))
        began = [self.began(rank) for rank in ranks]
        started = min((each.at_s for each in began if each), default=self.description.began_s)
        return RunOutcome(
            taken, self.lanes, [self._texts.text(rank) for rank in ranks], self._ended_s() - self.description.began_s,
            [each.ready if each else None for each in began], max(0.0, started - self.description.began_s),
            was_stopped=any(each.done.was_stopped for each in taken), on_home=lambda: self.folder.is_home.touch(0o600),
        )  # fmt: skip
