"""The picture: points as discs, the nearest in front, lit by their normals."""

import numpy as np

SKY, SUN, GROUND = np.array([0.36, 0.46, 0.66]), np.array([1.0, 0.84, 0.62]), np.array([0.30, 0.25, 0.22])
ABOVE, BELOW = np.array([0.78, 0.85, 0.93]), np.array([0.97, 0.96, 0.93])  # the background, top to bottom
SUPERSAMPLING = 2


class Camera:
    """A pinhole camera at `eye` that looks at `target`; z is up. `view` is the height seen, in degrees."""

    def __init__(self, eye, target, view, width, height):
        self.eye, self.width, self.height = np.asarray(eye, np.float64), width, height
        ahead = np.asarray(target, np.float64) - self.eye
        self.ahead = ahead / np.linalg.norm(ahead)
        right = np.cross(self.ahead, [0, 0, 1])
        self.right = right / np.linalg.norm(right)
        self.up = np.cross(self.right, self.ahead)
        self.focal = height / 2 / np.tan(np.radians(view) / 2)

    def project(self, points):
        """(column, row, depth) of points [n, 3], in pixels from the top left corner; depth along the view."""
        seen = points - self.eye
        depth = seen @ self.ahead
        column = self.width / 2 + self.focal * (seen @ self.right) / depth
        row = self.height / 2 - self.focal * (seen @ self.up) / depth
        return column, row, depth


def visible(camera, points, radius):
    """Which point each pixel shows [height, width], -1 for none: points are discs that face the camera.

    @param radius  of a disc, in units of the points
    """
    column, row, depth = camera.project(points)
    column, row = np.round(column).astype(np.int64), np.round(row).astype(np.int64)
    pixels = camera.focal * radius / depth
    reach = int(np.ceil(pixels[depth > 0].max(initial=0)))
    nearest = np.full(camera.height * camera.width, np.inf)
    shown = np.full(camera.height * camera.width, -1, np.int64)
    last = np.empty(camera.height * camera.width, np.int64)
    order = np.argsort(-depth)  # far ones first: of those that fall on one pixel numpy keeps the last
    order = order[depth[order] > 0]
    squared_reach = np.maximum(pixels[order], 0.5) ** 2
    for down in range(-reach, reach + 1):
        for along in range(-reach, reach + 1):
            own = order[along**2 + down**2 <= squared_reach]
            c, r = column[own] + along, row[own] + down
            inside = (c >= 0) & (c < camera.width) & (r >= 0) & (r < camera.height)
            own, at = own[inside], r[inside] * camera.width + c[inside]
            # A disc is a little farther away at its rim, so that discs of one surface meet between the points.
            away = depth[own] + radius * (along**2 + down**2) / max(1, reach) ** 2
            number = np.arange(len(own))
            last[at] = number
            hit = (last[at] == number) & (away < nearest[at])
            nearest[at[hit]] = away[hit]
            shown[at[hit]] = own[hit]
    return shown.reshape(camera.height, camera.width)


def shade(normals, curvature, sun):
    """Colours [n, 3]: sky light from above, ground light from below, one sun; curved places are darker."""
    up = normals[:, 2:] * 0.5 + 0.5
    sun = np.asarray(sun, np.float64) / np.linalg.norm(sun)
    lit = np.clip(normals @ sun, 0, 1)[:, None]
    crease = np.clip(1 - 2.2 * curvature[:, None], 0.35, 1)
    return np.clip((up * SKY + (1 - up) * GROUND) * 0.8 + lit * SUN * 0.62, 0, 1) * crease


def render(points, normals, curvature, eye, target, view, radius, sun, size=(1600, 900)):
    """The picture as uint8 [height, width, 3]."""
    width, height = (SUPERSAMPLING * s for s in size)
    camera = Camera(eye, target, view, width, height)
    shown = visible(camera, points, radius)
    known = ~np.isnan(curvature)
    colours = np.where(known[:, None], shade(normals, curvature, sun), 0.5)
    down = np.linspace(0, 1, height)[:, None, None]
    image = np.where((shown >= 0)[..., None], colours[shown], ABOVE * (1 - down) + BELOW * down)
    image = image.reshape(size[1], SUPERSAMPLING, size[0], SUPERSAMPLING, 3).mean(axis=(1, 3))
    return np.round(image * 255).astype(np.uint8)


def write(path, image):
    """As PNG; appears whole or not at all."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import image as files

    temporary = path.with_name(f".{path.name}")
    files.imsave(temporary, image, format="png")
    temporary.replace(path)
