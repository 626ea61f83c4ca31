"""Settings of the site, whose sources are in docs/."""

import atexit
import gc
import os
import sys
import warnings
from pathlib import Path

# What a build makes, it needs to its end. To look for garbage, and once
# more on the way out, would take a fifth of the time that Sphinx takes.
gc.disable()
atexit.register(gc.freeze)

ROOT = Path(__file__).parent
EXTENSIONS = ROOT / "docs" / "_extensions"
sys.path.insert(0, str(EXTENSIONS))
# A deprecated API, here or in an extension of ours, fails the build.
ours = "|".join(path.stem for path in EXTENSIONS.glob("*.py"))
for kind in (DeprecationWarning, PendingDeprecationWarning):
    warnings.filterwarnings("error", "", kind, rf"(<string>|{ours})\Z")

from needed import check_versions  # noqa: E402

check_versions(ROOT / "pyproject.toml")

from repository import repository_options  # noqa: E402

project = "Shardbook"
author = "the Shardbook authors"
project_copyright = f"2026, {author}"

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.intersphinx",
    "sphinx.ext.napoleon",
    "sphinx_autodoc_typehints",
    "sphinx_copybutton",
    "addresses",
    "attempt",
    "executed",
    "explorer",
    "first_use",
    "kernels",
    "mends",
    "policy",
    "predict",
    "problem_map",
    "public_names",
    "take_away",
    "weight",
]
exclude_patterns = ["_build", "_jupyter"]
# Files that are there where the pages are; tests open them all.
linkcheck_ignore = [r"\.\./_sources/"]
templates_path = ["docs/_templates"]

# Pages are executed each time. "cache" keys on the cells of a page alone,
# so it would show new code from src/ above old output.
nb_execution_mode = "force"
nb_execution_timeout = 60
# "executed" tells of a failed cell with its page, cell and line instead.
suppress_warnings = ["mystnb.exec"]
# The reference describes; it has nothing to run.
executed_exempt = "reference/*"
# Our kernel shows a DeprecationWarning wherever it comes from, and
# "executed" fails on it.
os.environ["JUPYTER_PATH"] = str(ROOT / "docs" / "_jupyter")
# A picture in words, where there are only words.
nb_mime_priority_overrides = [("markdown", "text/plain", 0)]
myst_enable_extensions = ["colon_fence", "deflist", "attrs_inline"]
myst_heading_anchors = 3

# The inventories are kept here, so that a build needs no network and
# gives the same result each day. CONTRIBUTING.md says how to add a name.
intersphinx_mapping = {
    "python": ("https://docs.python.org/3", "_inv/python.inv"),
    "jax": ("https://docs.jax.dev/en/latest", "_inv/jax.inv"),
    "flax": ("https://flax.readthedocs.io/en/latest", "_inv/flax.inv"),
    "flax-linen": (
        "https://flax-linen.readthedocs.io/en/latest",
        "_inv/flax-linen.inv",
    ),
}
autodoc_member_order = "bysource"
napoleon_use_ivar = True
add_module_names = False

html_theme = "sphinx_book_theme"
html_title = "Shardbook"
html_favicon = "docs/_static/logo.svg"
html_static_path = ["docs/_static"]
html_css_files = ["icons.css", "shardbook.css"]
html_additional_pages = {"404": "404.html"}
# Read the Docs says where the site will be; elsewhere no one knows.
html_baseurl = os.environ.get("READTHEDOCS_CANONICAL_URL", "")
html_context = {"default_mode": "auto"}
html_show_sourcelink = False
# The search finds names; the contents list the rest.
html_use_index = False
html_domain_indices = False
html_theme_options = {
    # The theme would put a second search field into an empty top bar.
    "navbar_persistent": [],
    "show_toc_level": 2,
    "use_fullscreen_button": False,
    "logo": {
        "image_light": "docs/_static/logo.svg",
        "image_dark": "docs/_static/logo.svg",
        "text": "Shardbook",
        "alt_text": "",
    },
    **repository_options(os.environ),
}
# Outputs are not for copying.
copybutton_selector = "div:not(.output) > div.highlight pre"
