"""A rank that dies, or raises in a callback of a trainer, while the others train with xoe.mxnet: they get an error that names it, and live on."""

import re
import signal

import ranks

ranks.use("mxnet", "mxnet")
PATIENCE = 1.0  # seconds, without other work

PROGRAM = """
import os, signal, sys, time
import mxnet as mx
import xoe.mxnet as hvd
signal.signal(signal.SIGTERM, signal.SIG_IGN)  # the launcher's, to see what the rank itself does
hvd.init()
net = mx.gluon.nn.Dense(2, in_units=4)
net.initialize()
hvd.broadcast_parameters(net.collect_params())
trainer = hvd.DistributedTrainer(net.collect_params(), "sgd", {"learning_rate": 0.1})
number = 0
def on_forward(block, inputs, output):
    if hvd.rank() == 1 and number == 3:
        print("dies", time.monotonic(), flush=True)
        if "HOW" == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        raise ValueError("an error of its own")
net.register_forward_hook(on_forward)
try:
    for number in range(10):
        with mx.autograd.record():
            loss = net(mx.nd.ones((3, 4))).sum()
        loss.backward()
        trainer.step(3)
except hvd.PeerLostError as error:
    print("told", time.monotonic(), flush=True)
    print(f"caught: {error}", flush=True)
    print("computes", float(net(mx.nd.ones((1, 4))).sum().asscalar()), flush=True)
    sys.exit(3)
"""


def look(folder, how):
    path = folder / "program.py"
    path.write_text(PROGRAM.replace("HOW", how))
    done = ranks.run(3, path, options=ranks.LET_SPEAK)
    assert done.returncode == (128 + signal.SIGKILL if how == "killed" else 1), done.stdout
    died = float(re.search(r"\[1\] dies ([\d.]+)", done.stdout)[1])
    for rank in (0, 2):
        told = float(re.search(rf"\[{rank}\] told ([\d.]+)", done.stdout)[1])
        print(f"{how}: rank {rank} was told after {told - died:.2f} s", flush=True)
        assert told - died < ranks.told_within(PATIENCE), done.stdout
        assert re.search(rf"\[{rank}\] caught: .*rank 1", done.stdout), done.stdout
        assert f"[{rank}] computes" in done.stdout, done.stdout


def test_killed(folder):
    look(folder, "killed")


def test_raises(folder):
    look(folder, "raises")


ranks.drive(globals())
