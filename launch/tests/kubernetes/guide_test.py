#!/usr/bin/env python3
"""The commands of docs/guide/kubernetes.md, one after the other, in a pretended cluster.

  guide_test.py [TEST...]
"""

import os
import pathlib
import subprocess
import sys
import time

import control_plane
import sandbox
from cluster import BUILD, IMAGE, PATH, expect, main_of
from container import ROOT, Image, Mount

sys.path += [str(ROOT / "core/testing"), str(ROOT / "docs/tests")]
import pages
import peer_python

PYTHON = peer_python.peer_python("pytorch", "torch")


class Tests:
    def __init__(self, cluster):
        self.cluster = cluster
        self.folder = cluster.kubelet.folder / "guide"
        tools = self.folder / ".tools"
        tools.mkdir(parents=True)
        (self.folder / "deploy").symlink_to(ROOT / "deploy")
        (tools / "kubectl").symlink_to(control_plane.PROGRAMS / "kubectl")
        (tools / "xoe").symlink_to(BUILD / "bin/xoe")
        (tools / "python").write_text(f"#!/bin/sh\nPYTHONPATH={BUILD}/python exec {PYTHON} \"$@\"\n")
        (tools / "python").chmod(0o755)
        cluster.kubelet.images[IMAGE] = Image(f"/opt/tools:{PATH}", mounts=(Mount(str(tools), "/opt/tools", True),),
                                             opened=(ROOT / "Makefile", pathlib.Path(PYTHON).resolve()))
        self.variables = os.environ | {"PATH": f"{tools}:{os.environ['PATH']}", "KUBECONFIG": str(cluster.plane.kubeconfig)}

    def test_commands(self):
        blocks = [block for block in pages.blocks_of(ROOT / "docs/guide/kubernetes.md")
                  if block.language == "sh" and "kubernetes_guide" in (block.skip or "")]
        expect(len(blocks) >= 5, f"{len(blocks)} blocks")
        began = time.monotonic()
        for block in blocks:
            done = subprocess.run(["bash", "-euo", "pipefail", "-c", block.text], cwd=self.folder, env=self.variables, text=True,
                                  capture_output=True, timeout=600, check=False)
            said = f"{block}: exit code {done.returncode}: {done.stdout}{done.stderr}"
            expect(done.returncode == 0, lambda: f"{said}\n{self.cluster.state()}")
            expect(not self.cluster.kubelet.problems, str(self.cluster.kubelet.problems))
            print(f"{block}: {time.monotonic() - began:.1f} s\n{done.stdout}", flush=True)
            if "kubectl logs" in block.text:
                expect("accuracy" in done.stdout, said)
        self.cluster.kubectl("delete", "namespace", "team", "--wait=false")
        self.cluster.expect_nothing_left("team")


if __name__ == "__main__":
    if PYTHON is None:
        print(peer_python.why_no("pytorch", "torch"))
        sys.exit(sandbox.SKIPPED)
    sys.exit(main_of(Tests))
