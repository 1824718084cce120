#!/usr/bin/env python3
"""What the controllers of Job, JobSet and Trainer make of the printed manifests: pods, names, variables, services.

  controllers_test.py [TEST...]
"""

import sys

from cluster import expect, main_of, print_kubernetes

IMAGE = "registry.example.com/none:1"  # there is no such image: the pods begin nothing
WORDS = ("--image", IMAGE, "--nodes", "3", "-np", "2", "--claim", "data:/data", "--", "python", "train.py")


def variables(pod):
    """The value of each, or the field that it comes from."""
    entries = pod["spec"]["containers"][0]["env"]
    return {entry["name"]: entry.get("value") or entry.get("valueFrom", {}).get("fieldRef", {}).get("fieldPath") for entry in entries}


class Tests:
    def __init__(self, cluster):
        self.cluster = cluster

    def pods_of(self, namespace, kind):
        """The three pods, by index, and the services."""
        self.cluster.kubectl("apply", "-n", namespace, "-f", "-", text=print_kubernetes(kind, *WORDS))
        self.cluster.wait("three pods", lambda: len(self.cluster.pods(namespace)) == 3)
        key = "batch.kubernetes.io/job-completion-index"
        pods = sorted(self.cluster.pods(namespace).values(), key=lambda pod: int(pod["metadata"]["annotations"][key]))
        services = self.cluster.api.get(f"/api/v1/namespaces/{namespace}/services")["items"]
        policies = self.cluster.api.get(f"/apis/networking.k8s.io/v1/namespaces/{namespace}/networkpolicies")["items"]
        (policy,) = policies
        wanted = policy["spec"]["podSelector"]["matchLabels"]
        for pod in pods:
            expect(wanted.items() <= pod["metadata"]["labels"].items(), f"the network policy does not mean {pod['metadata']}")
        return pods, services

    def expect_names(self, pods, services, form, domain="train"):
        for index, pod in enumerate(pods):
            spec = pod["spec"]
            expect(spec["hostname"] == form.format(index) and spec["subdomain"] == domain, str(spec))
            expect(spec["terminationGracePeriodSeconds"] == 120 and spec["restartPolicy"] == "Never", str(spec))
            expect(variables(pod)["JOB_COMPLETION_INDEX"].endswith("['batch.kubernetes.io/job-completion-index']"),
                   str(variables(pod)))
            container = spec["containers"][0]
            expect(container["restartPolicyRules"][0]["exitCodes"]["values"] == [75], str(container))
            expect({mount["mountPath"] for mount in container["volumeMounts"]} >= {"/dev/shm", "/tmp", "/etc/xoe", "/data"},
                   str(container["volumeMounts"]))
        (service,) = [one for one in services if one["metadata"]["name"] == domain]
        expect(service["spec"]["clusterIP"] == "None" and service["spec"]["publishNotReadyAddresses"], str(service))

    def test_job(self):
        with self.cluster.namespace("made-job") as namespace:
            pods, services = self.pods_of(namespace, "job")
            self.expect_names(pods, services, "train-{}", "train-job")
            expect(all(variables(pod)["XOE_NODES"] == "3" for pod in pods), str(variables(pods[0])))

    def test_jobset(self):
        with self.cluster.namespace("made-jobset") as namespace:
            pods, services = self.pods_of(namespace, "jobset")
            self.expect_names(pods, services, "train-node-0-{}")
            expect(all(variables(pod)["XOE_NODES"] == "3" for pod in pods), str(variables(pods[0])))

    def test_trainjob(self):
        self.cluster.kubectl("apply", "-f", "-", text=print_kubernetes("runtime"))
        with self.cluster.namespace("made-trainjob") as namespace:
            pods, services = self.pods_of(namespace, "trainjob")
            self.expect_names(pods, services, "train-node-0-{}")
            for pod in pods:
                found, container = variables(pod), pod["spec"]["containers"][0]
                expect(found["PET_NNODES"] == "3" and found["PET_NPROC_PER_NODE"] == "2", str(found))
                expect(found["PET_MASTER_ADDR"] == "train-node-0-0.train" and found["PET_MASTER_PORT"] == "29500", str(found))
                expect(found["PET_NODE_RANK"].endswith("['batch.kubernetes.io/job-completion-index']"), str(found))
                expect(found["KUBEFLOW_TRAINER_SERVER_URL"].endswith(f"/{namespace}/trainjobs/train/status"), str(found))
                expect("XOE_NODES" not in found, str(found))
                expect(container["command"] + container["args"] == ["xoe", "run", "--rendezvous", "auto", "--", "python", "train.py"],
                       str(container))
                secrets = [volume["secret"]["secretName"] for volume in pod["spec"]["volumes"] if "secret" in volume]
                expect(secrets == ["train-trainjob-rendezvous"], str(pod["spec"]["volumes"]))

    def test_a_second_printing_replaces_nothing(self):
        with self.cluster.namespace("made-twice") as namespace:
            self.pods_of(namespace, "job")
            path = f"/api/v1/namespaces/{namespace}/secrets/train-job-rendezvous"
            before = self.cluster.api.get(path)["data"]
            said = self.cluster.kubectl("apply", "-n", namespace, "-f", "-", text=print_kubernetes("job", *WORDS), check=False)
            expect("immutable" in said, said)
            expect(self.cluster.api.get(path)["data"] == before, "running pods have another secret than those that come")

    def test_a_job_and_a_jobset_of_one_name(self):
        with self.cluster.namespace("made-both") as namespace:
            text = {kind: print_kubernetes(kind, *WORDS) for kind in ("jobset", "job")}
            for kind in text:
                self.cluster.kubectl("apply", "-n", namespace, "-f", "-", text=text[kind])
            self.cluster.wait("both services", lambda: self.selectors(namespace).keys() >= {"train", "train-job"})
            expect(all(len(selector) == 1 for selector in self.selectors(namespace).values()), str(self.selectors(namespace)))
            self.cluster.kubectl("delete", "-n", namespace, "-f", "-", text=text["job"])
            expect(self.cluster.find("jobset", namespace, "train"), "the JobSet is gone, too")
            self.cluster.api.get(f"/api/v1/namespaces/{namespace}/secrets/train-jobset-rendezvous")

    def selectors(self, namespace):
        services = self.cluster.api.get(f"/api/v1/namespaces/{namespace}/services")["items"]
        return {service["metadata"]["name"]: service["spec"]["selector"] for service in services}


if __name__ == "__main__":
    sys.exit(main_of(Tests))
