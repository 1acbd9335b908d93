// Sets of rows: a row number a line, or an npy of one dimension.
#include "kith/row_set.hpp"

#include <vector>

#include "core/plural.hpp"
#include "io/format.hpp"
#include "io/text.hpp"

namespace kith {

RowSet io::row_set_of(const Source& source, std::int64_t rows, const std::vector<std::int64_t>& numbers) {
  try {
    return RowSet::from_indices(rows, numbers);
  } catch (const InvalidArgument& error) {
    throw bad_file(source, "names {}", error.what());
  }
}

RowSet io::read_row_set(const Source& source, std::int64_t rows) {
  if (is_npy(source)) return read_row_set_npy(source, rows);
  std::vector<std::int64_t> numbers;
  std::string_view rest = source.text();
  FrontToBack pass(source);
  for (std::int64_t line_number = 1; !rest.empty(); ++line_number) {
    pass.reached(rest.data());
    std::string_view line = take_line(rest);
    line = line.substr(0, line.find('#'));
    const std::size_t first = line.find_first_not_of(" \t\r");
    if (first == std::string_view::npos) continue;
    line = line.substr(first, line.find_last_not_of(" \t\r") + 1 - first);
    const auto number = parse_number<std::int64_t>(line);
    if (!number) {
      throw bad_file(source,
                     "is not a set of rows: line {} is {} where the number of a row is needed; write a "
                     "number a line, or save a NumPy array of bool with a flag a row",
                     line_number, fmt::format("'{}'", line.substr(0, 40)));
    }
    numbers.push_back(*number);
  }
  return row_set_of(source, rows, numbers);
}

RowSet read_row_set(const std::filesystem::path& path, std::int64_t rows,
                    const std::function<bool()>& cancelled) {
  return io::read_row_set(io::open_source(path, cancelled), rows);
}

}  // namespace kith
