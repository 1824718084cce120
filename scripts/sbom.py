#!/usr/bin/env python3
"""Lists what is linked into a wheel of Xoe, with versions and licences, and collects the licences' texts.

    scripts/sbom.py FOLDER [x86_64|aarch64]

writes FOLDER/sboms/xoe.cdx.json (CycloneDX 1.6) and FOLDER/licenses/third-party/*.txt, for a wheel's .dist-info. Run it after
scripts/portable.sh.
"""

import datetime
import importlib.metadata
import json
import os
import pathlib
import re
import subprocess
import sys
import uuid
from typing import NamedTuple

ROOT = pathlib.Path(__file__).resolve().parents[1]
# By processor: what scripts/portable.sh made; Debian's name of it; what ends the names of its compiler's packages.
PROCESSORS = {"x86_64": ("portable", "amd64", ""), "aarch64": ("portable-aarch64", "arm64", "-arm64-cross")}
LIBXOE, BENCH, DATA, DOCTOR = "libxoe.so.0", "xoe-bench", "xoe-data", "xoe-doctor"
NOTICE, POOL, REPORT, SWEEP, TIMELINE = "xoe-notice", "xoe-pool", "xoe-report", "xoe-sweep", "xoe-timeline"
TRAIN, TRAINERS = "xoe-train", ("xoe-trainer", "xoe-bench-trainer")
TRAINING = (TRAIN, *TRAINERS)
LAUNCHER, MODULE = "xoe", "_core"
GLOO, OTHER_PLUGINS = "libxoe-gloo.so", ("libxoe-nccl.so", "libxoe-mpi-openmpi.so", "libxoe-mpi-mpich.so")
PLUGINS = (GLOO, *OTHER_PLUGINS)
DYNAMIC = (LIBXOE, MODULE, *PLUGINS, BENCH, DATA, DOCTOR, NOTICE, POOL, REPORT, SWEEP, TIMELINE, *TRAINING)
ALL = (*DYNAMIC, LAUNCHER)


class Component(NamedTuple):
    name: str
    licence: str  # SPDX
    files: tuple[str, ...]  # of the wheel, which hold parts of it
    package: str  # of Debian, whose headers or archive the build takes; empty: see `source` and `python`
    source: str = ""  # of Debian, which scripts/portable.sh builds
    archive: str = ""  # the Python package whose sources have it
    python: str = ""  # a package of requirements/ or pyproject.toml
    npm: str = ""  # a package that the pool's web page holds
    linked: str = "static"


COMPONENTS = (
    Component("zlib", "Zlib", (LIBXOE, DATA, POOL, *TRAINERS), "zlib1g-dev", source="zlib"),
    Component("libpng", "libpng-2.0", (LIBXOE, DATA, *TRAINERS), "libpng-dev", source="libpng1.6"),
    Component("libjpeg-turbo", "IJG AND BSD-3-Clause AND Zlib", (LIBXOE, DATA, *TRAINERS), "libjpeg62-turbo-dev", source="libjpeg-turbo"),
    Component("highway", "Apache-2.0 OR BSD-3-Clause", (LIBXOE, BENCH, DATA, *TRAINERS, *PLUGINS), "libhwy-dev", source="highway"),
    Component("gloo", "BSD-3-Clause", (GLOO,), "libgloo-dev", source="gloo", archive="horovod"),
    Component("libsodium", "ISC", (LIBXOE, BENCH, GLOO, LAUNCHER, DOCTOR, POOL, *TRAINING), "libsodium-dev"),
    Component("openssl", "Apache-2.0", (POOL,), "libssl-dev"),
    Component("sqlite", "blessing", (POOL,), "libsqlite3-dev"),
    Component("cpp-httplib", "MIT", (POOL,), "libcpp-httplib-dev", source="cpp-httplib"),
    Component("brotli", "MIT", (POOL,), "libbrotli-dev"),
    Component("pugixml", "MIT", (POOL,), "libpugixml-dev"),
    *(Component(name, "MIT", (POOL,), "", npm=name, linked="page") for name in ("svelte", "clsx", "esm-env", "uplot")),
    Component("fmt", "MIT", ALL, "libfmt-dev"),
    Component("expected", "CC0-1.0", ALL, "libexpected-dev"),
    Component("nlohmann-json", "MIT", (LIBXOE, BENCH, DATA, DOCTOR, LAUNCHER, NOTICE, POOL, REPORT, SWEEP, TIMELINE, *TRAINING), "nlohmann-json3-dev"),
    Component("protozero", "BSD-2-Clause", (LIBXOE, BENCH, DATA, REPORT, TIMELINE, *TRAINERS), "libprotozero-dev"),
    Component("tomlplusplus", "MIT", (LAUNCHER,), "libtomlplusplus-dev"),
    Component("CLI11", "BSD-3-Clause", (BENCH, DATA, DOCTOR, NOTICE, POOL, REPORT, SWEEP, TIMELINE, *TRAINING), "libcli11-dev"),
    Component("libstdc++", "GPL-3.0-or-later WITH GCC-exception-3.1", ALL, "libstdc++-12-dev"),
    Component("libgcc", "GPL-3.0-or-later WITH GCC-exception-3.1", ALL, "libgcc-12-dev"),
    Component("glibc", "LGPL-2.1-or-later", (LAUNCHER,), "libc6-dev"),
    Component("glibc-nonshared", "LGPL-2.1-or-later", DYNAMIC, "", python="ziglang"),
    Component("pytorch", "BSD-3-Clause", TRAINERS, "", python="torch", linked="headers"),
    Component("nanobind", "BSD-3-Clause", (MODULE,), "", python="nanobind"),
    Component("robin-map", "MIT", (MODULE,), "", python="nanobind"),
)
# A cross compiler has its own.
OF_THE_COMPILER = {"libgcc-12-dev", "libstdc++-12-dev"}
# Libraries of packages.txt that no wheel holds: of tests and benchmarks, and those that the cluster has.
NOT_HELD = {"libbenchmark-dev", "libcurl4-openssl-dev", "libgmock-dev", "libgtest-dev", "libmpich-dev", "libopenmpi-dev"}


def xoe_version():
    return re.search(r"project\(xoe VERSION ([0-9.]+)", (ROOT / "CMakeLists.txt").read_text())[1]


def pinned(package):
    """The version of a Python package that requirements or pyproject.toml name."""
    for path in (ROOT / "pyproject.toml", *sorted((ROOT / "requirements").glob("*.txt"))):
        for found in re.findall(rf'\b{package}==([0-9][^"\s,]*)', path.read_text()):
            if "*" not in found:
                return found
    raise SystemExit(f"error: no version of {package} in pyproject.toml or requirements/")


def npm_version(package):
    lock = json.loads((ROOT / "pool/web/package-lock.json").read_text())
    return lock["packages"][f"node_modules/{package}"]["version"]


def portable(processor):
    return ROOT / "build" / "peers" / PROCESSORS[processor][0]


def debian_version(package):
    """The version that is installed, and its architecture."""
    done = subprocess.run(["dpkg-query", "-W", "-f", "${Version} ${Architecture}\n", package], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"error: {done.stderr.strip()}")
    return done.stdout.split()[:2]


def built_versions(processor):
    path = portable(processor) / "versions.txt"
    if not path.exists():
        raise SystemExit("error: scripts/portable.sh has not run")
    return dict(line.split() for line in path.read_text().splitlines())


def describe(component, built, processor):
    """The component as CycloneDX has it."""
    _, debian_name, cross = PROCESSORS[processor]
    if component.python:
        version = pinned(component.python)
        url = f"pkg:pypi/{component.python}@{version}"
        within = component.python
    elif component.npm:
        version = npm_version(component.npm)
        url = f"pkg:npm/{component.npm}@{version}"
        within = "pool/web/package-lock.json"
    elif component.archive:
        version = built[component.source]
        url = f"pkg:github/facebookincubator/gloo@{version}"
        within = f"the sources of {component.archive} {pinned(component.archive)}"
    elif component.source:
        version = built[component.source]
        url = f"pkg:deb/debian/{component.source}@{version}?arch=source&distro=debian-12"
        within = component.source
    else:  # its archive was copied, or only its headers are used
        within = component.package + (cross if component.package in OF_THE_COMPILER else "")
        installed, architecture = debian_version(within)
        version = built.get(within, installed)
        architecture = debian_name if within in built else architecture
        url = f"pkg:deb/debian/{within}@{version}?arch={architecture}&distro=debian-12"
    return {
        "type": "library",
        "bom-ref": f"{component.name}@{version}",
        "name": component.name,
        "version": version,
        "licenses": [{"expression": component.licence}],
        "purl": url,
        "properties": [
            {"name": "xoe:taken-from", "value": within},
            {"name": "xoe:linked", "value": component.linked},
            *({"name": "xoe:file", "value": name} for name in component.files),
        ],
    }


def document(processor):
    version = xoe_version()
    built = built_versions(processor)
    components = [describe(component, built, processor) for component in COMPONENTS]
    made = datetime.datetime.fromtimestamp(int(os.environ.get("SOURCE_DATE_EPOCH", "0")), tz=datetime.timezone.utc)
    own = f"xoe@{version}"
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, f'pkg:pypi/xoe@{version}#{processor}-{made.isoformat()}')}",
        "version": 1,
        "metadata": {
            "timestamp": made.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "component": {
                "type": "library",
                "bom-ref": own,
                "name": "xoe",
                "version": version,
                "licenses": [{"expression": "Apache-2.0"}],
                "purl": f"pkg:pypi/xoe@{version}",
            },
        },
        "components": components,
        "dependencies": [{"ref": own, "dependsOn": [component["bom-ref"] for component in components]}],
    }


def python_licence(component):
    """The texts that a Python package ships; else only the licence's name."""
    texts = []
    for folder in (ROOT / ".venv" / "lib").glob("python3*/site-packages"):
        for found in importlib.metadata.distributions(name=component.python, path=[str(folder)]):
            names = [str(name) for name in found.files or [] if "licenses/" in str(name)]
            texts += [pathlib.Path(found.locate_file(name)).read_text() for name in names]
    return "\n".join([f"{component.name}: {component.licence}", *texts]) + "\n"


def write_licences(folder, processor):
    folder.mkdir(parents=True, exist_ok=True)
    for component in COMPONENTS:
        if component.source:
            text = (portable(processor) / "licences" / f"{component.source}.txt").read_text()
        elif component.package:
            text = pathlib.Path(f"/usr/share/doc/{component.package}/copyright").read_text()
        elif component.npm:
            text = f"{component.name}: {component.licence}\nThe pool's server shows its text at /licences.txt.\n"
        else:
            text = python_licence(component)
        (folder / f"{component.name}.txt").write_text(text)


def main():
    processor = sys.argv[2] if len(sys.argv) == 3 else "x86_64"
    if len(sys.argv) not in (2, 3) or processor not in PROCESSORS:
        raise SystemExit("usage: scripts/sbom.py FOLDER [x86_64|aarch64]")
    folder = pathlib.Path(sys.argv[1])
    (folder / "sboms").mkdir(parents=True, exist_ok=True)
    (folder / "sboms" / "xoe.cdx.json").write_text(json.dumps(document(processor), indent=2) + "\n")
    write_licences(folder / "licenses" / "third-party", processor)


if __name__ == "__main__":
    main()
