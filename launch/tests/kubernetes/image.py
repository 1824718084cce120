"""Images of real containers: the programs of the build, a few of this machine, and the libraries that they load."""

import hashlib
import io
import json
import platform
import shutil
import subprocess
import tarfile

from cluster import BUILD, IMAGE

PAUSE = "localhost/pause:1"  # what keeps a pod's namespaces
TOOLS = ("base64", "cat", "df", "grep", "id", "sh", "sleep", "touch")
PROGRAMS = ("xoe", "xoe-doctor", "example_sum")  # xoe has the doctor look up names
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


def _files():
    """{path in the image: path here}."""
    found = {f"usr/bin/{name}": shutil.which(name) for name in TOOLS}
    found |= {f"opt/xoe/bin/{name}": BUILD / "bin" / name for name in PROGRAMS}
    found |= {f"opt/xoe/lib/{path.name}": path for path in (BUILD / "lib").glob("*.so")}
    listed = subprocess.run(["ldd", *found.values()], capture_output=True, text=True, check=False).stdout.split()
    return found | {word[1:]: word for word in listed if word.startswith("/") and not word.endswith(":")}


def write(file):
    """An archive of both, as `docker save` makes them, of one layer."""
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w", dereference=True) as tar:
        for path, source in _files().items():
            tar.add(source, path)
    name = f"sha256:{hashlib.sha256(layer.getvalue()).hexdigest()}"
    configs = {IMAGE: {"User": "65532", "Env": ["PATH=/opt/xoe/bin:/usr/bin"], "Cmd": ["xoe"]},
               PAUSE: {"Env": ["PATH=/usr/bin"], "Cmd": ["sleep", "infinity"]}}
    with tarfile.open(file, "w") as tar:
        _add(tar, "layer.tar", layer.getvalue())
        listed = []
        for number, (tag, config) in enumerate(configs.items()):
            _add(tar, f"{number}.json", json.dumps({"architecture": _ARCHITECTURES[platform.machine()], "os": "linux", "config": config,
                                                    "rootfs": {"type": "layers", "diff_ids": [name]}}).encode())
            listed.append({"Config": f"{number}.json", "RepoTags": [tag], "Layers": ["layer.tar"]})
        _add(tar, "manifest.json", json.dumps(listed).encode())


def _add(tar, name, data):
    entry = tarfile.TarInfo(name)
    entry.size = len(data)
    tar.addfile(entry, io.BytesIO(data))
