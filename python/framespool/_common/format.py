"""Numbers for people."""

from __future__ import annotations


def bytes_text(number: float) -> str:
    """A number of bytes with a unit: 512 B, 19 MB, 1.5 GB.

    Args:
        number: Bytes.

    Returns:
        The text.
    """
    for unit in ("B", "KB", "MB"):
        if number < 1000:
            return f"{number:.0f} {unit}"
        number /= 1000
    return f"{number:.1f} GB" if number < 1000 else f"{number / 1000:.1f} TB"
