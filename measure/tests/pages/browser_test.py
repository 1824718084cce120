"""The pages of `xoe timeline view`, `xoe report` and every verb of `xoe bench` in a real browser: light, dark, on a phone.
XOE_PICTURES=DIR keeps a picture of each."""

import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
import browser

BIN = pathlib.Path(os.environ["XOE_BIN_DIR"])
SKIPPED = 77
HOSTILE = "</script><script>document.title='broken'</script><img src=x onerror=\"document.title='broken'\">'\"&\u2028"
SHOWN = HOSTILE.replace("\u2028", "\ufffd")  # it would break the line


def metadata(kind, rank, lane, name):
    return {"ph": "M", "name": kind, "pid": rank, "tid": lane, "args": {"name": name}}


def bar(rank, lane, start, length, name, **args):
    return {"ph": "X", "pid": rank, "tid": lane, "ts": start, "dur": length, "name": name, "args": args}


def trace(ranks, events):
    """Computes, communicates and waits: `events` in all, of which some tensors have hostile names."""
    draw = random.Random(5)
    found = []
    for rank in range(ranks):
        found.append(metadata("process_name", rank, 0, f"rank {rank} (host a, pid {rank + 10})"))
        found += [metadata("thread_name", rank, 1, "compute"), metadata("thread_name", rank, 2, "engine: reduce")]
    each = events // ranks // 3
    for rank in range(ranks):
        for step in range(each):
            start = step * 100 + draw.random() * 20
            tensor = HOSTILE if step % 50 == 7 else f"layer{step % 9}.weight"
            found.append(bar(rank, 1, start, 50, "forward" if step % 2 else "backward"))
            found.append(bar(rank, 2, start + 30, 40, "allreduce", bytes=4096, tensors=1, batch=step, note=tensor))
            span = {"ph": "b", "pid": rank, "ts": start + 10, "cat": "negotiate", "id": f"{rank}-{step}", "name": tensor}
            found += [{**span, "args": {"note": "waited for rank 1"}}, {**span, "ph": "e", "ts": start + 45}]
    return {"traceEvents": found}


def many_lanes(lanes):
    """A trace of another program with a thread for each event, among them more than a call takes arguments."""
    return {"traceEvents": [bar(0, lane, lane, 50, "forward") for lane in range(lanes)]}


def metrics():
    lines = [{"event": "start", "model": HOSTILE, "ranks": 2, "batch": 32, "total_steps": 500, "device": "cpu"}]
    for step in range(10, 501, 10):
        share = {"data": 0.1, "compute": 0.7, "peers": 0.15, "optimizer": 0.05}
        lines.append(
            {
                "event": "report",
                "step": step,
                "loss": 20 / step,
                "accuracy": step / 600,
                "rate": 0.1,
                "images_per_s": 100.5,
                "rank_shares": [share, share],
            }
        )
        if step % 100 == 0:
            lines.append({"event": "evaluation", "step": step, "loss": 25 / step, "accuracy": step / 700})
    return "".join(json.dumps(line) + "\n" for line in lines) + '{"event":"report","step":510,"loss":NaN}\n{"half of a li'


def measurements(name, factor):
    """A file of `xoe bench compare`, whose texts are hostile where they may be."""
    draw = random.Random(7)
    quantities = [("images/s", False), (HOSTILE, True), ("us for an allreduce of 64K over TCP", True)]
    return {
        "benchmark": "measurements",
        "environment": {HOSTILE: HOSTILE},
        "measurements": [
            {"name": name, "quantity": quantity, "less_is_better": less, "ranks": ranks, "workload": {"model": name}}
            | {"runs": [factor * ranks * draw.uniform(90, 110) for _ in range(6)]}
            for quantity, less in quantities
            for ranks in (1, 2, 4)
        ],
    }


def bench_pages(folder):
    """Words of `xoe bench` for a page of each verb, by its name; those of training where this build has it."""
    for name, factor in (("bare", 1), (HOSTILE, 0.9)):
        (folder / f"{'other' if factor < 1 else name}.json").write_text(json.dumps(measurements(name, factor)))
    small = ["--model", "mlp", "--image-size", "8", "--num-batches", "3", "--num-warmup-batches", "1", "--device", "cpu"]
    pages = {
        "collectives": ["collectives", "all", "-b", "64", "-e", "64K", "-f", "8", "-n", "2"],
        "compare": ["compare", folder / "bare.json", folder / "other.json"],
        "against": ["compare", folder / "bare.json", folder / "other.json", "--against", "articles"],
    }
    if (BIN / "xoe-bench-trainer").exists():
        train = [*small, "--batch-size", "4", "--threads", "1"]
        pages |= {
            "train": ["train", *train, "--repeat", "3", "--output", folder / "train.json"],
            "scale": ["scale", "--ranks", "1,2,4", "--batch-size", "4", "--repeat", "2", "--emulate-accelerator", "400", "--", *small],
            "predict": ["predict", folder / "train.json", "--latency", "10", "--bandwidth", "10"],
        }
        if len(os.sched_getaffinity(0)) > 1:
            pages["isolate"] = ["isolate", "--jobs", "2", "--rounds", "2", "--", *train]
    return pages


def scores():
    """Of 14 labels on 400 images, of which the last has too few positives; the names are hostile where they may be."""
    draw = random.Random(6)
    labels = ["Pleural_Thickening", HOSTILE, *(f"label {k}" for k in range(12))]
    positives = [[draw.random() < 0.3 for _ in range(400)] for _ in labels[:-1]] + [[False] * 400]
    return {
        "format": 1,
        "title": HOSTILE,
        "data": "/nowhere",
        "split": HOSTILE,
        "facts": {"model": HOSTILE},
        "labels": labels,
        "images": [f"{i}.png" for i in range(400)],
        "targets": ["".join("1" if one else "0" for one in column) for column in positives],
        "scores": [[draw.gauss(float(one), 1) for one in column] for column in positives],
    }


class PagesTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        folder = pathlib.Path(cls.folder.name)
        (folder / "timeline.json").write_text(json.dumps(trace(4, 2000)))
        (folder / "large.json").write_text(json.dumps(trace(8, 100_000)))
        (folder / "lanes.json").write_text(json.dumps(many_lanes(150_000)))
        (folder / "metrics.jsonl").write_text(metrics())
        (folder / "scores.json").write_text(json.dumps(scores()))
        finding = {"state": "warning", "group": "memory", "what": HOSTILE, "why": "", "fix": HOSTILE}
        (folder / "doctor.json").write_text(json.dumps({"findings": [finding]}))
        for words in (
            ["timeline", "view", folder / "timeline.json"],
            ["timeline", "view", folder / "large.json"],
            ["timeline", "view", folder / "lanes.json"],
            ["report", folder],
            ["report", folder / "scores.json"],
            ["report", folder, cls.another_run(folder), "-o", folder / "several.html"],
        ):
            subprocess.run([BIN / "xoe", *words], check=True, capture_output=True, timeout=60)
        cls.bench = bench_pages(folder)
        for name, (verb, *words) in cls.bench.items():
            command = [BIN / "xoe", "bench", verb, "--html", folder / f"{name}.html", *words]
            subprocess.run(command, check=True, capture_output=True, timeout=120)
        names = ("timeline", "large", "lanes", "report", "scores", "several", *cls.bench)
        cls.pages = {name: folder / f"{name}.html" for name in names}
        cls.browser = browser.Browser(browser.find()).__enter__()

    @staticmethod
    def another_run(folder):
        run = folder / "another"
        run.mkdir()
        (run / "metrics.jsonl").write_text(metrics().replace('"rate": 0.1', '"rate": 0.2'))
        (run / "timeline.json").write_text(json.dumps(trace(2, 500)))
        return run

    @classmethod
    def tearDownClass(cls):
        cls.browser.__exit__()
        cls.folder.cleanup()

    def tearDown(self):
        self.assertEqual(self.browser.errors, [])
        self.assertEqual([url for url in self.browser.requests if not url.startswith(("file:", "data:"))], [])
        self.assertNotEqual(self.browser.value("document.title"), "broken")
        self.browser.errors.clear()

    def number(self, name):
        return float(self.browser.value(f"document.getElementById('timeline').dataset.{name}"))

    def span(self):
        self.browser.frame()
        return self.number("to") - self.number("from")

    def box(self, selector):
        return self.browser.value(
            f"(({{left, top, width, height}}) => [left, top, width, height])(document.querySelector('{selector}')"
            ".getBoundingClientRect())"
        )

    def canvas(self):
        return self.box("canvas")

    def place_of_event(self):
        """Where the first bar of the first lane is, in the window."""
        found = self.browser.value(
            """(() => { const canvas = document.querySelector("canvas"), box = canvas.getBoundingClientRect();
               const scale = canvas.width / box.width, narrow = box.width < 640;
               const y = 26 + 26 + (narrow ? 14 : 0) + 9;
               const line = canvas.getContext("2d").getImageData(0, y * scale, canvas.width, 1).data;
               for (let x = Math.round(narrow ? 0 : box.width * 0.2); x < canvas.width; x++)
                 if (line[4 * x] === 0 && line[4 * x + 1] === 114 && line[4 * x + 2] === 178)
                   return [box.left + x / scale + 1, box.top + y];
               return null; })()"""
        )
        self.assertIsNotNone(found, "no bar of backward is drawn")
        return found

    def test_nothing_is_wider_than_the_window(self):
        for name in self.pages.keys() - {"lanes"}:
            page = self.pages[name]
            for width, dark, touch in ((1280, False, False), (1280, True, False), (390, False, True), (320, True, True)):
                with self.subTest(page=name, width=width, dark=dark):
                    self.browser.open(page, width=width, dark=dark, touch=touch)
                    self.assertLessEqual(self.browser.value("document.documentElement.scrollWidth"), width)
                    if name == "scores":
                        self.assertEqual(self.browser.value("document.querySelectorAll('.curves svg').length"), 13)
                    elif name not in self.bench:
                        self.assertGreater(self.number("drawn"), 20)
                    else:
                        self.assertGreater(self.browser.value("document.querySelectorAll('.plot svg').length"), 0)
                    if folder := os.environ.get("XOE_PICTURES"):
                        self.browser.picture(f"{folder}/{name}-{width}{'-dark' * dark}.png")
                    ground = self.browser.value("getComputedStyle(document.body).backgroundColor")
                    self.assertEqual(ground, "rgb(13, 17, 23)" if dark else "rgb(255, 255, 255)")

    def test_zooms_and_moves(self):
        self.browser.open(self.pages["timeline"])
        left, top, width, _ = self.canvas()
        x, y = left + width / 2, top + 60
        whole = self.span()
        wheel = {"deltaX": 0, "modifiers": 2}  # Ctrl
        self.browser.mouse("mouseWheel", x, y, deltaY=-300, **wheel)
        near = self.span()
        self.assertLess(near, whole / 2)
        self.browser.mouse("mouseWheel", x, y, deltaY=150, **wheel)
        self.assertGreater(self.span(), near)
        self.browser.value("document.querySelector('canvas').focus()")
        before = self.number("from")
        self.browser.key("ArrowRight")
        self.browser.frame()
        self.assertGreater(self.number("from"), before)
        before = self.span()
        self.browser.key("+", "+")
        self.assertLess(self.span(), before)
        # Dragged to the right, earlier events appear.
        before = self.number("from")
        self.browser.mouse("mousePressed", x, y, button="left", buttons=1, clickCount=1)
        for moved in (20, 60, 100):
            self.browser.mouse("mouseMoved", x + moved, y, button="left", buttons=1)
        self.browser.mouse("mouseReleased", x + 100, y, button="left", clickCount=1)
        self.browser.frame()
        self.assertLess(self.number("from"), before)
        self.browser.key("0", "0")
        self.assertAlmostEqual(self.span(), whole, delta=whole * 0.01)
        self.browser.value("document.querySelector('[data-do=in]').click()")
        self.assertLess(self.span(), whole)

    def test_two_fingers_zoom(self):
        self.browser.open(self.pages["timeline"], width=390, height=844, touch=True)
        self.browser.value("document.getElementById('timeline').scrollIntoView()")
        left, top, _, _ = self.canvas()
        whole = self.span()
        self.browser.touch("touchStart", (left + 150, top + 80), (left + 200, top + 80))
        for apart in (40, 80, 120):
            self.browser.touch("touchMove", (left + 150 - apart, top + 80), (left + 200 + apart, top + 80))
        self.browser.touch("touchEnd")
        self.assertLess(self.span(), whole / 2)

    def test_tells_of_an_event(self):
        for touch in (False, True):
            with self.subTest(touch=touch):
                self.browser.open(self.pages["timeline"], width=390 if touch else 1280, touch=touch)
                self.browser.value("document.getElementById('timeline').scrollIntoView()")
                self.browser.frame()
                x, y = self.place_of_event()
                if touch:
                    self.browser.touch("touchStart", (x, y))
                    self.browser.touch("touchEnd")
                else:
                    self.browser.mouse("mouseMoved", x, y)
                    self.browser.frame()
                    self.assertIn("backward", self.browser.value("document.querySelector('.tip').innerText"))
                    self.browser.mouse("mousePressed", x, y, button="left", clickCount=1)
                    self.browser.mouse("mouseReleased", x, y, button="left", clickCount=1)
                self.browser.frame()
                details = self.browser.value("document.querySelector('.details').innerText")
                for part in ("backward", "rank 0", "compute", "50.0 µs"):
                    self.assertIn(part, details)

    def search(self, words):
        self.browser.value(
            f"(() => {{ const box = document.querySelector('input'); box.value = {json.dumps(words)};"
            "box.dispatchEvent(new Event('input')); })()"
        )
        self.browser.frame()
        return self.browser.value("document.querySelector('.found').textContent")

    def test_finds_tensors(self):
        self.browser.open(self.pages["timeline"])
        steps = 2000 // 4 // 3
        wanted = 4 * 2 * sum(1 for step in range(steps) if step % 50 != 7 and step % 9 == 3)  # spans, and notes of collectives
        self.assertEqual(self.search("LAYER3"), f"{wanted} found")
        whole = self.span()
        self.browser.value("document.querySelector('[data-do=after]').click()")
        self.assertLess(self.span(), whole / 10)
        self.assertIn("layer3.weight", self.browser.value("document.querySelector('.details').innerText"))
        self.search("</SCRIPT><script>")
        self.browser.value("document.querySelector('[data-do=after]').click()")
        self.browser.frame()
        shown = self.browser.value("document.querySelector('.details').textContent")
        self.assertIn(SHOWN, shown)
        self.assertEqual(self.browser.value("document.querySelectorAll('img').length"), 0)
        self.assertEqual(self.search("no such tensor"), "0 found")

    def test_a_hundred_thousand_events_are_quick(self):
        self.browser.open(self.pages["large"])
        self.assertGreater(
            self.browser.value("JSON.parse(document.getElementById('timeline-data').textContent).view.events"), 99_000
        )
        self.assertGreater(self.number("drawn"), 5000)
        whole = self.span()
        for _ in range(30):
            self.browser.value("document.querySelector('[data-do=in]').click()")
            self.browser.frame()
        self.assertLess(self.span(), whole / 10_000)

    def test_a_hundred_thousand_lanes_are_drawn(self):
        self.browser.open(self.pages["lanes"])
        self.assertEqual(
            self.browser.value("JSON.parse(document.getElementById('timeline-data').textContent).view.lanes.length"), 150_000
        )
        self.assertGreater(self.number("drawn"), 0)

    def test_several_runs_have_a_curve_and_a_timeline_each(self):
        self.browser.open(self.pages["several"])
        self.assertIn("2 runs side by side", self.browser.value("document.querySelector('h1').textContent"))
        self.assertEqual(self.browser.value("document.querySelectorAll('#loss svg polyline').length"), 4)  # as read, and smoothed
        drawn = self.browser.value("[...document.querySelectorAll('.timeline')].map((one) => Number(one.dataset.drawn))")
        self.assertEqual(len(drawn), 2)
        self.assertGreater(min(drawn), 20)
        whole = self.span()
        self.browser.value("document.querySelectorAll('[data-do=in]')[1].click()")
        self.assertEqual(self.span(), whole, "the other one was zoomed")

    def test_the_pointer_reads_sizes_and_names(self):
        for name, plot, expected in (("collectives", "bandwidth", r"^bytes (64|512|4096|32768): "), ("compare", "change-0", r"^bare: ")):
            self.browser.open(self.pages[name])
            left, top, width, height = self.box(f"#{plot} svg")
            self.browser.mouse("mouseMoved", left + width * 0.2, top + height / 2)
            self.browser.frame()
            self.assertRegex(self.browser.value(f"document.querySelector('#{plot} .read').textContent"), expected)

    def test_a_report_shows_its_curves(self):
        self.browser.open(self.pages["report"])
        self.assertEqual(self.browser.value("document.querySelectorAll('.plot svg polyline').length"), 8)
        self.assertEqual(self.browser.value("document.querySelector('h1').textContent"), SHOWN + ", 2 ranks x batch 32")
        self.assertIn("1 broken line skipped", self.browser.value("document.body.innerText"))
        left, top, width, height = self.box("#loss svg")
        self.browser.mouse("mouseMoved", left + width / 2, top + height / 2)
        self.browser.frame()
        self.assertRegex(self.browser.value("document.querySelector('#loss .read').textContent"), r"^step \d+: [\d.]+, [\d.]+$")


if __name__ == "__main__":
    if browser.find() is None:
        print("skipped: no browser (chromium, google-chrome) is installed")
        sys.exit(SKIPPED)
    unittest.main()
