#!/usr/bin/env python3
"""Follows every link of a built site: each leads to a file and an anchor that exist, and nothing is loaded from elsewhere.

docs/site/check_site.py FOLDER
"""

import pathlib
import re
import sys
import urllib.parse
from html.parser import HTMLParser

# What a browser fetches by itself; a link that a reader may follow is another matter.
LOADED = {"script": "src", "img": "src", "iframe": "src", "source": "src", "video": "src", "object": "data"}
STYLE_URL = re.compile(r"url\(\s*['\"]?(?!data:|#)([^'\")]+)|@import\s+['\"]([^'\"]+)")


class Page(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.anchors, self.links, self.loads = set(), [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        self.anchors.update(values[name] for name in ("id", "name") if values.get(name))
        if tag == "a" and values.get("href"):
            self.links.append(values["href"])
        if tag == "link" and values.get("rel") in ("stylesheet", "preload", "icon"):
            self.loads.append(values.get("href", ""))
        if values.get(LOADED.get(tag)):
            self.loads.append(values[LOADED[tag]])


def external(address):
    return re.match(r"(?:[a-z]+:)?//", address) is not None


def problems(folder):
    folder = pathlib.Path(folder).resolve()
    pages = {path: Page(path.read_text()) for path in sorted(folder.rglob("*.html"))}
    for path, page in pages.items():
        name = path.relative_to(folder)
        for address in page.loads:
            if external(address):
                yield f"{name}: loads {address}"
            elif not address.startswith("data:") and not target(path, address)[0].exists():
                yield f"{name}: {address} is missing"
        for address in page.links:
            if re.match(r"[a-z]+:", address) or external(address):
                continue
            file, anchor = target(path, address)
            if file.is_dir():
                file /= "index.html"
            if not file.exists():
                yield f"{name}: link to nowhere: {address}"
            elif anchor and file in pages and anchor not in pages[file].anchors:
                yield f"{name}: no such anchor: {address}"
    for path in sorted(folder.rglob("*.css")):
        for found in STYLE_URL.findall(path.read_text()):
            if external(found[0] or found[1]):
                yield f"{path.relative_to(folder)}: loads {found[0] or found[1]}"


def target(path, address):
    parts = urllib.parse.urlsplit(address)
    return (path.parent / urllib.parse.unquote(parts.path)).resolve() if parts.path else path, urllib.parse.unquote(
        parts.fragment
    )


def main():
    found = list(problems(sys.argv[1]))
    for line in found:
        print(f"error: {line}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
