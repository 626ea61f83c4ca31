"""Settings of the site, whose sources are in docs/."""

import os
from urllib.parse import urlsplit

project = "Shardbook"
author = "the Shardbook authors"
project_copyright = f"2026, {author}"

extensions = [
    "myst_nb",
    "notfound.extension",
    "sphinx.ext.autodoc",
    "sphinx.ext.intersphinx",
    "sphinx.ext.napoleon",
    "sphinx_autodoc_typehints",
    "sphinx_copybutton",
    "shardbook_site",
]
exclude_patterns = ["_build", "_jupyter", "_templates"]
# Files that are there where the pages are; tests open them all.
linkcheck_ignore = [r"\.\./_sources/"]
templates_path = ["docs/_templates"]

# "cache" keys on the cells of a page alone, so it would show new code from
# src/ above old output. shardbook_site.kept keys on all that a page's
# outputs depend on, where execution_kept names a folder for it.
nb_execution_mode = "force"
# In seconds. What takes one of them on an idle machine may take a minute on
# a busy one; only a cell that hangs is to be ended.
nb_execution_timeout = 600
nb_execution_show_tb = True
# What most folds have; others say in their cells what is in them.
nb_code_prompt_show = "Show the imports"
nb_code_prompt_hide = "Hide the imports"
# These describe; they have nothing to run.
execution_exempt = [
    *("explorer", "reference/*", "ways"),
    "guides/silent_failures",
]
# A picture in words, where there are only words.
nb_mime_priority_overrides = [("markdown", "text/plain", 0)]
myst_enable_extensions = ["colon_fence", "deflist", "attrs_inline"]
myst_heading_anchors = 3

# The inventories are kept here, so that a build needs no network and
# gives the same result each day; src/shardbook_site/README.md says more.
intersphinx_mapping = {
    "python": ("https://docs.python.org/3", "_inv/python.inv"),
    "jax": ("https://docs.jax.dev/en/latest", "_inv/jax.inv"),
    "flax": ("https://flax.readthedocs.io/en/latest", "_inv/flax.inv"),
    "flax-linen": (
        "https://flax-linen.readthedocs.io/en/latest",
        "_inv/flax-linen.inv",
    ),
    "numpy": ("https://numpy.org/doc/stable", "_inv/numpy.inv"),
}
autodoc_member_order = "bysource"
napoleon_use_ivar = True
add_module_names = False

# Read the Docs says where the site and its repository are. Elsewhere no
# one knows, unless these are set.
html_baseurl = os.environ.get("READTHEDOCS_CANONICAL_URL", "")
repository = os.environ.get("READTHEDOCS_GIT_CLONE_URL", "")
# Where "nox -s notebooks" was pushed to; Colab opens them from there.
notebooks_branch = os.environ.get("SHARDBOOK_NOTEBOOKS_BRANCH", "")
notfound_template = "404.html"
notfound_context = {"title": "Page not found"}
notfound_urls_prefix = urlsplit(html_baseurl).path or "/"

html_theme = "sphinx_book_theme"
# In the page itself: no script has to draw it.
html_math_renderer = "mathml"
html_title = "Shardbook"
html_favicon = "docs/_static/logo.svg"
html_static_path = ["docs/_static"]
html_css_files = ["icons.css", "look.css", "shardbook.css", "explorer.css"]
html_context = {
    "default_mode": "auto",
    "card": f"{html_baseurl}_static/card.png",
    # Read a file that lies beside them.
    "without_notebook": ["versions"],
}
html_show_sourcelink = False
# The search finds names; the contents list the rest.
html_use_index = False
html_domain_indices = False
html_theme_options = {
    # The theme would put a second search field into an empty top bar.
    "navbar_persistent": [],
    "show_toc_level": 2,
    # The front page has cards there.
    "secondary_sidebar_items": {"**": ["page-toc.html"], "index": []},
    # Like the light one: purple, green and blue, no lime or gold.
    "pygments_dark_style": "material",
    "use_fullscreen_button": False,
    "back_to_top_button": False,
    "use_download_button": False,
    "article_header_end": ["page-buttons.html"],
    "path_to_docs": "docs",
    "repository_branch": os.environ.get(
        "READTHEDOCS_GIT_IDENTIFIER", "main"
    ),
    "logo": {
        "image_light": "docs/_static/logo.svg",
        "image_dark": "docs/_static/logo.svg",
        "text": "Shardbook",
        "alt_text": "",
    },
}
# Outputs are not for copying.
copybutton_selector = "div:not(.output) > div.highlight pre"
# Of a session only the code is for copying.
copybutton_prompt_text = r">>> |\.\.\. "
copybutton_prompt_is_regexp = True
