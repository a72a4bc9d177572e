# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Settings of Sphinx for the site. Nothing is fetched while it is built or read: no intersphinx, fonts or scripts of others."""

project = "berth.kvm"
author = "The berth.kvm authors"
copyright = author
extensions = ["myst_parser", "sphinx_antsibull_ext"]
root_doc = "index"
# As GitHub makes anchors of headings.
myst_heading_anchors = 4
html_theme = "furo"
html_title = "berth.kvm"
html_theme_options = {"navigation_with_keys": True}
html_show_sourcelink = False
html_copy_source = False
pygments_style = "ansible"
# Diagrams are shown as their text. The reference of the plugins names pages of ansible-core, which are not part of this site.
suppress_warnings = ["misc.highlighting_failure", "ref.ref"]
