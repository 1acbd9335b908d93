// What a file of another library holds, read from its bytes; one file a format.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "graph_files/layers.hpp"
#include "io/format.hpp"
#include "kith/graph_files.hpp"
#include "vamana/graph.hpp"

namespace kith::graph_files {

/// A graph as its file has it, every edge within its nodes.
struct GraphFile {
  vamana::Graph graph;
  std::optional<Metric> metric;      ///< what the file says: sqeuclidean or inner_product
  Dataset vectors;                   ///< rows of the nodes; of dimension 0 where the file has none
  std::vector<std::int64_t> labels;  ///< of the nodes; empty: their numbers
  Layers layers;                     ///< of HNSW; else empty
  std::int64_t build_list = 0;       ///< list size while it was built; 0: not known
};

/// What a reader is told besides the bytes.
struct Hints {
  std::optional<Dtype> dtype{};  ///< of the file's rows
  bool vectors = true;           ///< whether the file's rows are wanted
  Execution execution = {};      ///< memory limit, cancellation
};

// One reader a format. @throws IoError, InvalidArgument, OutOfMemory, Cancelled
GraphFile read_diskann(const io::Source& source, const Hints& hints);
GraphFile read_diskann_disk(const io::Source& source, const Hints& hints);
GraphFile read_hnswlib(const io::Source& source, const Hints& hints);
GraphFile read_faiss(const io::Source& source, const Hints& hints);
GraphFile read_bang(const io::Source& source, const io::Source& metadata, const Hints& hints);

// Whether the first bytes and the size are the format's.
bool is_diskann(const io::Source& source);
bool is_diskann_disk(const io::Source& source);
bool is_hnswlib(const io::Source& source);
bool is_faiss(const io::Source& source);

/// The files that are read besides one of this format because of its name, whether they are there or not.
/// @param rows whether the graph's own are wanted
std::vector<std::filesystem::path> files_beside(const std::filesystem::path& path, GraphFormat format,
                                                bool rows);
/// The rotation of a product quantizer.
std::filesystem::path rotation_beside(const std::filesystem::path& pivots);

/// P.data: rows, columns, values. The element size follows from the file's size.
/// @throws IoError, InvalidArgument where the element type is open and not told
Dataset read_data(const io::Source& source, std::optional<Dtype> dtype);

/// Rows are in the order of their labels from here on, and those are ascending, or gone where they are 0 to
/// n - 1. @throws IoError for a label that comes twice
void order_by_labels(GraphFile& file, const io::Source& source);

/// Bytes of the graph, and of what else is taken, against the limit; then the edges, all no_node.
/// @param most the longest list of neighbours
/// @throws InvalidArgument for longer ones than Kith's graphs have, OutOfMemory
void take_edges(GraphFile& file, const io::Source& source, std::int64_t nodes, std::int64_t most,
                std::uint64_t more, const Hints& hints);

/// One node's neighbours from `from`, `count` of them, after the check that they are nodes.
/// @throws IoError
void copy_edges(GraphFile& file, const io::Source& source, std::int64_t node, const std::byte* from,
                std::int64_t count);

/// A count of nodes as it is used from here on. @throws IoError
std::int64_t check_nodes(const io::Source& source, std::uint64_t nodes);

/// f32, i8, u8 and f16 by their size, where the size alone leaves it open: what was told, else the first.
/// @throws InvalidArgument for one byte without a hint, or a hint of another size
Dtype dtype_of_size(const io::Source& source, std::uint64_t bytes, std::optional<Dtype> told);

}  // namespace kith::graph_files
