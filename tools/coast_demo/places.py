"""The places the demo asks about: cities of the time zones, and a grid over the globe."""

import dataclasses
import re
from pathlib import Path

import numpy as np

ZONES = Path("/usr/share/zoneinfo/zone1970.tab")
COUNTRIES = Path("/usr/share/zoneinfo/iso3166.tab")
EARTH_RADIUS_KM = 6371.0088  # mean radius of the WGS 84 ellipsoid (IUGG)


@dataclasses.dataclass(frozen=True)
class Place:
    name: str
    country: str
    longitude: float
    latitude: float


def parse_iso6709(text):
    """(longitude, latitude) in degrees of "+DDMM+DDDMM" or "+DDMMSS+DDDMMSS"."""
    match = re.fullmatch(r"([+-])(\d\d)(\d\d)(\d\d)?([+-])(\d{3})(\d\d)(\d\d)?", text)
    if not match:
        raise ValueError(f"'{text}' is not a coordinate of the form +DDMM+DDDMM or +DDMMSS+DDDMMSS")

    def degrees(sign, whole, minutes, seconds):
        value = int(whole) + int(minutes) / 60 + int(seconds or 0) / 3600
        return -value if sign == "-" else value

    return degrees(*match.groups()[4:]), degrees(*match.groups()[:4])


def read_places(zones=ZONES, countries=COUNTRIES):
    """The city of every time zone of tzdata's zone1970.tab: most capitals and many large cities."""
    for path in (zones, countries):
        if not path.is_file():
            raise FileNotFoundError(f"'{path}' is missing; run: apt-get install tzdata")
    rows = [line.split("\t") for line in countries.read_text().splitlines() if not line.startswith("#")]
    country_of = dict(rows)
    places = []
    for line in zones.read_text().splitlines():
        if line.startswith("#"):
            continue
        codes, coordinates, zone = line.split("\t")[:3]
        longitude, latitude = parse_iso6709(coordinates)
        name = zone.split("/")[-1].replace("_", " ")
        places.append(Place(name, country_of[codes.split(",")[0]], longitude, latitude))
    return places


def globe_grid(spacing):
    """Longitude/latitude [n, 2] of a grid with about `spacing` degrees between neighbours everywhere.

    Rows of constant latitude; a row has fewer points the nearer it is to a pole, so the number of points
    is about 41,253 / spacing^2 (the area of the globe in square degrees), not 64,800 / spacing^2.
    """
    points = []
    for latitude in row_latitudes(spacing):
        count = max(6, round(360 / spacing * np.cos(np.radians(latitude))))
        longitudes = -180 + 360 * np.arange(count) / count
        points.append(np.column_stack([longitudes, np.full(count, latitude)]))
    return np.concatenate(points)


def row_latitudes(spacing):
    rows = round(180 / spacing)
    return -90 + 180 * (np.arange(rows) + 0.5) / rows


def kilometres(chord):
    """Great-circle distance in km of the straight line between two points of the unit sphere."""
    return 2 * EARTH_RADIUS_KM * np.arcsin(np.minimum(np.asarray(chord, np.float64) / 2, 1))


def coordinates(longitude, latitude):
    """ "48.88 S 123.39 W", fixed width."""
    north = "N" if latitude >= 0 else "S"
    east = "E" if longitude >= 0 else "W"
    return f"{abs(latitude):5.2f} {north} {abs(longitude):6.2f} {east}"
