#include "graph_files/layers.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <string>

#include <fmt/format.h>

#include "io/bytes.hpp"
#include "kith/error.hpp"
#include "vamana/graph.hpp"
#include "vamana/tuning.hpp"

namespace kith::graph_files {
namespace {

constexpr std::uint64_t version = 1;

// Numbers before the arrays, in this order.
struct Packed {
  std::uint64_t version, graph_hash, max_degree, parameter, build_list, search_list;
  double multiplier;
  std::uint64_t entry, probabilities, levels, edges;
};
static_assert(sizeof(Packed) == 88);

}  // namespace

int Layers::top() const {
  return levels.empty() ? -1 : *std::max_element(levels.begin(), levels.end());
}

std::vector<std::byte> pack(const Layers& layers, std::uint64_t graph_hash) {
  std::vector<std::byte> out;
  if (layers.empty()) return out;
  const Packed packed = {version,
                         graph_hash,
                         static_cast<std::uint64_t>(layers.max_degree),
                         static_cast<std::uint64_t>(layers.parameter),
                         static_cast<std::uint64_t>(layers.build_list),
                         static_cast<std::uint64_t>(layers.search_list),
                         layers.multiplier,
                         layers.entry,
                         layers.probabilities.size(),
                         layers.levels.size(),
                         layers.edges.size()};
  const auto probabilities = std::as_bytes(std::span(layers.probabilities));
  const auto edges = std::as_bytes(std::span(layers.edges));
  const auto levels = std::as_bytes(std::span(layers.levels));
  out.resize(sizeof packed + probabilities.size() + edges.size() + levels.size());
  std::memcpy(out.data(), &packed, sizeof packed);
  auto at = out.begin() + sizeof packed;
  for (const auto part : {probabilities, edges, levels}) at = std::copy(part.begin(), part.end(), at);
  return out;
}

std::optional<Layers> unpack(std::span<const std::byte> bytes, std::int64_t nodes, std::uint64_t graph_hash) {
  if (bytes.empty()) return std::nullopt;
  const auto wrong = [](const std::string& what) {
    return IoError(fmt::format("the layers of the imported graph are corrupt: {}; import it again", what));
  };
  if (bytes.size() < sizeof(Packed)) throw wrong("too few bytes");
  const auto packed = io::load<Packed>(bytes.data());
  if (packed.version != version) throw wrong(fmt::format("they have version {}", packed.version));
  if (packed.graph_hash != graph_hash || packed.levels != static_cast<std::uint64_t>(nodes))
    return std::nullopt;
  const std::uint64_t rest = bytes.size() - sizeof(Packed);
  constexpr std::uint64_t largest = 65535;
  if (packed.probabilities > rest / 8 || packed.edges > rest / 4 || packed.levels > rest ||
      packed.probabilities * 8 + packed.edges * 4 + packed.levels != rest || packed.max_degree > largest ||
      packed.parameter > largest || packed.entry > vamana::no_node) {
    throw wrong("their sizes do not agree");
  }
  Layers layers;
  layers.max_degree = static_cast<std::int64_t>(packed.max_degree);
  layers.parameter = static_cast<std::int64_t>(packed.parameter);
  layers.build_list = static_cast<std::int64_t>(packed.build_list);
  layers.search_list = static_cast<std::int64_t>(packed.search_list);
  layers.multiplier = packed.multiplier;
  layers.entry = static_cast<std::uint32_t>(packed.entry);
  const std::byte* at = bytes.data() + sizeof(Packed);
  const auto take = [&at](auto& values, std::uint64_t count) {
    values.resize(count);
    const std::size_t size = count * sizeof(values[0]);
    if (size > 0) std::memcpy(values.data(), at, size);
    at += size;
  };
  take(layers.probabilities, packed.probabilities);
  take(layers.edges, packed.edges);
  take(layers.levels, packed.levels);
  const std::string found = check_layers(layers, nodes);
  if (!found.empty()) throw wrong(found);
  return layers;
}

std::string check_layers(const Layers& layers, std::int64_t nodes) {
  if (nodes == 0) return "";
  if (layers.entry >= nodes) return fmt::format("its entry {} is none of its {} nodes", layers.entry, nodes);
  if (layers.levels[layers.entry] != layers.top()) {
    return fmt::format("its entry {} is not in its highest layer, {}", layers.entry, layers.top());
  }
  const auto lists = std::accumulate(layers.levels.begin(), layers.levels.end(), std::uint64_t{0});
  const auto m = static_cast<std::uint64_t>(layers.max_degree);
  if (layers.edges.size() != lists * m) return "its layers are not as long as its levels say";
  std::size_t at = 0;
  for (std::int64_t node = 0; node < nodes; ++node) {
    for (int level = 1; level <= layers.levels[static_cast<std::size_t>(node)]; ++level) {
      bool ended = false;
      for (std::uint64_t j = 0; j < m; ++j, ++at) {
        const std::uint32_t edge = layers.edges[at];
        if (edge == vamana::no_node) {
          ended = true;
        } else if (ended || edge >= nodes) {
          return fmt::format("in layer {} an edge of node {} leads to {} of {} nodes", level, node, edge,
                             nodes);
        } else if (layers.levels[edge] < level) {
          return fmt::format("in layer {} an edge of node {} leads to {}, which is not in it", level, node,
                             edge);
        }
      }
    }
  }
  return "";
}

std::vector<std::uint32_t> entries_of(const Layers& layers) {
  const auto nodes = static_cast<std::int64_t>(layers.levels.size());
  const std::int64_t wanted =
      std::min(nodes, std::clamp(nodes / vamana::tuning::nodes_an_entry, vamana::tuning::fewest_entries,
                                 vamana::tuning::most_entries));
  std::vector<std::uint32_t> entries = {layers.entry};
  for (int level = layers.top(); level > 0 && static_cast<std::int64_t>(entries.size()) < wanted; --level) {
    std::vector<std::uint32_t> of_level;
    for (std::int64_t i = 0; i < nodes; ++i) {
      const auto node = static_cast<std::uint32_t>(i);
      if (layers.levels[node] == level && node != layers.entry) of_level.push_back(node);
    }
    // Where there are more than wanted, some spread over all.
    const std::size_t left = static_cast<std::size_t>(wanted) - entries.size();
    const std::size_t taken = std::min(left, of_level.size());
    for (std::size_t i = 0; i < taken; ++i) entries.push_back(of_level[i * of_level.size() / taken]);
  }
  return entries;
}

}  // namespace kith::graph_files
