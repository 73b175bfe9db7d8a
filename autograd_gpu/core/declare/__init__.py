"""How an op is declared: the words of its block, its jvp and batch rules."""
