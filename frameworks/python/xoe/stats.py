"""How well scores separate images with a finding from those without: AUROC, with DeLong's variance and interval.

Arrays are NumPy's, or what ``numpy.asarray`` takes. Gather the scores of all ranks first: the mean of the ranks' AUROCs is not
the AUROC of all images.

E. R. DeLong et al., Biometrics 44, 1988; computed in O(n log n) as X. Sun and W. Xu, IEEE Signal Processing Letters 21, 2014.
"""

from __future__ import annotations

import math
import statistics
from typing import Any, NamedTuple

import numpy as np

from xoe import _core
from xoe.errors import InvalidArgumentError

Array = Any  # of NumPy, or what becomes one


def _interval(value: float, variance: float, level: float) -> tuple[float, float]:
    reach = statistics.NormalDist().inv_cdf(0.5 + level / 2) * math.sqrt(variance)
    return max(0.0, value - reach), min(1.0, value + reach)


class Auroc(NamedTuple):
    """The probability that a positive scores higher than a negative; a tie counts half. variance: DeLong's."""

    value: float
    variance: float
    positives: int
    negatives: int

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """value ± z sqrt(variance), cut off at 0 and 1."""
        return _interval(self.value, self.variance, level)


class Difference(NamedTuple):
    """One AUROC minus another, of the same images."""

    value: float
    variance: float

    @property
    def p_value(self) -> float:
        """Of no difference, two-sided; 1 where value is 0, 0 where the variance alone is."""
        if self.value == 0:
            return 1.0
        return 0.0 if self.variance == 0 else math.erfc(abs(self.value) / math.sqrt(2 * self.variance))


class LabelAurocs(NamedTuple):
    """AUROCs of several labels of the same images.

    labels: None for those with fewer than two positives or negatives. mean: of the others. variance: of the mean, with the
    labels' covariances.
    """

    labels: list[Auroc | None]
    mean: float
    variance: float

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """Of the mean, cut off at 0 and 1."""
        return _interval(self.mean, self.variance, level)


def _with_influence(targets: Array, scores: Array) -> tuple[Auroc, Array]:
    scores = np.ascontiguousarray(scores, np.float64)
    positive = np.ascontiguousarray(np.asarray(targets) > 0.5, np.uint8)
    if scores.ndim != 1 or scores.shape != positive.shape:
        raise InvalidArgumentError(f"auroc: scores of shape {scores.shape} and targets of shape {positive.shape}, not [n] both")
    influence = np.empty_like(scores)
    return Auroc(*_core.auroc(scores, positive, influence)), influence


def auroc(targets: Array, scores: Array) -> Auroc:
    """targets: [n], above 0.5 where an image has the finding. scores: [n].

    InvalidArgumentError: a score is NaN; fewer than two positives or two negatives; shapes that differ.
    """
    return _with_influence(targets, scores)[0]


def compare_auroc(targets: Array, a: Array, b: Array) -> Difference:
    """The AUROC of scores ``a`` minus that of ``b``; the variance pairs the images. Errors: as :func:`auroc`."""
    (first, of_a), (second, of_b) = _with_influence(targets, a), _with_influence(targets, b)
    return Difference(first.value - second.value, float(((of_a - of_b) ** 2).sum()))


def auroc_of_labels(targets: Array, scores: Array) -> LabelAurocs:
    """targets, scores: [n, labels].

    InvalidArgumentError: a score is NaN (the message names image and label); no label with two positives and two negatives;
    shapes that differ.
    """
    scores = np.asarray(scores, np.float64)
    positive = np.asarray(targets) > 0.5
    if scores.ndim != 2 or scores.shape != positive.shape:
        raise InvalidArgumentError(
            f"auroc: scores of shape {scores.shape} and targets of shape {positive.shape}, not [n, labels] both"
        )
    if np.isnan(scores).any():
        image, label = np.argwhere(np.isnan(scores))[0]
        raise InvalidArgumentError(f"auroc: the score of image {image} for label {label} is NaN")
    total = np.zeros(len(scores))
    labels: list[Auroc | None] = []
    for label in range(scores.shape[1]):
        positives = int(positive[:, label].sum())
        if min(positives, len(scores) - positives) < 2:
            labels.append(None)
            continue
        found, influence = _with_influence(positive[:, label], scores[:, label])
        labels.append(found)
        total += influence
    values = [one.value for one in labels if one is not None]
    if not values:
        raise InvalidArgumentError(
            f"auroc: none of {len(labels)} labels has two positives and two negatives in {len(scores)} images"
        )
    return LabelAurocs(labels, sum(values) / len(values), float((total**2).sum()) / len(values) ** 2)
