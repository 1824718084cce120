"""A pretended node: runs the pods that the API server has, in network namespaces, and answers `kubectl logs`.

It stands in for scheduler, kubelet, container runtime and network plug-in. It has no cgroups (resources are not limited), no probes, one
container a pod and one image; a PersistentVolumeClaim is a folder that all pods see.
"""

import http.server
import ssl
import threading
import time
import urllib.parse

from api import ApiError
from pod import POLL, Pod

PORT = 10250


class Kubelet:
    """`images`: {name: container.Image}. Runs until the process ends."""

    def __init__(self, api, network, folder, address, images, certificate, nodes=("node-a", "node-b")):
        self.api = api
        self.network = network
        self.folder = folder
        self.address = address
        self.images = images
        self.nodes = nodes
        self.claims = folder / "claims"
        self.pods = {}  # by uid; those that were deleted too
        self.problems = []
        for name in ("pods", "logs", "claims"):
            (folder / name).mkdir()
        for node in nodes:
            self.register(node)
        self.serve_logs(certificate)
        api.follow("/api/v1/pods", self.observe, self.problems)

    def register(self, name):
        made = self.api.call("POST", "/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", "metadata": {
            "name": name, "labels": {"kubernetes.io/hostname": name}}})
        room = {"cpu": "16", "memory": "64Gi", "pods": "110"}
        self.api.patch(f"/api/v1/nodes/{name}/status", {"metadata": {"uid": made["metadata"]["uid"]}, "status": {
            "capacity": room, "allocatable": room, "addresses": [{"type": "InternalIP", "address": self.address}],
            "conditions": [{"type": "Ready", "status": "True"}], "daemonEndpoints": {"kubeletEndpoint": {"Port": PORT}}}})

    def observe(self, kind, pod):
        uid = pod["metadata"]["uid"]
        known = self.pods.get(uid)
        if kind == "DELETED":
            if known:
                known.object = pod
                known.removed.set()
        elif known:
            known.object = pod
        elif pod["spec"].get("schedulingGates") or "deletionTimestamp" in pod["metadata"]:
            pass
        elif not pod["spec"].get("nodeName"):
            self.schedule(pod)
        elif pod["status"].get("phase") == "Pending":
            self.pods[uid] = Pod(self, pod)
            self.pods[uid].start()

    def schedule(self, pod):
        """On the node with the fewest pods."""
        meta = pod["metadata"]

        def load(node):
            there = [one for one in self.pods.values() if one.object["spec"]["nodeName"] == node]
            return sum(not one.ended for one in there), len(there)
        binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": meta["name"], "uid": meta["uid"]},
                   "target": {"apiVersion": "v1", "kind": "Node", "name": min(self.nodes, key=load)}}
        try:
            self.api.call("POST", f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}/binding", binding)
        except ApiError as error:
            if error.code not in (404, 409):  # deleted, or bound already
                raise

    def find(self, namespace, name):
        """The last pod of this name."""
        return next((pod for pod in reversed(self.pods.values()) if (pod.namespace, pod.name) == (namespace, name)), None)

    def living(self):
        """The namespaces of pods that have a process or a network namespace."""
        return {pod.namespace for pod in self.pods.values() if (pod.is_alive() and not pod.ended) or pod.folder.exists()}

    def serve_logs(self, certificate):
        kubelet = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                parts = urllib.parse.urlsplit(self.path)
                words = parts.path.strip("/").split("/")
                pod = kubelet.find(words[1], words[2]) if words[0] == "containerLogs" and len(words) == 4 else None
                self.send_response(200 if pod else 404)
                self.end_headers()
                if pod:
                    self.send_log(pod, "follow=true" in parts.query)

            def send_log(self, pod, follow):
                with pod.log.open("rb") as log:
                    while True:
                        over = not follow or pod.ended or not pod.is_alive()
                        self.wfile.write(log.read())
                        self.wfile.flush()
                        if over:
                            return
                        time.sleep(5 * POLL)

            def log_message(self, *words):
                pass

        server = http.server.ThreadingHTTPServer((self.address, PORT), Handler)
        server.daemon_threads = True
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, daemon=True).start()
