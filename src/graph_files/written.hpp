// What the writers of all formats are given.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/atomic_file.hpp"
#include "core/parallel.hpp"
#include "graph_files/layers.hpp"
#include "graph_files/row_graph.hpp"
#include "kith/dataset.hpp"
#include "kith/metric.hpp"

namespace kith::graph_files {

/// A graph to be written, and what goes with it.
struct Written {
  RowGraph graph;
  DatasetView rows;
  Metric metric = Metric::sqeuclidean;
  std::int64_t build_list = 0;
  std::optional<Layers> layers;  ///< of an imported HNSW graph
};

/// Rows as a format keeps them, one after the other.
class RowBytes {
 public:
  /// @param units whether rows for cosine are divided by their norms
  RowBytes(const DatasetView& rows, Dtype dtype, bool units);

  std::size_t size() const { return bytes_.size(); }
  const void* of(std::int64_t row);

 private:
  const DatasetView& rows_;
  Dtype dtype_;
  bool units_;
  std::vector<std::byte> bytes_;
};

/// @throws InvalidArgument where f32 does not hold the rows exactly
void check_floats(const Written& written, std::string_view format);
/// f32, or the rows' own type where DiskANN knows it. @throws InvalidArgument
Dtype diskann_dtype(const Written& written);

// One writer a format. @throws IoError, Cancelled
void write_diskann(AtomicFile& out, const Written& written, ProgressCounter& progress);
void write_diskann_data(AtomicFile& out, const Written& written, ProgressCounter& progress);
void write_diskann_disk(AtomicFile& out, const Written& written, ProgressCounter& progress);
void write_hnswlib(AtomicFile& out, const Written& written, ProgressCounter& progress);
void write_faiss(AtomicFile& out, const Written& written, ProgressCounter& progress);

/// The layers an imported graph came with, else the base alone, with the start as its entry.
Layers layers_of(const Written& written);

/// A number as its bytes.
template <class T>
void put(AtomicFile& out, T value) {
  out.write(&value, sizeof value);
}

}  // namespace kith::graph_files
