"""`Timer`, which measures a statement as Python's timeit does, and waits for CUDA's work."""

from __future__ import annotations

import statistics
import timeit
from collections.abc import Callable
from typing import Any, NamedTuple

from ... import cuda
from ...backend.cpu.threads import get_num_threads, set_num_threads


class Measurement(NamedTuple):
    """The times of runs, each of `number_per_run` executions of a statement."""

    number_per_run: int
    raw_times: list[float]
    title: str
    num_threads: int = 1

    @property
    def times(self) -> list[float]:
        """The seconds per execution, in order of the runs."""
        return [t / self.number_per_run for t in self.raw_times]

    @property
    def mean(self) -> float:
        """The mean of the seconds per execution."""
        return statistics.fmean(self.times)

    @property
    def median(self) -> float:
        """The median of the seconds per execution."""
        return statistics.median(self.times)

    @property
    def iqr(self) -> float:
        """The distance between the quartiles of the seconds per execution."""
        if len(self.times) < 2:
            return 0.0
        low, _, high = statistics.quantiles(self.times, n=4, method="inclusive")
        return high - low

    def __repr__(self) -> str:
        return (f"{self.title}\n  median {self.median * 1e6:.3f} us, IQR {self.iqr * 1e6:.3f} us\n  "
                f"{len(self.times)} runs of {self.number_per_run}, {self.num_threads} thread(s)")  # fmt: skip


class Timer:
    """Measures `stmt`, code in a string, with the names of `globals`; `setup` runs once before each run.

    Runs on `num_threads` threads, by default one, and waits for the work on CUDA before it reads the clock.

    >>> timer = ag.utils.benchmark.Timer("x.sum()", globals={"x": ag.ones(3)})
    >>> timer.timeit(10).number_per_run
    10
    """

    def __init__(
        self, stmt: str = "pass", setup: str = "pass", global_setup: str = "",
        timer: Callable[[], float] = timeit.default_timer, globals: dict[str, Any] | None = None,
        label: str | None = None, sub_label: str | None = None, description: str | None = None, env: str | None = None,
        num_threads: int = 1, language: Any = "python",
    ) -> None:  # fmt: skip
        if not isinstance(stmt, str):
            raise ValueError("Timer: currently only a `str` stmt is supported; give a function by globals=")
        self._clock, self.num_threads = timer, num_threads
        self.title = ": ".join(filter(None, (label or stmt, sub_label, description, env)))
        self._timer = timeit.Timer(stmt, f"{global_setup}\n{setup}", self._now, dict(globals or {}))

    def _now(self) -> float:
        if cuda.is_available() and cuda.is_initialized():
            cuda.synchronize()
        return self._clock()

    def _run(self, number: int) -> float:
        before = get_num_threads()
        set_num_threads(self.num_threads)
        try:
            return self._timer.timeit(number)
        finally:
            set_num_threads(before)

    def timeit(self, number: int = 1_000_000) -> Measurement:
        """One run of `number` executions, after one of a hundredth of them."""
        self._run(max(number // 100, 2))
        return Measurement(number, [self._run(number)], self.title, self.num_threads)

    def blocked_autorange(
        self, callback: Callable[[int, float], Any] | None = None, min_run_time: float = 0.2
    ) -> Measurement:
        """Runs of at least a millisecond each until `min_run_time` seconds are over."""
        number = 1
        while (seconds := self._run(number)) < min(1e-3, min_run_time) and number < 10**8:
            number *= 10
        times = [seconds]
        while sum(times) < min_run_time:
            times.append(self._run(number))
            if callback is not None:
                callback(number, times[-1])
        return Measurement(number, times, self.title, self.num_threads)

    def adaptive_autorange(
        self, threshold: float = 0.1, *, min_run_time: float = 0.01, max_run_time: float = 10.0,
        callback: Callable[[int, float], Any] | None = None,
    ) -> Measurement:  # fmt: skip
        """`blocked_autorange`, longer until the IQR is below `threshold` times the median, up to `max_run_time`."""
        measured = self.blocked_autorange(callback, min_run_time)
        while measured.iqr > threshold * measured.median and (min_run_time := 4 * min_run_time) <= max_run_time:
            measured = self.blocked_autorange(callback, min_run_time)
        return measured


class Compare:
    """A table of measurements."""

    def __init__(self, results: list[Measurement]) -> None:
        self._results = list(results)

    def extend_results(self, results: list[Measurement]) -> None:
        """Adds measurements."""
        self._results.extend(results)

    def print(self) -> None:
        """Prints the medians in microseconds."""
        for measured in self._results:
            print(f"{measured.title:<60} {measured.median * 1e6:12.3f} us")


__all__ = ["Compare", "Measurement", "Timer"]
