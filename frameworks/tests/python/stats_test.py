"""xoe.stats against the definitions, pair by pair, and against scikit-learn where `data/bench/install_peers.sh sklearn` put it."""

import importlib.util

import ranks
from checks import raises

if ranks.peer_python.peer_python("sklearn", "sklearn"):
    ranks.use("sklearn", "sklearn")
ranks.start(__file__, sizes=(1,))

import numpy as np

from xoe import stats
from xoe.errors import InvalidArgumentError


def roc_auc_score(targets, scores):
    """scikit-learn's, where it is there; of a table the mean of its columns."""
    if importlib.util.find_spec("sklearn"):
        from sklearn.metrics import roc_auc_score as theirs

        return theirs(targets, scores)
    if targets.ndim == 2:
        return np.mean([components(one, other)[0] for one, other in zip(targets.T, scores.T, strict=True)])
    return components(targets, scores)[0]


def sample(seed, count=400, prevalence=0.2, levels=30):
    random = np.random.default_rng(seed)
    targets = random.random(count) < prevalence
    targets[:2], targets[2:4] = True, False
    return targets, random.integers(0, levels, count) + targets * levels / 4


def components(targets, scores):
    """V10 and V01 of DeLong et al.: for each positive the negatives below it, for each negative the positives above it."""
    order = np.sign(scores[targets][:, None] - scores[~targets][None, :]) / 2 + 0.5
    return order.mean(), order.mean(axis=1), order.mean(axis=0)


def test_equals_scikit_learn_and_the_definition():
    for seed, (count, prevalence, levels) in enumerate([(8, 0.5, 3), (400, 0.2, 30), (5000, 0.01, 10**6), (3000, 0.9, 2)]):
        targets, scores = sample(seed, count, prevalence, levels)
        found = stats.auroc(targets, scores)
        value, positives, negatives = components(targets, scores)
        variance = positives.var(ddof=1) / len(positives) + negatives.var(ddof=1) / len(negatives)
        assert abs(found.value - roc_auc_score(targets, scores)) < 1e-12
        assert abs(found.value - value) < 1e-12 and abs(found.variance - variance) < 1e-12
        assert (found.positives, found.negatives) == (targets.sum(), (~targets).sum())
        low, high = found.interval(0.95)
        assert abs(low - max(0, value - 1.959964 * variance**0.5)) < 1e-6 and low <= value <= high <= 1


def test_labels():
    columns = [sample(seed) for seed in range(3)]
    targets = np.stack([column[0] for column in columns] + [np.zeros(400, bool)], axis=1)
    scores = np.stack([column[1] for column in columns] + [np.arange(400.0)], axis=1)
    found = stats.auroc_of_labels(targets.astype(np.float32), scores.astype(np.float32))
    assert found.labels[3] is None
    assert abs(found.mean - roc_auc_score(targets[:, :3], scores[:, :3])) < 1e-12
    same = stats.auroc_of_labels(targets[:, [0, 0]], scores[:, [0, 0]])
    assert abs(same.variance - found.labels[0].variance) < 1e-15  # of two labels that are one


def test_comparison_pairs_the_images():
    targets, a = sample(7)
    b = a + np.random.default_rng(8).normal(0, 1, len(a))
    found = stats.compare_auroc(targets, a, b)
    pairs = [components(targets, scores) for scores in (a, b)]
    positives, negatives = pairs[0][1] - pairs[1][1], pairs[0][2] - pairs[1][2]
    variance = positives.var(ddof=1) / len(positives) + negatives.var(ddof=1) / len(negatives)
    assert abs(found.value - (pairs[0][0] - pairs[1][0])) < 1e-12 and abs(found.variance - variance) < 1e-12
    assert 0 < found.p_value < 1 and stats.compare_auroc(targets, a, a).p_value == 1


def test_errors():
    raises(InvalidArgumentError, lambda: stats.auroc([0, 0, 1, 1], [1, float("nan"), 2, 3]), "score 1 of 4 is NaN")
    raises(InvalidArgumentError, lambda: stats.auroc([0, 0, 0, 0], [1, 2, 3, 4]), "0 positive and 4 negative")
    raises(InvalidArgumentError, lambda: stats.auroc([0, 0, 1], [1, 2, 3, 4]), "shape")
    raises(InvalidArgumentError, lambda: stats.auroc_of_labels(np.zeros(4), np.zeros(4)), "shape")
    broken = np.zeros((5, 3))
    broken[4, 2] = np.nan
    raises(InvalidArgumentError, lambda: stats.auroc_of_labels(np.zeros((5, 3)), broken), "image 4 for label 2 is NaN")
    raises(InvalidArgumentError, lambda: stats.auroc_of_labels(np.zeros((5, 3)), np.zeros((5, 3))), "none of 3 labels")


ranks.call_tests(globals())
