"""ImageDataset delivers each record once an epoch, however often training is stopped and resumed on other numbers of ranks
and other batches. The ranks take turns in this process.
"""

import os
import random
import struct
import sys
import tempfile

import ranks

ranks.start(__file__, sizes=(1,))

from xoe.torch.data import ImageDataset

CASES = 1000
COUNTS = (1, 7, 40, 97, 200)
SIDE = 4


def make_images(folder, count):
    """Images in MNIST's format, of which each has its number as its label."""
    with open(f"{folder}/train-images-idx3-ubyte", "wb") as images:
        images.write(struct.pack(">IIII", 0x803, count, SIDE, SIDE) + bytes(count * SIDE * SIDE))
    with open(f"{folder}/train-labels-idx1-ubyte", "wb") as labels:
        labels.write(struct.pack(">II", 0x801, count) + bytes(range(count)))
    return folder


def open_ranks(folder, size, batch, options):
    return [ImageDataset(folder, batch, rank=rank, size=size, threads=0, **options) for rank in range(size)]


class Job:
    """The ranks of a job, in step."""

    def __init__(self, folder, draw, options, state=None):
        self.datasets = open_ranks(folder, draw.randint(1, 5), draw.randint(1, 9), options)
        if state is not None:
            for dataset in self.datasets:
                dataset.load_state_dict(state)
        self.loops = [iter(dataset) for dataset in self.datasets]

    def step(self):
        """The labels of one batch on every rank; None at the end of the epoch, which is the same for all."""
        batches = [next(loop, None) for loop in self.loops]
        ended = [batch is None for batch in batches]
        assert all(ended) or not any(ended), "ranks disagree about the end of the epoch"
        return None if ended[0] else [label for _, labels in batches for label in labels.tolist()]

    def rest(self):
        seen = []
        while (labels := self.step()) is not None:
            seen += labels
        return seen


def check_case(folder, count, draw):
    options = {
        "image_size": SIDE, "training": True, "remainder": "keep", "seed": draw.randint(0, 99), "classes": 256,
        "min_area": 1.0, "shuffle_buffer": draw.choice((1, 10, 10000)),
    }  # fmt: skip
    job, seen = Job(folder, draw, options), []
    for _ in range(draw.randint(1, 4)):
        for _ in range(draw.randint(0, 6)):
            labels = job.step()
            if labels is None:
                break
            seen += labels
        if len(seen) == count:
            break
        states = [dataset.state_dict() for dataset in job.datasets]
        assert all(state == states[0] for state in states)
        job = Job(folder, draw, options, states[0])
    seen += job.rest()
    assert sorted(seen) == list(range(count)), f"{count} records: {sorted(seen)}"
    job.loops = [iter(dataset) for dataset in job.datasets]
    assert sorted(job.rest()) == list(range(count)), "the next epoch"


def test_each_record_once():
    with tempfile.TemporaryDirectory(prefix="xoe-epochs-") as parent:
        folders = {}
        for count in COUNTS:
            os.mkdir(f"{parent}/{count}")
            folders[count] = make_images(f"{parent}/{count}", count)
        for case in range(CASES):
            draw = random.Random(case)
            count = draw.choice(COUNTS)
            try:
                check_case(folders[count], count, draw)
            except Exception as error:
                raise AssertionError(f"case {case}") from error


def test_classes_in_a_row_are_mixed():
    """Batches of data sorted by class have as many classes as batches drawn from all records."""
    classes, of_each, batch = 100, 1000, 100
    with tempfile.TemporaryDirectory(prefix="xoe-epochs-") as folder:
        with open(f"{folder}/train-images-idx3-ubyte", "wb") as images:
            images.write(struct.pack(">IIII", 0x803, classes * of_each, SIDE, SIDE) + bytes(classes * of_each * SIDE * SIDE))
        with open(f"{folder}/train-labels-idx1-ubyte", "wb") as labels:
            labels.write(struct.pack(">II", 0x801, classes * of_each))
            labels.writelines(bytes([label]) * of_each for label in range(classes))
        dataset = ImageDataset(folder, batch, image_size=SIDE, training=True, classes=classes, seed=1)
        distinct = [len(set(labels.tolist())) for (_, labels), _ in zip(dataset, range(200), strict=False)]
    ideal = classes * (1 - (1 - 1 / classes) ** batch)
    assert abs(sum(distinct) / len(distinct) / ideal - 1) < 0.03, (sum(distinct) / len(distinct), ideal)


def test_a_loop_that_was_left_is_over():
    with tempfile.TemporaryDirectory(prefix="xoe-epochs-") as folder:
        make_images(folder, 40)
        dataset = ImageDataset(folder, 4, image_size=SIDE, training=True, classes=256, seed=5)
        epochs = [[labels.tolist() for _, labels in dataset] for _ in range(3)]
        again = ImageDataset(folder, 4, image_size=SIDE, training=True, classes=256, seed=5)
        for index, (_, labels) in enumerate(again):
            assert labels.tolist() == epochs[0][index]
            if index == 2:
                break
        assert [labels.tolist() for _, labels in again] == epochs[1]
        for _ in again:  # left at its first batch
            break
        state = again.state_dict()
        again.load_state_dict(state)
        assert [labels.tolist() for _, labels in again] == epochs[2][1:]
        again.images.start_epoch(1)
        assert [labels.tolist() for _, labels in again] == epochs[1]


ranks.call_tests(globals())
sys.exit(0)
