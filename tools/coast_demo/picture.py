"""The picture: a map of the distance to the sea in the Equal Earth projection."""

import numpy as np

from .places import row_latitudes

# Equal Earth, an equal-area map of the whole globe (Savric, Patterson and Jenny, 2018).
A1, A2, A3, A4 = 1.340264, -0.081106, 0.000893, 0.003796
M = np.sqrt(3) / 2
CENTRE = 11.0  # central meridian: cuts the map in the Bering Strait, so no continent is in two pieces


def project(longitude, latitude):
    """Map coordinates x, y of longitude and latitude in degrees."""
    turned = np.radians((np.asarray(longitude) - CENTRE + 180) % 360 - 180)
    t = np.arcsin(M * np.sin(np.radians(latitude)))
    slope = A1 + 3 * A2 * t**2 + t**6 * (7 * A3 + 9 * A4 * t**2)
    return turned * np.cos(t) / (M * slope), t * (A1 + A2 * t**2 + t**6 * (A3 + A4 * t**2))


def unproject(x, y):
    """Longitude and latitude in degrees of map coordinates; NaN outside the globe."""
    t = np.asarray(y, np.float64) / A1
    for _ in range(8):  # Newton's method; four steps are enough
        value = t * (A1 + A2 * t**2 + t**6 * (A3 + A4 * t**2)) - y
        t = t - value / (A1 + 3 * A2 * t**2 + t**6 * (7 * A3 + 9 * A4 * t**2))
    sine = np.sin(t) / M
    turned = x * M * (A1 + 3 * A2 * t**2 + t**6 * (7 * A3 + 9 * A4 * t**2)) / np.cos(t)
    inside = (np.abs(sine) <= 1) & (np.abs(turned) <= np.pi)
    longitude = (np.degrees(turned) + CENTRE + 180) % 360 - 180
    latitude = np.degrees(np.arcsin(np.clip(sine, -1, 1)))
    return np.where(inside, longitude, np.nan), np.where(inside, latitude, np.nan)


def interpolate(grid, values, spacing, longitude, latitude):
    """Values of places.globe_grid(spacing) at other positions, linear between rows and along them."""
    rows = row_latitudes(spacing)
    columns = 4 * round(360 / spacing)
    regular = np.linspace(-180, 180, columns + 1)
    table = np.empty((len(rows) + 2, columns + 1))
    for at, row in enumerate(rows):
        own = grid[:, 1] == row
        table[at + 1] = np.interp(regular, grid[own, 0], values[own], period=360)
    table[0], table[-1] = table[1].mean(), table[-2].mean()  # the poles
    latitudes = np.concatenate([[-90], rows, [90]])
    above = np.clip(np.searchsorted(latitudes, latitude), 1, len(latitudes) - 1)
    up = (latitude - latitudes[above - 1]) / (latitudes[above] - latitudes[above - 1])
    position = (longitude + 180) / 360 * columns
    left = np.clip(np.nan_to_num(position).astype(int), 0, columns - 1)
    right = position - left
    low = table[above - 1, left] * (1 - right) + table[above - 1, left + 1] * right
    high = table[above, left] * (1 - right) + table[above, left + 1] * right
    return low * (1 - up) + high * up


def draw(path, spacing, grid, distance, coast, places, poles, caption):
    """Writes the map.

    @param grid, distance  places.globe_grid(spacing) and km at its points
    @param coast           longitude/latitude of the coastline points, drawn one by one
    @param poles           [(longitude, latitude, km)] of the places farthest from the sea
    """
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    from matplotlib import patheffects

    plt.rcParams["font.family"] = "DejaVu Sans"
    width, height = project(CENTRE + 180 - 1e-9, 0)[0], project(CENTRE, 90)[1]
    pixels_x = 2400
    pixels_y = round(pixels_x * height / width)
    x, y = np.meshgrid(
        np.linspace(-width, width, 2 * (pixels_x // 4)), np.linspace(-height, height, 2 * (pixels_y // 4))
    )
    longitude, latitude = unproject(x, y)
    field = np.where(np.isnan(longitude), np.nan, interpolate(grid, distance, spacing, longitude, latitude))
    extent = (-width, width, -height, height)

    figure = plt.figure(figsize=(13, 7.7), dpi=150)
    axes = figure.add_axes((0.01, 0.115, 0.98, 0.79))
    axes.set_aspect("equal")
    axes.axis("off")
    image = axes.imshow(field, origin="lower", extent=extent, cmap="YlGnBu", vmin=0, interpolation="bilinear")
    top = np.nanmax(field)
    lines = axes.contour(x, y, field, levels=np.arange(500, top, 500), colors="black", linewidths=0.4, alpha=0.35)
    axes.clabel(lines, levels=[v for v in lines.levels if v == 1000], fmt="%d", fontsize=6)

    # The coast, every point of it: a pixel is as opaque as points fall into it.
    px, py = project(coast[:, 0], coast[:, 1])
    count, _, _ = np.histogram2d(py, px, bins=(pixels_y, pixels_x), range=((-height, height), (-width, width)))
    ink = np.zeros((*count.shape, 4))
    ink[..., :3] = 0.02
    ink[..., 3] = np.minimum(count / 3, 1) * 0.95
    axes.imshow(ink, origin="lower", extent=extent, interpolation="antialiased")

    edge = np.linspace(-90, 90, 400)
    for side in (CENTRE - 180 + 1e-9, CENTRE + 180 - 1e-9):
        axes.plot(*project(np.full_like(edge, side), edge), color="0.25", linewidth=0.8)
    for pole in (-90, 90):
        ends = np.array([CENTRE - 180 + 1e-9, CENTRE + 180 - 1e-9])
        axes.plot(*project(ends, np.full(2, pole)), color="0.25", linewidth=0.8)

    axes.scatter(
        *project([p.longitude for p in places], [p.latitude for p in places]),
        s=9, color="#ff5a36", edgecolors="white", linewidths=0.4, zorder=3,
        label=f"{len(places)} cities of Debian's tzdata",
    )  # fmt: skip
    outline = [patheffects.withStroke(linewidth=2.2, foreground="black")]
    for number, (lon, lat, km) in enumerate(poles):
        px, py = project(lon, lat)
        label = "farthest from the sea, in the ocean and on land" if number == 0 else None
        axes.scatter(
            px, py, s=130, marker="*", color="white", edgecolors="black", linewidths=0.8, zorder=4, label=label
        )
        axes.annotate(
            f"{km:,.0f} km", (px, py), xytext=(0, 9), textcoords="offset points", ha="center",
            fontsize=8, color="white", weight="bold", path_effects=outline, zorder=5,
        )  # fmt: skip
    axes.set_xlim(-width * 1.005, width * 1.005)
    axes.set_ylim(-height * 1.01, height * 1.01)
    figure.legend(loc="lower left", fontsize=9, frameon=False, bbox_to_anchor=(0.085, 0.025))
    bar = figure.colorbar(image, cax=figure.add_axes((0.38, 0.085, 0.5, 0.018)), orientation="horizontal")
    bar.set_label("distance to the nearest sea coast, km", fontsize=10)
    bar.ax.tick_params(labelsize=9)
    bar.outline.set_linewidth(0.5)
    figure.text(0.5, 0.955, "How far is the sea?", ha="center", fontsize=18, weight="bold")
    figure.text(0.5, 0.918, caption, ha="center", fontsize=9.5, color="0.3")
    temporary = path.with_name(f".{path.name}")
    figure.savefig(temporary, format="png")
    plt.close(figure)
    temporary.replace(path)
