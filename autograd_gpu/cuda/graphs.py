"""CUDA graphs: the work of a block of code on a stream, recorded once and replayed by one launch."""

from __future__ import annotations

import gc
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from ..backend.cuda import capture, runtime, streams
from ..core.graph import journals
from ..core.interpret.tracing import refuse
from .capture_errors import explain

# By PyTorch's names; the numbers are cudaStreamCaptureMode's.
MODES = {"global": 0, "thread_local": 1, "relaxed": 2}


def is_current_stream_capturing() -> bool:
    """Whether a CUDA graph is being captured on the current stream.

    >>> ag.cuda.is_current_stream_capturing()
    False
    """
    return capture.is_capturing()


def graph_pool_handle() -> Any:
    """A new memory pool for graphs that share their memory: they must be replayed in the order of their captures.

    >>> if ag.cuda.is_available():
    ...     pool = ag.cuda.graph_pool_handle()
    ...     first, second = ag.cuda.CUDAGraph(), ag.cuda.CUDAGraph()
    ...     x = ag.ones(3, device="cuda")
    ...     with ag.cuda.graph(first, pool=pool):
    ...         y = x * 2
    ...     with ag.cuda.graph(second, pool=pool):
    ...         z = y + 1
    """
    runtime.require_device(runtime.device_index())
    return capture.GraphPool()


class CUDAGraph:
    """Recorded work that one launch replays, on the same memory; `graph` records it.

    The arrays that the work reads and writes have fixed places: write new inputs into the tensors that it was recorded
    with, and read the results from those that it gave. A replay overwrites the results of the one before. Memory from
    outside of the capture, of parameters and inputs, must stay; that from inside belongs to the graph. Gradients that
    the recorded work left in the `.grad` of leaves are there after each replay.

    >>> if ag.cuda.is_available():
    ...     x, recorded = ag.ones(3, device="cuda"), ag.cuda.CUDAGraph()
    ...     with ag.cuda.graph(recorded):
    ...         y = (x * 2).exp()
    ...     _ = x.fill_(5)
    ...     recorded.replay()  # y is exp(10)
    """

    def __init__(self) -> None:
        runtime.count_devices()
        self._recording: capture.Recording | None = None
        self._open: ExitStack | None = None  # between capture_begin and capture_end
        self._journal: journals.Journal = journals.Journal()
        self._grads: list[tuple[Any, Any]] = []  # leaves, and what their .grad is after a replay
        self._adding: list[journals.Entry] = []  # of leaves to whose .grad the work adds

    def capture_begin(self, pool: Any = None, capture_error_mode: str = "relaxed") -> None:
        """Begins to record the current stream, which must not be the default stream; `graph` is more convenient.

        `pool`, from `graph_pool_handle` or the `pool` of another graph, is where memory comes from. In the modes
        "global" and "thread_local" CUDA refuses what may disturb a capture, and also lets the pool not grow.
        """
        if self._recording is not None:
            raise RuntimeError("This CUDAGraph instance already owns a captured graph. To capture a new graph, create "
                               "a new instance, or call reset() before")
        if capture_error_mode not in MODES:
            raise ValueError(f"capture_error_mode is one of {', '.join(MODES)}; got {capture_error_mode!r}")
        stream = runtime.cupy().cuda.get_current_stream()
        if stream.ptr in (0, 1):
            raise RuntimeError("CUDA graphs must be captured on a non-default stream. (However, after capture, it's ok "
                               "to replay them on the default stream.)")
        if stream.is_capturing():
            raise RuntimeError("a CUDA graph is being captured on this stream already; captures do not nest")
        recording = capture.Recording(stream, capture.GraphPool() if pool is None else pool)
        with ExitStack() as stack:
            self._journal = stack.enter_context(journals.keeping())
            recording.begin(MODES[capture_error_mode])
            self._recording, self._open = recording, stack.pop_all()

    def capture_end(self) -> None:
        """Ends the recording. If it failed, every `.grad` is what it was before."""
        recording = self._recording_of("capture_end", capturing=True)
        with self._closing():
            try:
                recording.end()
            except BaseException as error:
                self._give_up()
                explain(error, None)
                raise
        self._grads = [(entry.leaf, entry.leaf._grad) for entry in self._journal.values()]
        self._adding = [entry for entry in self._journal.values() if entry.adds]

    def _abandon(self, error: BaseException) -> None:
        """Ends the recording because of `error`; raises it, with the name of the op if a capture refuses it."""
        recording = self._recording_of("capture_end", capturing=True)
        with self._closing():
            said = recording.abandon()
            self._give_up()
        explain(error, said)

    def _closing(self) -> ExitStack:
        opened, self._open = self._open, None
        assert opened is not None
        return opened

    def _give_up(self) -> None:
        self._journal.restore()
        self.reset()

    def _recording_of(self, method: str, capturing: bool = False) -> capture.Recording:
        if self._recording is None or (self._open is not None) != capturing:
            wants = "capture_begin" if capturing else "a finished capture"
            raise RuntimeError(f"Called CUDAGraph::{method} without a preceding {wants}.")
        return self._recording

    def replay(self) -> None:
        """Puts the recorded work on the current stream.

        RuntimeError if it adds to the tensor that was the `.grad` of a leaf, and is not any more.
        """
        recording = self._recording_of("replay")
        refuse("a CUDA graph is replayed, whose work is not seen", "call the code that it was captured from")
        stream = runtime.current.stream()
        if capture.is_captured(stream):
            raise RuntimeError("a CUDA graph cannot be replayed while its stream is being captured: capture the code "
                               "that it was made of instead")
        entry = next((entry for entry in self._assumed() if entry.before is not None), None)
        if entry is not None:
            raise RuntimeError(f"the graph adds to the .grad of a leaf of shape {list(entry.leaf.shape)}, which was "
                               "another tensor when it was captured; set it to that, or let the captured code begin "
                               "with zero_grad()")
        self._launch(recording, stream)

    def _launch(self, recording: capture.Recording, stream: Any) -> None:
        """`replay` behind its checks."""
        recording.launch(stream)
        for leaf, grad in self._grads:
            leaf._grad = grad

    def _assumed(self) -> list[journals.Entry]:
        """The leaves to whose `.grad` the work adds, if that is another tensor now, or None only now or then."""
        return [entry for entry in self._adding if entry.leaf._grad is not entry.before]

    def reset(self) -> None:
        """Drops the recorded work and, once its results are dropped, its memory."""
        if self._open is not None:
            raise RuntimeError("Called CUDAGraph::reset during a capture; end it before")
        self._recording, self._journal, self._grads, self._adding = None, journals.Journal(), [], []

    def pool(self) -> Any:
        """The memory pool of the graph, for graphs to share."""
        if self._recording is None:
            raise RuntimeError("Called CUDAGraph::pool without a preceding capture_begin.")
        return self._recording.pool

    def enable_debug_mode(self) -> None:
        """Does nothing: `debug_dump` can always be called."""

    def debug_dump(self, debug_path: str | Path) -> None:
        """Writes the nodes of the graph to a file, in the language of Graphviz."""
        Path(debug_path).write_text(self._recording_of("debug_dump").dot(), encoding="utf-8")


class graph:
    """Records the work of a block in a CUDAGraph; nothing runs in it, so results have no values until a replay.

    `stream` is the stream to record, by default a new one. Run the block once before: kernels are compiled, and what is
    made at the first call, such as the state of an optimizer, is made then. What cannot be recorded raises: ops whose
    result depends on values, transfers to and from the host, `item()`. Everything is then as it was before the block.

    >>> if ag.cuda.is_available():
    ...     x, recorded = ag.ones(3, device="cuda"), ag.cuda.CUDAGraph()
    ...     with ag.cuda.graph(recorded):
    ...         y = x + 1
    ...     recorded.replay()
    """

    def __init__(
        self, cuda_graph: CUDAGraph, pool: Any = None, stream: Any = None, capture_error_mode: str = "relaxed"
    ) -> None:
        self.cuda_graph, self._pool, self._mode = cuda_graph, pool, capture_error_mode
        self._stream = runtime.cupy().cuda.Stream(non_blocking=True) if stream is None else stream
        if not hasattr(self._stream, "__enter__"):
            self._stream = streams.as_stream(stream)
        self._entered = ExitStack()

    def __enter__(self) -> None:
        module = runtime.cupy()
        with ExitStack() as stack:
            stack.enter_context(self._stream)
            gc.collect()  # before the capture, rather than in it
            module.get_default_memory_pool().free_all_blocks()  # the graph's pool cannot take from it
            self.cuda_graph.capture_begin(self._pool, self._mode)
            self._entered = stack.pop_all()

    def __exit__(self, kind: Any, error: BaseException | None, traceback: Any) -> None:
        with self._entered:
            if error is None:
                self.cuda_graph.capture_end()
            else:
                self.cuda_graph._abandon(error)
