// ASPRS LAS 1.0 to 1.4, uncompressed: points are int32 coordinates with a scale and an offset an axis.
// Offsets into the header are those of the LAS 1.4 R15 specification (ASPRS 2019), table 3.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "core/plural.hpp"
#include "core/visit_dtype.hpp"
#include "io/bytes.hpp"
#include "io/format.hpp"
#include "io/points.hpp"
#include "io/source_stream.hpp"

namespace kith::io {
namespace {

// Bytes of the point data record formats 0 to 10 without extra bytes.
constexpr std::array<std::uint64_t, 11> record_sizes = {20, 28, 26, 34, 57, 63, 30, 36, 38, 59, 67};
constexpr std::uint64_t header_bytes_1_2 = 227;
constexpr std::uint64_t header_bytes_1_4 = 375;

struct Header {
  unsigned major = 0;
  unsigned minor = 0;
  unsigned point_format = 0;
  std::uint64_t record_bytes = 0;
  std::uint64_t points = 0;
  std::uint64_t offset = 0;  // of the points
  std::array<double, 3> scale{};
  std::array<double, 3> shift{};
};

Header parse(const Source& source) {
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
  const std::uint64_t header_bytes = load<std::uint16_t>(at + 94);
  const std::uint64_t least = header.minor == 4 ? header_bytes_1_4 : header_bytes_1_2;
  header.offset = load<std::uint32_t>(at + 96);
  if (header_bytes < least || header.offset < header_bytes || header.offset > source.size()) {
    throw bad_file(
        source,
        "is truncated or corrupt: its header takes {} bytes (at least {}), points start at {} of the "
        "{} bytes of the file",
        header_bytes, least, header.offset, source.size());
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

std::string join(const std::array<double, 3>& values) {
  return fmt::format("{} {} {}", values[0], values[1], values[2]);
}

// How one axis is quantised: value = integer * scale + shift.
struct Axis {
  double scale = 0.001;
  double shift = 0;
  double low = 0;
  double high = 0;
};

std::int32_t quantise(double value, const Axis& axis) {
  return static_cast<std::int32_t>(std::lrint((value - axis.shift) / axis.scale));
}

// The coarsest power of ten from 0.001 down that gives every value back bit by bit; where none does, the
// finest that spans the range (its half is the largest error).
template <class T>
Axis choose(const DatasetView& data, std::int64_t column) {
  const auto value = [&](std::int64_t i) { return to_double(static_cast<const T*>(data.row(i))[column]); };
  Axis axis;
  if (data.rows == 0) return axis;
  axis.low = std::numeric_limits<double>::infinity();
  axis.high = -axis.low;
  for (std::int64_t i = 0; i < data.rows; ++i) {
    if (!std::isfinite(value(i))) {
      throw InvalidArgument(fmt::format(
          "LAS files hold finite coordinates, point {} has {}; remove it or write ply", i, value(i)));
    }
    axis.low = std::min(axis.low, value(i));
    axis.high = std::max(axis.high, value(i));
  }
  axis.shift = std::round(axis.low / 2 + axis.high / 2);
  const double reach = std::max(axis.high - axis.shift, axis.shift - axis.low);
  constexpr double largest = 2147483646.0;
  if (!std::isfinite(reach)) {
    throw InvalidArgument(
        fmt::format("LAS cannot span {} to {} on one axis; write ply", axis.low, axis.high));
  }
  int exponent = 3;
  while (exponent > -300 && reach * std::pow(10.0, exponent) > largest) --exponent;
  int finest = exponent;
  for (; exponent <= 12 && reach * std::pow(10.0, exponent) <= largest; ++exponent) {
    finest = exponent;
    axis.scale = exponent >= 0 ? 1.0 / std::pow(10.0, exponent) : std::pow(10.0, -exponent);
    bool exact = true;
    for (std::int64_t i = 0; i < data.rows && exact; ++i) {
      exact = quantise(value(i), axis) * axis.scale + axis.shift == value(i);
    }
    if (exact) return axis;
  }
  axis.scale = finest >= 0 ? 1.0 / std::pow(10.0, finest) : std::pow(10.0, -finest);
  return axis;
}

template <class T, class Bytes>
void store(Bytes& header, std::size_t offset, T value) {
  std::memcpy(header.data() + offset, &value, sizeof value);
}

// Counts and bounds of the points that were kept.
struct Summary {
  std::uint64_t points = 0;
  std::array<std::uint64_t, 15> by_return{};
  std::array<double, 3> low{};
  std::array<double, 3> high{};

  void add(const std::byte* record, const Header& header) {
    for (std::size_t axis = 0; axis < 3; ++axis) {
      const double value = load<std::int32_t>(record + 4 * axis) * header.scale[axis] + header.shift[axis];
      low[axis] = points == 0 ? value : std::min(low[axis], value);
      high[axis] = points == 0 ? value : std::max(high[axis], value);
    }
    ++points;
    // The number of the return: 3 bits up to point format 5, 4 bits from 6 on; 0 is no return.
    const unsigned mask = header.point_format < 6 ? 0x07 : 0x0F;
    const unsigned number = std::to_integer<unsigned>(record[14]) & mask;
    if (number > 0) ++by_return[number - 1];
  }

  void write(std::vector<std::byte>& bytes, const Header& header) const {
    // Files of format 6 and up, and those of more than 2^32 - 1 points, leave the narrow counts at 0.
    if (load<std::uint32_t>(bytes.data() + 107) != 0) {
      store(bytes, 107, static_cast<std::uint32_t>(points));
      for (std::size_t i = 0; i < 5; ++i) store(bytes, 111 + 4 * i, static_cast<std::uint32_t>(by_return[i]));
    }
    if (header.minor == 4) {
      store(bytes, 247, points);
      for (std::size_t i = 0; i < 15; ++i) store(bytes, 255 + 8 * i, by_return[i]);
    }
    for (std::size_t axis = 0; axis < 3; ++axis) {
      store(bytes, 179 + 16 * axis, high[axis]);
      store(bytes, 187 + 16 * axis, low[axis]);
    }
  }
};

// What the header says of the points and they are not. Reading goes by the points.
std::string contradictions(const Source& source, const Header& header) {
  std::string text;
  const auto add = [&](const std::string& one) { text += (text.empty() ? "" : "; ") + one; };
  const std::byte* at = source.bytes.data();
  const std::uint64_t narrow = load<std::uint32_t>(at + 107);
  if (header.minor == 4 && narrow != 0 && narrow != header.points) {
    add(fmt::format("its two counts are {} and {} points; the second is followed", narrow, header.points));
  }
  // Of points that say nothing of returns all counts are 0.
  const bool wide = header.minor == 4;
  std::uint64_t returns = 0;
  for (std::size_t i = 0; i < (wide ? 15U : 5U); ++i) {
    const std::uint64_t one =
        wide ? load<std::uint64_t>(at + 255 + 8 * i) : load<std::uint32_t>(at + 111 + 4 * i);
    returns = one > header.points - std::min(returns, header.points) ? header.points + 1 : returns + one;
  }
  if (returns > header.points) {
    add(fmt::format("its counts by return exceed its {}",
                    plural(static_cast<std::int64_t>(header.points), "point")));
  }
  const std::uint64_t end = header.offset + header.points * header.record_bytes;
  if (header.minor < 3 && end < source.size()) {
    add(fmt::format("{} after its points", plural(static_cast<std::int64_t>(source.size() - end), "byte")));
  }
  // Some points all over the file; rounding moves a bound by half a step of the scale at most.
  const std::uint64_t step = std::max<std::uint64_t>(1, header.points / 4096);
  FrontToBack pass(source);
  const std::byte* before = at;
  for (std::uint64_t i = 0; i < header.points; i += step) {
    const std::byte* record = at + header.offset + i * header.record_bytes;
    pass.jump(before, record);
    before = record + 12;
    for (std::size_t axis = 0; axis < 3; ++axis) {
      const double value = load<std::int32_t>(record + 4 * axis) * header.scale[axis] + header.shift[axis];
      const double high = load<double>(at + 179 + 16 * axis);
      const double low = load<double>(at + 187 + 16 * axis);
      const double slack = std::abs(header.scale[axis]);
      if (value >= low - slack && value <= high + slack) continue;
      add(fmt::format("its bounds on {} are {} to {}, point {} lies at {}", "xyz"[axis], low, high, i,
                      value));
      return text;
    }
  }
  return text;
}

class LasStream final : public RecordStream {
 public:
  LasStream(const Source& source, const Header& header)
      : RecordStream(source, static_cast<std::int64_t>(header.points), Dtype::f64, header.offset,
                     header.record_bytes),
        header_(header) {}

 private:
  void convert(const std::byte* record, std::int64_t count, std::byte* to) const override {
    for (std::int64_t i = 0; i < count; ++i, record += record_bytes()) {
      for (std::size_t axis = 0; axis < 3; ++axis, to += sizeof(double)) {
        const double value =
            load<std::int32_t>(record + 4 * axis) * header_.scale[axis] + header_.shift[axis];
        std::memcpy(to, &value, sizeof value);
      }
    }
  }
  Header header_;
};

}  // namespace

bool is_las(const Source& source) {
  return source.starts_with("LASF");
}

FileInfo inspect_las(const Source& source) {
  const Header header = parse(source);
  FileInfo info;
  info.element_type = "f64";
  info.rows = static_cast<std::int64_t>(header.points);
  info.dim = 3;
  info.details.emplace_back("version", fmt::format("{}.{}", header.major, header.minor));
  info.details.emplace_back("point format", std::to_string(header.point_format));
  info.details.emplace_back("record bytes", std::to_string(header.record_bytes));
  info.details.emplace_back("scale", join(header.scale));
  info.details.emplace_back("offset", join(header.shift));
  const std::string wrong = contradictions(source, header);
  if (!wrong.empty()) info.details.emplace_back(contradiction, wrong);
  return info;
}

std::unique_ptr<PointStream> stream_las(const Source& source, std::uint64_t /*memory_limit*/) {
  return std::make_unique<LasStream>(source, parse(source));
}

Dataset read_las(const Source& source, const ReadOptions& options) {
  LasStream stream(source, parse(source));
  return read_rows(stream, source, options);
}

void write_las_rows(AtomicFile& out, const Source& source, std::span<const std::int64_t> rows) {
  const Header header = parse(source);
  const std::byte* points = source.bytes.data() + header.offset;
  const auto record = [&](std::int64_t row) {
    return points + static_cast<std::uint64_t>(row) * header.record_bytes;
  };
  Summary summary;
  std::int64_t last = -1;
  FrontToBack summing(source);
  for (const std::int64_t row : rows) {
    if (row <= last || static_cast<std::uint64_t>(row) >= header.points) {
      throw InvalidArgument(fmt::format("row {} after row {} of '{}', which has {}; rows must ascend", row,
                                        last, source.name,
                                        plural(static_cast<std::int64_t>(header.points), "point")));
    }
    summing.reached(record(row));
    summary.add(record(row), header);
    last = row;
  }
  // Everything up to the points is kept, and what follows them (waveforms, extended records) moves up.
  std::vector<std::byte> start(source.bytes.begin(),
                               source.bytes.begin() + static_cast<std::ptrdiff_t>(header.offset));
  summary.write(start, header);
  const std::uint64_t end = header.offset + header.points * header.record_bytes;
  const std::uint64_t removed = (header.points - summary.points) * header.record_bytes;
  const std::uint64_t header_bytes = load<std::uint16_t>(start.data() + 94);
  for (const auto& [minor, at] : {std::pair{3U, std::size_t{227}}, std::pair{4U, std::size_t{235}}}) {
    if (header.minor < minor || header_bytes < at + 8) continue;
    const auto offset = load<std::uint64_t>(start.data() + at);
    if (offset >= end) store(start, at, offset - removed);
  }
  out.write(start.data(), start.size());
  FrontToBack copying(source);
  for (const std::int64_t row : rows) {
    copying.reached(record(row));
    out.write(record(row), header.record_bytes);
  }
  out.write(source.bytes.data() + end, source.size() - end);
}

void write_las(AtomicFile& out, const DatasetView& data) {
  check_points("las", data);
  constexpr std::int64_t largest = std::numeric_limits<std::uint32_t>::max();
  if (data.rows > largest) {
    throw InvalidArgument(
        fmt::format("LAS 1.2 holds up to {} points, the data have {}; write ply or npy", largest, data.rows));
  }
  visit_dtype(data.dtype, [&]<class T>(T) {
    std::array<std::byte, header_bytes_1_2> header{};
    std::memcpy(header.data(), "LASF", 4);
    store<std::uint8_t>(header, 24, 1);
    store<std::uint8_t>(header, 25, 2);
    std::memcpy(header.data() + 26, "OTHER", 5);
    std::memcpy(header.data() + 58, "Kith", 4);
    store<std::uint16_t>(header, 94, header_bytes_1_2);
    store<std::uint32_t>(header, 96, header_bytes_1_2);
    store<std::uint16_t>(header, 105, 20);
    store(header, 107, static_cast<std::uint32_t>(data.rows));
    store(header, 111, static_cast<std::uint32_t>(data.rows));  // all are first returns
    std::array<Axis, 3> axes;
    for (std::size_t i = 0; i < 3; ++i) {
      axes[i] = choose<T>(data, static_cast<std::int64_t>(i));
      store(header, 131 + 8 * i, axes[i].scale);
      store(header, 155 + 8 * i, axes[i].shift);
      store(header, 179 + 16 * i, axes[i].high);
      store(header, 187 + 16 * i, axes[i].low);
    }
    out.write(header.data(), header.size());
    for (std::int64_t i = 0; i < data.rows; ++i) {
      const T* point = static_cast<const T*>(data.row(i));
      std::array<std::byte, 20> record{};
      for (std::size_t axis = 0; axis < 3; ++axis) {
        const std::int32_t value = quantise(to_double(point[axis]), axes[axis]);
        std::memcpy(record.data() + 4 * axis, &value, sizeof value);
      }
      record[14] = std::byte{0x09};  // return 1 of 1
      out.write(record.data(), record.size());
    }
  });
}

}  // namespace kith::io
