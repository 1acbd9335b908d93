// Writes HNSW for hnswlib and faiss; hnswlib.cpp and faiss.cpp have the layouts.
#include <algorithm>
#include <array>
#include <cmath>

#include "graph_files/written.hpp"
#include "vamana/graph.hpp"

namespace kith::graph_files {

using vamana::no_node;

Layers layers_of(const Written& written) {
  if (written.layers) return *written.layers;
  Layers layers;
  layers.max_degree = std::max<std::int64_t>(2, written.graph.max_degree / 2);
  layers.parameter = layers.max_degree;
  layers.build_list = written.build_list;
  layers.entry = written.graph.start;
  layers.levels.assign(static_cast<std::size_t>(written.graph.rows), 0);
  return layers;
}

namespace {

// A list of `width` neighbours with what stands for none behind them.
void put_list(AtomicFile& out, const std::uint32_t* edges, std::int64_t count, std::int64_t width,
              std::uint32_t none) {
  out.write(edges, static_cast<std::size_t>(count) * 4);
  for (std::int64_t j = count; j < width; ++j) put(out, none);
}

std::int64_t length(const std::uint32_t* edges, std::int64_t width) {
  return std::find(edges, edges + width, no_node) - edges;
}

// The share of nodes whose highest level is this one, as faiss draws them: in float, up to a share of 1e-9.
std::vector<double> shares(std::int64_t parameter, std::size_t least) {
  const double scale = 1 / std::log(static_cast<double>(std::max<std::int64_t>(2, parameter)));
  std::vector<double> out;
  for (int level = 0;; ++level) {
    const auto share = static_cast<float>(std::exp(-level / scale) * (1 - std::exp(-1 / scale)));
    if (share < 1e-9F && out.size() >= least) return out;
    out.push_back(share);
  }
}

void put_index_header(AtomicFile& out, const char* fourcc, const Written& written, bool product) {
  out.write(fourcc, 4);
  put(out, static_cast<std::int32_t>(written.rows.dim));
  put(out, written.rows.rows);
  put(out, std::int64_t{1} << 20U);
  put(out, std::int64_t{1} << 20U);
  put(out, std::uint8_t{1});
  put(out, std::int32_t{product ? 0 : 1});
}

}  // namespace

void write_hnswlib(AtomicFile& out, const Written& written, ProgressCounter& progress) {
  const RowGraph& graph = written.graph;
  const Layers layers = layers_of(written);
  RowBytes rows(written.rows, Dtype::f32, written.metric == Metric::cosine);
  const auto count = static_cast<std::uint64_t>(graph.rows);
  const auto most = static_cast<std::uint64_t>(graph.max_degree);
  const std::uint64_t vector = 4 + 4 * most;
  const std::uint64_t label = vector + rows.size();
  put(out, std::uint64_t{0});
  put(out, count);
  put(out, count);
  put(out, label + 8);
  put(out, label);
  put(out, vector);
  put(out, static_cast<std::int32_t>(layers.top()));
  put(out, count > 0 ? layers.entry : no_node);
  put(out, static_cast<std::uint64_t>(layers.max_degree));
  put(out, most);
  put(out, static_cast<std::uint64_t>(layers.parameter));
  put(out, layers.multiplier > 0
               ? layers.multiplier
               : 1 / std::log(static_cast<double>(std::max<std::int64_t>(2, layers.parameter))));
  put(out, static_cast<std::uint64_t>(layers.build_list));
  for (std::int64_t i = 0; i < graph.rows; ++i) {
    const std::int64_t degree = graph.degree(i);
    put(out, static_cast<std::uint16_t>(degree));
    put(out, std::uint16_t{0});
    put_list(out, graph.of(i), degree, graph.max_degree, 0);
    out.write(rows.of(i), rows.size());
    put(out, static_cast<std::uint64_t>(i));
    progress.advance(1);
  }
  const std::uint32_t* above = layers.edges.data();
  for (const std::uint8_t levels : layers.levels) {
    put(out, static_cast<std::uint32_t>(levels * (4 + 4 * layers.max_degree)));
    for (int level = 0; level < levels; ++level, above += layers.max_degree) {
      const std::int64_t degree = length(above, layers.max_degree);
      put(out, static_cast<std::uint16_t>(degree));
      put(out, std::uint16_t{0});
      put_list(out, above, degree, layers.max_degree, 0);
    }
  }
}

void write_faiss(AtomicFile& out, const Written& written, ProgressCounter& progress) {
  const RowGraph& graph = written.graph;
  Layers layers = layers_of(written);
  const auto count = static_cast<std::uint64_t>(graph.rows);
  const auto levels = static_cast<std::size_t>(std::int64_t{layers.top()} + 1);
  if (layers.probabilities.size() < levels || layers.probabilities.empty()) {
    layers.probabilities = shares(layers.parameter, std::max<std::size_t>(1, levels));
  }
  const bool product = written.metric == Metric::inner_product || written.metric == Metric::cosine;
  put_index_header(out, "IHNf", written, product);
  put(out, static_cast<std::uint64_t>(layers.probabilities.size()));
  for (const double share : layers.probabilities) put(out, share);
  // Where neighbours of level 0, 1, ... begin in a node's.
  put(out, static_cast<std::uint64_t>(layers.probabilities.size() + 1));
  const auto first = [&](std::int64_t level) {
    return level == 0 ? 0 : graph.max_degree + (level - 1) * layers.max_degree;
  };
  for (std::size_t level = 0; level <= layers.probabilities.size(); ++level) {
    put(out, static_cast<std::int32_t>(first(static_cast<std::int64_t>(level))));
  }
  put(out, count);
  for (const std::uint8_t above : layers.levels) put(out, std::int32_t{above} + 1);
  put(out, count + 1);
  std::uint64_t offset = 0;
  put(out, offset);
  for (const std::uint8_t above : layers.levels)
    put(out, offset += static_cast<std::uint64_t>(first(above + 1)));
  put(out, offset);
  const std::uint32_t* above = layers.edges.data();
  for (std::int64_t i = 0; i < graph.rows; ++i) {
    put_list(out, graph.of(i), graph.degree(i), graph.max_degree, no_node);
    const std::int64_t more = layers.levels[static_cast<std::size_t>(i)] * layers.max_degree;
    out.write(above, static_cast<std::size_t>(more) * 4);
    above += more;
    progress.advance(1);
  }
  constexpr std::int64_t usual_search_list = 16;
  put(out, count > 0 ? static_cast<std::int32_t>(layers.entry) : std::int32_t{-1});
  put(out, static_cast<std::int32_t>(layers.top()));
  put(out, static_cast<std::int32_t>(layers.build_list));
  put(out, static_cast<std::int32_t>(layers.search_list > 0 ? layers.search_list : usual_search_list));
  put(out, std::int32_t{1});

  put_index_header(out, product ? "IxFI" : "IxF2", written, product);
  put(out, count * static_cast<std::uint64_t>(written.rows.dim));
  RowBytes rows(written.rows, Dtype::f32, written.metric == Metric::cosine);
  for (std::int64_t i = 0; i < graph.rows; ++i) out.write(rows.of(i), rows.size());
}

}  // namespace kith::graph_files
