"""xoe.ray: ranks as actors of Ray, on a cluster of two nodes on this machine."""

import os
import re
import signal
import sys
import threading
import time

import clusters

clusters.inside(
    __file__, "ray", "ray", "torch", RAY_DEDUP_LOGS="0", RAY_USAGE_STATS_ENABLED="0", RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO="0"
)

import xoe.ray

assert "ray" not in sys.modules  # Ray is imported on first use

import cases
import cloudpickle
import ranks
import ray
import ray.cluster_utils
from checks import raises

import xoe
from xoe.runner import RankError

cloudpickle.register_pickle_by_value(clusters)


def where():
    import xoe

    return xoe.rank(), xoe.size(), xoe.local_rank(), xoe.local_size(), xoe.cross_rank(), xoe.cross_size()


def test_results_by_rank():
    def call(factor, offset=0):
        import xoe

        return factor * xoe.rank() + offset

    assert xoe.ray.run(call, [10], {"offset": 1}, num_workers=2) == [1, 11]
    assert xoe.ray.run(call, [10], num_workers=1) == [0]


def test_places_on_one_node():
    assert xoe.ray.run(where, num_workers=2, placement="STRICT_PACK") == [(0, 2, 0, 2, 0, 1), (1, 2, 1, 2, 0, 1)]


def test_places_on_two_nodes():
    """Each node of Ray is a host, with a name of its own, and ranks on two of them communicate through the network."""

    def call():
        import torch

        import xoe.torch as hvd

        everyone = hvd.allgather_object(os.environ["XOE_HOSTNAME"])
        return where(), hvd.allreduce(torch.ones(3) * (hvd.rank() + 1), op=hvd.Sum).tolist(), everyone

    got = xoe.ray.run(call, num_hosts=2, workers_per_host=2)
    assert [place for place, _, _ in got] == [
        (0, 4, 0, 2, 0, 2),
        (1, 4, 1, 2, 0, 2),
        (2, 4, 0, 2, 1, 2),
        (3, 4, 1, 2, 1, 2),
    ], got
    assert all(total == [10.0] * 3 for _, total, _ in got), got
    names = got[0][2]
    assert names[0] == names[1] != names[2] == names[3], names


def test_ranks_of_two_sizes():
    """Three ranks on two nodes, of two CPUs each."""
    got = xoe.ray.run(where, num_workers=3)
    assert got == [(0, 3, 0, 2, 0, 2), (1, 3, 1, 2, 0, 1), (2, 3, 0, 1, 1, 2)], got


def test_training_equals_one_process():
    clusters.check_training(xoe.ray.run(clusters.train, [20], num_workers=2, placement="STRICT_PACK"))
    clusters.check_training(xoe.ray.run(clusters.train, [20], num_hosts=2))


def test_exception_of_a_rank():
    """The driver raises it with its traceback, its peers get an error, and the executor then forms another world."""

    def fail():
        import torch

        import xoe.torch as hvd

        hvd.allreduce(torch.ones(1), name="before")
        if hvd.rank() == 1:
            raise ValueError("no such label: 17")
        hvd.allreduce(torch.ones(1), name="after")

    with xoe.ray.Executor(2) as executor:
        executor.start()
        error = raises(ValueError, lambda: executor.run(fail), "no such label: 17")
        assert "on rank 1" in str(error.__cause__) and "in fail" in str(error.__cause__), error.__cause__
        seen = executor.run_remote(fail)
        raises(xoe.PeerLostError, lambda: ray.get(seen[0]), "rank 1", "no such label: 17")
        raises(ValueError, lambda: executor.run(fail), "no such label: 17")
        assert [place[0] for place in executor.run(where)] == [0, 1]


def test_exception_that_cannot_be_pickled():
    def fail():
        class Odd(Exception):
            def __reduce__(self):
                raise TypeError("not this one")

        raise Odd("odd words")

    raises(RankError, lambda: xoe.ray.run(fail, num_workers=1), "rank 0 failed", "odd words")


def kill_one(hosts):
    def pid():
        return os.getpid()

    def sum_for_ever():
        import torch

        import xoe.torch as hvd

        while True:
            hvd.allreduce(torch.ones(1000), name="x")

    with xoe.ray.Executor(**hosts) as executor:
        executor.start()
        pids = executor.run(pid)
        started = []

        def kill():
            time.sleep(2)
            started.append(time.monotonic())
            os.kill(pids[1], signal.SIGKILL)

        thread = threading.Thread(target=kill)
        thread.start()
        error = raises(xoe.PeerLostError, lambda: executor.run(sum_for_ever), "rank 1", f"pid {pids[1]}", "was lost")
        took = time.monotonic() - started[0]
        thread.join()
        assert took < ranks.told_within(30), took
        assert error.ranks == (1,), error
        raises(xoe.PeerLostError, lambda: executor.run(pid), "rank 1", "start()")
        clusters.wait_until(lambda: not any(map(clusters.runs, pids)), 10, "a worker is left")
        executor.shutdown()
        executor.start()
        assert len(executor.run(pid)) == 2
    print(f"  named after {took:.1f} s: {error}", flush=True)


def test_killed_worker_on_one_node():
    kill_one({"num_workers": 2, "placement": "STRICT_PACK"})


def test_killed_worker_on_another_node():
    kill_one({"num_hosts": 2})


def test_peers_name_the_killed_one():
    """The other rank's own error names it, too."""

    def call():
        import torch

        import xoe.torch as hvd

        if hvd.rank() == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        try:
            while True:
                hvd.allreduce(torch.ones(1000), name="x")
        except xoe.PeerLostError as error:
            return str(error), error.ranks

    with xoe.ray.Executor(2) as executor:
        executor.start()
        text, lost = ray.get(executor.run_remote(call)[0])
        assert lost == (1,) and "rank 1" in text, text


def test_one_that_computes_is_ended():
    """A rank that does not communicate does not keep the others' error back."""

    def call():
        import xoe

        if xoe.rank() == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(3600)

    raises(xoe.PeerLostError, lambda: xoe.ray.run(call, num_workers=2), "rank 1", "was lost", "rank 0", "did not end within")


def test_executor():
    class Counter:
        def __init__(self, start, step=1):
            import xoe

            assert xoe.is_initialized()
            self.value, self.step = start + xoe.rank(), step

        def add(self):
            self.value += self.step
            return self.value

    executor = xoe.ray.Executor(2, env={"TEST_A": 1})
    raises(xoe.InvalidArgumentError, lambda: executor.run(where), "start()")
    executor.start(Counter, [100], {"step": 10}, env={"TEST_B": "2"})
    raises(xoe.InvalidArgumentError, executor.start, "runs already")
    assert executor.execute(lambda counter: counter.add()) == [110, 111]
    assert executor.execute(lambda counter: counter.add()) == [120, 121]
    assert executor.execute_single(lambda counter: counter.add()) == 130
    assert executor.run(lambda: (os.environ["TEST_A"], os.environ["TEST_B"])) == [("1", "2")] * 2
    assert ray.get(executor.run_remote(lambda a: a, [3])) == [3, 3]
    pids = executor.run(os.getpid)
    executor.shutdown()
    executor.shutdown()
    clusters.wait_until(lambda: not any(map(clusters.runs, pids)), 10, "a worker is left")


def test_reports():
    def call(count):
        import xoe

        for number in range(count):
            xoe.ray.report({"rank": xoe.rank(), "number": number})

    got = []
    with xoe.ray.Executor(2) as executor:
        executor.start()
        executor.run(call, [3], callbacks=[got.append])
    assert got == [{"rank": 0, "number": number} for number in range(3)], got


def test_init_again():
    """A rank's process joins, leaves, and joins again."""

    def call():
        import xoe
        from xoe.objects import allgather_object

        first = allgather_object(xoe.rank())
        xoe.shutdown()
        xoe.init()
        return first, allgather_object(xoe.rank() + 10)

    for hosts in ({"num_workers": 2, "placement": "STRICT_PACK"}, {"num_hosts": 2}):
        with xoe.ray.Executor(**hosts) as executor:
            executor.start()
            for _ in range(2):
                assert executor.run(call) == [([0, 1], [10, 11])] * 2


def test_without_join():
    def call():
        import xoe

        before = xoe.is_initialized()
        xoe.init(process_sets=[xoe.ProcessSet([0])])
        return before, xoe.size()

    assert xoe.ray.run(call, num_workers=2, join=False) == [(False, 2)] * 2


def test_no_room():
    def call():
        return xoe.ray.run(where, num_workers=2, gpus_per_worker=1, placement_timeout=2)

    raises(TimeoutError, call, "2 workers", "1 CPU, 1 GPU each", "within 2 s", "the cluster has 4 CPU")
    assert ray.available_resources()["CPU"] == 4
    raises(xoe.InvalidArgumentError, lambda: xoe.ray.Executor(), "num_workers")
    raises(xoe.InvalidArgumentError, lambda: xoe.ray.Executor(2, num_hosts=2), "num_hosts")
    raises(xoe.InvalidArgumentError, lambda: xoe.ray.Executor(0), "at least 1")


def test_gpus_as_ray_gives_them():
    """Two nodes with two pretended GPUs each: each rank sees its own, or all of its host's."""

    def see():
        return os.environ["CUDA_VISIBLE_DEVICES"]

    node = cluster.add_node(num_cpus=2, num_gpus=2)
    try:
        options = {"num_workers": 2, "gpus_per_worker": 1, "cpus_per_worker": 0, "join": False}
        assert sorted(xoe.ray.run(see, **options)) == ["0", "1"]
        assert xoe.ray.run(see, share_gpus=True, **options) in (["0,1"] * 2, ["1,0"] * 2)
    finally:
        cluster.remove_node(node)


def test_in_a_placement_group():
    from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

    group = ray.util.placement_group([{"CPU": 1}] * 3, strategy="PACK")
    ray.get(group.ready())

    @ray.remote(num_cpus=1)
    def outer():
        with xoe.ray.Executor(2) as executor:
            executor.start()
            return executor.created_placement_group, executor.run(lambda: xoe.size())

    strategy = PlacementGroupSchedulingStrategy(group, placement_group_capture_child_tasks=True)
    assert ray.get(outer.options(scheduling_strategy=strategy).remote()) == (False, [2, 2])
    ray.util.remove_placement_group(group)


def test_no_secret_is_shown():
    with xoe.ray.Executor(2) as executor:
        executor.start()
        secret = executor.run(lambda: os.environ["XOE_SECRET"])[0]
        assert len(secret) == 64
        assert clusters.shown_to_others(secret) == []


def test_without_ray():
    known = sys.modules["ray"]
    sys.modules["ray"] = None
    try:
        raises(xoe.UnavailableError, xoe.ray.Executor(1).start, "pip install ray")
    finally:
        sys.modules["ray"] = known


def test_guide():
    """The programs of docs/guide/ray.md, those of Dask and joblib too."""
    trained = r"\[\(0, 0\.\d+\), \(1, 0\.\d+\)\]"
    both = [re.escape("[[(0, 2, 0.1), (1, 2, 0.1)], [(0, 2, 0.2), (1, 2, 0.2)]]")]
    clusters.run_page("ray.md", [[trained], [r"\{'steps': 3\}", r"\[\(0, 3\), \(1, 3\)\]", r"^0\.1$|\n0\.1\n"], both, both])


if __name__ == "__main__":
    cluster = ray.cluster_utils.Cluster(initialize_head=True, head_node_args={"num_cpus": 2, "include_dashboard": False})
    try:
        cluster.add_node(num_cpus=2)
        ray.init(address=cluster.address, log_to_driver=False)
        cluster.wait_for_nodes()
        result = cases.run(cases.chosen(cases.functions(globals()), sys.argv[1:]))
    finally:
        ray.shutdown()
        cluster.shutdown()
    sys.exit(result)
