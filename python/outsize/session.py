"""One budget in force: the running engine and everything that was hooked up around it."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from typing import Any

from outsize import inductor, raw, record, samples, threads
from outsize.compiled import Core
from outsize.counters import Stats
from outsize.options import Options
from outsize.patching import Patches
from outsize.steps import StepTracker
from outsize.units import MemoryLimits, format_bytes, parse_budget, parse_rate, parse_size

_log = logging.getLogger("outsize")


class Session:
    """Starts the engine on construction; `close` brings every byte back and undoes every hook."""

    def __init__(self, core: Core, options: Options) -> None:
        self.core = core
        self.options = options
        self._last: Stats | None = None
        limits = MemoryLimits(**core.memory_limits())
        self.budget = 0
        process_budget = 0
        if options.budget_rss is not None:
            process_budget = parse_budget(options.budget_rss).resolve(limits)
        else:
            self.budget = parse_budget(options.budget).resolve(limits)
        self._warn_if_too_large(limits)
        self.started = time.monotonic()
        core.create(
            self.budget,
            process_budget,
            options.policy,
            options.spill_dir,
            parse_size(options.spill_limit),
            parse_rate(options.disk_write_limit),
            options.faults,
            options.io_threads,
            options.verify,
            options.decision_log,
            options.record,
            self._record_meta(),
            options.pilot,
            options.foresee,
        )
        self._warning = ""
        self._tell_warning()
        self._patches = Patches()
        self.recording: record.Recording | None = None
        self.steps = StepTracker(core.step)
        self._samples: samples.SampleWatch | None = None
        try:
            self._hook_up()
        except BaseException:
            self._unhook()
            core.shutdown()
            raise
        _log.info("budget %s, policy %s", options.budget_text, options.policy)

    def _hook_up(self) -> None:
        self.core.include_thread(True)
        threads.cover_threads(self.core, self._patches)
        raw.cover_raw_access(self.core, self._patches)
        raw.cover_faulthandler(self.core, self._patches)
        inductor.cover_inductor(self.core, self._patches)
        self.steps.attach()
        if self.options.record or samples.wanted_by(self.options.policy):
            self._samples = samples.SampleWatch(self.core.sample, self.core.look_at)
            self._samples.attach()
        if self.options.record:
            self.recording = record.Recording(self.core)

    def _unhook(self) -> None:
        self.steps.detach()
        if self._samples is not None:
            self._samples.detach()
        self._patches.undo()
        self.core.include_thread(False)
        if self.recording is not None:
            self.recording.end()

    def sample_says(self, what: Mapping[str, Any]) -> None:
        """Beside what the next outermost call of a module is given."""
        if self._samples is not None:
            self._samples.hint(what)

    @property
    def ended(self) -> bool:
        return self._last is not None

    def stats(self) -> Stats:
        """So far, or until it ended."""
        if self._last is not None:
            return self._last
        return Stats.of(self.core.stats(), time.monotonic() - self.started)

    def close(self) -> Stats:
        """Ends the budget. If RAM cannot hold what was spilled, raises and stays in force."""
        last = self.stats()
        self._tell_warning()
        self._tell_pilot(last)
        self._tell_foreseen(last)
        self.core.shutdown()
        self._unhook()
        _log.info("ended: %s", last.brief())
        self._last = last
        return last

    def forget_in_child(self) -> None:
        """In a forked child: it goes on without us (the compiled part sees to its bytes)."""
        self.steps.detach()
        if self._samples is not None:
            self._samples.detach()
        self._patches.undo()
        if self.recording is not None:
            self.recording.forget()

    def _record_meta(self) -> str:
        options = self.options
        if not options.record:
            return ""
        return record.meta(options.policy, options.budget, options.budget_rss, self.budget)

    def _tell_pilot(self, last: Stats) -> None:
        """What became of the model that the pilot began with, where it was of no use."""
        if last.pilot_given_up:
            from outsize.pilot.model import told

            _log.warning("%s", told(self.options.pilot, last.pilot_ops, last.pilot_known_ops, True))

    def _tell_foreseen(self, last: Stats) -> None:
        """Where the run was not the one that was recorded."""
        if last.foresee_known_ops < last.foresee_ops:
            from outsize.report import foreseen

            _log.warning("policy oracle, told %s: %s", self.options.foresee, foreseen(last))

    def _tell_warning(self) -> None:
        """What is to be said of the spill directory; some of it shows only when it is used."""
        warning = str(self.core.stats().get("warning", ""))
        if warning != self._warning:
            _log.warning("%s", warning)
            self._warning = warning

    def _warn_if_too_large(self, limits: MemoryLimits) -> None:
        if self.budget > limits.free:
            _log.warning(
                "the budget of %s is more than the %s that are free (%s: %s): the system may swap"
                " or kill the job before outsize sees a reason to move anything",
                format_bytes(self.budget),
                format_bytes(limits.free),
                limits.reason,
                format_bytes(limits.limit),
            )
