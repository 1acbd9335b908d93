/// @file
/// Graphs and product quantizers of other libraries, read and written: a graph that somebody built elsewhere
/// is searched by Kith, and one of Kith's by those libraries (docs/vamana.md, docs/formats.md).
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>
#include <vector>

#include "kith/codes.hpp"
#include "kith/dataset.hpp"
#include "kith/execution.hpp"
#include "kith/metric.hpp"
#include "kith/vamana.hpp"

namespace kith {

/// Whose file it is.
enum class GraphFormat : std::uint8_t {
  diskann,       ///< DiskANN's index in memory: the graph, with the rows in FILE.data
  diskann_disk,  ///< DiskANN's index on disk: sectors of rows and their neighbours
  hnswlib,       ///< HNSW as hnswlib (and cuVS) saves it
  faiss,         ///< faiss IndexHNSWFlat
  bang,          ///< BANG: P_disk.bin with P_disk_metadata.bin beside it; read only
};
inline constexpr GraphFormat all_graph_formats[] = {GraphFormat::diskann, GraphFormat::diskann_disk,
                                                    GraphFormat::hnswlib, GraphFormat::faiss,
                                                    GraphFormat::bang};

/// "diskann", "diskann-disk", "hnswlib", "faiss" or "bang".
std::string_view name(GraphFormat format) noexcept;

/// Parses those names. @throws InvalidArgument
GraphFormat parse_graph_format(std::string_view text);

/// The format of a file by its first bytes, its size and, for bang, its name.
/// @throws IoError when it is none of them, or cannot be read
GraphFormat guess_graph_format(const std::filesystem::path& path);

struct GraphImport {
  std::optional<GraphFormat> format{};  ///< default: guess_graph_format
  /// Default: what the file says, as faiss does; sqeuclidean where it says nothing. What contradicts the file
  /// is refused; cosine never does, since other libraries search rows of length 1 for it.
  std::optional<Metric> metric{};
  /// Element type of the file's own rows where the format leaves it open; default: f32 where that fits.
  std::optional<Dtype> dtype{};
  /// The rows, in the order of the graph's nodes; default: those of the file, or of FILE.data.
  std::optional<Dataset> vectors{};
  /// Takes hnswlib's labels of any values: rows are in the order of their labels, which come with the graph.
  /// Otherwise labels that are not 0 to n - 1, each once, are refused.
  bool any_labels = false;
};

struct ImportedGraph {
  Vamana index;
  GraphFormat format = GraphFormat::diskann;
  /// The label of each row, ascending; empty where it is the row's number.
  std::vector<std::int64_t> labels{};
};

/// A graph of another library over its rows, as an index like any other.
///
/// Neighbours stay as they are, in their order, also those of equal rows. Codes are Kith's, and so is the
/// walk, which begins where the file's own search does and, in an HNSW graph, at nodes of its upper layers
/// (one in 4,096, 16 to 256) in place of the layers. The recall curve is measured as after a build.
/// @throws IoError when a file is missing, truncated, corrupt or foreign; InvalidArgument for rows that do
/// not
///   fit, a row with a NaN, labels or deleted elements as above; OutOfMemory, DeviceError, Cancelled
ImportedGraph import_graph(const std::filesystem::path& path, const GraphImport& options = {},
                           const Execution& execution = {});

/// Writes the graph as another library's index: every row a node. Rows that are one node of the graph follow
/// each other in a chain that their node leads to; rows with a NaN are nodes that nothing leads to. The
/// layers of an imported HNSW graph are kept; other graphs have one. hnswlib and faiss get float32, for
/// cosine of rows divided by their norms, unless those are 1.
/// @return the files written: all of them, or none
/// @throws InvalidArgument for bang, and for rows that the format cannot hold exactly; IoError, OutOfMemory,
///   Cancelled
std::vector<std::filesystem::path> export_graph(const Vamana& index, const std::filesystem::path& path,
                                                GraphFormat format, const Execution& execution = {});

/// True when a file looks like DiskANN's P_pq_pivots.bin.
bool is_pq_pivots(const std::filesystem::path& path);

/// The quantizer of P_pq_pivots.bin, with the rotation of P_pq_pivots.bin_rotation_matrix.bin where that is
/// there (OPQ). Its codes are P_pq_compressed.bin, which is u8bin.
/// @param dtype of the rows it is for, which the file does not say
/// @throws IoError when the file is missing, truncated, corrupt or foreign; InvalidArgument, Cancelled
Quantizer import_pq(const std::filesystem::path& path, Metric metric = Metric::sqeuclidean,
                    Dtype dtype = Dtype::f32, const Execution& execution = {});

/// Writes such a file, and the rotation beside it where there is one.
/// @return the files written: all of them, or none
/// @throws InvalidArgument for another kind of codes; IoError, Cancelled
std::vector<std::filesystem::path> export_pq(const Quantizer& quantizer, const std::filesystem::path& path,
                                             const Execution& execution = {});

}  // namespace kith
