// Points as text: one a line, columns separated by blanks or a comma, `#` starts a comment. Columns after the
// third are ignored. Two first lines are understood: the names "x y z", and a count of points alone in its
// line.
#include <array>
#include <cctype>

#include "core/plural.hpp"
#include "core/visit_dtype.hpp"
#include "io/format.hpp"
#include "io/points.hpp"
#include "io/text.hpp"

namespace kith::io {
namespace {

using Point = std::array<double, 3>;

bool is_blank(char c) {
  return c == ' ' || c == '\t' || c == '\r' || c == '\v' || c == '\f';
}

// Takes a column off the line with the separator after it. "1,,2" has an empty column, "1  2" has not.
std::string_view take_column(std::string_view& line) {
  const auto skip_blanks = [&line] {
    while (!line.empty() && is_blank(line.front())) line.remove_prefix(1);
  };
  skip_blanks();
  std::size_t end = 0;
  while (end < line.size() && line[end] != ',' && !is_blank(line[end])) ++end;
  const std::string_view column = line.substr(0, end);
  line.remove_prefix(end);
  skip_blanks();
  if (!line.empty() && line.front() == ',') line.remove_prefix(1);
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

// Calls take(point) for every point in order until it returns false.
template <class Take>
void scan(const Source& source, Take&& take) {
  if (source.size() == 0) throw bad_file(source, "is empty; at least one line of three numbers is needed");
  std::string_view rest = source.text();
  std::optional<std::int64_t> claimed;
  std::int64_t points = 0;
  bool first = true;
  FrontToBack pass(source);
  for (std::int64_t line_number = 1; !rest.empty(); ++line_number) {
    pass.reached(rest.data());
    std::string_view line = take_line(rest);
    line = line.substr(0, line.find('#'));
    while (!line.empty() && is_blank(line.front())) line.remove_prefix(1);
    while (!line.empty() && is_blank(line.back())) line.remove_suffix(1);
    if (line.empty()) continue;
    if (std::exchange(first, false)) {
      claimed = claimed_count(line);
      if (claimed || names_columns(line)) continue;
    }
    Point point{};
    for (double& value : point) {
      const std::string_view column = take_column(line);
      const auto parsed = parse_number<double>(column);
      if (!parsed) {
        throw bad_file(
            source,
            "is not a list of points: line {} has {} where one of its three numbers is needed; start "
            "comments with #",
            line_number, column.empty() ? "nothing" : fmt::format("'{}'", column.substr(0, 40)));
      }
      value = *parsed;
    }
    ++points;
    if (!take(point)) return;
  }
  if (claimed && *claimed != points) {
    throw bad_file(source, "is truncated or corrupt: its first line claims {}, it has {}",
                   plural(*claimed, "point"), points);
  }
  if (points == 0 && !claimed) throw bad_file(source, "has no line of three numbers");
}

}  // namespace

FileInfo inspect_xyz(const Source& source) {
  FileInfo info;
  info.element_type = "f64";
  info.dim = 3;
  scan(source, [&](const Point&) {
    ++info.rows;
    return true;
  });
  return info;
}

Dataset read_xyz(const Source& source, const ReadOptions& options) {
  // Two passes, so that the points need no second copy; counting stops where reading will.
  const std::int64_t last = options.max_rows >= 0 && options.max_rows <= INT64_MAX - options.first_row
                                ? options.first_row + options.max_rows
                                : INT64_MAX;
  std::int64_t rows = 0;
  scan(source, [&](const Point&) { return ++rows < last; });
  const RowRange range = wanted_rows(source, options, rows);
  Dataset result = Dataset::allocate(Dtype::f64, range.count, 3);
  auto* to = static_cast<double*>(result.mutable_data());
  std::int64_t row = 0;
  if (range.count > 0) {
    scan(source, [&](const Point& point) {
      if (row >= range.first) to = std::copy(point.begin(), point.end(), to);
      return ++row < range.first + range.count;
    });
  }
  return result;
}

void write_xyz(AtomicFile& out, const DatasetView& data) {
  check_points("xyz", data);
  if (data.rows == 0) {
    out.write("0\n");
    return;
  }
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
