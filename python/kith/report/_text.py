"""Numbers as the report writes them, and strings made safe to show."""

from __future__ import annotations

import html
import re
import unicodedata


def figure(value: float) -> str:
    """Three digits: 0.0123, 1.23, 12.3, 1,234; very small and large ones with an exponent."""
    if value == 0:
        return "0"
    size = abs(value)
    if size >= 999_999_500:
        return f"{value:.3g}".replace("e+0", "e").replace("e+", "e")
    if size >= 999.5:
        return f"{value:,.0f}"
    if size >= 99.95:
        return f"{value:.0f}"
    if size >= 9.995:
        return f"{value:.1f}"
    if size >= 0.9995:
        return f"{value:.2f}"
    return f"{value:.3g}".replace("e-0", "e-")


def duration(seconds: float) -> str:
    """With the unit that suits it: 12.3 s, 4.56 ms, 7.89 us."""
    if seconds >= 0.9995:
        return f"{figure(seconds)} s"
    if seconds >= 0.9995e-3:
        return f"{figure(seconds * 1e3)} ms"
    if seconds >= 0.9995e-6:
        return f"{figure(seconds * 1e6)} µs"
    return f"{figure(seconds * 1e9)} ns"


def times(factor: float) -> str:
    """How many times faster: 12.3 x."""
    return f"{figure(factor)} ×"


def percent(share: float) -> str:
    return f"{100 * share:.0f} %" if share >= 0.0995 else f"{figure(100 * share)} %"


_UNITS = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


def short(value: float) -> str:
    """1.2k, 34M, 5.6G: for axes, and cells that must be narrow."""
    for unit, letter in _UNITS:
        if value >= unit * 0.9995:
            return f"{figure(value / unit)}{letter}"
    return figure(value)


def size(count: float) -> str:
    """Bytes: 141 GB, 512 MB."""
    for unit, name in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if count >= unit * 0.9995:
            return f"{figure(count / unit)} {name}"
    return f"{count:,.0f} bytes"


def clean(text: str) -> str:
    """Without what neither HTML nor a drawing can hold: control characters and halves of surrogate pairs."""
    text = text.encode("utf-8", "replace").decode("utf-8")
    return "".join(
        " " if c in "\t\n\r" else c for c in text if c in "\t\n\r" or unicodedata.category(c) not in ("Cc", "Cf", "Cn")
    )


def escape(text: object) -> str:
    """For the text of an element and for a quoted attribute."""
    return html.escape(clean(str(text)), quote=True)


def cut(text: str, length: int) -> str:
    """At most so many characters, for drawings; tables have all of it."""
    text = clean(text)
    return text if len(text) <= length else text[: length - 1].rstrip() + "…"


def slug(text: str) -> str:
    """For ids and names of files."""
    return re.sub(r"-+", "-", re.sub(r"[^a-z0-9]+", "-", clean(text).lower())).strip("-") or "x"


def plural(count: int, noun: str, many: str = "") -> str:
    return f"{count:,} {noun if count == 1 else many or noun + 's'}"


def faster_words(ratio: float) -> str:
    """3.2 times faster; where it is not faster, it says so."""
    if 0.995 <= ratio < 1.005:
        return "equally fast"
    return f"{figure(ratio)} times faster" if ratio > 1 else f"{figure(1 / ratio)} times slower"
