"""The cluster's DNS, for services: answers from the EndpointSlices that Kubernetes' own controller keeps."""

import socketserver
import struct
import threading

DOMAIN = "cluster.local"
_A, _AAAA = 1, 28
_NOT_THERE = 3


class Names:
    """Answers on UDP port 53 of `address` until the process ends. A name that no pod has yet does not exist."""

    def __init__(self, api, address):
        names = self

        class Handler(socketserver.BaseRequestHandler):
            def handle(self):
                answer = names.answer(self.request[0])
                if answer:
                    self.request[1].sendto(answer, self.client_address)

        self.api = api
        server = socketserver.ThreadingUDPServer((address, 53), Handler)
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()

    def addresses(self, name):
        """[HOSTNAME.]SERVICE.NAMESPACE.svc.cluster.local; None: there is no such name."""
        labels = name.lower().removesuffix("." + DOMAIN).split(".")
        if not name.lower().endswith("." + DOMAIN) or labels[-1] != "svc" or len(labels) not in (3, 4):
            return None
        *host, service, namespace, _ = labels
        path = f"/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices"
        slices = self.api.get(f"{path}?labelSelector=kubernetes.io%2Fservice-name%3D{service}")["items"]
        found = [address for one in slices for endpoint in one.get("endpoints") or ()
                 if (not host or endpoint.get("hostname") == host[0]) and endpoint.get("conditions", {}).get("ready", True)
                 for address in endpoint["addresses"]]
        return found or None

    def answer(self, query):
        if len(query) < 17:
            return None
        labels, at = [], 12
        while query[at]:
            labels.append(query[at + 1:at + 1 + query[at]].decode(errors="replace"))
            at += query[at] + 1
        kind = struct.unpack_from("!H", query, at + 1)[0]
        question = query[12:at + 5]
        found = self.addresses(".".join(labels))
        records = b"".join(struct.pack("!HHHIH4s", 0xC00C, _A, 1, 5, 4, bytes(map(int, address.split("."))))
                           for address in found or ()) if kind == _A else b""
        flags = 0x8580 | (_NOT_THERE if found is None else 0)
        return query[:2] + struct.pack("!HHHHH", flags, 1, len(records) // 16, 0, 0) + question + records
