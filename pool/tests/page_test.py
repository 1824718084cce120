"""The pool's web page in a real browser, as several people use it at once.

page_test.py XOE MOCK_NVML [--pictures FOLDER]     FOLDER: where the pictures of the documentation go
"""

import datetime
import json
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys
import time
import unittest

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "core/testing"))
from peer_python import SKIPPED, run_inside
from pool_program import PoolProgram

XOE, MOCK = (pathlib.Path(arg).absolute() for arg in sys.argv[1:3])
PICTURES = pathlib.Path(sys.argv[sys.argv.index("--pictures") + 1]).absolute() if "--pictures" in sys.argv else None
TIME_LIMIT = 20_000  # milliseconds
BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)

run_inside("pool", "playwright", {})
from playwright.sync_api import expect, sync_playwright


class PageTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.playwright = sync_playwright().start()
        cls.browser = cls.playwright.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        expect.set_options(timeout=TIME_LIMIT)

    @classmethod
    def tearDownClass(cls):
        cls.browser.close()
        cls.playwright.stop()

    def setUp(self):
        self.pool = PoolProgram(XOE, MOCK, "--min-runtime", "1s", "--give-way", "off").__enter__()
        self.addCleanup(self.pool.__exit__)
        pool, self.agents, self.states = self.pool, [], {}
        for number, host in enumerate(("gpu1", "gpu2"), 1):
            state = self.states[host] = pool.home / host
            state.write_text("")
            self.agents.append(
                pool.start(
                    "agent",
                    "--host",
                    host,
                    "--nvml",
                    str(MOCK),
                    "--interval",
                    "1s",
                    XOE_MOCK_HOST=str(number),
                    XOE_MOCK_STATE=str(state),
                )
            )
        self.addCleanup(lambda: [pool.stop(agent) for agent in self.agents])
        for team, quota in (("vision", "4"), ("speech", "4")):
            pool.run("team", team, "--quota", quota)
        self.tokens = {
            "ann": pool.user("ann", "--team", "vision"),
            "bob": pool.user("bob", "--team", "vision"),
            "lea": pool.user("lea", "--team", "vision", "--role", "lead"),
            "eve": pool.user("eve", "--team", "speech"),
        }
        self.troubles, self.requests = [], []
        self.await_status(lambda status: len(status["gpus"]) == 8)

    def await_status(self, is_so):
        while not is_so(self.pool.json("status")):
            time.sleep(0.2)

    def tearDown(self):
        self.assertEqual(self.troubles, [])
        outside = [url for url in self.requests if not url.startswith((self.pool.url + "/", "data:"))]
        self.assertEqual(outside, [])

    def open(self, **options):
        """A page with a session of its own."""
        context = self.browser.new_context(viewport={"width": 1180, "height": 900}, **options)
        self.addCleanup(context.close)
        page = context.new_page()
        # A request that is refused is an answer that the browser itself notes, too.
        page.on(
            "console",
            lambda message: (
                self.troubles.append(message.text)
                if message.type in ("error", "warning") and not re.search("401|429|ERR_", message.text)
                else None
            ),
        )
        page.on("pageerror", lambda error: self.troubles.append(str(error)))
        page.on("request", lambda request: self.requests.append(request.url))
        page.goto(self.pool.url)
        return page

    def log_in(self, name, **options):
        page = self.open(**options)
        page.get_by_label("Your token").fill(self.tokens[name])
        page.get_by_role("button", name="Log in").click()
        expect(page.get_by_text("live", exact=True)).to_be_visible()
        expect(page.locator(".gpu")).to_have_count(8)
        return page

    def acquire(self, page, gpus, purpose, wait=True):
        page.get_by_label("GPUs", exact=True).fill(str(gpus))
        page.get_by_label("Purpose").fill(purpose)
        page.get_by_label("wait in the queue").set_checked(wait)
        page.get_by_role("button", name="Acquire").click()

    def test_a_wrong_token_is_refused(self):
        page = self.open()
        page.get_by_label("Your token").fill("wrong")
        page.get_by_role("button", name="Log in").click()
        expect(page.get_by_role("alert")).to_contain_text("no user has this token")
        page.get_by_label("Your token").fill(self.tokens["ann"])
        page.keyboard.press("Enter")
        expect(page.locator(".who")).to_have_text("ann, vision")
        self.assertEqual(page.evaluate("JSON.stringify(localStorage).includes(sessionStorage['xoe-pool-token'])"), False)
        page.reload()
        expect(page.locator(".who")).to_have_text("ann, vision")
        page.get_by_role("button", name="Log out").click()
        page.reload()
        expect(page.get_by_label("Your token")).to_be_visible()
        expect(page.get_by_role("link", name="Audit log")).to_have_count(0)

    def test_from_acquiring_to_taking_back(self):
        ann, bob, lea = (self.log_in(name) for name in ("ann", "bob", "lea"))
        self.acquire(ann, 3, "ablation")
        mine = ann.locator(".lease")
        expect(mine).to_contain_text("3 GPUs on")
        # On another page, without a reload.
        held = bob.locator(".gpu", has_text="ablation")
        expect(held).to_have_count(3)
        expect(held.first).to_contain_text("ann")
        expect(bob.get_by_text("5 of 8 free")).to_be_visible()

        expect(mine).to_contain_text(re.compile(r"(3 h 59 min|4 h 00 min) left"))
        mine.get_by_role("button", name="Extend by 1 h").click()
        expect(mine).to_contain_text(re.compile(r"(4 h 59 min|5 h 00 min) left"))
        expect(held.first).to_contain_text(re.compile(r"(4 h 59 min|5 h 00 min) left"))

        self.acquire(bob, 8, "too much", wait=False)
        expect(bob.get_by_role("alert")).to_contain_text(
            re.compile("ann holds 3 GPUs .* with --wait it would start at|refused: .*")
        )
        self.acquire(bob, 4, "speech model")
        expect(bob.locator(".lease")).to_contain_text("4 GPUs on")
        self.acquire(bob, 4, "next")
        waiting = bob.locator(".lease.waiting")
        expect(waiting).to_contain_text("4 GPUs, place 1")
        row = lea.locator("table.queue tbody tr")
        expect(row).to_contain_text("bob")
        expect(row).to_contain_text("next")  # its purpose
        # All times of the page have one form.
        expect(row).to_contain_text(re.compile(r"until (\w+ \d+, )?\d\d:\d\d$"))
        self.assertNotRegex(lea.locator("main").inner_text(), r"UTC|\b[AP]M\b")
        expect(row).to_contain_text(re.compile(r"ann holds|bob holds"))
        mine.get_by_role("button", name="Release").click()
        expect(ann.get_by_text("You hold no GPU.")).to_be_visible()
        expect(waiting).to_have_count(0)
        expect(bob.locator(".lease")).to_have_count(2)

        # Nothing runs on bob's GPUs: the lead of the team takes one lease back.
        idle = lea.locator(".gpu", has_text="speech model")
        expect(idle.first).to_contain_text("0 %")
        idle.first.get_by_role("button", name="Take back").click()
        lea.get_by_label("Why?").fill("idle, and the demo is tonight")
        lea.get_by_role("dialog").get_by_role("button", name="Take back").click()
        expect(idle).to_have_count(0)
        expect(bob.locator(".lease")).to_have_count(1)
        lea.get_by_role("link", name="Audit log").click()
        expect(lea.locator("table.audit tbody tr").first).to_contain_text("idle, and the demo is tonight")
        self.assertEqual(ann.get_by_role("button", name="Take back").count(), 0)

    def test_with_the_keyboard_alone(self):
        page = self.log_in("ann")
        page.keyboard.press("a")
        gpus = page.get_by_label("GPUs", exact=True)
        expect(gpus).to_be_focused()  # else the next key is one of the page's
        gpus.fill("2")
        page.keyboard.press("Enter")
        expect(page.locator(".lease")).to_contain_text("2 GPUs on")
        page.keyboard.press("Escape")
        page.locator("body").press("2")
        page.evaluate("document.activeElement.blur()")
        page.keyboard.press("2")
        expect(page.get_by_role("heading", name="Calendar")).to_be_visible()
        expect(page.locator(".bar")).to_have_count(2)
        page.keyboard.press("3")
        expect(page.get_by_role("heading", name="Usage")).to_be_visible()
        page.keyboard.press("1")
        button = page.get_by_role("button", name="Release")
        button.focus()
        page.keyboard.press("Enter")
        expect(page.get_by_text("You hold no GPU.")).to_be_visible()

    def test_a_server_that_comes_back(self):
        page = self.log_in("ann")
        port = self.pool.url.rsplit(":", 1)[1]
        self.pool.server.kill()
        self.pool.server.communicate()
        expect(page.get_by_text("not connected")).to_be_visible()
        self.pool.server = self.pool.start("serve", "--port", port)
        self.pool.server.stdout.readline()
        expect(page.get_by_text("live", exact=True)).to_be_visible()

    def test_too_many_requests_are_told(self):
        refusal = {"error": {"code": "resource_exhausted", "message": "too many requests in a second with this token"}}
        seconds = re.compile(r"^too many requests; trying again in [0-4] s$")

        def refuse(route):
            route.fulfill(status=429, headers={"Retry-After": "4"}, json=refusal)

        page = self.open()
        page.route("**/v1/me", refuse, times=1)
        page.route("**/v1/events/stream", refuse, times=1)
        page.get_by_label("Your token").fill(self.tokens["ann"])
        page.get_by_role("button", name="Log in").click()
        expect(page.get_by_text(seconds)).to_be_visible()
        expect(page.locator(".who")).to_have_text("ann, vision")
        expect(page.locator(".live")).to_have_text(seconds)
        expect(page.locator(".live")).to_have_text("live")

    def test_what_is_not_known_is_not_shown_as_none(self):
        def gpu(number, **told):
            return {"uuid": f"GPU-{number}", "host": "h", "name": "T4", "memory": 16 << 30, "present": True, **told}

        told = {
            "now": 1000,
            "hosts": [{"name": "h", "online": True, "heard": 1000, "without": "", "problem": ""}],
            "gpus": [
                gpu(0, use="unleased", utilisation=99),
                gpu(1, use="unleased", processes=[{"pid": 7, "user": "bob", "memory": 0, "cpus": 0}]),
                gpu(2, use="free", utilisation=0, memory_used=1 << 30, temperature=0),
                gpu(3),
                gpu(4, use="leased", lease=5),
            ],
            "leases": [{"id": 5, "user": "ann", "state": "open", "count": 1, "seconds": 60, "enforced": "cgroup"}],
            **{name: [] for name in ("queue", "drift", "teams")},
        }
        page = self.open()
        body = f"event: status\ndata: {json.dumps(told)}\n\n"
        page.route(
            "**/v1/events/stream", lambda route: route.fulfill(status=200, content_type="text/event-stream", body=body)
        )
        page.get_by_label("Your token").fill(self.tokens["ann"])
        page.get_by_role("button", name="Log in").click()
        gpus = page.locator(".gpu")
        expect(gpus.locator(".what b")).to_have_text(
            ["in use without a lease", "bob without a lease", "free", "no lease", "ann"]
        )
        expect(page.get_by_text("1 of 5 free")).to_be_visible()
        expect(gpus.nth(0).locator(".use")).to_have_attribute("title", "")
        expect(gpus.nth(2).locator(".use")).to_have_attribute("title", "1.0 GiB of 16 GiB in use")
        mine = page.locator(".lease")
        expect(mine).to_contain_text("1 GPU")
        self.assertNotRegex(page.locator("main").inner_text(), "NaN|undefined|CUDA_VISIBLE|idle:|Invalid")
        page.get_by_role("link", name="Calendar").click()
        expect(page.locator(".calendar")).to_be_visible()
        self.assertNotRegex(page.locator("main").inner_text(), "NaN|undefined|Invalid")

    def test_hosts_that_are_gone_leave_no_history(self):
        def status(now, *hosts):
            told = {
                "now": now,
                "hosts": [{"name": host, "online": True, "heard": now, "without": "", "problem": ""} for host in hosts],
                "gpus": [
                    {"uuid": f"GPU-{host}", "host": host, "name": "T4", "memory": 1, "present": True, "utilisation": 7}
                    for host in hosts
                ],
                **{name: [] for name in ("leases", "queue", "drift", "teams")},
            }
            return f"event: status\ndata: {json.dumps(told)}\n\n"

        answers = [
            status(1000, "h0", "h1") + status(1001, "h0", "h1"),
            status(1003, "h0"),
            status(1005, "h0", "h1"),
        ]
        page = self.open()
        page.route(
            "**/v1/events/stream",
            lambda route: (
                route.fulfill(status=200, content_type="text/event-stream", body=answers.pop(0)) if answers else route.abort()
            ),
        )
        page.get_by_label("Your token").fill(self.tokens["ann"])
        page.get_by_role("button", name="Log in").click()
        labels = page.locator(".u-legend .u-label")
        expect(labels).to_have_text(["Time", "h0", "h1"])
        expect(labels).to_have_text(["Time", "h0"])
        expect(labels).to_have_text(["Time", "h0", "h1"])

    def test_colours_of_many_names_are_forgotten(self):
        page = XOE.parents[1] / "pool/page"  # of the build
        esbuild = page / "node_modules/.bin/esbuild"
        if not esbuild.exists():
            self.skipTest("the page was not built beside this program")
        script = """import { colour } from "./src/text.ts";
            const [first, second] = [colour("first"), colour("second")];
            for (let i = 2; i < 10000; i++) colour(`name ${i}`);
            const kept = colour("first") === first;
            colour("one more");
            console.log(kept, colour("second") === second, colour("first") === first);"""

        def run(words, text):
            return subprocess.run(words, input=text, text=True, capture_output=True, cwd=page, check=True).stdout

        told = run(["node", "-"], run([esbuild, "--bundle", "--loader=ts"], script))
        self.assertEqual(told.split(), ["true", "true", "false"])

    def test_narrow_dark_and_pictures(self):
        pool = self.pool
        files = {}
        for name, token in self.tokens.items():
            files[name] = pool.home / f"{name}-token"
            files[name].write_text(token)
            files[name].chmod(0o600)
        for name, *words in (
            ("ann", "--gpus", "2", "--for", "5h", "--purpose", "ResNet-50, ablation 3"),
            ("bob", "--gpus", "1", "--for", "90m", "--purpose", "evaluation"),
            ("eve", "--gpus", "1", "--for", "3h", "--purpose", "speech, fine-tuning"),
            ("eve", "--gpus", "2", "--for", "8h", "--purpose", "speech, large"),
            (
                "lea",
                "--gpus",
                "4",
                "--for",
                "3h",
                "--purpose",
                "demo",
                "--at",
                (datetime.datetime.now() + datetime.timedelta(hours=9)).strftime("%Y-%m-%dT%H:%M"),
            ),
        ):
            pool.run("acquire", *words, XOE_POOL_TOKEN_FILE=str(files[name]))
        self.states["gpu1"].write_text("0 93 11000\n1 88 9800\n2 97 14000\n")
        self.states["gpu2"].write_text(f"0 64 8000\n3 12 2100 {os.getpid()}\n")
        waits = pool.start(
            "acquire", "--gpus", "4", "--for", "2h", "--purpose", "sweep", "--wait", XOE_POOL_TOKEN_FILE=str(files["bob"])
        )
        self.addCleanup(lambda: pool.stop(waits))
        page = self.log_in("lea")
        expect(page.locator("table.queue")).to_contain_text("bob")
        expect(page.locator(".plot canvas")).to_be_visible()
        expect(page.locator(".gpu", has_text="93 %")).to_be_visible()
        for name in ("now", "calendar", "usage", "audit"):
            for width, dark in ((1180, False), (390, True), (320, False)):
                with self.subTest(view=name, width=width, dark=dark):
                    page.set_viewport_size({"width": width, "height": 900})
                    page.emulate_media(color_scheme="dark" if dark else "light")
                    page.evaluate(f"location.hash = '{name}'")
                    page.wait_for_timeout(200)
                    self.assertLessEqual(page.evaluate("document.documentElement.scrollWidth"), width)
                    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
                    self.assertEqual(ground, "rgb(13, 17, 23)" if dark else "rgb(255, 255, 255)")
                    for table in ("queue", "audit"):
                        for cell in page.locator(f"table.{table} tbody tr:first-child td").all():
                            if cell.is_visible():
                                box = cell.bounding_box()
                                self.assertLessEqual(box["x"] + box["width"], width, cell.inner_text())
                    if name == "now":
                        expect(page.locator("table.queue td.why").first).to_be_visible()
                        expect(page.locator("table.queue")).to_contain_text("sweep")
        page.emulate_media(color_scheme="light")
        page.get_by_role("button", name="Light or dark").click()
        self.assertEqual(page.evaluate("getComputedStyle(document.body).backgroundColor"), "rgb(13, 17, 23)")
        page.get_by_role("button", name="Light or dark").click()
        if PICTURES is None:
            return
        PICTURES.mkdir(parents=True, exist_ok=True)
        for _ in range(20):  # a line of utilisation
            uses = [random.randint(*span) for span in ((85, 99), (70, 95), (90, 99), (40, 80))]
            self.states["gpu1"].write_text("".join(f"{i} {use} {9000 + 1700 * i}\n" for i, use in enumerate(uses[:3])))
            self.states["gpu2"].write_text(f"0 {uses[3]} 8000\n3 12 2100 {os.getpid()}\n")
            page.wait_for_timeout(1000)
        for name, width, dark in (("now", 1180, False), ("calendar", 1180, True), ("phone", 390, False)):
            page.set_viewport_size({"width": width, "height": 820 if name == "phone" else 400})
            page.emulate_media(color_scheme="dark" if dark else "light")
            page.evaluate("delete document.documentElement.dataset.theme")
            page.evaluate(f"location.hash = '{'now' if name == 'phone' else name}'")
            page.wait_for_timeout(500)
            page.screenshot(path=PICTURES / f"pool-{name}.png", full_page=name != "phone")


if __name__ == "__main__":
    if BROWSER is None:
        print("skipped: no browser (chromium, google-chrome) is installed")
        sys.exit(SKIPPED)
    with PoolProgram(XOE, MOCK) as built:
        if b"app.js" not in built.ask("/")[2]:
            print("skipped: this build has no web page, because npm or its registry was missing")
            sys.exit(SKIPPED)
    unittest.main(argv=sys.argv[:1] + [word for word in sys.argv[3:] if word.startswith("PageTest.")])
