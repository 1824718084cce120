"""The bill of materials of wheels knows every library that the build takes from Debian, and the version stands in one place."""

import importlib.util
import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SPEC = importlib.util.spec_from_file_location("sbom", ROOT / "scripts" / "sbom.py")
sbom = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(sbom)


def libraries_of_the_build():
    """The sections [build] and [wheel] of packages.txt, without tools."""
    text = (ROOT / "packages.txt").read_text()
    names = " ".join(text.split(f"[{section}]")[1].split("\n[")[0] for section in ("build", "wheel")).split()
    return {name for name in names if re.fullmatch(r"(lib|nlohmann|zlib).*-dev", name)}


class Components(unittest.TestCase):
    def test_every_library_is_held_or_not(self):
        held = {component.package for component in sbom.COMPONENTS}
        self.assertEqual(
            libraries_of_the_build() - held - sbom.NOT_HELD, set(), "say in scripts/sbom.py whether wheels hold them"
        )
        self.assertFalse(held & sbom.NOT_HELD)

    def test_libraries_that_portable_sh_makes_are_listed(self):
        text = (ROOT / "scripts" / "portable.sh").read_text()
        made = set(re.findall(r"(\S+):", re.search(r"^sources=\((.*)\)", text, re.MULTILINE)[1])) | {"gloo"}
        self.assertEqual(made, {component.source for component in sbom.COMPONENTS if component.source})

    def test_versions_of_python_packages_are_pinned(self):
        for component in sbom.COMPONENTS:
            if component.python or component.archive:
                self.assertRegex(sbom.pinned(component.python or component.archive), r"^\d+\.\d+")


class Document(unittest.TestCase):
    def test_attestations_take_it(self):
        self.addCleanup(setattr, sbom, "built_versions", sbom.built_versions)
        self.addCleanup(setattr, sbom, "debian_version", sbom.debian_version)
        sbom.built_versions = lambda processor: {component.source: "1" for component in sbom.COMPONENTS}
        sbom.debian_version = lambda package: ("1", "amd64")
        document = sbom.document("x86_64")
        self.assertEqual((document["bomFormat"], document["specVersion"]), ("CycloneDX", "1.6"))
        self.assertRegex(document["serialNumber"], r"^urn:uuid:[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}$")
        self.assertEqual(document, sbom.document("x86_64"), "the same sources give the same document")

    def test_each_processor_has_its_own(self):
        self.addCleanup(setattr, sbom, "built_versions", sbom.built_versions)
        self.addCleanup(setattr, sbom, "debian_version", sbom.debian_version)
        sources = {component.source: "1" for component in sbom.COMPONENTS}
        sbom.built_versions = lambda processor: sources if processor == "x86_64" else {**sources, "libc6-dev": "3", "libfmt-dev": "3"}
        sbom.debian_version = lambda package: ("2", "all") if package.endswith("-arm64-cross") else ("1", "amd64")
        documents = {processor: sbom.document(processor) for processor in sbom.PROCESSORS}
        self.assertEqual(len({document["serialNumber"] for document in documents.values()}), 2)
        urls = {one["name"]: one["purl"] for one in documents["aarch64"]["components"]}
        self.assertEqual(urls["libgcc"], "pkg:deb/debian/libgcc-12-dev-arm64-cross@2?arch=all&distro=debian-12")
        for name, package in (("glibc", "libc6-dev"), ("fmt", "libfmt-dev")):
            self.assertEqual(urls[name], f"pkg:deb/debian/{package}@3?arch=arm64&distro=debian-12")
        urls = {one["name"]: one["purl"] for one in documents["x86_64"]["components"]}
        self.assertEqual(urls["glibc"], "pkg:deb/debian/libc6-dev@1?arch=amd64&distro=debian-12")


class PyTorch(unittest.TestCase):
    def test_the_extra_for_training_names_the_version_that_wheels_are_built_with(self):
        extra = re.search(r'^train = \["torch==([0-9]+\.[0-9]+)\.\*"\]', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
        built = re.search(r"^torch==([0-9]+\.[0-9]+)\.", (ROOT / "requirements/core.txt").read_text(), re.MULTILINE)
        self.assertEqual(extra[1], built[1])


class Version(unittest.TestCase):
    def test_it_stands_in_one_place(self):
        version = sbom.xoe_version()
        own = re.compile(rf"(?<![\d.]){re.escape(version)}(?![\d.])")
        files = [
            ROOT / "pyproject.toml",
            *ROOT.glob("packages/*/*"),
            *ROOT.glob("frameworks/python/xoe/*.py"),
            *ROOT.glob("frameworks/c/include/xoe/*.h"),
        ]
        found = [str(path.relative_to(ROOT)) for path in files if path.is_file() and own.search(path.read_text())]
        self.assertEqual(found, [], "the version stands in CMakeLists.txt alone")

    def test_documents_that_must_say_it_agree(self):
        for name, form in (("CITATION.cff", r"^version: (\S+)$"), ("docs/cite.md", r"version = \{([^}]*)\}")):
            self.assertEqual(re.findall(form, (ROOT / name).read_text(), re.MULTILINE), [sbom.xoe_version()], name)


if __name__ == "__main__":
    unittest.main()
