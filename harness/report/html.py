"""HTML as nested calls, so that nothing can be forgotten: every child and attribute that is not HTML is escaped."""

from __future__ import annotations

from html import escape
from typing import TypeAlias

_VOID = frozenset({"img", "meta"})


class Html(str):
    """Text that is HTML already; only `element`, `joined` and `verbatim` make it."""

    __slots__ = ()


Child: TypeAlias = "Html | str | list[Html]"


def element(name: str, /, *children: Child, **attributes: str) -> Html:
    """An element; a trailing underscore of an attribute's name is dropped, other ones become hyphens."""
    marks = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(value, quote=True)}"'
        for key, value in attributes.items()
    )
    if name in _VOID:
        return Html(f"<{name}{marks}>")
    return Html(f"<{name}{marks}>{joined(*children)}</{name}>")


def joined(*children: Child) -> Html:
    """Children next to each other."""
    return Html("".join(_text(child) for child in children))


def verbatim(text: str) -> Html:
    """Text of our own that is HTML (or style) as it stands: never anything that came from a run."""
    return Html(text)


def _text(child: Child) -> str:
    if isinstance(child, list):
        return "".join(child)
    return child if isinstance(child, Html) else escape(child, quote=True)
