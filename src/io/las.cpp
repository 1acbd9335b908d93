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
#include "io/integer_points.hpp"
#include "io/las.hpp"
#include "io/points.hpp"
#include "io/source_stream.hpp"

namespace kith::io {
namespace {

using las::Header;
using las::header_bytes_1_2;
using las::parse_header;

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

class LasStream final : public RecordStream, public IntegerPoints {
 public:
  LasStream(const Source& source, const Header& header)
      : RecordStream(source, static_cast<std::int64_t>(header.points), Dtype::f64, header.offset,
                     header.record_bytes),
        integers_{header.scale, header.shift} {}

  const IntegerScale* integer_scale() const override { return &integers_; }
  void read_integers(void* out, std::int64_t count) override {
    constexpr std::size_t bytes = 3 * sizeof(std::int32_t);
    read_as(out, count, bytes, [&](const std::byte* record, std::int64_t some, std::byte* to) {
      for (std::int64_t i = 0; i < some; ++i, record += record_bytes(), to += bytes)
        std::memcpy(to, record, bytes);
    });
  }

 private:
  void convert(const std::byte* record, std::int64_t count, std::byte* to) const override {
    for (std::int64_t i = 0; i < count; ++i, record += record_bytes()) {
      for (std::size_t axis = 0; axis < 3; ++axis, to += sizeof(double)) {
        const double value = integers_.value(load<std::int32_t>(record + 4 * axis), axis);
        std::memcpy(to, &value, sizeof value);
      }
    }
  }
  IntegerScale integers_;
};

}  // namespace

bool is_las(const Source& source) {
  return source.starts_with("LASF");
}

FileInfo inspect_las(const Source& source) {
  const Header header = parse_header(source);
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
  return std::make_unique<LasStream>(source, parse_header(source));
}

Dataset read_las(const Source& source, const ReadOptions& options) {
  LasStream stream(source, parse_header(source));
  return read_rows(stream, source, options);
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
