// What commands on a saved index and a file of rows have in common.
#pragma once

#include <string>
#include <string_view>

#include "common.hpp"
#include "input.hpp"

namespace kith::cli {

/// -o of the commands that write an index; `what` it is: "The index file".
void add_index_output_option(CLI::App& command, Common& common, std::string& output,
                             const std::string& what = "The index file");

/// Opens both, at most one of them standard input. @return what the index says of itself
/// @throws IoError for a file that is none, InvalidArgument
FileInfo open_index(const Common& common, std::string& index, Source& rows, const std::string& input_format);

/// The graph that an index is; `what` says what only graphs do: "takes further rows". `file` may be empty.
/// @throws InvalidArgument for another type of index
const Vamana& graph_of(const AnyIndex& index, const std::string& file, std::string_view what);

/// Rows in the element type of the index, which must hold them exactly; a note says so where it is another.
/// @param what "queries" @param done "searched"
/// @throws InvalidArgument
Dataset as_the_index(const Common& common, const Dataset& rows, Dtype dtype, std::string_view what,
                     std::string_view done);

}  // namespace kith::cli
