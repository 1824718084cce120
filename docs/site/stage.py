#!/usr/bin/env python3
"""Lays out the pages of the documentation site: copies docs/, and adds pages for files that they link to and for generated reference.

  docs/site/stage.py FOLDER [--programs BIN]

Our documents stay as they are, readable where the source is browsed. A link that leaves docs/ leads to a page of the site here: a
document becomes a page of its own, a source file a listing, a folder a list of its files. The navigation is docs/README.md.
"""

import argparse
import pathlib
import re
import shutil

import command_line
import cpp_api
import python_api

ROOT = pathlib.Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
LINK = re.compile(r"(?<!\!)(\[(?:[^\[\]]|\[[^\]]*\])*\]\()([^)#\s]+)(#[^)\s]*)?(\))")
LANGUAGES = {
    ".cc": "cpp",
    ".h": "cpp",
    ".c": "c",
    ".py": "python",
    ".sh": "bash",
    ".pml": "c",
    ".txt": "none",
    ".cmake": "cmake",
    ".toml": "toml",
    ".sbatch": "bash",
    ".yaml": "yaml",
    ".yml": "yaml",
    ".json": "json",
    ".rs": "rust",
    ".go": "go",
}
# Made below; in docs/ there are pages that say where to look.
GENERATED = {"reference/command-line.md", "reference/cpp.md", "reference/c-api.md", "reference/python.md"}


class Site:
    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.wanted = []  # files outside of docs/ that pages link to, and that have no page yet
        self.known = set()

    def write(self, page, text):
        """Only what differs is written, so that Sphinx reads again only what has changed."""
        path = self.folder / page
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_text() != text:
            path.write_text(text)
        self.known.add(path)

    def copy(self, source, page):
        path = self.folder / page
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_bytes() != source.read_bytes():
            shutil.copyfile(source, path)
        self.known.add(path)

    def remove_others(self):
        for path in self.folder.rglob("*"):
            if path.is_file() and path not in self.known:
                path.unlink()

    def page_of(self, target):
        """The page, from the root of the site, for a file or folder of the project."""
        if target in (ROOT / "README.md", DOCS / "README.md"):
            return "index.md"
        if target.is_relative_to(DOCS) and target.suffix == ".md":
            return target.relative_to(DOCS).as_posix()
        path = target.relative_to(ROOT)
        if target.suffix == ".md" and path.parent == pathlib.Path("."):
            page = f"project/{path.stem.lower()}.md"
        elif target.suffix == ".md":
            page = f"source/{path.as_posix()}"
        elif target.is_dir():
            page = f"source/{path.as_posix()}/index.md"
        else:
            page = f"source/{path.as_posix()}.md"
        if (target, page) not in self.wanted:
            self.wanted.append((target, page))
        return page

    def relink(self, text, origin):
        """`text` of the document `origin`, with the links that lead out of docs/ replaced by those to pages."""

        def replaced(match):
            before, target, anchor, after = match[1], match[2], match[3] or "", match[4]
            if re.match(r"[a-z]+:", target) or (target.startswith("/") and origin.is_relative_to(DOCS / "site")):
                return match[0]
            file = (origin.parent / target).resolve()
            if not file.exists():
                return match[0]
            return f"{before}/{self.page_of(file)}{anchor}{after}"

        return outside_of_fences(text, lambda part: LINK.sub(replaced, part))

    def add_document(self, source, page):
        text = self.relink(source.read_text(), source)
        if page in ("decisions/README.md", "troubleshooting/README.md"):
            others = sorted(path.stem for path in source.parent.glob("*.md") if path != source)
            text += "\n" + toctree(others)
        if page.startswith("source/"):
            text = "---\norphan: true\n---\n\n" + text
        self.write(page, text)

    def add_listing(self, file, page):
        name = file.relative_to(ROOT).as_posix()
        if file.is_dir():
            names = [
                path.name + ("/" if path.is_dir() else "") for path in sorted(file.iterdir()) if path.name != "__pycache__"
            ]
            body = "\n".join(f"- `{item}`" for item in names)
        else:
            text = file.read_text(errors="replace")
            ticks = "`" * max(3, 1 + max((len(run) for run in re.findall(r"`+", text)), default=0))
            body = f"{ticks}{LANGUAGES.get(file.suffix, 'none')}\n{text.rstrip()}\n{ticks}"
        self.write(page, f"---\norphan: true\n---\n\n# {name}\n\nA file of the source tree.\n\n{body}\n")

    def add_wanted(self):
        while self.wanted:
            target, page = self.wanted.pop()
            if self.folder / page in self.known:
                continue
            if target.suffix == ".md":
                self.add_document(target, page)
            else:
                self.add_listing(target, page)


def outside_of_fences(text, change):
    """`text` with `change` applied to all but code blocks."""
    result, inside, part = [], None, []
    for line in text.splitlines(keepends=True):
        fence = re.match(r" {0,3}(`{3,}|~{3,})", line)
        if inside is None and fence:
            result.append(change("".join(part)))
            part, inside = [line], fence[1]
        elif inside is not None and fence and fence[1].startswith(inside) and line.strip() == fence[1]:
            result.append("".join([*part, line]))
            part, inside = [], None
        else:
            part.append(line)
    result.append(change("".join(part)) if inside is None else "".join(part))
    return "".join(result)


def toctree(entries, caption=None):
    options = [f":caption: {caption}"] if caption else []
    return "\n".join(["```{toctree}", *options, ":hidden:", "", *entries, "```", ""])


def navigation(site):
    """docs/README.md as tables of contents: a bold line is a caption, each link behind it an entry."""
    sections = []
    for line in (DOCS / "README.md").read_text().splitlines():
        if caption := re.fullmatch(r"\*\*(.+)\*\*", line.strip()):
            sections.append((caption[1], []))
        elif sections and line.startswith(("- ", "  ")):
            for match in LINK.finditer(line):
                file = (DOCS / match[2]).resolve()
                page = site.page_of(file) if file.exists() else file.relative_to(DOCS).as_posix()
                entry = "/" + page.removesuffix(".md")
                if page != "index.md" and entry not in sections[-1][1]:
                    sections[-1][1].append(entry)
    return "\n".join(toctree(entries, caption) for caption, entries in sections if entries)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--programs", type=pathlib.Path, required=True, help="the folder of the built program xoe")
    options = parser.parse_args()
    site = Site(options.folder)
    for file in sorted(DOCS.rglob("*")):
        path = file.relative_to(DOCS)
        if file.is_dir() or path.parts[0] == "site" or path == pathlib.Path("README.md"):
            continue
        if file.suffix == ".md" and path.as_posix() not in GENERATED:
            site.add_document(file, path.as_posix())
        elif file.suffix in (".svg", ".png"):
            site.copy(file, path.as_posix())
    front = DOCS / "site" / "index.md"
    text = site.relink(front.read_text(), front).replace("](../images/", "](images/")
    site.write("index.md", text + "\n" + navigation(site))
    site.write("reference/command-line.md", command_line.page(options.programs))
    for page, text in {**cpp_api.pages(ROOT), **python_api.pages(ROOT)}.items():
        site.write(page, text)
    site.add_wanted()
    site.remove_others()


if __name__ == "__main__":
    main()
