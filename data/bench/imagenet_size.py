#!/usr/bin/env python3
"""Opens as many images as ImageNet's training split has, sorted by class, and tells what that costs and how well they are mixed:

    nice data/bench/imagenet_size.py FOLDER            # made there when missing: 1.3 million inodes, 5.3 GB
    ... --build build/release --kinds folder,records

Images are PNGs of one pixel: indexes alone are measured, not decoding. `folder` has a file for each image, `records` is what
`xoe data convert --keep-order` makes of it in 1,024 TFRecord files, `indexed` the same with index files, `converted` what `xoe data
convert` makes. Each is opened by one thread of a process of its own, after a first one, so that inodes and indexes are in memory.
"""

import argparse
import json
import os
import pathlib
import resource
import struct
import subprocess
import sys
import time
import zlib

RECORDS, CLASSES, BATCH, BATCHES = 1281167, 1000, 256, 200
SHARDS = "1024"


def one_pixel(level):
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(bytes((0, level)))) + chunk(b"IEND", b"")
    )


def make_folder(folder):
    image = one_pixel(100)
    for label in range(CLASSES):
        path = folder / "train" / f"n{label:08}"
        path.mkdir(parents=True)
        for number in range(RECORDS * label // CLASSES, RECORDS * (label + 1) // CLASSES):
            (path / f"n{label:08}_{number}.png").write_bytes(image)


def make(parent, kind, program):
    """The folder of a kind, made when missing."""
    folder = parent / ("records" if kind == "indexed" else kind)
    if kind == "folder":
        if not folder.exists():
            make_folder(parent / "unfinished")
            (parent / "unfinished").rename(folder)
    elif not folder.exists():
        source = make(parent, "folder", program)
        order = ["--keep-order"] if kind != "converted" else []
        subprocess.run([program, "convert", source, folder, "--shards", SHARDS, *order], check=True)
    if kind == "indexed":
        subprocess.run([program, "index", folder], check=True, stdout=subprocess.DEVNULL)
    elif kind == "records":
        for index in folder.glob("*.xoeindex"):
            index.unlink()
    return folder


def resident():
    return int(pathlib.Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def measure(folder):
    """In a process of its own: seconds and bytes of opening, and the different classes of the first batches."""
    from xoe.data import Images

    before, start, cpu = resident(), time.perf_counter(), time.process_time()
    images = Images(folder, BATCH, image_size=8, threads=0, seed=1)
    opened, used, grown = time.perf_counter() - start, time.process_time() - cpu, resident() - before
    start = time.perf_counter()
    distinct = [len(set(memoryview(next(images).labels).tolist())) for _ in range(BATCHES)]
    return {
        "records": images.facts["records_per_epoch"],
        "seconds": opened,
        "cpu_seconds": used,
        "bytes": grown,
        "distinct": sum(distinct) / len(distinct),
        "batches_seconds": time.perf_counter() - start,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build/release"))
    parser.add_argument("--kinds", default="folder,records,indexed,converted")
    parser.add_argument("--measure", action="store_true", help="the folder itself, in this process")
    arguments = parser.parse_args()
    if arguments.measure:
        print(json.dumps(measure(arguments.folder)))
        return
    arguments.folder.mkdir(parents=True, exist_ok=True)
    ideal = CLASSES * (1 - (1 - 1 / CLASSES) ** BATCH)
    print(f"{RECORDS:,} images in {CLASSES} classes; a batch of {BATCH} drawn at random has {ideal:.1f} of them")
    environment = {**os.environ, "PYTHONPATH": str(arguments.build.resolve() / "python")}
    for kind in arguments.kinds.split(","):
        folder = make(arguments.folder, kind, arguments.build / "bin" / "xoe-data")
        command = [sys.executable, __file__, "--measure", str(folder)]
        subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)
        done = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True)
        got = json.loads(done.stdout)
        assert got["records"] == RECORDS, got
        print(
            f"{kind:10} opened in {got['seconds']:.2f} s ({got['cpu_seconds']:.2f} CPU-s), {got['bytes'] / 2**20:.0f} MiB, "
            f"{got['bytes'] / RECORDS:.0f} bytes a record; {got['distinct']:.1f} classes a batch "
            f"({100 * got['distinct'] / ideal - 100:+.2f} %)",
            flush=True,
        )


if __name__ == "__main__":
    main()
