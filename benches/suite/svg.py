"""Draws the SVG files of the documentation: plots of records, and the figures of scripts/docs_figures.py."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

# Okabe and Ito's palette, distinguishable with color blindness.
BLUE, ORANGE, GREEN, RED, SKY, GRAY, INK = "#0072B2", "#E69F00", "#009E73", "#D55E00", "#56B4E9", "#9a9a9a", "#222222"
#: The fill that `Drawing.hatch` defines.
HATCH = "url(#hatch)"


class Drawing:
    """An SVG under construction. ``background`` is a color; ``None`` leaves the page's."""

    def __init__(self, width: float, height: float, title: str, *, background: str | None = "#ffffff") -> None:
        self.parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" width="{width:g}" '
            f'height="{height:g}" font-family="Helvetica, Arial, sans-serif" font-size="13" role="img">',
            f"<title>{escape(title)}</title>",
        ]
        if background:
            self.parts.append(f'<rect width="{width:g}" height="{height:g}" rx="8" fill="{background}"/>')

    def box(self, x: float, y: float, w: float, h: float, fill: str, *, edge: str = "none", rx: float = 0) -> None:
        """A rectangle."""
        self.parts.append(
            f'<rect x="{x:.2f}" y="{y:.2f}" width="{w:.2f}" height="{h:.2f}" rx="{rx:g}" '
            f'fill="{fill}" stroke="{edge}"/>'
        )

    def boxes(self, boxes: Iterable[tuple[float, float, float, float]], fill: str, *, edge: str = "none") -> None:
        """Rectangles of one color (x, y, width, height), as one path."""
        path = "".join(f"M{x:.2f} {y:.2f}h{w:.2f}v{h:.2f}h{-w:.2f}z" for x, y, w, h in boxes)
        self.parts.append(f'<path d="{path}" fill="{fill}" stroke="{edge}"/>')

    def line(self, x1: float, y1: float, x2: float, y2: float, color: str = GRAY, *, wide: float = 1) -> None:
        """A line."""
        self.parts.append(
            f'<line x1="{x1:.2f}" y1="{y1:.2f}" x2="{x2:.2f}" y2="{y2:.2f}" stroke="{color}" stroke-width="{wide:g}"/>'
        )

    def arrow(self, x1: float, y1: float, x2: float, y2: float, color: str = INK) -> None:
        """A straight arrow, to the right or downwards."""
        self.line(x1, y1, x2, y2, color, wide=1.5)
        tip = [(-7, -4), (-7, 4)] if y1 == y2 else [(-4, -7), (4, -7)]
        points = f"{x2:.2f},{y2:.2f} " + " ".join(f"{x2 + dx:.2f},{y2 + dy:.2f}" for dx, dy in tip)
        self.parts.append(f'<polygon points="{points}" fill="{color}"/>')

    def hatch(self, color: str) -> None:
        """Defines the fill `HATCH`: stripes of this color."""
        pattern = 'id="hatch" width="7" height="7" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"'
        stripe = f'<rect width="5" height="7" fill="{color}"/>'
        self.parts.append(f"<defs><pattern {pattern}>{stripe}</pattern></defs>")

    def spread(self, low: float, high: float, y: float, color: str) -> None:
        """A horizontal line with a bar at each end."""
        path = f"M{low:.2f} {y - 3:.2f}v6m0 -3H{high:.2f}m0 -3v6"
        self.parts.append(f'<path d="{path}" fill="none" stroke="{color}" stroke-width="1.5"/>')

    def dot(self, x: float, y: float, radius: float, color: str) -> None:
        """A dot."""
        self.parts.append(f'<circle cx="{x:.2f}" cy="{y:.2f}" r="{radius:g}" fill="{color}"/>')

    def dots(self, points: list[tuple[float, float]]) -> None:
        """Many small dots, as one path of zero-length strokes."""
        path = "".join(f"M{x:.1f} {y:.1f}h0" for x, y in points)
        self.parts.append(f'<path d="{path}" stroke="{BLUE}" stroke-width="2.2" stroke-linecap="round"/>')

    def text(
        self,
        x: float,
        y: float,
        words: str,
        *,
        size: float = 13,
        color: str = INK,
        at: str = "start",
        bold: bool = False,
        code: bool = False,
    ) -> None:
        """A line of text; ``at``: ``start``, ``middle`` or ``end``; ``code``: names of the API."""
        weight = ' font-weight="bold"' if bold else ""
        weight += ' font-family="monospace"' if code else ""
        self.parts.append(
            f'<text x="{x:.2f}" y="{y:.2f}" font-size="{size:g}" fill="{color}" text-anchor="{at}"{weight}>'
            f"{escape(words)}</text>"
        )

    def labels(self, labels: Iterable[tuple[float, float, str]], *, size: float = 13, color: str = INK) -> None:
        """Texts of one form (x of the middle, y, words), as one element."""
        spans = "".join(f'<tspan x="{x:.2f}" y="{y:.2f}">{escape(words)}</tspan>' for x, y, words in labels)
        self.parts.append(f'<text font-size="{size:g}" fill="{color}" text-anchor="middle">{spans}</text>')

    def __str__(self) -> str:
        return "\n".join([*self.parts, "</svg>\n"])
