"""Training an MLP on handwritten digits with autograd_gpu, and scoring it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

import autograd_gpu as ag

CLASSES = 10
BATCH = 64
LEARNING_RATE = 2e-3
WEIGHT_DECAY = 1e-2
CORNERS = ((1, 1), (0, 1), (2, 1), (1, 0), (1, 2))  # of the window on a padded image: it, moved each way by a pixel
PLACES = len(CORNERS)


class Digits(NamedTuple):
    """Images as rows of 64 grey values in [0, 1], and their digits."""

    train_x: np.ndarray
    train_y: np.ndarray
    test_x: np.ndarray
    test_y: np.ndarray


class ClassScores(NamedTuple):
    """How well one digit was recognised."""

    digit: int
    precision: float
    recall: float
    f1: float
    images: int


@dataclass
class Outcome:
    """What training gave: figures per epoch, and the confusion matrix [true, said] at the end."""

    loss: list[float] = field(default_factory=list)
    test_loss: list[float] = field(default_factory=list)
    train_accuracy: list[float] = field(default_factory=list)
    test_accuracy: list[float] = field(default_factory=list)
    confusion: np.ndarray = field(default_factory=lambda: np.zeros((CLASSES, CLASSES), int))
    seconds: float = 0.0
    parameters: int = 0

    def per_class(self) -> list[ClassScores]:
        """Precision, recall and F1 of each digit; a ratio without any case counts as 0."""
        scores = []
        for digit in range(CLASSES):
            hits = self.confusion[digit, digit]
            said, count = self.confusion[:, digit].sum(), self.confusion[digit].sum()
            precision, recall = hits / max(said, 1), hits / max(count, 1)
            f1 = 2 * hits / max(said + count, 1)
            scores.append(ClassScores(digit, float(precision), float(recall), float(f1), int(count)))
        return scores

    def mistakes(self) -> list[tuple[int, int, int]]:
        """(true, said, times) of every confusion that occurred, the most frequent first."""
        pairs = [(i, j, int(self.confusion[i, j])) for i, j in np.argwhere(self.confusion).tolist() if i != j]
        return sorted(pairs, key=lambda pair: -pair[2])


def load_digits(seed: int = 0) -> Digits:
    """scikit-learn's 1,797 digits of 8x8 pixels, a quarter of each class held out for testing.

    What is left to learn from is shown at five places: as it is, and moved by a pixel each way.
    """
    from sklearn import datasets, model_selection

    images, labels = datasets.load_digits(return_X_y=True)
    images = (images / 16).astype(np.float32)
    train_x, test_x, train_y, test_y = model_selection.train_test_split(
        images, labels, test_size=0.25, stratify=labels, random_state=seed
    )
    return Digits(shifted(train_x), np.tile(train_y, PLACES), test_x, test_y)


def shifted(images: np.ndarray) -> np.ndarray:
    """The images, then each of them moved down, up, right and left by a pixel."""
    padded = np.pad(images.reshape(-1, 8, 8), ((0, 0), (1, 1), (1, 1)))
    return np.concatenate([padded[:, y : y + 8, x : x + 8].reshape(-1, 64) for y, x in CORNERS])


def make_model(device: str) -> Any:
    """The MLP: 64-256-128-10 with ReLU and dropout."""
    return ag.nn.Sequential(
        ag.nn.Linear(64, 256),
        ag.nn.ReLU(),
        ag.nn.Dropout(0.2),
        ag.nn.Linear(256, 128),
        ag.nn.ReLU(),
        ag.nn.Linear(128, CLASSES),
    ).to(device)


def evaluate(model: Any, x: Any, labels: np.ndarray) -> tuple[float, np.ndarray]:
    """Mean cross entropy, and the digit that the model says for each row of x."""
    model.eval()
    with ag.no_grad():
        logits = model(x)
        loss = ag.nn.CrossEntropyLoss()(logits, ag.tensor(labels, device=x.device))
    return loss.item(), logits.cpu().numpy().argmax(1)


def train(
    digits: Digits, device: str, epochs: int, seed: int, show: Callable[[float, float, float], None]
) -> Outcome:
    """Train for `epochs` passes with AdamW; `show(loss, train accuracy, test accuracy)` after each."""
    ag.manual_seed(seed)
    model, outcome = make_model(device), Outcome()
    outcome.parameters = sum(p.numel() for p in model.parameters())
    train_x, train_y = ag.tensor(digits.train_x, device=device), ag.tensor(digits.train_y, device=device)
    test_x = ag.tensor(digits.test_x, device=device)
    dataset = ag.utils.data.TensorDataset(train_x, train_y)
    loader = ag.utils.data.DataLoader(dataset, batch_size=BATCH, shuffle=True, seed=seed)
    optimizer = ag.optim.AdamW(model.parameters(), lr=LEARNING_RATE, weight_decay=WEIGHT_DECAY)
    loss_of = ag.nn.CrossEntropyLoss()
    start = time.perf_counter()
    for _ in range(epochs):
        model.train()
        for x, y in loader:
            optimizer.zero_grad()
            loss_of(model(x), y).backward()
            optimizer.step()
        loss, said = evaluate(model, train_x, digits.train_y)
        outcome.loss.append(loss)
        outcome.train_accuracy.append(float((said == digits.train_y).mean()))
        loss, said = evaluate(model, test_x, digits.test_y)
        outcome.test_loss.append(loss)
        outcome.test_accuracy.append(float((said == digits.test_y).mean()))
        show(outcome.loss[-1], outcome.train_accuracy[-1], outcome.test_accuracy[-1])
    outcome.seconds = time.perf_counter() - start
    np.add.at(outcome.confusion, (digits.test_y, said), 1)
    return outcome
