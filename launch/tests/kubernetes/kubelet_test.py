#!/usr/bin/env python3
"""The pretended kubelet does what its pods ask for: names, variables, volumes, identity, signals, exit codes, restarts.

  kubelet_test.py [TEST...]
"""

import json
import sys

from cluster import IMAGE, expect, main_of

RESTRICTED = {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}}


def job(name, script, pods=1, **container):
    """An Indexed Job whose pods have the names of a headless service."""
    spec = {"name": "node", "image": IMAGE, "command": ["bash", "-c", script], "securityContext": RESTRICTED} | container
    pod = {"subdomain": name, "restartPolicy": "Never", "containers": [spec], "terminationGracePeriodSeconds": 3,
           "securityContext": {"runAsNonRoot": True, "runAsUser": 1234, "fsGroup": 5678,
                               "seccompProfile": {"type": "RuntimeDefault"}},
           "volumes": [{"name": "secret", "secret": {"secretName": "word"}}, {"name": "tmp", "emptyDir": {}},
                       {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "32Mi"}},
                       {"name": "claim", "persistentVolumeClaim": {"claimName": "kept"}}]}
    spec["volumeMounts"] = [{"name": "secret", "mountPath": "/etc/word", "readOnly": True}, {"name": "tmp", "mountPath": "/tmp"},
                            {"name": "shm", "mountPath": "/dev/shm"}, {"name": "claim", "mountPath": "/kept"}]
    policy = {"rules": [{"action": "FailJob", "onExitCodes": {"operator": "In", "values": [3]}}]}
    made = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": {
        "completionMode": "Indexed", "completions": pods, "parallelism": pods, "podFailurePolicy": policy,
        "template": {"spec": pod}}}
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": {
        "clusterIP": "None", "publishNotReadyAddresses": True, "selector": {"batch.kubernetes.io/job-name": name}}}
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "word"}, "stringData": {"word": "sesame"}}
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": [secret, service, made]})


class Tests:
    def __init__(self, cluster):
        self.cluster = cluster

    def apply(self, namespace, *words, **more):
        self.cluster.kubectl("apply", "-n", namespace, "-f", "-", text=job(*words, **more))

    def end_of(self, namespace, name):
        return self.cluster.wait(f"end of job {name}", lambda: self.cluster.condition("job", namespace, name))

    def logs(self, namespace, name):
        pods = sorted(self.cluster.pods(namespace))
        return [self.cluster.kubectl("logs", "-n", namespace, pod) for pod in pods if pod.startswith(name)]

    def test_names_variables_and_volumes(self):
        script = """set -e
until getent hosts names-0.names names-1.names; do sleep 0.1; done | sort -u | wc -l
echo "$(hostname) $JOB_COMPLETION_INDEX $POD $WORD $(cat /etc/word/word) $(id -u):$(id -g)"
touch /x 2>&1 || true; touch /tmp/x /dev/shm/x "/kept/$JOB_COMPLETION_INDEX"; df --output=size /dev/shm | tail -n 1
grep -E 'CapEff|NoNewPrivs' /proc/self/status | tr '\\n' ' '; ls -A /proc | grep -c '^[0-9]'
getent hosts names-7.names || echo "no names-7"
"""
        variables = [{"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
                     {"name": "WORD", "valueFrom": {"secretKeyRef": {"name": "word", "key": "word"}}}]
        with self.cluster.namespace("kubelet-names") as namespace:
            self.apply(namespace, "names", script, pods=2, env=variables)
            expect(self.end_of(namespace, "names")[0] == "Complete", self.cluster.state)
            pods = sorted(self.cluster.pods(namespace))
            for index, text in enumerate(self.logs(namespace, "names")):
                lines = text.splitlines()
                expect(lines[1] == f"names-{index} {index} {pods[index]} sesame sesame 1234:5678", text)
                expect("Read-only file system" in lines[2] and lines[3].strip() == "32768", text)
                expect("CapEff:\t0000000000000000" in text and "NoNewPrivs:\t1" in text and "no names-7" in text, text)
            kept = self.cluster.kubelet.claims / namespace / "kept"
            expect(sorted(file.name for file in kept.iterdir()) == ["0", "1"], str(list(kept.iterdir())))

    def test_exit_codes(self):
        with self.cluster.namespace("kubelet-codes") as namespace:
            self.apply(namespace, "wrong", "exit 3")
            expect(self.end_of(namespace, "wrong") == ("Failed", "PodFailurePolicy"), self.cluster.state)
            expect(len(self.cluster.ran(namespace)) == 1, "a pod that was not to be retried was")
            self.apply(namespace, "lost", "[ -e /kept/been ] || { touch /kept/been; exit 137; }")
            expect(self.end_of(namespace, "lost")[0] == "Complete", self.cluster.state)
            expect(len(self.cluster.ran(namespace)) == 3, self.cluster.state)

    def test_container_restarts_in_place(self):
        rules = [{"action": "Restart", "exitCodes": {"operator": "In", "values": [75]}}]
        script = 'echo "$HOSTNAME $(hostname -i)"; n=$(wc -l < /tmp/n || echo 0); echo >> /tmp/n; [ "$n" = 3 ] || exit 75'
        with self.cluster.namespace("kubelet-restart") as namespace:
            self.apply(namespace, "again", script, restartPolicy="Never", restartPolicyRules=rules)
            expect(self.end_of(namespace, "again")[0] == "Complete", self.cluster.state)
            (pod,) = self.cluster.pods(namespace).values()
            expect(pod["status"]["containerStatuses"][0]["restartCount"] == 3, str(pod["status"]))
            (text,) = self.logs(namespace, "again")
            lines = [line for line in text.splitlines() if line.startswith("again-0")]
            expect(len(lines) == 4 and len(set(lines)) == 1, text)

    def test_deletion(self):
        obeys = 'trap "echo told; exit 0" TERM; echo up; while :; do sleep 0.1; done'
        ignores = 'trap "echo told" TERM; echo up; while :; do sleep 0.1; done'
        for name, script, code in (("obeys", obeys, 0), ("ignores", ignores, 137)):
            with self.cluster.namespace(f"kubelet-{name}") as namespace:
                self.apply(namespace, name, script)
                pod = self.cluster.wait("start", lambda: next((one for one in self.cluster.ran(namespace)
                                                               if "up" in one.log.read_text()), None))
                self.cluster.kubectl("delete", "pod", "-n", namespace, pod.name)
                expect("told" in pod.log.read_text() and pod.process.returncode == code,
                       f"{pod.process.returncode}: {pod.log.read_text()}")
                if code == 0:
                    expect(self.end_of(namespace, name)[0] == "Complete", self.cluster.state)
                else:
                    self.cluster.wait("another pod", lambda: len(self.cluster.ran(namespace)) == 2)

    def test_image_that_is_not_there(self):
        with self.cluster.namespace("kubelet-image") as namespace:
            self.apply(namespace, "typo", "true", image="registry.example.com/typo")

            def reason():
                return [status["state"].get("waiting", {}).get("reason") for pod in self.cluster.pods(namespace).values()
                        for status in pod["status"].get("containerStatuses", ())]
            self.cluster.wait("back-off", lambda: reason() == ["ImagePullBackOff"])


if __name__ == "__main__":
    sys.exit(main_of(Tests))
