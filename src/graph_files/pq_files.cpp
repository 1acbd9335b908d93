// import_pq and export_pq: DiskANN's files and Kith's product quantizers.
#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "codes/pq_parts.hpp"
#include "core/atomic_file.hpp"
#include "core/parallel.hpp"
#include "core/search_checks.hpp"
#include "graph_files/graph_file.hpp"
#include "graph_files/pq_pivots.hpp"
#include "graph_files/written.hpp"
#include "kith/error.hpp"
#include "kith/graph_files.hpp"

namespace kith {
namespace {

namespace fs = std::filesystem;
using codes::PqParts;

// From centroids side by side [count, dim] to part after part, or back: copies each part of each centroid.
template <class Copy>
void each_part(const std::vector<std::int64_t>& starts, std::int64_t count, const Copy& copy) {
  const std::int64_t dim = starts.back();
  for (std::size_t j = 0; j + 1 < starts.size(); ++j) {
    const std::int64_t length = starts[j + 1] - starts[j];
    for (std::int64_t c = 0; c < count; ++c) {
      copy(c * dim + starts[j], starts[j] * count + c * length, length);
    }
  }
}

template <class T>
void put_part(AtomicFile& out, std::int64_t rows, std::int64_t columns, std::span<const T> values) {
  graph_files::put(out, static_cast<std::uint32_t>(rows));
  graph_files::put(out, static_cast<std::uint32_t>(columns));
  out.write(values.data(), values.size_bytes());
}

void write_pivots(AtomicFile& out, const PqParts& parts) {
  constexpr std::int64_t count = 256;
  constexpr std::uint64_t start = 4096;
  const std::int64_t dim = parts.rows.dim;
  const auto d = static_cast<std::uint64_t>(dim);
  const auto cuts = static_cast<std::uint64_t>(parts.starts.size());
  const std::uint64_t mean = start + 8 + 4 * count * d;
  const std::uint64_t cut = mean + 8 + 4 * d;
  const std::array<std::uint64_t, 4> offsets = {start, mean, cut, cut + 8 + 4 * cuts};
  put_part<std::uint64_t>(out, 4, 1, offsets);
  static constexpr std::array<char, start> zeros{};
  out.write(zeros.data(), start - out.size());
  // No code names what stands behind fewer than 256 centroids: the last of them again.
  std::vector<float> pivots(static_cast<std::size_t>(count * dim));
  each_part(parts.starts, parts.count,
            [&](std::int64_t side_by_side, std::int64_t of_part, std::int64_t length) {
              std::copy_n(parts.centroids.begin() + of_part, length, pivots.begin() + side_by_side);
            });
  for (std::int64_t c = parts.count; c < count; ++c) {
    std::copy_n(pivots.begin() + (parts.count - 1) * dim, dim, pivots.begin() + c * dim);
  }
  put_part<float>(out, count, dim, pivots);
  const std::vector<float> floats(parts.mean.begin(), parts.mean.end());
  put_part<float>(out, dim, 1, floats);
  const std::vector<std::uint32_t> starts(parts.starts.begin(), parts.starts.end());
  put_part<std::uint32_t>(out, static_cast<std::int64_t>(cuts), 1, starts);
}

void write_rotation(AtomicFile& out, const PqParts& parts, StopRequest& stop) {
  const std::int64_t dim = parts.rows.dim;
  if (!parts.matrix.empty()) {
    put_part<float>(out, dim, dim, parts.matrix);
    return;
  }
  // Row i of the matrix is what becomes of the i-th unit vector.
  put_part<float>(out, dim, dim, {});
  std::vector<double> unit(static_cast<std::size_t>(dim));
  std::vector<double> scratch(unit.size());
  for (std::int64_t i = 0; i < dim; ++i) {
    stop.check();
    std::fill(unit.begin(), unit.end(), 0.0);
    unit[static_cast<std::size_t>(i)] = 1;
    parts.rotation->apply(unit.data(), scratch.data());
    const std::vector<float> row(unit.begin(), unit.end());
    out.write(row.data(), row.size() * sizeof(float));
  }
}

}  // namespace

fs::path graph_files::rotation_beside(const fs::path& pivots) {
  fs::path out = pivots;
  return out += "_rotation_matrix.bin";
}

bool is_pq_pivots(const fs::path& path) {
  return graph_files::looks_like_pq_pivots(io::open_source(path));
}

Quantizer import_pq(const fs::path& path, Metric metric, Dtype dtype, const Execution& execution) {
  const io::Source source = io::open_source(path, execution.cancelled);
  return or_out_of_memory(
      [&] { return fmt::format("the quantizer '{}'", source.name); },
      [&] {
        graph_files::PqPivots file = graph_files::read_pq_pivots(source);
        PqParts parts{.rows = {dtype, file.dim}, .metric = metric, .count = file.count};
        parts.mean.assign(file.mean.begin(), file.mean.end());
        parts.centroids.resize(file.pivots.size());
        each_part(file.starts, file.count,
                  [&](std::int64_t side_by_side, std::int64_t of_part, std::int64_t length) {
                    std::copy_n(file.pivots.begin() + side_by_side, length,
                                parts.centroids.begin() + of_part);
                  });
        parts.starts = std::move(file.starts);
        const fs::path rotation = graph_files::rotation_beside(source.path);
        std::error_code none;
        if (fs::exists(rotation, none)) {
          const io::Source matrix = io::open_source(rotation, execution.cancelled);
          if (execution.memory_limit > 0 && matrix.size() > execution.memory_limit) {
            throw OutOfMemory(
                fmt::format("the rotation '{}' takes {} bytes, the limit is {}; raise the limit", matrix.name,
                            matrix.size(), execution.memory_limit));
          }
          parts.matrix = graph_files::read_rotation(matrix, file.dim);
        }
        return std::move(parts).assemble();
      });
}

std::vector<fs::path> export_pq(const Quantizer& quantizer, const fs::path& path,
                                const Execution& execution) {
  const PqParts parts = PqParts::of(quantizer);
  StopRequest stop(execution);
  std::vector<fs::path> paths = {path};
  const bool rotated = !parts.matrix.empty() || parts.rotation != nullptr;
  if (rotated) paths.push_back(graph_files::rotation_beside(path));
  std::vector<AtomicFile> files;
  for (const auto& its : paths) files.emplace_back(its, execution.cancelled);
  write_pivots(files[0], parts);
  if (rotated) write_rotation(files[1], parts, stop);
  commit_all(files);
  return paths;
}

}  // namespace kith
