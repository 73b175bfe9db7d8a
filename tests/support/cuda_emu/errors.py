"""What the emulator raises."""


class EmulationError(RuntimeError):
    """The emulator found a fault in a kernel or in its use, or cannot work here."""


class CompileError(EmulationError):
    """g++ refused the source."""


class InvalidLaunch(EmulationError):
    """A launch that CUDA would refuse, or arguments that do not fit the kernel."""


class Deadlock(EmulationError):
    """Threads wait for each other, or for one that has finished."""


class DataRace(EmulationError):
    """Two accesses of one byte that nothing orders (check="races")."""


class IllegalAddress(EmulationError):
    """A thread touched memory that is not there."""


class UndefinedBehaviour(EmulationError):
    """What C++ or CUDA leaves undefined: misaligned access, index outside an array, integer overflow, and the like."""
