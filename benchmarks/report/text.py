"""Numbers and tables as the page writes them."""


def figure(value):
    """Three digits: 0.0123, 1.23, 12.3, 1,234."""
    if value >= 999.5:
        return f"{value:,.0f}"
    if value >= 99.95:
        return f"{value:.0f}"
    if value >= 9.995:
        return f"{value:.1f}"
    return f"{value:.2f}" if value >= 0.9995 else f"{value:.3g}"


def duration(seconds):
    return f"{figure(seconds)} s" if seconds >= 1 else f"{figure(seconds * 1000)} ms"


def mebibytes(count):
    return f"{count / 2**20:,.0f} MiB"


def table(rows):
    """A Markdown table; the first row is the head, the first column is text, the others are numbers."""
    rule = ["---"] + ["---:"] * (len(rows[0]) - 1)
    return "\n".join("| " + " | ".join(row) + " |" for row in [rows[0], rule, *rows[1:]])
