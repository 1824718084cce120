"""Options and measurement, shared by the scripts of all peers. Standard library only.

A peer gives batches for ever; each is touched, as `xoe data bench` does it. Processor time and memory are those of the
process and of all that it started.
"""

import argparse
import json
import os
import resource
import signal
import time
from pathlib import Path

MEAN = [0.485, 0.456, 0.406]
DEVIATION = [0.229, 0.224, 0.225]
AREA = (0.08, 1.0)
RATIO = (3 / 4, 4 / 3)
ATTEMPTS = 10
MEMORY_EVERY_S = 0.5
TICKS = os.sysconf("SC_CLK_TCK")


def parse_arguments(variants):
    parser = argparse.ArgumentParser()
    parser.add_argument("variant", choices=variants)
    parser.add_argument("set", type=Path, help="a data set as data/bench/sets.py makes them")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=8)
    parser.add_argument("--warmup", type=float, default=3)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--image-size", type=int, default=224)
    parser.add_argument("--shuffle", type=int, default=500)
    parser.add_argument("--ranks", type=int, default=1, help="this process is rank 0 of so many (tf.data)")
    return parser.parse_args()


def record_files(arguments):
    return sorted(str(path) for path in arguments.set.glob("train-*"))


def image_files(arguments):
    """(path, class) of the loose files; classes from 0."""
    folders = sorted(path for path in (arguments.set / "files").iterdir())
    return [(str(path), label) for label, folder in enumerate(folders) for path in sorted(folder.iterdir())]


def _fields(pid):
    """The fields of /proc/PID/stat after the name, which may hold spaces; None when the process is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rsplit(") ", 1)[1].split()
    except OSError:
        return None


def _descendants():
    """{pid: fields} of all descendants of this process."""
    every = {int(entry): _fields(entry) for entry in os.listdir("/proc") if entry.isdigit()}
    found, fresh = {}, {os.getpid()}
    while fresh:
        fresh = {pid for pid, fields in every.items() if fields and int(fields[1]) in fresh}
        found.update({pid: every[pid] for pid in fresh})
    return found


def _cpu_seconds():
    used = resource.getrusage(resource.RUSAGE_SELF)
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    alive = sum(int(fields[11]) + int(fields[12]) for fields in _descendants().values()) / TICKS
    return used.ru_utime + used.ru_stime + children.ru_utime + children.ru_stime + alive


def _memory():
    """Bytes in memory; a page that n processes share counts as 1/n of a page (PSS)."""
    total = 0
    for pid in [os.getpid(), *_descendants()]:
        try:
            text = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="utf-8")
        except OSError:
            continue
        total += next(int(line.split()[1]) << 10 for line in text.splitlines() if line.startswith("Pss:"))
    return total


def process_age():
    """Seconds since the process was started."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) - int(_fields("self")[19]) / TICKS


class Meter:
    """Takes batches from `batches`, whose elements `touch` turns into (a value, number of images)."""

    def __init__(self, batches, touch):
        self.batches, self.touch = batches, touch
        self.memory = self.looked = self.measuring = 0.0
        self.touched = 0.0

    def take(self, seconds):
        """Takes at least one batch. Returns the number of images and the seconds."""
        images, start = 0, time.perf_counter()
        while True:
            value, count = self.touch(next(self.batches))
            self.touched += float(value)
            images += count
            self.look_at_memory()
            if time.perf_counter() - start >= seconds:
                return images, time.perf_counter() - start

    def look_at_memory(self):
        now = time.perf_counter()
        if now - self.looked < MEMORY_EVERY_S:
            return
        self.looked = now
        before = time.thread_time()
        self.memory = max(self.memory, _memory())
        self.measuring += time.thread_time() - before


def measure(name, arguments, make_batches, touch):
    """Prints one line of JSON, with the fields that `xoe data bench --json` has."""
    opened = time.perf_counter()
    meter = Meter(make_batches(), touch)
    meter.take(0)
    from_opening, from_start = time.perf_counter() - opened, process_age()
    meter.take(arguments.warmup)
    cpu, own = _cpu_seconds(), meter.measuring
    images, seconds = meter.take(arguments.seconds)
    cpu = _cpu_seconds() - cpu - (meter.measuring - own)
    result = {
        "name": name,
        "threads": arguments.threads,
        "images_per_s": images / seconds,
        "cpu_ms_per_image": 1e3 * cpu / images,
        "peak_bytes": int(meter.memory),
        "first_batch_s": from_start,
        "opened_first_batch_s": from_opening,
        "images": images,
        "seconds": seconds,
    }
    print(json.dumps(result), flush=True)
    # Processes of the peer may take seconds to end, or hang.
    for pid in _descendants():
        os.kill(pid, signal.SIGKILL)
    os._exit(0)
