"""Whatever a name says, page and Markdown show it as text."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.report import markdown
from harness.report.conditions import printable
from harness.report.content import slug
from harness.report.html import Html, element, joined, verbatim


class Text(HTMLParser):
    """Collects what a browser would: elements, attributes and text."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data: str) -> None:
        self.text += data


def parsed(html: str) -> Text:
    parser = Text()
    parser.feed(html)
    parser.close()
    return parser


names = st.text(st.characters(exclude_categories=("Cs", "Cc")), max_size=60)


@given(names, names)
def test_children_and_attributes_come_back_as_they_were(child: str, attribute: str) -> None:
    found = parsed(element("p", child, title=attribute))
    assert (found.tags, found.text, found.attributes) == (["p"], child, [("title", attribute)])


def test_only_html_is_not_escaped_and_only_once() -> None:
    inner = element("b", "a < b")
    assert element("p", inner, "&", [inner, inner]) == f"<p>{inner}&amp;{inner}{inner}</p>"
    assert inner == "<b>a &lt; b</b>"
    assert joined(verbatim("<hr>"), "<hr>") == "<hr>&lt;hr&gt;"
    assert isinstance(joined("x"), Html)
    assert element("img", src="x", class_="y", aria_label="z") == '<img src="x" class="y" aria-label="z">'


@given(names)
def test_markdown_leaves_nothing_special_bare(name: str) -> None:
    escaped = markdown.escape(name)
    assert "<" not in escaped
    assert ">" not in escaped
    assert not re.search(r"(?<!\\)(?:\\\\)*[|`*_\[\]~$]", escaped)


@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        ("p99 at capacity (ms)", "p99 at capacity (ms)"),
        ("0.998 (0.99–1.00)", "0.998 (0.99–1.00)"),
        ("rag-compressed", "rag-compressed"),
        ("a|b", "a\\|b"),
        ("<script>&amp;", "&lt;script&gt;&amp;amp;"),
        ("![x](http://y)", "\\!\\[x\\](http://y)"),
    ],
)
def test_markdown_stays_readable(text: str, escaped: str) -> None:
    assert markdown.escape(text) == escaped


@pytest.mark.parametrize("name", ["rag", "rag-compressed", "A_1"])
def test_a_plain_name_is_its_own_slug(name: str) -> None:
    assert slug(name) == name


@given(names, names)
def test_slugs_are_safe_in_a_path_and_tell_names_apart(one: str, other: str) -> None:
    assert re.fullmatch(r"[A-Za-z0-9_-]{1,80}", slug(one))
    assert (slug(one) == slug(other)) == (one == other)


def test_control_characters_are_shown_as_such() -> None:
    assert printable("a\nb\x00c\u202ed") == "a�b�c�d"
    assert printable("λ ≥ 1") == "λ ≥ 1"
