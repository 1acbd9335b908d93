"""coast: every full-resolution coastline point of GSHHG (Wessel and Smith, 1996) on the unit sphere.

Source: binned_GSHHS_f.nc of Debian's gmt-gshhg-full (version 2.3.7; netCDF-4, that is HDF5). The package
also holds borders (792,182 points) and rivers (2,565,425 points) in files of the same shape; they are no
coast and are left out. The coastline file alone has 10,995,687 points.

Layout of the file: the globe is cut into 360 x 180 bins of one degree, numbered from the north-west
corner eastward, row by row southward. Each bin owns a run of segments, each segment a run of points.
A point is two 16-bit numbers (declared signed, meant unsigned): its offset from the bin's south-west
corner in 1/65535 of a degree. The word of a segment packs

    points << 9 | level << 6 | exit side << 3 | entry side

with level 1 = land against sea (Antarctica: the ice front), 2 = lake shore, 3 = island in a lake,
4 = pond on such an island, 6 = Antarctica's grounding line (under or behind the ice front).
"""

from pathlib import Path

import numpy as np

PACKAGES = ("gmt-gshhg-full",)
SOURCE = Path("/usr/share/gmt-gshhg/binned_GSHHS_f.nc")
POINTS = 10_995_687
SEA_LEVEL = 1


def read_points(path=SOURCE):
    """(longitude/latitude float64 [n, 2] in degrees, level uint8 [n]), in the file's order.

    Longitudes are in [-180, 180).
    """
    import h5py

    if not path.is_file():
        raise FileNotFoundError(f"'{path}' is missing; run: apt-get install {' '.join(PACKAGES)}")
    with h5py.File(path, "r") as file:
        degrees = int(file["Bin_size_in_minutes"][0]) / 60
        columns = int(file["N_bins_in_360_longitude_range"][0])
        segments_in_bin = file["N_segments_in_a_bin"][:].astype(np.int64)
        word = file["Embedded_npts_levels_exit_entry_for_a_segment"][:].view(np.uint32)
        first_point = file["Id_of_first_point_in_a_segment"][:].astype(np.int64)
        east = file["Relative_longitude_from_SW_corner_of_bin"][:].view(np.uint16)
        north = file["Relative_latitude_from_SW_corner_of_bin"][:].view(np.uint16)

    points_in_segment = (word >> 9).astype(np.int64)
    if not np.array_equal(first_point, np.cumsum(points_in_segment) - points_in_segment):
        raise ValueError(f"'{path}' is not laid out as GSHHG 2.3.7: its segments do not adjoin")
    bin_of_segment = np.repeat(np.arange(len(segments_in_bin)), segments_in_bin)
    bin_of_point = np.repeat(bin_of_segment, points_in_segment)
    level = np.repeat(((word >> 6) & 7).astype(np.uint8), points_in_segment)
    if len(bin_of_point) != len(east) or len(east) != len(north):
        raise ValueError(f"'{path}' is not laid out as GSHHG 2.3.7: segments and points do not add up")

    lonlat = np.empty((len(east), 2))
    lonlat[:, 0] = (bin_of_point % columns) * degrees + east * (degrees / 65535)
    lonlat[:, 0] = (lonlat[:, 0] + 180) % 360 - 180
    lonlat[:, 1] = 90 - (bin_of_point // columns + 1) * degrees + north * (degrees / 65535)
    return lonlat, level


def unit_sphere(lonlat):
    """Points of the unit sphere, float32 [n, 3], of longitude and latitude in degrees, [n, 2]."""
    longitude, latitude = np.radians(lonlat[:, 0]), np.radians(lonlat[:, 1])
    out = np.empty((len(lonlat), 3), np.float32)
    out[:, 0] = np.cos(latitude) * np.cos(longitude)
    out[:, 1] = np.cos(latitude) * np.sin(longitude)
    out[:, 2] = np.sin(latitude)
    return out


def make(log):
    """The files of `coast`: points on the sphere, longitude/latitude, level."""
    log(f"  reading {SOURCE}")
    lonlat, level = read_points()
    if len(lonlat) != POINTS:
        raise ValueError(f"{SOURCE} has {len(lonlat)} points; version 2.3.7 has {POINTS}")
    return {"points": unit_sphere(lonlat), "lonlat": lonlat, "level": level}
