"""A program without memory: a value is a list of places in a vector, and a write makes another vector."""

from __future__ import annotations

from machine import Machine
from programs import VIEWED, VIEWS


class FunctionalForm(Machine):
    """Runs a program of operations, views and writes, none of which fails, out of place."""

    def __init__(self, ns):
        self.vectors, self.places, self.of = [], [], []  # of: number of the vector of each value
        super().__init__(ns, look=False)

    def keep(self, value, unrecorded=False):
        super().keep(value, unrecorded)
        self.of.append(len(self.vectors))
        self.places.append(self.ns.arange(value.numel()).reshape(value.shape))
        self.vectors.append(value.reshape(-1))

    def memory(self, x):
        return next((number for value, number in zip(self.values, self.of, strict=True) if value is x), None)

    def show(self, k):
        """Value k by its places."""
        self.values[k] = self.vectors[self.of[k]][self.places[k]]

    def do_view(self, name, i, p, mode):
        k = i % len(self.values)
        places = VIEWS[name][1](self.places[k], p)
        if super().memory(places) != super().memory(self.places[k]):  # reshape() had to copy
            self.keep(self.vectors[self.of[k]][places])
            return
        super().keep(None)
        self.places.append(places)
        self.of.append(self.of[k])
        self.show(-1)

    def do_viewed(self, name, i, mode):
        k = i % len(self.values)
        VIEWED[name][1](self.places[k])
        self.show(k)

    def written(self, instruction, name, i, *operands):
        """The instruction on a copy of value i, whose elements then go where its places are."""
        k = i % len(self.values)
        x = self.values[k] = self.values[k] * 1.0
        getattr(Machine, instruction)(self, name, i, *operands)
        number = self.of[k]
        self.vectors[number] = self.vectors[number].index_put((self.places[k].reshape(-1),), x.reshape(-1))
        for other, its in enumerate(self.of):
            if its == number:
                self.show(other)

    def do_write(self, *operands):
        self.written("do_write", *operands)

    def do_write_of(self, *operands):
        self.written("do_write_of", *operands)

    def do_indexed(self, *operands):
        self.written("do_indexed", *operands)

    def do_set(self, *operands):
        self.written("do_set", *operands)
