"""Captures of work on CUDA with live numbers, below the face of ag.cuda.graph."""

from autograd_gpu.backend.cuda import live_numbers, runtime


class Captured:
    """The graph of `work`, its result, and its live numbers; `replay` fills these and launches it."""

    def __init__(self, work):
        module = runtime.cupy()
        self.stream, self.pool = module.cuda.Stream(non_blocking=True), module.cuda.MemoryPool()
        self.numbers = live_numbers.LiveNumbers(runtime.current.device())
        self.stream.wait_event(runtime.current.stream().record())
        with self.stream, module.cuda.using_allocator(self.pool.malloc), live_numbers.activate(self.numbers):
            self.stream.begin_capture()
            try:
                self.result = work()
            except BaseException:
                self.stream.end_capture()
                raise
            self.graph = self.stream.end_capture()

    def replay(self):
        stream = runtime.current.stream()
        self.numbers.fill(stream)
        self.graph.launch(stream)
