"""Figures as SVG whose colours are CSS variables, so that one drawing reads well in light and in dark.

matplotlib draws with stand-in colours, one a role; in the SVG each becomes `var(--kith-role, ...)`. Text stays text and
takes the page's font. The same data and version of matplotlib make the same bytes.
"""

from __future__ import annotations

import functools
import io
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

# Role: (light, dark). The series differ in lightness as well as in hue (after Okabe and Ito's palette) and have
# contrast 3:1 and more with the background; charts never tell series apart by colour alone.
COLOURS = {
    "surface": ("#ffffff", "#16181d"),
    "ink": ("#1c2026", "#eceef2"),
    "muted": ("#565d68", "#a9b1bd"),
    "grid": ("#dde1e7", "#333842"),
    "engine": ("#0063a6", "#62b6f5"),
    "floor": ("#c0480a", "#ff9a5c"),
    "rung": ("#5b6675", "#9fabbb"),
    "published": ("#8e3a80", "#e09ad0"),
    "series1": ("#0063a6", "#62b6f5"),
    "series2": ("#c0480a", "#ff9a5c"),
    "series3": ("#00795a", "#35cfa3"),
    "series4": ("#8e3a80", "#e09ad0"),
    "series5": ("#8a6a00", "#e8c04a"),
    "series6": ("#454c57", "#c3cad4"),
}
SERIES = ("series1", "series2", "series3", "series4", "series5", "series6")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "h")

# Stand-ins that no drawing uses by chance.
_STAND_INS = {role: f"#fe{index:02x}d7" for index, role in enumerate(COLOURS)}


class Paint:
    """Colours by role: stand-ins for an SVG, the light ones for a bitmap."""

    def __init__(self, table: dict[str, str]) -> None:
        self._table = table

    def __getitem__(self, role: str) -> str:
        return self._table[role]

    def series(self, index: int) -> str:
        return self[SERIES[index % len(SERIES)]]


@dataclass(frozen=True)
class Frame:
    """What a drawing is given: the colours, and the room there is."""

    paint: Paint
    width: float  # CSS pixels
    narrow: bool

    def start(self, height: float, *, columns: int = 1, rows: int = 1, **options: Any) -> tuple[Any, Any]:
        """A figure of this width (one unit of the SVG is one pixel of the page) and its axes."""
        import matplotlib.pyplot as plt

        figure, axes = plt.subplots(
            rows,
            columns,
            figsize=(self.width / 72, height / 72),
            dpi=72,
            layout="constrained",
            squeeze=False,
            **options,
        )
        figure.patch.set_visible(False)
        for panel in axes.flat:
            panel.patch.set_visible(False)
            panel.set_axisbelow(True)
            panel.grid(color=self.paint["grid"], linewidth=1)
            panel.tick_params(length=0, colors=self.paint["muted"])
            for side in panel.spines.values():
                side.set_visible(False)
        return figure, axes if rows * columns > 1 else axes[0][0]


Drawing = Callable[[Frame], Any]

WIDE, NARROW = 860.0, 344.0


def _settings(paint: Paint) -> dict[str, Any]:
    return {
        "svg.fonttype": "none",
        "text.parse_math": False,  # a $ in a name is a dollar
        "font.size": 12,
        "axes.titlesize": 13,
        "axes.titleweight": "bold",
        "axes.titlelocation": "left",
        "axes.labelsize": 12,
        "xtick.labelsize": 11.5,
        "ytick.labelsize": 11.5,
        "legend.fontsize": 11.5,
        "legend.frameon": False,
        "text.color": paint["ink"],
        "axes.titlecolor": paint["ink"],
        "axes.labelcolor": paint["muted"],
        "axes.edgecolor": paint["muted"],
        "savefig.facecolor": "none",
        "path.snap": False,
    }


def _save(draw: Drawing, name: str, frame: Frame, **options: Any) -> bytes:
    import warnings

    import matplotlib

    matplotlib.use("Agg", force=False)
    import matplotlib.pyplot as plt

    with matplotlib.rc_context({**_settings(frame.paint), "svg.hashsalt": name}), warnings.catch_warnings():
        # Names may have letters that the font for measuring lacks; the reader's browser has its own.
        warnings.simplefilter("ignore", UserWarning)
        figure = draw(frame)
        try:
            out = io.BytesIO()
            figure.savefig(out, **options)
            return out.getvalue()
        finally:
            plt.close(figure)


@functools.lru_cache(maxsize=256)
def svg(draw: Drawing, name: str, *, narrow: bool = False) -> str:
    """The drawing as an <svg> element without names of colours, fonts or foreign addresses in it."""
    frame = Frame(Paint(_STAND_INS), NARROW if narrow else WIDE, narrow)
    text = _save(draw, name, frame, format="svg", metadata={"Date": None, "Creator": None}).decode()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>\s*", "", text, flags=re.S)
    text = re.sub(r"<defs>\s*<style[^>]*>.*?</style>\s*</defs>\s*", "", text, flags=re.S)
    text = re.sub(r"<!--.*?-->\s*", "", text, flags=re.S)
    text = _plain_fonts(text)
    # Several drawings share a page: their ids must not meet.
    prefix = f"{name}-narrow" if narrow else name
    text = re.sub(r' id="([^"]+)"', rf' id="{prefix}-\1"', text)
    text = re.sub(r'xlink:href="#([^"]+)"', rf'href="#{prefix}-\1"', text)
    text = re.sub(r"url\(#([^)]+)\)", rf"url(#{prefix}-\1)", text)
    for role, stand_in in _STAND_INS.items():
        text = text.replace(stand_in, f"var(--kith-{role})")
    head, body = text.split(">", 1)
    box = re.search(r'viewBox="([^"]+)"', head)
    assert box is not None
    return f'<svg viewBox="{box[1]}">{_thinner(body)}'.rstrip()


def _plain_fonts(text: str) -> str:
    """Size and weight only: the family is the page's."""

    def size_and_weight(font: re.Match[str]) -> str:
        return f"font-size: {font[2]}" + (f"; font-weight: {font[1]}" if font[1] else "")

    text = re.sub(r" ?font-family: [^;\"]*;?", "", text)
    # matplotlib before 3.8 writes one declaration for all of the font.
    return re.sub(r"font: ([^;\"]*?) ?(\d+(?:\.\d+)?px) [^;\"]*", size_and_weight, text)


def _thinner(body: str) -> str:
    """Without groups' ids that nothing refers to, in fewer lines and digits."""
    used = set(re.findall(r'href="#([^"]+)"|url\(#([^)]+)\)', body))
    wanted = {name for pair in used for name in pair if name}
    body = re.sub(r' id="([^"]+)"', lambda m: m[0] if m[1] in wanted else "", body)
    body = re.sub(r"(?<=[\d.])(\.\d\d)\d+", r"\1", body)
    body = re.sub(r"(\d\.\d\d)\d+", r"\1", body)
    return re.sub(r"\s*\n\s*", "\n", body)


def palette(dark: bool) -> str:
    """The roles as CSS declarations."""
    return " ".join(f"--kith-{role}: {pair[int(dark)]};" for role, pair in COLOURS.items())


def svg_file(draw: Drawing, name: str, title: str, description: str) -> bytes:
    """A file that stands alone: its own background, light or dark as the reader's system asks."""
    from html import escape

    body = svg(draw, name)
    head, rest = body.split(">", 1)
    box = re.search(r'viewBox="([^"]+)"', head)
    assert box is not None
    _, _, width, height = box[1].split()
    style = (
        f":root {{ {palette(False)} }} @media (prefers-color-scheme: dark) {{ :root {{ {palette(True)} }} }} "
        "text { font-family: system-ui, 'DejaVu Sans', sans-serif; } *{stroke-linejoin: round}"
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{box[1]}" width="{width}" height="{height}" role="img">\n'
        f"<title>{escape(title)}</title>\n<desc>{escape(description)}</desc>\n<style>{style}</style>\n"
        f'<rect width="100%" height="100%" style="fill: var(--kith-surface)"/>{rest}\n'
    ).encode()


def png_file(draw: Drawing, name: str) -> bytes:
    """The light version as a bitmap of twice the resolution."""
    light = Paint({role: pair[0] for role, pair in COLOURS.items()})
    frame = Frame(light, WIDE, False)
    return _save(draw, name, frame, format="png", dpi=144, facecolor=light["surface"], metadata={"Software": None})
