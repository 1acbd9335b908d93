// Graph files of other libraries, byte by byte from their layouts: starting points of tests and fuzzers.
#pragma once

#include <cmath>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace kith::test {

/// Little-endian bytes of a number.
template <class T>
std::string raw_bytes(T value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}
template <class T>
std::string raw_bytes(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

/// A small graph over small rows, made by a formula.
struct SmallGraph {
  std::uint32_t nodes = 40;
  std::uint32_t dim = 6;
  std::uint32_t max_degree = 8;
  std::uint32_t start = 7;
  std::vector<std::vector<std::uint32_t>> edges;
  std::vector<float> rows;
  std::vector<int> levels;  ///< of HNSW: layers above the base

  SmallGraph() {
    for (std::uint32_t i = 0; i < nodes; ++i) {
      std::vector<std::uint32_t> its = {(i + 1) % nodes};  // a ring: everything can be reached
      for (std::uint32_t j = 1; j < max_degree - i % 3; ++j) its.push_back((i * 7 + j * 11 + 3) % nodes);
      edges.push_back(its);
      for (std::uint32_t d = 0; d < dim; ++d)
        rows.push_back(static_cast<float>((i * 37 + d * 11) % 23) - 9.5F);
      levels.push_back(i == start ? 2 : i % 5 == 0 ? 1 : 0);
    }
  }
  std::vector<float> row(std::uint32_t i) const {
    const auto first = rows.begin() + static_cast<std::ptrdiff_t>(i * dim);
    return {first, first + static_cast<std::ptrdiff_t>(dim)};
  }
  /// Neighbours in a layer above the base, within it.
  std::vector<std::uint32_t> above(std::uint32_t node, int level, std::size_t most) const {
    std::vector<std::uint32_t> its;
    for (std::uint32_t j = 1; j < nodes && its.size() < most - node % 2; ++j) {
      const std::uint32_t other = (node + j) % nodes;
      if (levels[other] >= level) its.push_back(other);
    }
    return its;
  }
};

inline std::string diskann_bytes(const SmallGraph& g, bool old_header = false) {
  std::string lists;
  for (const auto& its : g.edges) lists += raw_bytes(static_cast<std::uint32_t>(its.size())) + raw_bytes(its);
  const std::uint64_t header = old_header ? 16 : 24;
  std::string out = raw_bytes(header + lists.size()) + raw_bytes(g.max_degree) + raw_bytes(g.start);
  if (!old_header) out += raw_bytes(std::uint64_t{0});
  return out + lists;
}

inline std::string data_bytes(const SmallGraph& g) {
  return raw_bytes(g.nodes) + raw_bytes(g.dim) + raw_bytes(g.rows);
}

/// Row, count, neighbours, zeros: a node on disk and of BANG.
inline std::string node_bytes(const SmallGraph& g, std::uint32_t i) {
  std::string out =
      raw_bytes(g.row(i)) + raw_bytes(static_cast<std::uint32_t>(g.edges[i].size())) + raw_bytes(g.edges[i]);
  return out + std::string(4 * (g.max_degree - g.edges[i].size()), '\0');
}

/// @param rust its header, with sectors of `sector` bytes and `associated` bytes behind each node's lists
inline std::string diskann_disk_bytes(const SmallGraph& g, bool rust = false, std::uint64_t sector = 4096,
                                      std::uint64_t associated = 0) {
  const std::uint64_t length = 4 * std::uint64_t{g.dim} + 4 + 4 * std::uint64_t{g.max_degree} + associated;
  const std::uint64_t a_sector = sector / length;
  std::string nodes;
  for (std::uint32_t i = 0; i < g.nodes; ++i) {
    if (a_sector == 0 || i % a_sector == 0) nodes.resize((nodes.size() + sector - 1) / sector * sector);
    nodes += node_bytes(g, i) + std::string(associated, '\7');
  }
  nodes.resize((nodes.size() + sector - 1) / sector * sector);
  std::string header = raw_bytes(std::uint32_t{9}) + raw_bytes(std::uint32_t{1});
  for (const std::uint64_t field :
       {std::uint64_t{g.nodes}, std::uint64_t{g.dim}, std::uint64_t{g.start}, length, a_sector,
        std::uint64_t{0}, std::uint64_t{0}, std::uint64_t{0}, sector + nodes.size()}) {
    header += raw_bytes(field);
  }
  if (rust) {
    header +=
        raw_bytes(associated) + raw_bytes(sector) + raw_bytes(std::uint32_t{1}) + raw_bytes(std::uint32_t{0});
  }
  header.resize(sector);
  return header + nodes;
}

inline std::string bang_metadata_bytes(const SmallGraph& g) {
  return raw_bytes(std::uint64_t{g.start}) + raw_bytes(std::uint64_t{4 * g.dim + 4 + 4 * g.max_degree}) +
         raw_bytes(std::int32_t{2}) + raw_bytes(g.dim) + raw_bytes(g.max_degree) + raw_bytes(g.nodes);
}
inline std::string bang_bytes(const SmallGraph& g) {
  std::string out;
  for (std::uint32_t i = 0; i < g.nodes; ++i) out += node_bytes(g, i);
  return out;
}

/// @param labels of the elements in their order; empty: their numbers
inline std::string hnswlib_bytes(const SmallGraph& g, const std::vector<std::uint64_t>& labels = {}) {
  const std::uint64_t m = g.max_degree / 2;
  const std::uint64_t vector = 4 + 4 * std::uint64_t{g.max_degree};
  const std::uint64_t label = vector + 4 * std::uint64_t{g.dim};
  std::string out;
  for (const std::uint64_t field :
       {std::uint64_t{0}, std::uint64_t{g.nodes}, std::uint64_t{g.nodes}, label + 8, label, vector}) {
    out += raw_bytes(field);
  }
  out += raw_bytes(std::int32_t{2}) + raw_bytes(g.start);
  for (const std::uint64_t field : {m, std::uint64_t{g.max_degree}, m}) out += raw_bytes(field);
  out += raw_bytes(1 / std::log(static_cast<double>(m))) + raw_bytes(std::uint64_t{77});
  for (std::uint32_t i = 0; i < g.nodes; ++i) {
    out += raw_bytes(static_cast<std::uint32_t>(g.edges[i].size())) + raw_bytes(g.edges[i]) +
           std::string(4 * (g.max_degree - g.edges[i].size()), '\0') + raw_bytes(g.row(i)) +
           raw_bytes(labels.empty() ? std::uint64_t{i} : labels[i]);
  }
  for (std::uint32_t i = 0; i < g.nodes; ++i) {
    out += raw_bytes(static_cast<std::uint32_t>(static_cast<std::uint64_t>(g.levels[i]) * (4 + 4 * m)));
    for (int level = 1; level <= g.levels[i]; ++level) {
      const auto its = g.above(i, level, m);
      out += raw_bytes(static_cast<std::uint32_t>(its.size())) + raw_bytes(its) +
             std::string(4 * (m - its.size()), '\0');
    }
  }
  return out;
}

inline std::string faiss_header(const char* fourcc, const SmallGraph& g, std::int32_t metric) {
  return fourcc + raw_bytes(static_cast<std::int32_t>(g.dim)) + raw_bytes(std::int64_t{g.nodes}) +
         raw_bytes(std::int64_t{1} << 20U) + raw_bytes(std::int64_t{1} << 20U) + raw_bytes(std::uint8_t{1}) +
         raw_bytes(metric);
}

inline std::string faiss_bytes(const SmallGraph& g, std::int32_t metric = 1) {
  const auto m = static_cast<std::int32_t>(g.max_degree / 2);
  const auto base = static_cast<std::int32_t>(g.max_degree);
  const std::vector<double> shares = {0.75, 0.1875, 0.046875};
  const std::vector<std::int32_t> first = {0, base, base + m, base + 2 * m};
  std::vector<std::int32_t> levels;
  std::vector<std::uint64_t> offsets = {0};
  std::vector<std::uint32_t> neighbors;
  const auto append = [&](std::vector<std::uint32_t> its, std::int32_t width) {
    its.resize(static_cast<std::size_t>(width), 0xFFFFFFFFU);
    neighbors.insert(neighbors.end(), its.begin(), its.end());
  };
  for (std::uint32_t i = 0; i < g.nodes; ++i) {
    levels.push_back(g.levels[i] + 1);
    append(g.edges[i], base);
    for (int level = 1; level <= g.levels[i]; ++level)
      append(g.above(i, level, static_cast<std::size_t>(m)), m);
    offsets.push_back(neighbors.size());
  }
  const auto vec = [](const auto& values) {
    return raw_bytes(std::uint64_t{values.size()}) + raw_bytes(values);
  };
  std::string out = faiss_header("IHNf", g, metric) + vec(shares) + vec(first) + vec(levels) + vec(offsets) +
                    vec(neighbors);
  for (const std::int32_t number : {static_cast<std::int32_t>(g.start), 2, 55, 33, 1})
    out += raw_bytes(number);
  return out + faiss_header(metric == 1 ? "IxF2" : "IxFI", g, metric) + vec(g.rows);
}

/// DiskANN's pivots for rows of dimension 6 in parts of 1, 3 and 2: none of Kith's own.
inline std::string pq_pivots_bytes() {
  constexpr std::uint32_t dim = 6;
  const std::uint64_t mean = 4096 + 8 + 4 * 256 * dim;
  const std::uint64_t parts = mean + 8 + 4 * dim;
  std::string out = raw_bytes(std::uint32_t{4}) + raw_bytes(std::uint32_t{1});
  for (const std::uint64_t offset : {std::uint64_t{4096}, mean, parts, parts + 8 + 16})
    out += raw_bytes(offset);
  out.resize(4096);
  out += raw_bytes(std::uint32_t{256}) + raw_bytes(dim);
  for (std::uint32_t i = 0; i < 256 * dim; ++i)
    out += raw_bytes(static_cast<float>(i * 2654435761U % 1001) / 64);
  out += raw_bytes(dim) + raw_bytes(std::uint32_t{1});
  for (std::uint32_t d = 0; d < dim; ++d) out += raw_bytes(0.5F * static_cast<float>(d));
  out += raw_bytes(std::uint32_t{4}) + raw_bytes(std::uint32_t{1});
  return out + raw_bytes(std::vector<std::uint32_t>{0, 1, 4, 6});
}

/// A rotation of those six dimensions: a permutation with signs, and a turn by 30 degrees.
inline std::string rotation_bytes() {
  std::vector<float> matrix(36, 0.0F);
  const auto at = [&](std::size_t row, std::size_t column) -> float& { return matrix[row * 6 + column]; };
  at(0, 3) = 1;
  at(1, 0) = -1;
  at(2, 5) = 1;
  at(3, 1) = -1;
  at(4, 2) = at(5, 4) = static_cast<float>(std::sqrt(0.75));
  at(4, 4) = 0.5F;
  at(5, 2) = -0.5F;
  return raw_bytes(std::uint32_t{6}) + raw_bytes(std::uint32_t{6}) + raw_bytes(matrix);
}

/// One valid file of each format, by its name; bang: the metadata, then the graph.
inline std::map<std::string, std::vector<std::pair<std::string, std::string>>> graph_seeds() {
  const SmallGraph g;
  SmallGraph wide;  // a node in several sectors
  wide.dim = 1500;
  wide.nodes = 1;
  wide.max_degree = 4;
  wide.start = 0;
  wide.edges = {{0, 0}};
  wide.rows.assign(1500, 1.5F);
  return {{"diskann", {{"a", diskann_bytes(g)}, {"old", diskann_bytes(g, true)}}},
          {"diskann-disk",
           {{"a", diskann_disk_bytes(g)},
            {"rust", diskann_disk_bytes(g, true, 512, 8)},
            {"wide", diskann_disk_bytes(wide)}}},
          {"hnswlib", {{"a", hnswlib_bytes(g)}}},
          {"faiss", {{"a", faiss_bytes(g)}, {"product", faiss_bytes(g, 0)}}},
          {"bang", {{"a", bang_metadata_bytes(g) + bang_bytes(g)}}},
          {"diskann-pq", {{"a", pq_pivots_bytes()}}},
          {"rotation", {{"a", rotation_bytes()}}}};
}

}  // namespace kith::test
