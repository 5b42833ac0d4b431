"""Drawings as small as a page with many of them needs.

Problem: pixels that are sharp on every screen are large, and matplotlib's SVG says each style again
with each line, in six decimals.
Answer: its SVG, rewritten for the inside of a page: numbers to a tenth of a point, styles as
classes that all drawings of the page share, and no group or name that says nothing.
Invariant: the drawing stays the same within a tenth of a point, and the same input gives the
same text. Texts of a drawing stay texts.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from html import escape

_SVG = "{http://www.w3.org/2000/svg}"
_HREF = "{http://www.w3.org/1999/xlink}href"
_NUMBER = re.compile(r"-?\d+\.\d+(?:e-?\d+)?")
_AROUND_LETTERS = re.compile(r" ?([MLCQz]) ?")
_NO_ROTATION = re.compile(r"rotate\(-?0 [^)]*\)")
_FONT = re.compile(r"font-family: [^;]*;? ?")
_NUMBERS_IN = {"d", "x", "y", "width", "height", "transform", "points", "viewBox"}
_FOR_EVERY_DRAWING = "svg.drawing * { stroke-linejoin: round; stroke-linecap: butt; }"


class Drawings:
    """The drawings of one page, and the styles that they share."""

    def __init__(self) -> None:
        self._classes: dict[str, str] = {}

    def small(self, drawn: str, title: str) -> str:
        """One drawing of matplotlib's, to be put into the page."""
        # Ours, and made a moment ago: nothing in it is from outside but texts.
        root = ET.fromstring(drawn)
        box = _rounded(root.get("viewBox", ""))
        inside = "".join(self._element(child) for child in root)
        return (
            f'<svg class="drawing" role="img" aria-label="{escape(title)}" viewBox="{box}">'
            f"{inside}</svg>"
        )

    def styles(self) -> str:
        """The style sheet, complete when all drawings were made."""
        rules = [f".{name} {{ {style} }}" for style, name in self._classes.items()]
        return "\n".join([_FOR_EVERY_DRAWING, *rules])

    def _element(self, element: ET.Element) -> str:
        name = element.tag.removeprefix(_SVG)
        if name in ("metadata", "style", "title", "clipPath"):
            return ""
        inside = "".join(self._element(child) for child in element)
        text = escape((element.text or "").strip(), quote=False)
        attributes = self._attributes(element, name)
        if name in ("g", "defs") and not (inside or text):
            return ""
        if name == "g" and not attributes:
            return inside
        start = " ".join([name, *(f'{key}="{value}"' for key, value in attributes.items())])
        return f"<{start}>{text}{inside}</{name}>" if inside or text else f"<{start}/>"

    def _attributes(self, element: ET.Element, name: str) -> dict[str, str]:
        found: dict[str, str] = {}
        for key, value in element.attrib.items():
            if key == "id":
                # A group's is a number for reading; the others are named by <use>.
                if name != "g":
                    found["id"] = value
            elif key == "style":
                found["class"] = self._class(value)
            elif key == _HREF:
                found["href"] = value
            elif key == "clip-path" or (key == "transform" and _NO_ROTATION.fullmatch(value)):
                continue  # our axes are as wide as the drawing in them
            else:
                text = _rounded(value) if key in _NUMBERS_IN else value
                found[key.removeprefix(_SVG)] = escape(text.strip())
        return found

    def _class(self, style: str) -> str:
        kept = _FONT.sub("", style).strip()
        return self._classes.setdefault(kept, f"d{len(self._classes)}")


def _rounded(text: str) -> str:
    def short(match: re.Match[str]) -> str:
        value = f"{float(match[0]):.1f}".removesuffix(".0")
        return "0" if value == "-0" else value

    return _AROUND_LETTERS.sub(r"\1", " ".join(_NUMBER.sub(short, text).split()))
