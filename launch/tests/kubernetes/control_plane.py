"""The real control plane of a pretended cluster: etcd, kube-apiserver, the controllers of jobs, JobSet and Kubeflow Trainer.

launch/tests/kubernetes/install.sh builds the programs at pinned versions from their Go modules.
"""

import base64
import json
import os
import pathlib
import subprocess
import time
import urllib.request

from api import Api, ApiError
from container import ROOT
from sandbox import ADDRESS

PROGRAMS = ROOT / "build/peers/kubernetes"
API_PORT, JOBSET_PORT, TRAINER_PORT, STATUS_PORT = 6443, 9443, 9444, 10443
TOKEN = "of-the-administrator"
ISSUER = f"https://{ADDRESS}:{API_PORT}"  # of tokens: where Trainer asks for the keys that they are signed with
CONTROLLERS = ("job-controller", "endpointslice-controller", "garbage-collector-controller", "namespace-controller",
               "serviceaccount-controller", "ttl-after-finished-controller", "root-ca-certificate-publisher-controller")
TRAINER_NAMESPACE, TRAINER_SERVICE = "kubeflow-system", "kubeflow-trainer-controller-manager"
SERVING_NAMES = ("DNS:localhost", "DNS:kubernetes.default.svc", f"DNS:{TRAINER_SERVICE}.{TRAINER_NAMESPACE}.svc", "IP:127.0.0.1",
                 f"IP:{ADDRESS}")


def why_not():
    """What is missing, or None."""
    return None if (PROGRAMS / "installed").exists() else "its programs are not there: launch/tests/kubernetes/install.sh builds them"


def openssl(*words, **options):
    subprocess.run(["openssl", *map(str, words)], check=True, capture_output=True, **options)


class ControlPlane:
    """Ready once made. `api`, `kubectl()`; `folder` has the log of each program."""

    def __init__(self, folder, controllers=CONTROLLERS):
        self.folder = folder / "control-plane"
        self.folder.mkdir()
        self.running = {}
        self.ca = self.folder / "ca.crt"
        self.certificate = (self.folder / "tls.crt", self.folder / "tls.key")
        self.kubeconfig = self.folder / "kubeconfig"
        self.make_certificates()
        self.start("etcd", "etcd", "--data-dir", self.folder / "etcd")
        self.start_api_server()
        self.api = Api(ADDRESS, API_PORT, self.ca, TOKEN)
        self.wait("kube-apiserver", lambda: self.api.get("/readyz") == "ok")
        self.start("kube-controller-manager", PROGRAMS / "kube-controller-manager", f"--kubeconfig={self.kubeconfig}",
                   f"--controllers={','.join(controllers)}", "--leader-elect=false", f"--root-ca-file={self.ca}",
                   f"--service-account-private-key-file={self.folder / 'accounts.key'}", "--kube-api-qps=500",
                   "--kube-api-burst=500", "--secure-port=0")
        self.install_definitions()
        self.place_certificate()
        self.start_jobset()
        self.start_trainer()

    def make_certificates(self):
        curve = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
        names = self.folder / "names"
        names.write_text(f"subjectAltName={','.join(SERVING_NAMES)}\n")
        openssl("req", "-x509", *curve, "-days", 2, "-subj", "/CN=authority", "-keyout", self.folder / "ca.key", "-out", self.ca)
        openssl("req", *curve, "-subj", "/CN=servers", "-keyout", self.certificate[1], "-out", self.folder / "request")
        openssl("x509", "-req", "-in", self.folder / "request", "-CA", self.ca, "-CAkey", self.folder / "ca.key", "-CAcreateserial",
                "-days", 2, "-extfile", names, "-out", self.certificate[0])
        openssl("genrsa", "-out", self.folder / "accounts.key", 2048)
        openssl("rsa", "-in", self.folder / "accounts.key", "-pubout", "-out", self.folder / "accounts.pub")
        self.kubeconfig.write_text(json.dumps({
            "apiVersion": "v1", "kind": "Config", "current-context": "here",
            "clusters": [{"name": "here", "cluster": {"server": ISSUER,
                                                      "certificate-authority": str(self.ca)}}],
            "users": [{"name": "admin", "user": {"token": TOKEN}}],
            "contexts": [{"name": "here", "context": {"cluster": "here", "user": "admin"}}]}))

    def start(self, name, *words, env=None):
        with (self.folder / f"{name}.log").open("wb") as log:
            self.running[name] = subprocess.Popen([str(word) for word in words], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                                  env=env)

    def wait(self, name, ready, seconds=120):
        end = time.monotonic() + seconds
        while True:
            try:
                if ready():
                    return
            except (OSError, ValueError, ApiError, subprocess.CalledProcessError):
                pass
            code = self.running[name].poll()
            if code is not None or time.monotonic() > end:
                text = (self.folder / f"{name}.log").read_text()[-3000:]
                raise RuntimeError(f"{name} {'is not ready' if code is None else f'ended with {code}'}: {text}")
            time.sleep(0.1)

    def start_api_server(self):
        tokens = self.folder / "tokens.csv"
        tokens.write_text(f"{TOKEN},admin,admin,system:masters\n")
        accounts = self.folder / "accounts"
        self.start("kube-apiserver", PROGRAMS / "kube-apiserver", "--etcd-servers=http://127.0.0.1:2379", "--bind-address=0.0.0.0",
                   f"--advertise-address={ADDRESS}", f"--secure-port={API_PORT}", f"--tls-cert-file={self.certificate[0]}",
                   f"--tls-private-key-file={self.certificate[1]}", f"--service-account-issuer={ISSUER}",
                   f"--service-account-key-file={accounts}.pub", f"--service-account-signing-key-file={accounts}.key",
                   "--service-cluster-ip-range=10.96.0.0/16", "--authorization-mode=RBAC", f"--token-auth-file={tokens}",
                   "--endpoint-reconciler-type=none",
                   "--feature-gates=SizeBasedListCostEstimate=false")  # Debian's etcd is too old for it

    def kubectl(self, *words, text=None, check=True):
        """What it prints; where it fails an AssertionError with what it said, or, without `check`, that."""
        done = subprocess.run([str(PROGRAMS / "kubectl"), *map(str, words)], input=text, capture_output=True, text=True,
                              env=os.environ | {"KUBECONFIG": str(self.kubeconfig), "HOME": str(self.folder)}, check=False)
        if done.returncode != 0 and check:
            raise AssertionError(f"kubectl {' '.join(map(str, words))}: {done.stderr.strip()}")
        return done.stdout if check else done.stdout + done.stderr

    def install_definitions(self):
        for item in json.loads((PROGRAMS / "definitions.json").read_text()):
            self.api.call("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", item)
        self.wait("kube-apiserver", self.has_definitions)
        self.api.call("POST", "/api/v1/namespaces", {"kind": "Namespace", "metadata": {"name": TRAINER_NAMESPACE}})

    def has_definitions(self):
        items = self.api.get("/apis/apiextensions.k8s.io/v1/customresourcedefinitions")["items"]
        return all({"Established"} & {one["type"] for one in item.get("status", {}).get("conditions") or () if one["status"] == "True"}
                   for item in items)

    def install_webhooks(self, name, port):
        """Of a controller, which listens on this machine."""
        authority = base64.b64encode(self.ca.read_bytes()).decode()
        for item in json.loads((PROGRAMS / f"{name}-webhooks.json").read_text()):
            kind = item["kind"].lower() + "s"
            item["metadata"] = {"name": f"{name}-{kind}"}
            for hook in item["webhooks"]:
                path = hook["clientConfig"].pop("service")["path"]
                hook["clientConfig"] |= {"url": f"https://127.0.0.1:{port}{path}", "caBundle": authority}
            self.api.call("POST", f"/apis/admissionregistration.k8s.io/v1/{kind}", item)

    def place_certificate(self):
        """Where both controllers look for it; /tmp is this sandbox's own."""
        folder = pathlib.Path("/tmp/k8s-webhook-server/serving-certs")
        folder.mkdir(parents=True)
        for file in self.certificate:
            (folder / file.name).write_bytes(file.read_bytes())

    def start_jobset(self):
        config = self.folder / "jobset.json"
        config.write_text(json.dumps({
            "apiVersion": "config.jobset.x-k8s.io/v1alpha1", "kind": "Configuration", "leaderElection": {"leaderElect": False},
            "internalCertManagement": {"enable": False}, "metrics": {"bindAddress": "0"},
            "health": {"healthProbeBindAddress": "127.0.0.1:8081"},
            "webhook": {"port": JOBSET_PORT}}))
        self.start("jobset", PROGRAMS / "jobset-controller", f"--config={config}", env=self.environment())
        self.wait("jobset", lambda: self.answers(8081))
        self.install_webhooks("jobset", JOBSET_PORT)

    def start_trainer(self):
        config = self.folder / "trainer.json"
        config.write_text(json.dumps({
            "apiVersion": "config.trainer.kubeflow.org/v1alpha1", "kind": "Configuration", "leaderElection": {"leaderElect": False},
            "certManagement": {"enable": False, "webhookServiceName": TRAINER_SERVICE, "webhookSecretName": "webhook-cert"},
            "metrics": {"bindAddress": "0", "secureServing": False}, "health": {"healthProbeBindAddress": "127.0.0.1:8082"},
            "webhook": {"port": TRAINER_PORT}, "statusServer": {"port": STATUS_PORT}, "featureGates": {"TrainJobStatus": True}}))
        secret = {"kind": "Secret", "metadata": {"name": "webhook-cert"},
                  "data": {"ca.crt": base64.b64encode(self.ca.read_bytes()).decode()}}
        self.api.call("POST", f"/api/v1/namespaces/{TRAINER_NAMESPACE}/secrets", secret)
        self.give_account_token()
        self.start("trainer", PROGRAMS / "trainer-controller", f"--config={config}", env=self.environment())
        self.wait("trainer", lambda: self.answers(8082))
        self.install_webhooks("trainer", TRAINER_PORT)
        self.publish_status_server()

    def give_account_token(self):
        """Trainer takes the issuer of tokens from its own, where a pod has it."""
        accounts = f"/api/v1/namespaces/{TRAINER_NAMESPACE}/serviceaccounts"
        self.api.call("POST", accounts, {"kind": "ServiceAccount", "metadata": {"name": "trainer"}})
        answer = self.api.call("POST", f"{accounts}/trainer/token", {"kind": "TokenRequest", "spec": {}})
        folder = pathlib.Path("/run/secrets/kubernetes.io/serviceaccount")
        folder.mkdir(parents=True)
        (folder / "token").write_text(answer["status"]["token"])

    def publish_status_server(self):
        """A service of the name that pods are told, whose address is this machine."""
        labels = {"kubernetes.io/service-name": TRAINER_SERVICE}
        ports = [{"name": "status", "port": STATUS_PORT, "protocol": "TCP"}]
        self.api.call("POST", f"/api/v1/namespaces/{TRAINER_NAMESPACE}/services", {
            "kind": "Service", "metadata": {"name": TRAINER_SERVICE}, "spec": {"clusterIP": "None", "ports": ports}})
        self.api.call("POST", f"/apis/discovery.k8s.io/v1/namespaces/{TRAINER_NAMESPACE}/endpointslices", {
            "kind": "EndpointSlice", "metadata": {"name": TRAINER_SERVICE, "labels": labels}, "addressType": "IPv4",
            "ports": ports, "endpoints": [{"addresses": [ADDRESS]}]})

    def environment(self):
        return os.environ | {"KUBECONFIG": str(self.kubeconfig)}

    @staticmethod
    def answers(port):
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5) as answer:
            return answer.status == 200
