"""A training of two pods with two ranks each, and what it must end with."""

import functools
import itertools
import shutil

from cluster import BUILD, IMAGE, XOE, expect, json_lines, print_kubernetes, run

KINDS = ("job", "jobset", "trainjob")
STEPS = 300
REPORTS = 10  # steps between two
NAME = "train"
ONE_ORDER = "XOE_DETERMINISTIC=placement-free"  # so that two pods have the bits of one host
COUNT = ("--nodes", "2", "-np", "2")
OPTIONS = ("--model", "mlp", "--image-size", "16", "--batch", "8", "--threads", "1", "--data-threads", "1", "--seed", "5",
           "--report-every", str(REPORTS), "--eval-every", "0", "--json")


def train(data, *more, steps=STEPS):
    return ["xoe", "train", "--data", data, "--steps", str(steps), *OPTIONS, *more]


class Training:
    """What tests of trainings have in common."""

    def __init__(self, cluster):
        self.cluster = cluster
        self.kinds = {}  # by namespace: what was submitted there
        self.images = cluster.kubelet.folder / "images"
        run(XOE, "data", "make", self.images, "--images", "256", "--validation", "16", "--classes", "4")
        cluster.kubectl("apply", "-f", "-", text=print_kubernetes("runtime"))

    @functools.cached_property
    def wanted(self):
        """The last loss of four ranks on one host, without a cluster."""
        words = train(self.images)
        return self.last_loss(run(XOE, "run", "-np", "4", "--env", ONE_ORDER, BUILD / "bin/xoe", *words[1:]))

    @staticmethod
    def losses(text):
        """[(step, loss)] of the reports, in their order; a step that was done again is there again."""
        return [(line["step"], line["loss"]) for line in json_lines(text) if line.get("event") == "report"]

    def last_loss(self, text):
        found = self.losses(text)
        expect(found and found[-1][0] == STEPS, f"the training did not reach step {STEPS}: {text[-3000:]}")
        return found[-1][1]

    def submit(self, kind, namespace, *options, program=None, image=IMAGE, count=COUNT):
        self.kinds[namespace] = kind
        claim = self.cluster.kubelet.claims / namespace / "data"
        if not claim.exists():
            shutil.copytree(self.images, claim / "images")
        program = program or train("/data/images", "--checkpoint", "/data/checkpoints", "--checkpoint-every", "50", "--resume")
        text = print_kubernetes(kind, "--image", image, *count, "--name", NAME, "--claim", "data:/data", "--env", ONE_ORDER, *options,
                                "--", *program)
        self.cluster.kubectl("apply", "-n", namespace, "-f", "-", text=text)

    def pods_of(self, namespace, index):
        """All pods that there were of this index, in their order."""
        ends = "batch.kubernetes.io/job-completion-index"
        return [pod for pod in self.cluster.ran(namespace) if pod.object["metadata"]["annotations"][ends] == str(index)]

    def output(self, namespace):
        """What rank 0 wrote, over all starts of it."""
        return "".join(pod.log.read_text(errors="replace") for pod in self.pods_of(namespace, 0))

    def wait_for_step(self, namespace, step):
        def reached():
            done = self.losses(self.output(namespace))
            ended = self.cluster.condition(self.kinds[namespace], namespace, NAME)
            expect(not ended, f"the job has ended before step {step}: {ended}\n{self.output(namespace)[-2000:]}")
            return done and done[-1][0] >= step
        self.cluster.wait(f"step {step}", reached, 180)

    def running(self, namespace, index):
        """The pod of this index, once its container runs."""
        return self.cluster.wait(f"pod {index}", lambda: next((pod for pod in reversed(self.pods_of(namespace, index))
                                                               if pod.init is not None and not pod.ended), None))

    def end(self, kind, namespace, seconds=240):
        return self.cluster.wait(f"end of the {kind}", lambda: self.cluster.condition(kind, namespace, NAME), seconds)

    def expect_trained(self, kind, namespace, interrupted=False):
        ended = self.end(kind, namespace)
        expect(ended[0] == "Complete", lambda: f"{ended}\n{self.cluster.state()}\n{self.output(namespace)[-3000:]}")
        text = self.output(namespace)
        got = self.last_loss(text)
        expect(got == self.wanted, f"{got} instead of {self.wanted}: {text[-3000:]}")
        if interrupted:
            steps = [step for step, _ in self.losses(text)]
            again = [step for before, step in itertools.pairwise(steps) if step <= before]
            expect(steps[0] == REPORTS and REPORTS not in again, f"the training began again in place of going on: {again}")
        return got

    def delete(self, kind, namespace):
        self.cluster.kubectl("delete", kind, NAME, "-n", namespace)
