#include "vamana/file.hpp"

#include <cmath>
#include <cstring>
#include <utility>

#include <fmt/format.h>
#include <xxhash.h>
#include <nlohmann/json.hpp>

#include "codes/leading.hpp"
#include "core/int128.hpp"
#include "core/memory_budget.hpp"
#include "core/parallel.hpp"
#include "core/search_checks.hpp"
#include "io/index_file.hpp"
#include "kith/error.hpp"
#include "vamana/checks.hpp"
#include "vamana/code_space.hpp"
#include "vamana/curve_json.hpp"

namespace kith::vamana {
namespace {

// Of what is in the header and the sections; the file around them has a version of its own.
// Layout 3 is that of indexes with scalar codes, 4 that of others, so that an older Kith reads what it can.
constexpr int layout = 4;
constexpr int scalar_layout = 3;
constexpr const char* walked_prefix = "walked_";
constexpr std::int64_t most_rerank_factor = 64;

// Everything that a walk follows. A file is data from somebody.
void check_graph(const Graph& graph, StopRequest& stop) {
  for (std::int64_t i = 0; i < graph.nodes; ++i) {
    if (i % (1 << 18) == 0) stop.check();
    const std::uint32_t* edges = graph.of(i);
    bool ended = false;
    for (std::int64_t j = 0; j < graph.max_degree; ++j) {
      if (edges[j] == no_node) {
        ended = true;
      } else if (ended || edges[j] >= graph.nodes) {
        throw InvalidArgument(
            fmt::format("an edge of node {} leads to {} of {} nodes", i, edges[j], graph.nodes));
      }
    }
  }
  if (graph.entries.empty() != (graph.nodes == 0)) throw InvalidArgument("it has no entries");
  for (const std::uint32_t entry : graph.entries) {
    if (entry >= graph.nodes) {
      throw InvalidArgument(fmt::format("its entry {} is none of its {} nodes", entry, graph.nodes));
    }
  }
}

template <class T>
void read_section(const IndexFile& file, std::string_view name, T* out, std::int64_t count) {
  const auto bytes = file.section(name);
  if (static_cast<int128>(bytes.size()) != static_cast<int128>(count) * static_cast<int128>(sizeof(T))) {
    throw InvalidArgument(
        fmt::format("its section '{}' has {} bytes, which are not {} values", name, bytes.size(), count));
  }
  if (!bytes.empty()) std::memcpy(out, bytes.data(), bytes.size());
}

// Which rows the nodes of a file stand for: see Nodes.
void check_rows_of_nodes(const Nodes& nodes, std::int64_t rows) {
  const auto wrong = [](std::string_view what) {
    throw InvalidArgument(fmt::format("the rows of its nodes {}", what));
  };
  if (nodes.plain()) {
    if (nodes.count != rows || !nodes.rows.empty()) wrong("are not all of its rows");
    return;
  }
  if (nodes.first.front() != 0 || nodes.first.back() != nodes.rows.size()) wrong("do not begin or end there");
  std::vector<bool> seen(static_cast<std::size_t>(rows), false);
  for (std::int64_t i = 0; i < nodes.count; ++i) {
    const std::uint32_t begin = nodes.first[static_cast<std::size_t>(i)];
    const std::uint32_t end = nodes.first[static_cast<std::size_t>(i) + 1];
    if (begin >= end || end > nodes.rows.size()) wrong("are not one range after the other");
    for (std::uint32_t j = begin; j < end; ++j) {
      const std::uint32_t row = nodes.rows[j];
      if (row >= rows || seen[row] || (j > begin && row < nodes.rows[j - 1])) {
        wrong(fmt::format("have row {} of {} where it cannot be", row, rows));
      }
      seen[row] = true;
    }
  }
}

// Codes were kept: rows of many values need not be read to search for a few. Scalar ones are in the nodes.
Nodes read_nodes(const IndexFile& file, std::int64_t count, std::int64_t rows,
                 const codes::ScalarSpace& space, bool scalar) {
  Nodes nodes;
  nodes.count = count;
  if (scalar) {
    nodes.codes = AlignedBuffer<std::uint8_t>(count * space.code_bytes());
    read_section(file, "codes", nodes.codes.data(), nodes.codes.size());
  }
  if (const auto first = file.section("node_first"); !first.empty()) {
    nodes.first.resize(static_cast<std::size_t>(count) + 1);
    read_section(file, "node_first", nodes.first.data(), count + 1);
  }
  nodes.rows.resize(file.section("node_rows").size() / sizeof(std::uint32_t));
  read_section(file, "node_rows", nodes.rows.data(), static_cast<std::int64_t>(nodes.rows.size()));
  check_rows_of_nodes(nodes, rows);
  nodes.nan_rows = nodes.plain() ? 0 : rows - static_cast<std::int64_t>(nodes.rows.size());
  return nodes;
}

// Codes that walks compare in place of scalar ones; null where the parameters name none, or there are no
// nodes.
std::shared_ptr<const WalkCodes> read_walk_codes(const IndexFile& file, const VamanaParameters& parameters,
                                                 const codes::ScalarSpace& space, std::int64_t nodes) {
  if (parameters.codes == CodeKind::scalar || nodes == 0) return nullptr;
  const codes::Kept kept{file, file.header().at("walked"), walked_prefix};
  const codes::Rows rows{Dtype::u8, space.code_dim()};
  auto read = std::make_shared<WalkCodes>();
  read->kind = parameters.codes;
  if (parameters.codes == CodeKind::rabitq) {
    read->coding = codes::load_rabitq(kept, rows, rabitq_of(parameters));
  } else {
    read->coding = codes::load_pq(kept, rows, pq_of(parameters, space.code_dim()));
  }
  read->codes = AlignedBuffer<std::uint8_t>(nodes * read->code_bytes());
  read_section(file, "walked_codes", read->codes.data(), read->codes.size());
  return read;
}

// What stands beside the graph of a file, of so many rows.
std::uint64_t codes_in_file(const IndexFile& file, const Contents& contents, std::int64_t rows) {
  const Built& built = contents.built;
  std::uint64_t bytes = file.section("node_first").size() + file.section("node_rows").size() +
                        static_cast<std::uint64_t>(rows) / 8;
  if (contents.parameters.codes == CodeKind::scalar) {
    bytes +=
        static_cast<std::uint64_t>(built.graph.nodes) * static_cast<std::uint64_t>(built.space.code_bytes());
  } else {
    bytes += walk_code_bytes(built.space, contents.parameters, built.graph.nodes);
  }
  return bytes;
}

// Edges are walked fastest from memory, on huge pages; where that is short they stay in the file.
void read_edges(const IndexFile& file, bool stay, Graph& graph) {
  if (stay) {
    graph.mapped = reinterpret_cast<const std::uint32_t*>(file.section("edges").data());
    graph.file = file.file();
    return;
  }
  graph.edges = AlignedBuffer<std::uint32_t>(graph.list_values());
  read_section(file, "edges", graph.edges.data(), graph.edges.size());
}

Contents read(const IndexFile& file, const Execution& execution, RecallCurve& curve) {
  const auto& header = file.header();
  Contents contents;
  const int its_layout = header.at("layout").get<int>();
  if (its_layout < 1 || its_layout > layout) {
    throw InvalidArgument(
        fmt::format("it has layout {}; this Kith reads up to {}, use a newer one", its_layout, layout));
  }
  // Layout 1 had codes of 8 bits and all values, and evaluated whole lists; layout 2 kept no codes.
  const auto since_2 = [&]<class T>(const char* key, T before) {
    return its_layout < 2 ? before : header.at(key).get<T>();
  };
  const auto dtype = parse_dtype(header.at("dtype").get<std::string>());
  const auto rows = header.at("rows").get<std::int64_t>();
  const auto dim = header.at("dim").get<std::int64_t>();
  const auto bytes = file.section("dataset");
  if (rows < 0 || dim < 1 || bytes.size() % size_of(dtype) != 0 ||
      static_cast<int128>(rows) * dim != static_cast<int128>(bytes.size() / size_of(dtype))) {
    throw InvalidArgument(
        fmt::format("{} rows of dimension {} do not fit its {} bytes", rows, dim, bytes.size()));
  }
  contents.dataset = Dataset::adopt(DatasetView(bytes.data(), dtype, rows, dim, dim), file.file());
  VamanaParameters& parameters = contents.parameters;
  parameters.metric = parse_metric(header.at("metric").get<std::string>());
  parameters.max_degree = header.at("max_degree").get<std::int64_t>();
  parameters.build_list_size = header.at("build_list_size").get<std::int64_t>();
  parameters.alpha = header.at("alpha").get<double>();
  parameters.seed = header.at("seed").get<std::uint64_t>();
  parameters.code_bits = since_2("code_bits", std::int64_t{8});
  parameters.code_dim = since_2("code_dim", dim);
  if (its_layout > scalar_layout) {
    parameters.codes = parse_code_kind(header.at("codes").get<std::string>());
    parameters.rabitq_bits = header.at("rabitq_bits").get<std::int64_t>();
    parameters.pq_subspaces = header.at("pq_subspaces").get<std::int64_t>();
  }
  check_parameters(parameters, dim);
  if (parameters.code_bits == 0 && rows > 0) throw InvalidArgument("its codes have 0 bits a value");
  if (parameters.build_list_size == 0 && rows > 0) throw InvalidArgument("its build_list_size is 0");
  check_rows(contents.dataset.view());

  Graph& graph = contents.built.graph;
  graph.nodes = header.at("nodes").get<std::int64_t>();
  graph.max_degree = parameters.max_degree;
  const auto edges = file.section("edges");
  if (graph.nodes < 0 || graph.nodes > rows ||
      static_cast<int128>(edges.size()) != static_cast<int128>(graph.nodes) * graph.max_degree * 4) {
    throw InvalidArgument(fmt::format("{} nodes of degree {} do not fit its {} bytes of edges", graph.nodes,
                                      graph.max_degree, edges.size()));
  }
  codes::ScalarSpace& space = contents.built.space;
  space.dtype = dtype;
  space.metric = parameters.metric;
  space.dim = dim;
  space.step = header.at("step").get<double>();
  space.largest_norm = header.at("largest_norm").get<double>();
  space.bits = shape_of(parameters, dim).bits;
  space.leading = since_2("leading", std::int64_t{0});
  space.unit = since_2("unit", 1.0);
  contents.built.rerank_factor = since_2("rerank_factor", std::int64_t{0});
  if (contents.built.rerank_factor < 0 || contents.built.rerank_factor > most_rerank_factor) {
    throw InvalidArgument(fmt::format("its rerank_factor is {}", contents.built.rerank_factor));
  }
  if (space.leading < 0 || space.leading > space.full_dim() || space.leading % codes::leading_step != 0) {
    throw InvalidArgument(fmt::format("its codes have {} directions", space.leading));
  }
  if (since_2("code_values", space.code_dim()) != space.code_dim()) {
    throw InvalidArgument("its codes have another number of values than their directions make");
  }
  if (!(space.unit > 0 && std::isfinite(space.unit) && space.step > 0 && std::isfinite(space.step) &&
        space.largest_norm >= 0 && std::isfinite(space.largest_norm))) {
    throw InvalidArgument("the scale of its codes is out of range");
  }
  // Integers that are their own codes are not kept twice.
  const bool scalar = parameters.codes == CodeKind::scalar;
  const bool codes_kept = its_layout >= 3 && (!space.raw_integers() || !scalar);
  const std::uint64_t codes_need = codes_kept ? codes_in_file(file, contents, rows) : node_bytes(space, rows);
  if (execution.memory_limit > 0 && codes_need > execution.memory_limit) {
    throw OutOfMemory(fmt::format(
        "the index vamana of {} rows takes about {} bytes while it is loaded, the limit is {}; raise "
        "the limit",
        rows, codes_need, execution.memory_limit));
  }
  const std::uint64_t room =
      execution.memory_limit > 0 ? execution.memory_limit : static_cast<std::uint64_t>(available_memory());
  StopRequest stop(execution);
  if (!space.raw_integers()) {
    space.mean.resize(static_cast<std::size_t>(space.full_dim()));
    read_section(file, "mean", space.mean.data(), space.full_dim());
    if (space.leading > 0) {
      space.map.resize(static_cast<std::size_t>(space.full_dim() * space.leading));
      read_section(file, "map", space.map.data(), static_cast<std::int64_t>(space.map.size()));
    }
    for (const double value : space.mean) {
      if (!std::isfinite(value)) throw InvalidArgument("the mean of its codes is not a number");
    }
  }
  read_edges(file, codes_need + edges.size() > room, graph);
  graph.entries.resize(file.section("entries").size() / sizeof(std::uint32_t));
  read_section(file, "entries", graph.entries.data(), static_cast<std::int64_t>(graph.entries.size()));
  check_graph(graph, stop);
  curve = curve_from(header.at("recall_curve"));
  contents.plain = header.value("plain", false);
  contents.built.nodes = codes_kept ? read_nodes(file, graph.nodes, rows, space, scalar)
                                    : (contents.plain ? make_plain_nodes : make_nodes)(
                                          contents.dataset.view(), space, execution);
  contents.built.walked = read_walk_codes(file, parameters, space, graph.nodes);
  if (header.value("layers", false)) {
    const auto layers = file.section("layers");
    contents.layers.assign(layers.begin(), layers.end());
  }
  if (contents.built.nodes.count != graph.nodes) {
    throw InvalidArgument(
        fmt::format("its rows make {} nodes, its graph has {}", contents.built.nodes.count, graph.nodes));
  }
  return contents;
}

// Codes that walks compare in place of scalar ones, and what they were made by.
void add_walk_codes(const Contents& contents, nlohmann::json& header, std::vector<IndexSection>& sections) {
  header["codes"] = name(contents.parameters.codes);
  header["rabitq_bits"] = contents.parameters.rabitq_bits;
  header["pq_subspaces"] = contents.parameters.pq_subspaces;
  const WalkCodes* walked = contents.built.walked.get();
  if (walked == nullptr) return;  // no nodes
  nlohmann::json its = nlohmann::json::object();
  std::vector<IndexSection> parts;
  walked->coding->save(its, parts);
  header["walked"] = std::move(its);
  header["code_bytes"] = walked->code_bytes();
  for (IndexSection& part : parts) {
    part.name = walked_prefix + part.name;
    sections.push_back(std::move(part));
  }
  const auto bytes = static_cast<std::size_t>(contents.built.nodes.count * walked->code_bytes());
  sections.push_back(bytes_section("walked_codes", std::as_bytes(std::span(walked->codes.data(), bytes))));
}

}  // namespace

std::uint64_t hash(const Graph& graph) {
  const std::uint64_t entries =
      XXH3_64bits(graph.entries.data(), graph.entries.size() * sizeof(std::uint32_t));
  return XXH3_64bits_withSeed(graph.lists(),
                              static_cast<std::size_t>(graph.list_values()) * sizeof(std::uint32_t), entries);
}

std::uint64_t hash(const Built& built) {
  const std::uint64_t its = hash(built.graph);
  if (built.walked == nullptr) return its;
  return XXH3_64bits_withSeed(built.walked->codes.data(),
                              static_cast<std::size_t>(built.nodes.count * built.code_bytes()), its);
}

void save(const Contents& contents, const RecallCurve& curve, const std::filesystem::path& path,
          const Execution& execution) {
  const DatasetView& data = contents.dataset.view();
  const VamanaParameters& parameters = contents.parameters;
  const auto& [space, nodes, graph, walked, rerank_factor, copies] = contents.built;
  const bool scalar = parameters.codes == CodeKind::scalar;
  nlohmann::json header = {{"index", Vamana::index_type.name},
                           {"layout", scalar ? scalar_layout : layout},
                           {"rows", data.rows},
                           {"dim", data.dim},
                           {"dtype", name(data.dtype)},
                           {"metric", name(parameters.metric)},
                           {"max_degree", parameters.max_degree},
                           {"build_list_size", parameters.build_list_size},
                           {"alpha", parameters.alpha},
                           {"seed", parameters.seed},
                           {"nodes", graph.nodes},
                           {"nan_rows", nodes.nan_rows},
                           {"code_bits", parameters.code_bits},
                           {"code_dim", parameters.code_dim},
                           {"code_values", space.code_dim()},
                           {"leading", space.leading},
                           {"unit", space.unit},
                           {"rerank_factor", rerank_factor},
                           {"step", space.step},
                           {"largest_norm", space.largest_norm},
                           {"recall_curve", to_json(curve)}};
  std::vector<IndexSection> sections = {
      rows_section(data), bytes_section("mean", std::as_bytes(std::span(space.mean))),
      bytes_section("map", std::as_bytes(std::span(space.map))),
      bytes_section("edges",
                    std::as_bytes(std::span(graph.lists(), static_cast<std::size_t>(graph.list_values())))),
      bytes_section("entries", std::as_bytes(std::span(graph.entries)))};
  if (scalar && !space.raw_integers()) {
    const auto bytes = static_cast<std::size_t>(nodes.count * space.code_bytes());
    sections.push_back(bytes_section("codes", std::as_bytes(std::span(nodes.codes.data(), bytes))));
  }
  if (!scalar) add_walk_codes(contents, header, sections);
  if (!scalar || !space.raw_integers()) {
    sections.push_back(bytes_section("node_first", std::as_bytes(std::span(nodes.first))));
    sections.push_back(bytes_section("node_rows", std::as_bytes(std::span(nodes.rows))));
  }
  // Of imported graphs alone.
  if (contents.plain) header["plain"] = true;
  if (!contents.layers.empty()) {
    header["layers"] = true;
    sections.push_back(bytes_section("layers", contents.layers));
  }
  write_index_file(path, std::move(header), sections, execution.cancelled);
}

Contents load(const std::filesystem::path& path, const Execution& execution, RecallCurve& curve) {
  const IndexFile file = IndexFile::open(path, true, execution.cancelled);
  try {
    const auto type = file.header().at("index").get<std::string>();
    if (type != Vamana::index_type.name) {
      throw IoError(fmt::format("'{}' holds an index of type {}, not {}", path.string(), type,
                                Vamana::index_type.name));
    }
    return or_out_of_memory([&] { return fmt::format("the index '{}'", path.string()); },
                            [&] { return read(file, execution, curve); });
  } catch (const nlohmann::json::exception& error) {
    throw IoError(fmt::format("'{}' is corrupt: its header lacks what the index {} has ({})", path.string(),
                              Vamana::index_type.name, error.what()));
  } catch (const InvalidArgument& error) {
    throw IoError(fmt::format("'{}' is corrupt: {}", path.string(), error.what()));
  }
}

}  // namespace kith::vamana
