// Writes DiskANN's indexes; diskann.cpp and diskann_disk.cpp have the layouts.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include <fmt/format.h>

#include "core/visit_dtype.hpp"
#include "graph_files/written.hpp"
#include "kith/error.hpp"
#include "kith/vamana.hpp"

namespace kith::graph_files {

RowBytes::RowBytes(const DatasetView& rows, Dtype dtype, bool units)
    : rows_(rows),
      dtype_(dtype),
      units_(units),
      bytes_(static_cast<std::size_t>(rows.dim) * size_of(dtype)) {}

const void* RowBytes::of(std::int64_t row) {
  if (dtype_ == rows_.dtype && !units_) return rows_.row(row);
  auto* floats = reinterpret_cast<float*>(bytes_.data());
  double square = 0;
  visit_dtype(rows_.dtype, [&]<class T>(T) {
    const auto* values = static_cast<const T*>(rows_.row(row));
    for (std::int64_t j = 0; j < rows_.dim; ++j) {
      const double value = to_double(values[j]);
      floats[j] = static_cast<float>(value);
      square += value * value;
    }
  });
  // Rows that somebody has divided by their norms already keep their bits.
  constexpr double nearly_one = 1e-5;
  if (units_ && square > 0 && std::abs(square - 1) > nearly_one) {
    const double factor = 1 / std::sqrt(square);
    for (std::int64_t j = 0; j < rows_.dim; ++j) floats[j] = static_cast<float>(floats[j] * factor);
  }
  return bytes_.data();
}

void check_floats(const Written& written, std::string_view format) {
  if (written.rows.dtype != Dtype::f64) return;
  throw InvalidArgument(fmt::format(
      "the rows are f64, {} keeps float32; round them (kith convert --dtype f32 --round) and build the "
      "graph over those",
      format));
}

Dtype diskann_dtype(const Written& written) {
  check_floats(written, "DiskANN");
  const Dtype dtype = written.rows.dtype;
  return dtype == Dtype::i8 || dtype == Dtype::u8 ? dtype : Dtype::f32;
}

namespace {

std::uint32_t u32(std::int64_t value) {
  return static_cast<std::uint32_t>(value);
}
std::uint64_t u64(std::int64_t value) {
  return static_cast<std::uint64_t>(value);
}

}  // namespace

void write_diskann(AtomicFile& out, const Written& written, ProgressCounter& progress) {
  const RowGraph& graph = written.graph;
  std::int64_t bytes = 24;
  for (std::int64_t i = 0; i < graph.rows; ++i) bytes += 4 + 4 * graph.degree(i);
  put(out, u64(bytes));
  put(out, u32(graph.max_degree));
  put(out, graph.start);
  put(out, std::uint64_t{0});
  for (std::int64_t i = 0; i < graph.rows; ++i) {
    const std::int64_t degree = graph.degree(i);
    put(out, u32(degree));
    out.write(graph.of(i), static_cast<std::size_t>(degree) * 4);
    progress.advance(1);
  }
}

void write_diskann_data(AtomicFile& out, const Written& written, ProgressCounter& progress) {
  RowBytes rows(written.rows, diskann_dtype(written), false);
  put(out, u32(written.rows.rows));
  put(out, u32(written.rows.dim));
  for (std::int64_t i = 0; i < written.rows.rows; ++i) {
    out.write(rows.of(i), rows.size());
    progress.advance(1);
  }
}

void write_diskann_disk(AtomicFile& out, const Written& written, ProgressCounter& progress) {
  constexpr std::int64_t sector = 4096;
  const RowGraph& graph = written.graph;
  RowBytes rows(written.rows, diskann_dtype(written), false);
  const std::int64_t node_bytes = static_cast<std::int64_t>(rows.size()) + 4 + 4 * graph.max_degree;
  const std::int64_t a_sector = sector / node_bytes;
  const std::int64_t sectors_each = (node_bytes + sector - 1) / sector;
  const std::int64_t sectors =
      1 + (a_sector > 0 ? (graph.rows + a_sector - 1) / a_sector : graph.rows * sectors_each);
  static constexpr std::array<char, sector> zeros{};
  constexpr std::uint32_t fields = 9;
  put(out, fields);
  put(out, std::uint32_t{1});
  for (const std::int64_t field :
       {graph.rows, written.rows.dim, std::int64_t{graph.start}, node_bytes, a_sector, std::int64_t{0},
        std::int64_t{0}, std::int64_t{0}, sectors * sector}) {
    put(out, u64(field));
  }
  const auto fill_sector = [&] {
    const auto over = static_cast<std::size_t>(out.size() % sector);
    if (over > 0) out.write(zeros.data(), sector - over);
  };
  for (std::int64_t i = 0; i < graph.rows; ++i) {
    if (a_sector == 0 || i % a_sector == 0) fill_sector();
    const std::int64_t degree = graph.degree(i);
    out.write(rows.of(i), rows.size());
    put(out, u32(degree));
    out.write(graph.of(i), static_cast<std::size_t>(degree) * 4);
    for (std::int64_t j = degree; j < graph.max_degree; ++j) put(out, std::uint32_t{0});
    progress.advance(1);
  }
  fill_sector();
}

}  // namespace kith::graph_files
