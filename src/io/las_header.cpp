// Offsets into the header are those of the LAS 1.4 R15 specification (ASPRS 2019), table 3.
#include <cmath>

#include "core/plural.hpp"
#include "io/bytes.hpp"
#include "io/las.hpp"

namespace kith::io::las {

Header parse_header(const Source& source) {
  if (!is_las(source)) {
    throw bad_file(source, "{}", source.size() == 0 ? "is empty" : "is not LAS: it does not start with LASF");
  }
  const std::byte* at = source.bytes.data();
  if (source.size() < header_bytes_1_2) {
    throw bad_file(source, "is truncated: it has {} bytes, a LAS header takes at least {}", source.size(),
                   header_bytes_1_2);
  }
  Header header;
  header.major = std::to_integer<unsigned>(at[24]);
  header.minor = std::to_integer<unsigned>(at[25]);
  if (header.major != 1 || header.minor > 4) {
    throw bad_file(source, "is LAS {}.{}; Kith reads 1.0 to 1.4", header.major, header.minor);
  }
  header.bytes = load<std::uint16_t>(at + 94);
  const std::uint64_t least = header.minor == 4 ? header_bytes_1_4 : header_bytes_1_2;
  header.offset = load<std::uint32_t>(at + 96);
  if (header.bytes < least || header.offset < header.bytes || header.offset > source.size()) {
    throw bad_file(
        source,
        "is truncated or corrupt: its header takes {} bytes (at least {}), points start at {} of the "
        "{} bytes of the file",
        header.bytes, least, header.offset, source.size());
  }
  header.point_format = std::to_integer<unsigned>(at[104]);
  // LASzip marks what it compressed in the two highest bits.
  if (header.point_format >= 64) {
    throw bad_file(source,
                   "is LAZ (compressed LAS), which Kith does not read; decompress it first, for example with "
                   "'laszip -i in.laz -o out.las' or 'pdal translate in.laz out.las'");
  }
  if (header.point_format >= record_sizes.size()) {
    throw bad_file(source, "has point format {}; LAS defines 0 to 10", header.point_format);
  }
  header.record_bytes = load<std::uint16_t>(at + 105);
  if (header.record_bytes < record_sizes[header.point_format]) {
    throw bad_file(source, "is corrupt: its point records take {} bytes, format {} needs at least {}",
                   header.record_bytes, header.point_format, record_sizes[header.point_format]);
  }
  header.points = load<std::uint32_t>(at + 107);
  if (header.minor == 4) {
    const auto wide = load<std::uint64_t>(at + 247);
    if (wide != 0) header.points = wide;
  }
  if (!fits(header.points, header.record_bytes, source.size() - header.offset)) {
    throw bad_file(source,
                   "is truncated or corrupt: its header claims {} of {} bytes, the file has {} for them",
                   plural(static_cast<std::int64_t>(header.points), "point"), header.record_bytes,
                   plural(static_cast<std::int64_t>(source.size() - header.offset), "byte"));
  }
  for (std::size_t axis = 0; axis < 3; ++axis) {
    header.scale[axis] = load<double>(at + 131 + 8 * axis);
    header.shift[axis] = load<double>(at + 155 + 8 * axis);
    if (!std::isfinite(header.scale[axis]) || header.scale[axis] == 0 || !std::isfinite(header.shift[axis])) {
      throw bad_file(source,
                     "is corrupt: axis {} has scale {} and offset {}; both must be finite, the scale not 0",
                     axis, header.scale[axis], header.shift[axis]);
    }
  }
  return header;
}

}  // namespace kith::io::las
