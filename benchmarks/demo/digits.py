"""Chapter 1: an MLP learns scikit-learn's handwritten digits, and shows what it misreads.

The images have 8 x 8 pixels; a quarter of each class is held out. The chapter fails below 97 % on those.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import threadpoolctl
from sklearn import datasets, model_selection

import autograd_gpu as ag

from . import images
from .story import (
    Advance,
    Block,
    Cards,
    Figure,
    Line,
    Lines,
    Picture,
    Pictures,
    Settings,
    Story,
    Table,
    Text,
    percent,
    seconds,
)

TITLE = "Digits"
TARGET = 0.97  # test accuracy
SHOWN = 24  # misread images, at most
CLASSES = 10
SCORES = ("precision", "recall", "f1")
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
    """What training gave: figures per epoch, and what the network says of the test images at the end."""

    loss: list[float] = field(default_factory=list)
    test_loss: list[float] = field(default_factory=list)
    train_accuracy: list[float] = field(default_factory=list)
    test_accuracy: list[float] = field(default_factory=list)
    confusion: np.ndarray = field(default_factory=lambda: np.zeros((CLASSES, CLASSES), int))  # [true, said]
    probabilities: np.ndarray = field(default_factory=lambda: np.zeros((0, CLASSES)))
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


def load_digits(seed: int = 0) -> Digits:
    """scikit-learn's 1,797 digits of 8x8 pixels, a quarter of each class held out for testing.

    What is left to learn from is shown at five places: as it is, and moved by a pixel each way.
    """
    pixels, labels = datasets.load_digits(return_X_y=True)
    train_x, test_x, train_y, test_y = model_selection.train_test_split(
        (pixels / 16).astype(np.float32), labels, test_size=0.25, stratify=labels, random_state=seed
    )
    return Digits(shifted(train_x), np.tile(train_y, PLACES), test_x, test_y)


def shifted(rows: np.ndarray) -> np.ndarray:
    """The images, then each of them moved down, up, right and left by a pixel."""
    padded = np.pad(rows.reshape(-1, 8, 8), ((0, 0), (1, 1), (1, 1)))
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
    """Mean cross entropy, and the probability of each digit for each row of x."""
    model.eval()
    with ag.no_grad():
        logits = model(x)
        loss = ag.nn.CrossEntropyLoss()(logits, ag.tensor(labels, device=x.device))
    return loss.item(), logits.softmax(1).cpu().numpy()


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
        loss, probabilities = evaluate(model, train_x, digits.train_y)
        outcome.loss.append(loss)
        outcome.train_accuracy.append(float((probabilities.argmax(1) == digits.train_y).mean()))
        loss, probabilities = evaluate(model, test_x, digits.test_y)
        outcome.test_loss.append(loss)
        outcome.test_accuracy.append(float((probabilities.argmax(1) == digits.test_y).mean()))
        show(outcome.loss[-1], outcome.train_accuracy[-1], outcome.test_accuracy[-1])
    outcome.seconds, outcome.probabilities = time.perf_counter() - start, probabilities
    np.add.at(outcome.confusion, (digits.test_y, probabilities.argmax(1)), 1)
    return outcome


# ---- the chapter ----------------------------------------------------------------------------


def run(settings: Settings, advance: Advance) -> Story:
    """Train, and tell what was read."""
    digits, epochs = load_digits(), settings.epochs or settings.size(20, 60, 5)
    done = 0

    def show(loss: float, train_accuracy: float, test_accuracy: float) -> None:
        nonlocal done
        done += 1
        advance(done / epochs, f"loss {loss:.4f}, test accuracy {test_accuracy:.1%}")

    # A product of 64 x 64 x 256 gains nothing from a second BLAS thread, and on a busy machine waiting
    # for that thread made training 60 times slower.
    with threadpoolctl.threadpool_limits(1, user_api="blas"):
        outcome = train(digits, settings.device, epochs, settings.seed, show)
    figures = figures_of(outcome, digits)
    accuracy = figures["accuracy"]
    missed = f"test accuracy {accuracy:.2%} is below {TARGET:.0%}: train for more --epochs" if accuracy < TARGET else ""
    return Story(figures, blocks_of(figures, digits), missed)


def figures_of(outcome: Outcome, digits: Digits) -> dict[str, Any]:
    """The misread images come with the surest first."""
    said = outcome.probabilities.argmax(1)
    wrong = np.flatnonzero(said != digits.test_y)
    sure = outcome.probabilities.max(1)
    misread = [
        {"image": int(i), "digit": int(digits.test_y[i]), "read": int(said[i]), "certainty": float(sure[i])}
        for i in wrong[np.argsort(-sure[wrong])]
    ]
    return {
        "accuracy": outcome.test_accuracy[-1],
        "target": TARGET,
        "seconds": outcome.seconds,
        "epochs": len(outcome.loss),
        "parameters": outcome.parameters,
        "train images": len(digits.train_y) // PLACES,
        "test images": len(digits.test_y),
        "misread": misread,
        "misread images": len(misread),
        "classes": [scores._asdict() for scores in outcome.per_class()],
        "confusion": outcome.confusion.tolist(),
        "loss": outcome.loss,
        "test loss": outcome.test_loss,
        "train accuracy": outcome.train_accuracy,
        "test accuracy": outcome.test_accuracy,
    }


def blocks_of(figures: dict[str, Any], digits: Digits) -> list[Block]:
    """What the report shows."""
    wrong = figures["misread"]
    return [
        Text("A network 64-256-128-10 learns to read handwritten digits of 8 x 8 pixels. A quarter of each class is "
             "held out for testing; the rest is learnt as it is, and moved by a pixel each way."),
        Cards([
            (Figure("accuracy", percent), f"of unseen digits read, target {TARGET:.0%}".replace("%", " %")),
            (Figure("misread images"), f"of {figures['test images']} test images misread"),
            (Figure("seconds", seconds), f"for {figures['epochs']} epochs of AdamW"),
            (Figure("parameters", "{:,}".format), "parameters"),
        ]),
        Lines("Cross entropy", "epoch", [
            Line("training digits", "loss", "blue"), Line("test digits", "test loss", "orange")], log=True),
        Lines("Accuracy", "epoch", [
            Line("training digits", "train accuracy", "blue"), Line("test digits", "test accuracy", "orange")],
            percent=True, target=TARGET),
        Pictures("Misread images", [
            Picture(
                images.png(digits.test_x[entry["image"]].reshape(8, 8)),
                f"a handwritten {entry['digit']}, read as {entry['read']}",
                [Figure(f"misread/{i}/digit"), " read as ", Figure(f"misread/{i}/read"), ", certainty ",
                 Figure(f"misread/{i}/certainty", percent)],
            )
            for i, entry in enumerate(wrong[:SHOWN])
        ], small=True, note=misread_note(len(wrong))),
        Table("Each digit", ["digit", "precision", "recall", "F1", "images"], [
            [str(row["digit"]), *[Figure(f"classes/{i}/{key}", "{:.3f}".format) for key in SCORES],
             Figure(f"classes/{i}/images")]
            for i, row in enumerate(figures["classes"])
        ]),
        Table("Digits that were taken for others", ["digit", *map(str, range(CLASSES))], [
            [str(i), *[Figure(f"confusion/{i}/{j}", blank_zero) for j in range(CLASSES)]] for i in range(CLASSES)
        ], shades=shades(figures["confusion"]), note="Rows: the digit. Columns: the answer of the network."),
    ]  # fmt: skip


def misread_note(count: int) -> str:
    """How many there are, and in which order."""
    if not count:
        return "None."
    shown = f"The {SHOWN} surest of {count}" if count > SHOWN else "All of them"
    return f"{shown}, the surest mistake first. The certainty is the probability of the digit that was read."


def blank_zero(times: int) -> str:
    return str(times or "")


def shades(confusion: list[list[int]]) -> list[list[float]]:
    """The share of a digit's images, below zero if they were misread, which counts four times, to be seen at all."""
    return [
        [0.0, *[(1 if i == j else -4) * times / max(sum(row), 1) for j, times in enumerate(row)]]
        for i, row in enumerate(confusion)
    ]
