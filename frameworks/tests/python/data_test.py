"""xoe.data from Python: images as tensors, an epoch a loop, positions, records, errors."""

import contextlib
import os
import pathlib
import pydoc
import re
import shutil
import subprocess
import sys
import tempfile
import warnings

import ranks
from checks import raises

ranks.start(__file__, sizes=(1, 2))

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


FOLDER = ranks.folder_for_all(RANK, lambda made: hvd.broadcast_object(made, 0), hvd.barrier)
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


def test_either_split_is_read_in_either_way():
    for training in (True, False):
        for split, images in (("train", 40), ("validation", 8), ("auto", 40 if training else 8)):
            options = {**OPTIONS, "training": training, "split": split}
            assert Images(FOLDER, **options).facts["records_per_epoch"] == images, options
            assert len(ImageDataset(FOLDER, **options)) == images // SIZE // 4, options


def test_help_lists_every_option():
    for kind, open_one in (
        (Images, lambda: Images(FOLDER, unheard_of=1)),
        (ImageDataset, lambda: ImageDataset(FOLDER, unheard_of=1)),
        (Records, lambda: Records(f"{FOLDER}/train-*", unheard_of=1)),
    ):
        try:
            open_one()
            raise AssertionError("an unknown option was taken")
        except xoe.InvalidArgumentError as error:
            names = str(error).rsplit("there are ", 1)[1].split(", ")
        assert len(names) > 10, names
        text = pydoc.plain(pydoc.render_doc(kind))
        for name in names:
            assert re.search(rf"\b{name}(=|,|:|  )", text), f"help({kind.__name__}) lacks {name}"
        assert ", ..." not in text


def test_restore_refuses_files_that_changed():
    if RANK > 0:
        return
    with tempfile.TemporaryDirectory() as folder:
        for name in os.listdir(FOLDER):
            shutil.copy(f"{FOLDER}/{name}", folder)
        dataset = ImageDataset(folder, compare=False, **OPTIONS)
        next(iter(dataset))
        state = dataset.state_dict()
        dataset.load_state_dict(state)
        first, second = (f"{folder}/{name}" for name in sorted(os.listdir(folder)) if name.startswith("train-"))
        os.rename(first, f"{folder}/other")
        os.rename(second, first)
        os.rename(f"{folder}/other", second)
        changed = ImageDataset(folder, compare=False, **OPTIONS)
        try:
            changed.load_state_dict(state)
            raise AssertionError("a position of other files was taken")
        except xoe.InvalidArgumentError as error:
            assert folder in str(error), error


def test_restore_of_records_refuses_other_files():
    if RANK > 0:
        return
    with tempfile.TemporaryDirectory() as folder:
        for name in ("a", "b"):
            shutil.copy(f"{FOLDER}/train-00000-of-00002", f"{folder}/{name}")
        options = {"rank": 0, "size": 1, "shard_by_file": False}
        records = Records(f"{folder}/*", **options)
        first = next(records)
        position = records.save()
        assert first == next(Records(f"{folder}/*", **options))
        Records(f"{folder}/*", **options).restore(position)
        os.rename(f"{folder}/a", f"{folder}/c")
        told = str(raises(xoe.InvalidArgumentError, lambda: Records(f"{folder}/*", **options).restore(position)))
        assert "other names" in told, told
        Records(f"{folder}/*", **options).restore(position.split(" records.names=")[0])  # of an earlier version


def test_an_assumed_label_offset_is_told():
    if RANK > 0:
        return
    with tempfile.TemporaryDirectory() as folder:
        for name in os.listdir(FOLDER):
            if name.startswith("train-"):
                shutil.copy(f"{FOLDER}/{name}", folder)
        told = told_by(lambda: Images(folder, rank=0, size=1, **OPTIONS))
        assert len(told) == 1 and "all 40 records were looked at, with labels 1 to 4" in told[0], told
        assert told_by(lambda: Images(folder, rank=0, size=1, label_offset=1, **OPTIONS)) == []
        assert told_by(lambda: Images(folder, rank=0, size=1, classes=4, **OPTIONS)) == []


def test_arrays_behave_as_arrays():
    batch = next(iter(Images(FOLDER, training=True, **OPTIONS)))
    pixels, labels = batch.pixels, batch.labels
    tensor, numbers = torch.from_dlpack(pixels), torch.from_dlpack(labels)
    assert pixels.shape == (4, 3, 32, 32) == tuple(tensor.shape) and pixels.dtype == "float32" and labels.dtype == "int64"
    assert pixels.ndim == 4 and pixels.size == tensor.numel() and pixels.nbytes == 4 * pixels.size and pixels.itemsize == 4
    assert len(pixels) == 4 and len(labels) == 4
    assert labels.tolist() == numbers.tolist() and list(labels) == numbers.tolist() and labels[-1] == numbers[-1].item()
    for key in (0, -1, (1, 2), slice(1, 3), (..., 5), (slice(None), 0, slice(3, 30, 7), ...), slice(9, 9), (2, ..., slice(2))):
        part, expected = pixels[key], tensor[key]
        assert part.shape == tuple(expected.shape), key
        assert torch.equal(torch.from_dlpack(part), expected), key
        assert part.tolist() == expected.tolist(), key
    assert pixels[1, 2, 3, 4] == tensor[1, 2, 3, 4].item() and isinstance(pixels[1, 2, 3, 4], float)
    assert [tuple(image.shape) for image in pixels] == [(3, 32, 32)] * 4
    assert memoryview(pixels[1:3])[1, 2, 3, 4] == pixels[2, 2, 3, 4]
    assert "4, 3, 32, 32" in repr(pixels) and "float32" in repr(batch)
    torch.from_dlpack(pixels[0])[:] = 7  # a view, not a copy
    assert pixels[0, 1, 2, 3] == 7
    for key, kind in (
        (4, IndexError),
        (-5, IndexError),
        ((0,) * 5, IndexError),
        ((..., ...), IndexError),
        ([0, 1], TypeError),
        (True, TypeError),
        (slice(None, None, -1), ValueError),
        (0.5, TypeError),
    ):
        raises(kind, lambda key=key: pixels[key])
    for dtype in ("uint8", "float16", "bfloat16"):
        batch = next(iter(Images(FOLDER, training=True, dtype=dtype, **OPTIONS)))
        assert batch.pixels.dtype == dtype
        assert batch.pixels[0, 0, 0].tolist() == torch.from_dlpack(batch.pixels)[0, 0, 0].tolist()


def test_arrays_become_those_of_numpy():
    try:
        import numpy
    except ImportError:
        return
    batch = next(iter(Images(FOLDER, training=True, **OPTIONS)))
    pixels = numpy.asarray(batch.pixels)
    assert pixels.shape == batch.pixels.shape and pixels.dtype == batch.pixels.dtype
    pixels[0] = 3
    assert batch.pixels[0, 0, 0, 0] == 3
    assert numpy.array(batch.labels, dtype="float64").tolist() == batch.labels.tolist()
    assert (batch.pixels.__array__(dtype="float64", copy=True) == pixels).all()
    halves = next(iter(Images(FOLDER, training=True, dtype="bfloat16", **OPTIONS)))
    try:
        halves.pixels.__array__()
    except TypeError as error:
        assert "bfloat16" in str(error)
    else:
        raise AssertionError("numpy has no bfloat16")


def test_images_are_found_again():
    """By the file and the number of each image its record is read again."""
    dataset = ImageDataset(FOLDER, training=True, **OPTIONS)
    seen = []
    for _, labels in dataset:
        batch = dataset.batch
        assert batch.files == [origin.file for origin in batch.origins] and len(batch.records) == len(labels)
        for origin, label in zip(batch.origins, labels.tolist(), strict=True):
            records = Records(origin.file, rank=0, size=1)
            record = next(record for record in records if records.place == (origin.file, origin.record))
            # The feature is a packed list of one number, in this file from 1.
            feature = record[record.index(b"image/class/label") + len(b"image/class/label") :]
            assert feature[: feature.index(b"image/")].find(bytes([label + 1])) >= 0
            assert origin.name.startswith(f"{origin.file}: record {origin.record} at byte ")
        seen += batch.records.tolist()
    assert len(set(seen)) == len(seen) == len(dataset) * 4
    kept = dataset.batch
    dataset.images.close()
    assert kept.origins[0].file in kept.files  # a batch outlives the pipeline


def test_opening_reads_no_record_for_the_classes():
    if RANK > 0:
        return
    with tempfile.TemporaryDirectory() as folder:
        for name in os.listdir(FOLDER):
            if name.startswith("train-"):
                shutil.copy(f"{FOLDER}/{name}", folder)
        name = sorted(os.listdir(folder))[0]
        with open(f"{folder}/{name}", "r+b") as damaged:
            damaged.seek(500)
            byte = damaged.read(1)
            damaged.seek(500)
            damaged.write(bytes([byte[0] ^ 1]))
        dataset = ImageDataset(folder, rank=0, size=1, training=True, **OPTIONS)
        assert len(dataset) == 10
        try:
            dataset.images.facts  # noqa: B018
        except xoe.DataLossError as error:
            assert name in str(error)
        else:
            raise AssertionError("the damaged record was not read")


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
        raises(kind, call, word)


def own_copy(stack):
    """A copy of the images for each rank, as on hosts of their own."""
    folder = f"{stack.enter_context(tempfile.TemporaryDirectory(prefix='xoe-data-'))}/images"
    shutil.copytree(FOLDER, folder)
    return folder


def test_ranks_with_other_files_are_told():
    opens = (
        ("train-00001-of-00002", lambda folder, **more: ImageDataset(folder, training=True, **OPTIONS, **more)),
        ("validation-00000-of-00001", lambda folder, **more: Images(folder, training=False, **OPTIONS, **more)),
        ("train-00001-of-00002", lambda folder, **more: Records(f"{folder}/train-*", shard_by_file=False, **more)),
    )
    for name, open_on in opens:
        with contextlib.ExitStack() as stack:
            folder = own_copy(stack)
            open_on(folder)  # equal files in folders with other names, written at other times
            if SIZE == 1:
                continue
            path = f"{folder}/{name}"
            whole = os.path.getsize(path)
            if RANK == SIZE - 1:  # its last record is lost
                last = list(Records(path, rank=0, size=1))[-1]
                os.truncate(path, whole - len(last) - 16)
            told = str(raises(xoe.InvalidArgumentError, lambda: open_on(folder)))
            assert f"rank {SIZE - 1} on host " in told and f"First difference: {name} has " in told, told
            assert len(set(hvd.allgather_object(told.split(": ", 1)[1]))) == 1, "all ranks are told the same"
            # One that lacks the file, though it may: the others still have it.
            if RANK == SIZE - 1:
                os.remove(path)
                os.symlink("/nowhere", path)
            told = str(raises(xoe.DataLossError, lambda: open_on(folder)))
            assert f"rank {SIZE - 1} on host " in told and f"{name}: a link to /nowhere" in told, told
            if name.startswith("train"):
                told = str(raises(xoe.InvalidArgumentError, lambda: open_on(folder, allow_missing=True)))
                assert f"First difference: {name} is absent on rank {SIZE - 1}" in told, told
            hvd.barrier()  # the world goes on


def test_ranks_may_open_for_themselves():
    if RANK == 0:
        assert Images(FOLDER, rank=0, size=1, **OPTIONS).facts["records_per_epoch"] == 40
        assert Images(FOLDER, compare=False, **OPTIONS).facts["records_per_epoch"] == 40
        assert len(list(Records(f"{FOLDER}/train-*", rank=0, size=1))) == 40
    hvd.barrier()


def test_ranks_with_other_options_are_told():
    if SIZE > 1:
        told = str(raises(xoe.InvalidArgumentError, lambda: Images(FOLDER, **{**OPTIONS, "batch": 4 + RANK})))
        assert "rank 1 on host " in told and "batches an epoch" in told, told
        told = str(raises(xoe.InvalidArgumentError, lambda: Images(FOLDER, **{**OPTIONS, "seed": RANK})))
        assert "in another order" in told, told


def test_missing_files():
    with contextlib.ExitStack() as stack:
        folder = own_copy(stack)
        os.remove(f"{folder}/train-00001-of-00002")
        for open_on in (lambda **more: Images(folder, **OPTIONS, **more), lambda **more: Records(f"{folder}/train-*", **more)):
            told = str(raises(xoe.DataLossError, open_on))
            assert "train-00001-of-00002: absent" in told and "allow_missing" in told, told
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            images = Images(folder, allow_missing=True, **OPTIONS)
        assert images.facts["missing"] == 1 and images.facts["records_per_epoch"] == 20
        assert ["1 missing part left out" in str(one.message) for one in seen] == [True] * (RANK == 0)
        options = {"shard_by_file": False, "allow_missing": True}
        assert sum(hvd.allgather_object(len(list(Records(f"{folder}/train-*", **options))))) == 20


def test_paths_of_any_bytes():
    if RANK > 0:
        return
    with tempfile.TemporaryDirectory() as parent:
        folder = os.path.join(os.fsencode(parent), b"caf\xe9")
        shutil.copytree(os.fsencode(FOLDER), folder)
        shard = os.path.join(folder, b"train-00001-of-00002")
        options = {**OPTIONS, "rank": 0, "size": 1}
        for directory in (folder, os.fsdecode(folder), pathlib.Path(os.fsdecode(folder))):
            images = Images(directory, **options)
            files = set(next(images).files)
            assert files <= {os.fsdecode(os.path.join(folder, name)) for name in os.listdir(folder)}, files
            records = Records([os.path.join(os.fsencode(directory), b"train-*")], rank=0, size=1)
            assert len(list(records)) == 40 and records.place[0] == os.fsdecode(shard)
        with open(shard, "r+b") as damaged:
            damaged.truncate(1000)
        told = str(raises(xoe.DataLossError, lambda: Images(folder, **options)))
        assert "caf\ufffd" in told, told
        lines = told_by(lambda: Images(folder, max_bad=100, **options))
        assert len(lines) == 1 and "caf\ufffd" in lines[0], lines
        told = str(raises(xoe.InvalidArgumentError, lambda: Images("a\0b", **options)))
        assert "directory holds a zero byte" in told, told


def told_by(call):
    """The texts of the warnings."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        call()
    return [str(one.message) for one in seen]


def test_bad_images_are_told_of():
    if RANK > 0:
        return
    with contextlib.ExitStack() as stack:
        folder = own_copy(stack)
        path = f"{folder}/train-00000-of-00002"
        with open(path, "r+b") as damaged:
            damaged.seek(500)
            byte = damaged.read(1)
            damaged.seek(500)
            damaged.write(bytes([byte[0] ^ 1]))
        options = {**OPTIONS, "rank": 0, "size": 1, "max_bad": 1}
        dataset = ImageDataset(folder, **options)
        lines = told_by(lambda: list(dataset))
        assert len(lines) == 1 and f"1 bad image left out: {path}: record 0" in lines[0], lines
        assert told_by(lambda: list(dataset)) == [], "told of once"
        evaluation = Images(folder, training=False, pattern="train-*", **options)
        next(evaluation)
        lines = told_by(evaluation.close)
        assert len(lines) == 1 and path in lines[0], lines
        evaluation.close()
        told = str(raises(xoe.DataLossError, lambda: list(ImageDataset(folder, **{**options, "max_bad": 0}))))
        assert "max_bad=N" in told, told
        records = Records(f"{folder}/train-*", rank=0, size=1, max_bad=1)
        lines = told_by(lambda: list(records))
        assert len(lines) == 1 and f"1 bad record left out: {path}: record 0" in lines[0], lines
        os.remove(path)
        lines = told_by(lambda: Records(f"{folder}/train-*", rank=0, size=1, allow_missing=True))
        assert lines == [f"1 missing file left out: {path}: absent; 1 file of 2 are there"], lines


ranks.call_tests(globals())
sys.exit(0)
