"""xoe.data from Python: images as tensors, an epoch a loop, positions, records, errors."""

import subprocess
import sys
import tempfile

import ranks

ranks.start(__file__, sizes=(1, 2), timeout=200)

import torch

import xoe
import xoe.torch as hvd
from xoe.data import Images, Records
from xoe.torch.data import ImageDataset

hvd.init()
RANK, SIZE = hvd.rank(), hvd.size()


def make_images(folder):
    if RANK == 0:
        program = [str(ranks.BUILD / "bin" / "xoe-data"), "make", "--images", "40", "--classes", "4", "--shards", "2", folder]
        subprocess.run(program, check=True, stdout=subprocess.DEVNULL)
    hvd.barrier()
    return folder


FOLDER = hvd.broadcast_object(tempfile.mkdtemp(prefix="xoe-data-") if RANK == 0 else None, 0)
make_images(FOLDER)
OPTIONS = {"batch": 4, "image_size": 32, "seed": 3, "threads": 1}


def test_batches_are_tensors():
    dataset = ImageDataset(FOLDER, training=True, **OPTIONS)
    assert len(dataset) == 40 // SIZE // 4
    seen = list(dataset)
    assert len(seen) == len(dataset)
    for images, labels in seen:
        assert images.shape == (4, 3, 32, 32) and images.dtype == torch.float32 and images.is_contiguous()
        assert labels.shape == (4,) and labels.dtype == torch.int64 and 0 <= int(labels.min()) and int(labels.max()) < 4
    again = list(dataset)  # the next epoch, in another order
    assert len(again) == len(seen)
    assert not all(torch.equal(one[0], other[0]) for one, other in zip(seen, again, strict=True))
    # Tensors outlive the pipeline.
    dataset.images.close()
    assert torch.isfinite(seen[0][0]).all()


def test_pixels():
    with Images(FOLDER, training=False, **{**OPTIONS, "image_size": (16, 24)}) as images:
        smooth = torch.from_dlpack(next(images).pixels).clone()
    assert smooth.shape[1:] == (3, 16, 24)
    options = {**OPTIONS, "image_size": "16x24", "antialias": False, "interpolation": "bicubic", "exif_orientation": True}
    with Images(FOLDER, training=False, **options) as images:
        sharp = torch.from_dlpack(next(images).pixels).clone()
    assert sharp.shape == smooth.shape and not torch.equal(sharp, smooth)
    with Images(FOLDER, training=False, max_pixels=100, **OPTIONS) as images:
        try:
            next(images)
            raise AssertionError("an image of too many pixels was decoded")
        except RuntimeError as error:
            assert "max_pixels" in str(error) and FOLDER in str(error), error


def test_every_image_once():
    dataset = ImageDataset(FOLDER, training=False, remainder="keep", **{**OPTIONS, "batch": 3})
    count = sum(len(labels) for _, labels in dataset)
    assert sum(hvd.allgather_object(count)) == 8  # those held out


def test_positions():
    whole = ImageDataset(FOLDER, training=True, **OPTIONS)
    batches = [images.clone() for images, _ in whole]
    half = ImageDataset(FOLDER, training=True, **OPTIONS)
    loader = torch.utils.data.DataLoader(half, batch_size=None, num_workers=0)
    for index, _ in enumerate(loader):
        if index == 1:
            break
    state = half.state_dict()
    fresh = ImageDataset(FOLDER, training=True, **OPTIONS)
    fresh.load_state_dict(state)
    rest = [images for images, _ in fresh]
    assert len(rest) == len(batches) - 2
    for one, other in zip(rest, batches[2:], strict=True):
        assert torch.equal(one, other)


def test_options_of_all_sorts():
    images = Images(FOLDER, layout="nhwc", dtype="uint8", epochs=1, mean=(0.5, 0.5, 0.5), training=False, **OPTIONS)
    batch = next(iter(images))
    assert memoryview(batch.pixels).shape == (4, 32, 32, 3)
    assert images.facts["classes"] == 4 and images.facts["records_per_epoch"] == 8
    assert isinstance(images.report()["words"], (str, list))
    mixed = Images(FOLDER, mixup_alpha=0.2, training=True, **OPTIONS)
    targets = torch.from_dlpack(next(iter(mixed)).targets)
    torch.testing.assert_close(targets.sum(1), torch.ones(4))


def test_records():
    records = Records(f"{FOLDER}/train-*")
    first = next(records)
    position = records.save()
    rest = list(records)
    assert sum(hvd.allgather_object(1 + len(rest))) == 40 and isinstance(first, bytes)
    again = Records(f"{FOLDER}/train-*")
    again.restore(position)
    assert list(again) == rest
    assert again.report()["records"] == len(rest)


def test_errors():
    for call, kind, word in (
        (lambda: Images("/no/such/folder"), xoe.UnavailableError, "/no/such/folder"),
        (lambda: Images(FOLDER, colour="red"), xoe.InvalidArgumentError, "colour"),
        (lambda: Records("/no/such/*"), xoe.UnavailableError, "/no/such/"),
    ):
        try:
            call()
        except kind as error:
            assert word in str(error), error
        else:
            raise AssertionError(f"{kind.__name__} was not raised")


def test_the_end():
    hvd.barrier()
    if RANK == 0:
        import shutil

        shutil.rmtree(FOLDER)


ranks.call_tests(globals())
sys.exit(0)
