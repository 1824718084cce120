#!/usr/bin/env python3
"""Files written by TensorFlow are read by Xoe, and the other way round, bit for bit.

  data/tests/tensorflow_interop.py TOOL                    the tests; TOOL is the program record_tool
  data/tests/tensorflow_interop.py --write-reference DIR   what data/tests/reference holds

Needs tensorflow-cpu (requirements/data-peers.txt), which `data/bench/install_peers.sh tfdata` installs, or an interpreter
that has it in XOE_PEERS_PYTHON; ends with 77 where it is not there.
"""

import pathlib
import random
import struct
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "core/testing"))
from peer_python import run_inside

COMPRESSIONS = {"plain": "", "gzip": "GZIP", "zlib": "ZLIB"}
TOOL = None

run_inside("tfdata", "tensorflow", {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": ""})

import tensorflow as tf


def write_records(path, records, compression):
    with tf.io.TFRecordWriter(str(path), tf.io.TFRecordOptions(compression_type=compression)) as writer:
        for record in records:
            writer.write(record)


def read_records(path, compression):
    return [record.numpy() for record in tf.data.TFRecordDataset(str(path), compression_type=compression)]


def tool(*arguments):
    done = subprocess.run([TOOL, *map(str, arguments)], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise AssertionError(done.stderr)
    return done.stdout.splitlines()


def feature(kind, values):
    message = tf.train.Feature()
    # Also an empty list sets its kind.
    getattr(message, kind).SetInParent()
    getattr(message, kind).value.extend(values)
    return message


FEATURES = {
    "bytes": feature("bytes_list", [b"", b"a", bytes(range(256))]),
    "floats": feature("float_list", [0.0, -0.0, 1.5, float("inf"), float("nan"), 1e-45, 3.4e38]),
    "integers": feature("int64_list", [0, -1, 1, 2**63 - 1, -2**63, 300]),
    "no bytes": feature("bytes_list", []),
    "no floats": feature("float_list", []),
    "no integers": feature("int64_list", []),
    "nothing": tf.train.Feature(),
    "one": feature("int64_list", [7]),
    "": feature("bytes_list", [b"no name"]),
    "\u00e9\u4e2d": feature("float_list", [2.5]),
}


def varint(value):
    value &= 2**64 - 1
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def field(number, content):
    return varint(number << 3 | 2) + varint(len(content)) + content


def loose_example():
    """Lists of numbers one by one, mixed with packed ones: as the wire format allows and no writer of today does."""
    integers = b"".join(b"\x08" + varint(value) for value in (5, -6, 2**40))
    integers += field(1, varint(8) + varint(9))
    floats = b"".join(b"\x0d" + struct.pack("<f", value) for value in (1.25, -3.5)) + field(1, struct.pack("<f", 8.0))
    entries = [(b"integers", field(3, integers)), (b"floats", field(2, floats)),
               # The last list of a oneof counts, and lists of one kind add up.
               (b"changed", field(1, field(1, b"x")) + field(3, b"\x08\x01") + field(3, b"\x08\x02"))]
    return field(1, b"".join(field(1, field(1, name) + field(2, value)) for name, value in entries))


def example(features):
    message = tf.train.Example()
    for name, value in features.items():
        message.features.feature[name].CopyFrom(value)
    return message


def sequence(context, lists):
    message = tf.train.SequenceExample()
    for name, value in context.items():
        message.context.feature[name].CopyFrom(value)
    for name, steps in lists.items():
        message.feature_lists.feature_list[name].feature.extend(steps)
    return message


def examples():
    one_by_one = [example({name: value}) for name, value in FEATURES.items()]
    return [example({}), *one_by_one, example(FEATURES), tf.train.Example.FromString(loose_example())]


def sequences():
    values = list(FEATURES.values())
    return [sequence({}, {}), sequence(FEATURES, {}), sequence({}, {"frames": values, "one": values[:1]}),
            sequence(FEATURES, {"\u00e9": values[::-1], "": values[:3]})]


def show_feature(message):
    kind = message.WhichOneof("kind")
    if kind == "bytes_list":
        return "bytes:" + "".join(value.hex() + "," for value in message.bytes_list.value) + ";"
    if kind == "float_list":
        # Through the message itself, because Python's floats are longer.
        return "float:" + "".join(f"{struct.unpack('<I', struct.pack('<f', value))[0]:08x},"
                                  for value in message.float_list.value) + ";"
    if kind == "int64_list":
        return "int64:" + "".join(f"{value}," for value in message.int64_list.value) + ";"
    return "empty:;"


def show_features(features):
    return " ".join(sorted(f"{name.encode().hex()}={show_feature(value)}" for name, value in features.feature.items()))


def show_sequence(message):
    lists = sorted(f"{name.encode().hex()}=[{''.join(show_feature(step) for step in steps.feature)}]"
                   for name, steps in message.feature_lists.feature_list.items())
    return show_features(message.context) + " | " + " ".join(lists)


class Interop(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="xoe-interop-")
        self.path = pathlib.Path(self.folder.name)

    def tearDown(self):
        self.folder.cleanup()

    def test_records_of_any_size_in_every_compression(self):
        draw = random.Random(1)
        sizes = [0, 1, 7, 8, 100, 4096, 70_000, 300_000, 2_000_000] + [draw.randrange(2000) for _ in range(500)]
        records = [draw.randbytes(size) for size in sizes]
        for name, theirs in COMPRESSIONS.items():
            write_records(self.path / "theirs", records, theirs)
            for other, ours in COMPRESSIONS.items():
                tool("copy", self.path / "theirs", self.path / "ours", other)
                self.assertEqual(read_records(self.path / "ours", ours), records, (name, other))
        # Without compression the files are the same, too.
        write_records(self.path / "theirs", records, "")
        tool("copy", self.path / "theirs", self.path / "ours", "plain")
        self.assertEqual((self.path / "theirs").read_bytes(), (self.path / "ours").read_bytes())

    def test_examples_are_read_and_built_alike(self):
        messages = examples()
        write_records(self.path / "theirs", [m.SerializeToString() for m in messages], "")
        self.assertEqual(tool("examples", self.path / "theirs"), [show_features(m.features) for m in messages])
        tool("rebuild", self.path / "theirs", self.path / "ours")
        for ours, message in zip(read_records(self.path / "ours", ""), messages, strict=True):
            again = tf.train.Example.FromString(ours)
            # A feature of no kind cannot be built, and is as good as none.
            expected = {name: value for name, value in message.features.feature.items() if value.WhichOneof("kind")}
            self.assertEqual(show_features(again.features), show_features(example(expected).features))

    def test_lists_that_are_not_packed(self):
        write_records(self.path / "theirs", [loose_example()], "")
        message = tf.train.Example.FromString(loose_example())
        self.assertEqual(list(message.features.feature["integers"].int64_list.value), [5, -6, 2**40, 8, 9])
        self.assertEqual(tool("examples", self.path / "theirs"), [show_features(message.features)])

    def test_sequences_are_read_and_built_alike(self):
        messages = sequences()
        write_records(self.path / "theirs", [m.SerializeToString() for m in messages], "GZIP")
        self.assertEqual(tool("sequences", self.path / "theirs"), [show_sequence(m) for m in messages])
        tool("resequence", self.path / "theirs", self.path / "ours")
        for ours, message in zip(read_records(self.path / "ours", ""), messages, strict=True):
            again = tf.train.SequenceExample.FromString(ours)
            expected = sequence(
                {name: value for name, value in message.context.feature.items() if value.WhichOneof("kind")},
                {name: [step for step in steps.feature if step.WhichOneof("kind")]
                 for name, steps in message.feature_lists.feature_list.items()})
            self.assertEqual(show_sequence(again), show_sequence(expected))


def write_reference(folder):
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    small = example({"image/encoded": feature("bytes_list", [b"\xff\xd8jpeg"]),
                     "image/class/label": feature("int64_list", [3]), "scores": feature("float_list", [0.5, -2.0])})
    records = [b"", b"abc", bytes(range(256)) * 8, small.SerializeToString(deterministic=True)]
    for name, compression in COMPRESSIONS.items():
        write_records(folder / f"{name}.tfrecord", records, compression)
    message = sequence({"length": feature("int64_list", [2])},
                       {"frames": [feature("bytes_list", [b"one"]), feature("bytes_list", [b"two", b"three"])],
                        "labels": [feature("int64_list", [-1]), feature("int64_list", [])]})
    write_records(folder / "sequence.tfrecord", [message.SerializeToString(deterministic=True)], "")


if __name__ == "__main__":
    if len(sys.argv) == 3 and sys.argv[1] == "--write-reference":
        write_reference(sys.argv[2])
        sys.exit(0)
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    TOOL = sys.argv[1]
    unittest.main(argv=sys.argv[:1])
