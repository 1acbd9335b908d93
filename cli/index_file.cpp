#include "index_file.hpp"

#include <fmt/format.h>

#include "stream.hpp"

namespace kith::cli {

void add_index_output_option(CLI::App& command, Common& common, std::string& output,
                             const std::string& what) {
  common.file(command.add_option("-o,--output", output, what + ", written whole or not at all")
                  ->type_name("FILE")
                  ->required()
                  ->group("Index"));
}

FileInfo open_index(const Common& common, std::string& index, Source& rows, const std::string& input_format) {
  if (index == "-" && rows.path == "-") {
    throw InvalidArgument(
        "standard input ('-') can be read only once; name a file for the index or for the rows");
  }
  open_input(common, index);
  open_inputs(common, {&rows}, input_format);
  FileInfo info = inspect(index);
  if (info.format != FileFormat::index) {
    throw IoError(
        fmt::format("'{}' is {}, not an index; make one with kith build, or search it with kith knn",
                    shown(index), name(info.format)));
  }
  return info;
}

const Vamana& graph_of(const AnyIndex& index, const std::string& file, std::string_view what) {
  const auto* graph = index.get_if<Vamana>();
  if (graph == nullptr) {
    throw InvalidArgument(fmt::format("{} holds an index of type {}; only the index {} {}",
                                      file.empty() ? "the file" : "'" + shown(file) + "'", index.type(),
                                      Vamana::index_type.name, what));
  }
  return *graph;
}

Dataset as_the_index(const Common& common, const Dataset& rows, Dtype dtype, std::string_view what,
                     std::string_view done) {
  const Dtype from = rows.dtype();
  if (from == dtype) return rows;
  try {
    Dataset converted = convert(rows, dtype);
    note(common, fmt::format("the {} were {} and are {} as {}, which holds them exactly", what, name(from),
                             done, name(dtype)));
    return converted;
  } catch (const InvalidArgument& error) {
    // The remedies of a conversion are not those of a search.
    const std::string why = error.what();
    throw InvalidArgument(
        fmt::format("the {0} are {1}, the index is {2}: {3}; build the index from rows of {1}, or "
                    "round the {0} first: kith convert --dtype {2} --round",
                    what, name(from), name(dtype), why.substr(0, why.find(';'))));
  }
}

}  // namespace kith::cli
