// Points as text: one a line, columns separated by blanks or a comma, `#` starts a comment. Columns after the
// third are ignored. Two first lines are understood: the names "x y z", and a count of points alone in its
// line.
#include <algorithm>
#include <array>
#include <cctype>

#include "core/plural.hpp"
#include "core/visit_dtype.hpp"
#include "io/format.hpp"
#include "io/points.hpp"
#include "io/source_stream.hpp"
#include "io/text.hpp"

namespace kith::io {
namespace {

using Point = std::array<double, 3>;

bool is_blank(char c) {
  return c == ' ' || c == '\t' || c == '\v' || c == '\f';
}

// What stands between two columns.
enum class Separator : std::uint8_t { none, blanks, comma, comma_alone };

// Takes a column off the line with the separator after it. "1,,2" has an empty column, "1  2" has not.
std::string_view take_column(std::string_view& line, Separator* behind = nullptr) {
  const auto skip_blanks = [&line] {
    const std::size_t before = line.size();
    while (!line.empty() && is_blank(line.front())) line.remove_prefix(1);
    return line.size() < before;
  };
  skip_blanks();
  std::size_t end = 0;
  while (end < line.size() && line[end] != ',' && !is_blank(line[end])) ++end;
  const std::string_view column = line.substr(0, end);
  line.remove_prefix(end);
  const bool blanks = skip_blanks();
  const bool comma = !line.empty() && line.front() == ',';
  if (comma) line.remove_prefix(1);
  if (behind == nullptr) return column;
  if (comma) {
    const bool alone = !blanks && !line.empty() && !is_blank(line.front());
    *behind = alone ? Separator::comma_alone : Separator::comma;
  } else {
    *behind = blanks ? Separator::blanks : Separator::none;
  }
  return column;
}

bool names_columns(std::string_view line) {
  for (const char wanted : {'x', 'y', 'z'}) {
    std::string_view column = take_column(line);
    if (column.size() == 3 && column.front() == '"') column = column.substr(1, 1);
    if (column.size() != 1 || std::tolower(static_cast<unsigned char>(column.front())) != wanted)
      return false;
  }
  return true;
}

// The count of points that some tools write in front, alone in its line.
std::optional<std::int64_t> claimed_count(std::string_view line) {
  const auto value = parse_number<std::int64_t>(take_column(line));
  return value && *value >= 0 && line.empty() ? value : std::nullopt;
}

// Counts its points first, up to `last` of them, and looks at every number on the way.
class XyzStream final : public WalkedStream {
 public:
  explicit XyzStream(const Source& source, std::int64_t last = INT64_MAX)
      : WalkedStream(source, 0, Dtype::f64) {
    if (source_.size() == 0) {
      throw bad_file(source_, "is empty; at least one line of three numbers is needed");
    }
    RowPlace place;
    begin_at(place);
    Point point;
    while (next(place, point)) {
      places_.passed(place);
      if (place.row >= last) break;
    }
    rows_ = place.row;
    pass_.jump(data() + place.offset, data());
  }

 private:
  // The point at `place`, to behind which it moves. False at the end, where a count in front must be right.
  bool next(RowPlace& place, Point& point) {
    std::string_view rest = source_.text().substr(place.offset);
    bool first = place.row == 0;
    constexpr std::string_view byte_order_mark = "\xEF\xBB\xBF";
    if (place.offset == 0 && rest.starts_with(byte_order_mark)) rest.remove_prefix(byte_order_mark.size());
    while (!rest.empty()) {
      pass_.reached(rest.data());
      std::string_view line = take_line(rest);
      place.offset = source_.size() - rest.size();
      ++place.lines;
      if (line.find('\r') != std::string_view::npos) {
        throw bad_file(source_,
                       "has carriage returns within line {}; end lines by LF or CR LF (tr '\\r' '\\n' makes "
                       "them)",
                       place.lines);
      }
      line = line.substr(0, line.find('#'));
      while (!line.empty() && is_blank(line.front())) line.remove_prefix(1);
      while (!line.empty() && is_blank(line.back())) line.remove_suffix(1);
      if (line.empty()) continue;
      if (std::exchange(first, false)) {
        claimed_ = claimed_count(line);
        if (claimed_ || names_columns(line)) continue;
      }
      parse(line, place.lines, point);
      ++place.row;
      return true;
    }
    if (claimed_ && *claimed_ != place.row) {
      throw bad_file(source_, "is truncated or corrupt: its first line claims {}, it has {}",
                     plural(*claimed_, "point"), place.row);
    }
    if (place.row == 0 && !claimed_) throw bad_file(source_, "has no line of three numbers");
    return false;
  }

  void parse(std::string_view line, std::int64_t number, Point& point) const {
    std::array<Separator, 3> behind{};
    for (std::size_t i = 0; i < point.size(); ++i) {
      const std::string_view column = take_column(line, &behind[i]);
      const auto parsed = parse_number<double>(column);
      if (!parsed) {
        throw bad_file(
            source_,
            "is not a list of points: line {} has {} where one of its three numbers is needed; start "
            "comments with #",
            number, column.empty() ? "nothing" : fmt::format("'{}'", column.substr(0, 40)));
      }
      point[i] = *parsed;
    }
    // "500000,12 5400000,55 100,1" has decimal commas, and would be read as 500000, 12 and 5400000.
    const bool blanks = behind[0] == Separator::blanks || behind[1] == Separator::blanks;
    if (blanks && std::ranges::find(behind, Separator::comma_alone) != behind.end()) {
      throw bad_file(source_,
                     "has commas as well as blanks between the numbers of line {}; write decimals with a "
                     "point (500000.12), and separate numbers by the one or the other",
                     number);
    }
  }

  void walk(RowPlace& place, std::byte* to) override {
    Point point;
    if (!next(place, point)) {
      throw bad_file(source_, "has changed: it had {}, and now ends after {}", plural(rows_, "point"),
                     place.row);
    }
    if (to != nullptr) std::memcpy(to, point.data(), sizeof point);
  }

  std::optional<std::int64_t> claimed_;
};

}  // namespace

FileInfo inspect_xyz(const Source& source) {
  FileInfo info;
  info.element_type = "f64";
  info.dim = 3;
  info.rows = XyzStream(source).rows();
  return info;
}

Dataset read_xyz(const Source& source, const ReadOptions& options) {
  // Two passes, so that the points need no second copy; counting stops where reading will.
  const std::int64_t last = options.max_rows >= 0 && options.max_rows <= INT64_MAX - options.first_row
                                ? options.first_row + options.max_rows
                                : INT64_MAX;
  XyzStream stream(source, last);
  return read_rows(stream, source, options);
}

std::unique_ptr<PointStream> stream_xyz(const Source& source, std::uint64_t /*memory_limit*/) {
  return std::make_unique<XyzStream>(source);
}

void write_xyz(AtomicFile& out, const DatasetView& data) {
  check_points("xyz", data);
  if (data.rows == 0) out.write(xyz_without_points);
  write_xyz_lines(out, data);
}

void write_xyz_lines(AtomicFile& out, const DatasetView& data) {
  std::array<char, 128> line{};
  visit_dtype(data.dtype, [&]<class T>(T) {
    for (std::int64_t i = 0; i < data.rows; ++i) {
      const T* point = static_cast<const T*>(data.row(i));
      // The shortest text that reads back to the same float64; f32 values are widened first, as they will be
      // read.
      const auto end = fmt::format_to_n(line.data(), line.size(), "{} {} {}\n", to_double(point[0]),
                                        to_double(point[1]), to_double(point[2]));
      out.write(line.data(), end.size);
    }
  });
}

}  // namespace kith::io
