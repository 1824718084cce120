#!/usr/bin/env python3
"""Every manifest against the published schemas, without a server, and by a server's strict dry run.

  manifests_test.py [TEST...]
"""

import copy
import json
import sys

from cluster import expect, main_of
from control_plane import PROGRAMS
from manifests import deployed, documents, printed
from schemas import Schemas, leaves

FREE = {"labels", "limits", "matchLabels", "mpiReplicaSpecs", "requests", "selector"}  # maps, whose keys may be anything


class Tests:
    def __init__(self, cluster):
        self.cluster = cluster
        files, self.folders = deployed()
        self.texts = printed() | files
        for folder in self.folders:
            self.texts[str(folder)] = cluster.kubectl("kustomize", folder)
        self.schemas = Schemas(PROGRAMS)

    def test_schemas_offline(self):
        for what, text in self.texts.items():
            found = documents(text)
            expect(found, f"{what}: nothing")
            for document in found:
                problems = self.schemas.problems(document)
                expect(not problems, f"{what}: {problems}")

    def test_schemas_find_a_misspelt_field(self):
        """So that the test above says something."""
        checked = 0
        for text in self.texts.values():
            for document in documents(text):
                for path, _, key in leaves(document):
                    if not isinstance(key, str) or path[0] != "spec" or FREE & set(path[:-1]):
                        continue
                    wrong = copy.deepcopy(document)
                    at = wrong
                    for step in path[:-1]:
                        at = at[step]
                    at[key + "x"] = at.pop(key)
                    checked += 1
                    expect(self.schemas.problems(wrong), f"{document['kind']}: {path} misspelt is not noticed")
        expect(checked > 500, f"{checked} fields only")

    def dry_run(self, namespace, text, check=True):
        return self.cluster.kubectl("apply", "-n", namespace, "--dry-run=server", "--validate=strict", "-f", "-", text=text, check=check)

    def test_server_accepts_them(self):
        with self.cluster.namespace("manifests") as namespace:
            self.cluster.kubectl("apply", "-f", "-", text=self.texts["runtime"])
            for what, text in self.texts.items():
                said = self.dry_run(namespace, text)
                expect(said.count("dry run") == len(documents(text)), f"{what}: {said}")

    def test_server_refuses_what_is_wrong(self):
        with self.cluster.namespace("manifests-wrong") as namespace:
            for kind in ("job", "jobset", "mpijob"):
                wrong = documents(self.texts[kind])
                wrong[-1]["spec"]["noSuchField"] = 1
                said = self.dry_run(namespace, json.dumps({"apiVersion": "v1", "kind": "List", "items": wrong}), check=False)
                expect("noSuchField" in said, f"{kind}: {said}")


if __name__ == "__main__":
    sys.exit(main_of(Tests))
