"""`xoe run --rendezvous`: several members on this machine, their output, ends and exit codes. What takes time is simulated:
sim/rendezvous_test.cc.
"""

import pathlib
import signal
import subprocess
import sys
import time
import unittest

sys.path.append(str(pathlib.Path(__file__).resolve().parent))
sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "core/testing"))
from members import OURS, XOE, Group

HERE, ELSEWHERE = 75, 76
MEANING = {HERE: "xoe run: exit code 75: run it again; this host is not to blame\n",
           ELSEWHERE: "xoe run: exit code 76: run it again, on another host if there is one\n"}
PLACE = "echo $XOE_RANK/$XOE_SIZE $XOE_LOCAL_RANK/$XOE_LOCAL_SIZE $XOE_CROSS_RANK/$XOE_CROSS_SIZE"
STAY = 'echo "ready $XOE_RANK"; exec sleep 1000'
# As a training that saves its state and leaves when it is asked.
SAVES = """trap 'sleep ${SLOW:-0}; echo "saved $XOE_RANK"; exit ${CODE:-0}' TERM
echo "ready $XOE_RANK"; while :; do sleep 0.05; done"""


def dry_run(variables, *options):
    return subprocess.run([str(XOE), "run", "--rendezvous", "auto", "--dry-run", *options, "true"], env={**OURS, **variables},
                          capture_output=True, text=True, timeout=30, check=False)


class Places(unittest.TestCase):
    def test_each_member_has_its_ranks_and_their_output(self):
        with Group(3) as group:
            group.start_all(PLACE, ["-np", "2"])
            self.assertEqual(group.codes(), [0, 0, 0])
            for index, member in group.members.items():
                first = 2 * index
                self.assertEqual(sorted(member.out.splitlines()), [f"[{first}] {first}/6 0/2 {index}/3",
                                                                   f"[{first + 1}] {first + 1}/6 1/2 {index}/3"])
                self.assertEqual(member.err, "")
            self.assertTrue(group.all_gone())

    def test_members_that_schedulers_number(self):
        with Group(2) as group:
            kubeflow = {"PET_NNODES": "2", "PET_NPROC_PER_NODE": "2", "PET_MASTER_ADDR": "localhost",
                        "PET_MASTER_PORT": str(group.port)}
            for index in range(2):
                group.start(index, PLACE, auto=True, env={**kubeflow, "PET_NODE_RANK": str(index)})
            self.assertEqual(group.codes(), [0, 0])
            self.assertIn("[3] 3/4 1/2 1/2", group.members[1].out)
        with Group(2) as group:
            jax = {"JAX_NUM_PROCESSES": "2", "JAX_COORDINATOR_ADDRESS": f"127.0.0.1:{group.port}"}
            for index in range(2):
                group.start(index, PLACE, ["-np", "1"], auto=True, env={**jax, "JAX_PROCESS_ID": str(index)})
            self.assertEqual(group.codes(), [0, 0])
            self.assertIn("[1] 1/2 0/1 1/2", group.members[1].out)

    def test_a_dry_run_says_what_was_found(self):
        done = dry_run({"LWS_LEADER_ADDRESS": "a-0.a", "LWS_GROUP_SIZE": "3", "LWS_WORKER_INDEX": "2"}, "-np", "4")
        self.assertEqual(done.stdout, "member 2 of 3, 4 ranks here; member 0 is at a-0.a, port 29500 (from LeaderWorkerSet)\n")
        done = dry_run({"SLURM_NODEID": "0", "SLURM_NNODES": "2", "SLURM_JOB_NODELIST": "n[3-4]"}, "-np", "1")
        self.assertEqual(done.stdout, "member 0 of 2, 1 rank here; member 0 is at n3, port 29500 (from Slurm)\n")
        done = dry_run({})
        self.assertEqual(done.returncode, 2)
        self.assertIn("looked for PET_NODE_RANK with PET_MASTER_ADDR (Kubeflow Trainer)", done.stderr)

    def test_each_member_shows_those_of_its_ranks_that_are_asked_for(self):
        with Group(3) as group:
            group.start_all("echo $XOE_RANK", ["-np", "2", "--only-rank", "0,3"])
            self.assertEqual(group.codes(), [0, 0, 0])
            self.assertEqual([group.members[index].out for index in range(3)], ["[0] 0\n", "[3] 3\n", ""])

    def test_one_member_needs_no_one(self):
        with Group(1) as group:
            group.start(0, PLACE, ["-np", "2"], env={"XOE_RENDEZVOUS_SECRET_FILE": ""})
            self.assertEqual(group.codes(), [0])
            self.assertIn("[1] 1/2 1/2 0/1", group.members[0].out)

    def test_ipv6(self):
        with Group(2, "::1") as group:
            group.start_all(PLACE)
            self.assertEqual(group.codes(), [0, 0], group.members[1].err)

    def test_the_leader_has_input_and_files_of_all(self):
        with Group(2) as group:
            group.start(1, "cat; echo from $XOE_RANK")
            with subprocess.Popen(["echo", "words"], stdout=subprocess.PIPE) as words:
                group.start(0, "cat; echo from $XOE_RANK", ["--output-dir", f"{group.path}/logs"], stdin=words.stdout)
                self.assertEqual(group.codes(), [0, 0])
            self.assertEqual(group.members[0].out, "[0] words\n[0] from 0\n")
            self.assertEqual(group.members[1].out, "[1] from 1\n")
            self.assertEqual((group.path / "logs/rank.1/stdout").read_text(), "from 1\n")

    def test_much_output_stays_with_its_member(self):
        with Group(2) as group:
            group.start_all('[ $XOE_RANK = 0 ] || for i in $(seq 60000); do echo "$i: all of this is one line of output"; done')
            self.assertEqual(group.codes(60), [0, 0])
            self.assertEqual(len(group.members[1].out.splitlines()), 60000)
            self.assertEqual(group.members[0].out, "")

    def test_a_slow_reader_at_the_leader_loses_no_member(self):
        with Group(2) as group:
            script = "[ $XOE_RANK = 1 ] || seq 200000"
            group.start(1, script, ["--host-timeout", "1"])
            leader = group.start(0, script, ["--host-timeout", "1"], stdout=subprocess.PIPE)
            time.sleep(3)
            with leader.process.stdout as stdout:
                self.assertEqual(len(stdout.read().splitlines()), 200000)
            self.assertEqual(group.codes(), [0, 0], group.members[1].err)

    def test_a_check_starts_nothing(self):
        with Group(2) as group:
            group.start_all("echo started", ["--check"])
            self.assertEqual(group.codes(), [0, 0])
            self.assertEqual(len(group.members[0].out.splitlines()), 2)
            self.assertNotIn("started", group.members[0].out + group.members[1].out)


class Meeting(unittest.TestCase):
    def test_a_name_that_is_not_known_is_told_of(self):
        with Group(2) as group:
            group.at = "no-such-name.invalid:29500"
            group.start(1, PLACE, ["--rendezvous-timeout", "1"])
            self.assertEqual(group.codes(), [HERE])
            self.assertIn("the name no-such-name.invalid is not known here", group.members[1].err)

    def test_without_a_secret_nothing_begins(self):
        with Group(2) as group:
            group.at = "node0.example:29500"
            group.start(1, PLACE, env={"XOE_RENDEZVOUS_SECRET_FILE": ""})
            self.assertEqual(group.codes(), [2])
            self.assertIn("openssl rand -hex 32", group.members[1].err)

    def test_members_that_differ_are_refused(self):
        with Group(2) as group:
            group.start(0, PLACE, ["-np", "2"])
            group.start(1, PLACE, ["-np", "3"])
            self.assertEqual(group.codes(), [2, 2])
            for member in group.members.values():
                self.assertIn("is to run 3 ranks, and this one 2; give all members the same -np", member.err)


class Ends(unittest.TestCase):
    def test_a_rank_that_fails_is_named_everywhere(self):
        for failing in range(3):
            with self.subTest(rank=failing), Group(3) as group:
                group.start_all(f'if [ $XOE_RANK = {failing} ]; then echo "no such layer" >&2; exit 3; fi; exec sleep 1000')
                self.assertEqual(group.codes(), [3, 3, 3])
                for member in group.members.values():
                    self.assertIn(f"rank {failing} (host ", member.err)
                    self.assertIn("exited with code 3", member.err)
                    self.assertIn("its last line: no such layer", member.err)
                self.assertTrue(group.all_gone())

    def test_a_crash_is_to_retry_elsewhere_where_it_was(self):
        for failing in range(2):
            with self.subTest(rank=failing), Group(2) as group:
                group.start_all(f"[ $XOE_RANK = {failing} ] && kill -SEGV $$; exec sleep 1000")
                self.assertEqual(group.codes(), [ELSEWHERE if index == failing else HERE for index in range(2)])
                self.assertIn("was killed by SIGSEGV", group.members[1 - failing].err)
                for index, member in group.members.items():
                    self.assertTrue(member.err.endswith(MEANING[ELSEWHERE if index == failing else HERE]), member.err)
                self.assertTrue(group.all_gone())

    def test_a_program_that_is_missing_is_not_retried(self):
        with Group(2) as group:
            group.start_all("", program=["no-such-program"])
            self.assertEqual(group.codes(), [127, 127])
            self.assertIn("no-such-program", group.members[1].err)

    def test_sigterm_at_any_member_reaches_all_ranks(self):
        for asked in range(3):
            with self.subTest(member=asked), Group(3) as group:
                members = group.start_all(SAVES)
                for member in members:
                    member.says("ready")
                members[asked].signal(signal.SIGTERM)
                self.assertEqual(group.codes(), [ELSEWHERE if index == asked else HERE for index in range(3)])
                for index, member in enumerate(members):
                    self.assertIn(f"saved {index}", member.out)
                    self.assertRegex(member.err, rf"(?m)^xoe run: member {asked} \(host \S+\) got SIGTERM; all ranks have ended with it, after .+s\n"
                                     rf"{MEANING[ELSEWHERE if index == asked else HERE]}\Z")
                self.assertTrue(group.all_gone())

    def test_ctrl_c_at_a_member_is_the_users(self):
        with Group(2) as group:
            members = group.start_all(STAY)
            for member in members:
                member.says("ready")
            members[1].signal(signal.SIGINT)
            self.assertEqual(group.codes(), [130, 130])
            for member in members:
                self.assertRegex(member.err, r"^xoe run: member 1 \(host \S+\) got SIGINT; all ranks have ended with it, after .+s\n$")

    def test_a_killed_member_is_named_and_the_others_may_retry(self):
        for killed in range(3):
            with self.subTest(member=killed), Group(3) as group:
                members = group.start_all(STAY, ["-np", "2"])
                for member in members:
                    member.says("ready")
                members[killed].signal(signal.SIGKILL)
                codes = group.codes()
                self.assertEqual(codes, [-signal.SIGKILL if index == killed else HERE for index in range(3)])
                for index, member in enumerate(members):
                    if index == killed:
                        continue
                    self.assertTrue(member.err.endswith(MEANING[HERE]), member.err)
                    if killed == 0:
                        self.assertIn("member 0 (127.0.0.1) is lost", member.err)
                    else:
                        self.assertIn("lost: the connection to its xoe run ended", member.err)
                        self.assertIn(f"its ranks: {2 * killed}-{2 * killed + 1}", member.err)
                self.assertTrue(group.all_gone())


class Rounds(unittest.TestCase):
    ROUND = 'echo "round $XOE_RANK"; if [ -e $FOLDER/go ]; then exit 0; fi; exec sleep 1000'

    def test_a_rank_is_restarted_in_its_place(self):
        with Group(2) as group:
            group.start_all('if [ $XOE_RANK = 1 ] && [ ! -e $FOLDER/once ]; then touch $FOLDER/once; exit 9; fi; '
                            '[ $XOE_RANK = 0 ] || touch $FOLDER/again; while [ ! -e $FOLDER/again ]; do sleep 0.05; done; '
                            'echo "done $XOE_RANK"', ["--restarts", "1"])
            self.assertEqual(group.codes(), [0, 0])
            self.assertIn("restarted, 0 of 1 restarts left", group.members[0].err)
            self.assertIn("done 1", group.members[1].out)

    def test_a_member_that_is_lost_may_come_back(self):
        with Group(3) as group:
            members = group.start_all(self.ROUND, ["--restarts", "1", "--output-dir", f"{group.path}/logs"])
            for member in members:
                member.says("round")
            members[1].signal(signal.SIGKILL)
            members[1].process.wait()
            members[0].says("the job begins again; 0 of 1 restarts left")
            (group.path / "go").touch()
            group.start(1, self.ROUND, ["--restarts", "1"])
            self.assertEqual(group.codes(), [0, 0, 0])
            self.assertEqual(members[2].out, "[2] round 2\n[2] round 2\n")
            self.assertEqual((group.path / "logs/rank.2/stdout").read_text(), "round 2\nround 2\n")
            self.assertTrue(group.all_gone())


if __name__ == "__main__":
    unittest.main()
