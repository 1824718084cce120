"""Kubernetes' API over HTTPS, with nothing but Python's own library."""

import http.client
import json
import ssl
import threading
import time
import urllib.parse


class ApiError(Exception):
    def __init__(self, code, text):
        super().__init__(f"{code}: {text}")
        self.code = code


class Api:
    """The API server at `host`:`port`; threads may share it."""

    def __init__(self, host, port, ca, token):
        self.address = (host, port)
        self.context = ssl.create_default_context(cafile=str(ca))
        self.token = token
        self.local = threading.local()

    def connect(self, timeout):
        return http.client.HTTPSConnection(*self.address, context=self.context, timeout=timeout)

    def headers(self, kind):
        return {"Authorization": f"Bearer {self.token}", "Content-Type": kind, "Accept": "application/json"}

    def call(self, method, path, body=None, kind="application/json"):
        """The answer, decoded where it is JSON. ApiError where the server refuses; OSError where it does not answer."""
        text = None if body is None else json.dumps(body)
        for fresh in (False, True):  # a connection that was kept may have been closed
            connection = getattr(self.local, "connection", None)
            if connection is None or fresh:
                connection = self.local.connection = self.connect(30)
            try:
                connection.request(method, path, text, self.headers(kind))
                answer = connection.getresponse()
                data = answer.read()
                break
            except (http.client.HTTPException, OSError):
                connection.close()
                self.local.connection = None
                if fresh:
                    raise
        if answer.status >= 400:
            raise ApiError(answer.status, data.decode(errors="replace")[:2000])
        return json.loads(data) if "json" in answer.headers.get("Content-Type", "") else data.decode()

    def get(self, path):
        return self.call("GET", path)

    def find(self, path):
        """None where there is no such object."""
        try:
            return self.get(path)
        except ApiError as error:
            if error.code == 404:
                return None
            raise

    def patch(self, path, body):
        return self.call("PATCH", path, body, "application/strategic-merge-patch+json")

    def watch(self, path):
        """Yields (type, object) for what is there, as ADDED, and then for each change, until the server ends it."""
        listed = self.get(path)
        for item in listed["items"]:
            yield "ADDED", item
        query = urllib.parse.urlencode({"watch": "1", "resourceVersion": listed["metadata"]["resourceVersion"]})
        connection = self.connect(None)
        try:
            connection.request("GET", f"{path}?{query}", headers=self.headers("application/json"))
            answer = connection.getresponse()
            for line in answer:
                event = json.loads(line)
                if event["type"] == "ERROR":
                    return
                yield event["type"], event["object"]
        finally:
            connection.close()

    def follow(self, path, observe, problems):
        """Calls observe(type, object) for all that watch() yields, in a thread, until the process ends. `problems` gets what fails."""
        def run():
            while True:
                try:
                    for kind, item in self.watch(path):
                        observe(kind, item)
                except (ApiError, OSError, ValueError) as error:
                    problems.append(f"watching {path}: {error}")
                time.sleep(0.2)
        threading.Thread(target=run, daemon=True).start()
