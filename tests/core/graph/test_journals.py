"""Journals: what the `.grad` of leaves was before it was set, in this context only."""

import threading

import autograd_gpu as ag
from autograd_gpu.core.graph import journals


def test_the_first_time_counts(device):
    w, kept = ag.ones(2, requires_grad=True), ag.ones(2)
    w.grad = kept
    with journals.keeping() as journal:
        w.grad = None
        (w * 2).sum().backward()
    (entry,) = journal.values()
    assert entry.leaf is w
    assert entry.before is kept
    assert not entry.adds
    journal.restore()
    assert w.grad is kept
    w.grad = None
    assert len(journal) == 1


def test_what_backward_adds_to(device):
    w = ag.ones(2, requires_grad=True)
    with journals.keeping() as journal:
        (w * 2).sum().backward()
        del w.grad
    (entry,) = journal.values()
    assert entry.adds
    assert entry.before is None


def test_other_threads_write_nothing_down(device):
    w = ag.ones(2, requires_grad=True)
    with journals.keeping() as journal:
        thread = threading.Thread(target=(w * 2).sum().backward)
        thread.start()
        thread.join()
    assert not journal
    assert not journals.OPEN
