// LAS files from LAS files: some of the points, and further columns as extra bytes.
#include <algorithm>
#include <array>
#include <cstring>
#include <utility>
#include <vector>

#include "core/plural.hpp"
#include "io/bytes.hpp"
#include "io/format.hpp"
#include "io/las.hpp"
#include "io/las_extra_bytes.hpp"
#include "io/point_copy.hpp"

namespace kith::io {
namespace {

using las::Header;

template <class T>
void store(std::vector<std::byte>& bytes, std::size_t offset, T value) {
  std::memcpy(bytes.data() + offset, &value, sizeof value);
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

// What follows the points (waveforms, extended records) lies elsewhere now.
void move_what_follows(std::vector<std::byte>& start, const Header& header, std::uint64_t end,
                       std::uint64_t new_end) {
  for (const auto& [minor, at] : {std::pair{3U, std::size_t{227}}, std::pair{4U, std::size_t{235}}}) {
    if (header.minor < minor || header.bytes < at + 8) continue;
    const auto offset = load<std::uint64_t>(start.data() + at);
    if (offset >= end) store(start, at, offset - end + new_end);
  }
}

}  // namespace

void copy_las(AtomicFile& out, const Source& source, const PointChanges& changes) {
  const Header header = las::parse_header(source);
  const auto rows = static_cast<std::int64_t>(header.points);
  check_changes("las", changes, rows);
  const std::byte* points = source.bytes.data() + header.offset;
  const auto record = [&](std::int64_t row) {
    return points + static_cast<std::uint64_t>(row) * header.record_bytes;
  };
  las::Extended extended;
  if (changes.names.empty()) {
    extended.start.assign(source.bytes.begin(),
                          source.bytes.begin() + static_cast<std::ptrdiff_t>(header.offset));
    extended.kept = {{0, header.record_bytes}};
  } else {
    extended = las::extend(source, header, changes.names, changes.type);
  }
  std::vector<std::byte>& start = extended.start;
  auto kept = header.points;
  if (changes.dropped) {
    Summary summary;
    ChangesByRow flags(changes, rows);
    FrontToBack summing(source);
    for (std::int64_t row = 0; row < rows; ++row) {
      summing.reached(record(row));
      if (!flags.dropped(row)) summary.add(record(row), header);
    }
    summary.write(start, header);
    kept = summary.points;
  }
  const std::uint64_t end = header.offset + header.points * header.record_bytes;
  move_what_follows(start, header, end, start.size() + kept * load<std::uint16_t>(start.data() + 105));
  out.write(start.data(), start.size());
  ChangesByRow by_row(changes, rows);
  FrontToBack copying(source);
  for (std::int64_t row = 0; row < rows; ++row) {
    copying.reached(record(row));
    if (by_row.dropped(row)) continue;
    for (const Piece& piece : extended.kept) out.write(record(row) + piece.offset, piece.bytes);
    const auto values = by_row.values(row);
    out.write(values.data(), values.size());
  }
  copy_range(out, source, end, source.size());
}

void write_las_rows(AtomicFile& out, const Source& source, std::span<const std::int64_t> rows) {
  const auto points = static_cast<std::int64_t>(las::parse_header(source).points);
  std::int64_t last = -1;
  for (const std::int64_t row : rows) {
    if (row <= last || row >= points) {
      throw InvalidArgument(fmt::format("row {} after row {} of '{}', which has {}; rows must ascend", row,
                                        last, source.name, plural(points, "point")));
    }
    last = row;
  }
  PointChanges changes;
  changes.dropped = [rows](std::int64_t first, std::span<std::uint8_t> flags) {
    const std::int64_t end = first + static_cast<std::int64_t>(flags.size());
    std::ranges::fill(flags, std::uint8_t{1});
    for (auto row = std::ranges::lower_bound(rows, first); row != rows.end() && *row < end; ++row) {
      flags[static_cast<std::size_t>(*row - first)] = 0;
    }
  };
  copy_las(out, source, changes);
}

}  // namespace kith::io
