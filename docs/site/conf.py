"""Sphinx reads the staged pages (stage.py makes them) with these settings. Nothing here reaches for the network."""

import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from version import project_version

project = "Xoe"
author = "The authors of Xoe"
copyright = "The authors of Xoe, Apache License 2.0"
version = release = project_version()

extensions = ["myst_parser", "sphinx_design", "breathe"]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
root_doc = "index"
highlight_language = "none"
# Every header opens the namespace again, and C names its structs twice: neither is a second declaration.
suppress_warnings = ["duplicate_declaration.cpp", "duplicate_declaration.c"]
nitpicky = False

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 4
myst_links_external_new_tab = False

breathe_projects = {"xoe": os.environ.get("XOE_DOXYGEN_XML", "")}
breathe_default_project = "xoe"
breathe_domain_by_file_pattern = {"*/c.h": "c", "*/c_data.h": "c"}
breathe_show_include = False
breathe_default_members = ("members",)
# Attributes and macros that a C++ parser of signatures does not know.
cpp_id_attributes = ["nodiscard"]
c_id_attributes = ["XOE_API"]
cpp_maximum_signature_line_length = 90
c_maximum_signature_line_length = 90
python_maximum_signature_line_length = 90

html_theme = "furo"
html_title = f"Xoe {release}"
html_static_path = ["static"]
html_css_files = ["xoe.css"]
html_copy_source = False
html_show_sourcelink = False
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#0b6e5f", "color-brand-content": "#0b6e5f"},
    "dark_css_variables": {"color-brand-primary": "#4fd1b5", "color-brand-content": "#4fd1b5"},
    "footer_icons": [],
}
pygments_style = "friendly"
pygments_dark_style = "github-dark"
