// The module kith._kith: what the Python files beside it stand on. Everything here takes plain
// arguments; defaults, promotion of element types and documentation for people are in Python.
#include <algorithm>
#include <filesystem>
#include <new>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nanobind/nanobind.h>
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "_answer.hpp"
#include "_codes.hpp"
#include "_gil.hpp"
#include "_gpu.hpp"
#include "_graph_files.hpp"
#include "_io.hpp"
#include "_rows.hpp"
#include "_run.hpp"
#include "_sharded.hpp"
#include "_tiles.hpp"
#include "_trees.hpp"
#include "_tuning.hpp"
#include "kith/any_index.hpp"
#include "kith/brute_force.hpp"
#include "kith/calibration.hpp"
#include "kith/error.hpp"
#include "kith/version.hpp"

namespace nb = nanobind;

namespace kith::python {
namespace {

// The library's exceptions become those of kith/_errors.py, which also derive from Python's own.
void translate(const std::exception_ptr& error, void* /*payload*/) {
  const auto raise = [](const char* type, const char* message) {
    const nb::object cls = nb::module_::import_("kith._errors").attr(type);
    PyErr_SetString(cls.ptr(), message);
  };
  try {
    std::rethrow_exception(error);
  } catch (const InvalidArgument& e) {
    raise("InvalidArgument", e.what());
  } catch (const OutOfMemory& e) {
    raise("OutOfMemory", e.what());
  } catch (const DeviceError& e) {
    raise("DeviceError", e.what());
  } catch (const IoError& e) {
    raise("IoError", e.what());
  } catch (const Cancelled& e) {
    raise("Cancelled", e.what());
  } catch (const Error& e) {
    raise("Error", e.what());
  } catch (const std::bad_alloc&) {
    raise("OutOfMemory",
          "the machine has no memory left for this call; use fewer rows, fewer queries or a smaller k");
  }
}

double comparisons(std::int64_t rows, std::int64_t queries, std::int64_t dim) {
  return static_cast<double>(rows) * static_cast<double>(queries) * static_cast<double>(dim);
}

// Comparisons a point that building a tree is worth.
constexpr std::int64_t tree_build_depth = 40;

// A tree that is built for one search and forgotten; it counts towards the limit on the memory it lies in, of
// which `rest` has what is left.
AnyIndex tree_for_one_search(const std::string& type, const Rows& rows, Metric metric,
                             const Execution& execution, Execution& rest) {
  follow_rows(rows.dataset);
  AnyIndex tree = AnyIndex::build(type, rows.dataset, metric, execution);
  std::uint64_t& limit =
      execution.devices.front().kind == Device::Kind::cuda ? rest.device_memory_limit : rest.memory_limit;
  if (limit > 0) {
    if (tree.memory_bytes() >= limit) {
      throw OutOfMemory(
          fmt::format("the {} over {} rows takes {} bytes, the limit is {}; raise the limit, or use "
                      "the index brute_force",
                      type, rows.dataset.rows(), tree.memory_bytes(), limit));
    }
    limit -= tree.memory_bytes();
  }
  return tree;
}

// The type to search with. What names a filter asks for brute force.
std::string chosen_index(const std::string& asked, const DatasetView& rows, const DatasetView& queries,
                         std::int64_t k, const BruteForceParameters& parameters, const Execution& execution) {
  if (asked != "auto") {
    const std::vector<std::string> known = index_types();
    if (std::find(known.begin(), known.end(), asked) == known.end()) {
      throw InvalidArgument(
          fmt::format("index '{}' is not one Kith knows; use {} or auto", asked, fmt::join(known, ", ")));
    }
    return asked;
  }
  if (parameters.filter != Filter::automatic) return std::string(BruteForce::index_type.name);
  // Bad arguments are brute force's to refuse.
  if (k < 1 || rows.dim != queries.dim || queries.rows == 0) {
    return std::string(BruteForce::index_type.name);
  }
  return choose_index(rows.rows, rows.dim, queries.rows, k, parameters.metric, execution).index;
}

nb::tuple knn_call(const Rows& dataset, const Rows& queries, std::int64_t k, const std::string& metric,
                   const std::string& filter, const std::string& index, const RowSet* allowed,
                   const CallLimits& limits, const nb::object& report) {
  const SearchOptions options{.allowed = allowed};
  const BruteForceParameters parameters{parse_metric(metric), parse_filter(filter)};
  const DatasetView& x = dataset.dataset;
  const DatasetView& q = queries.dataset;
  const Execution asked = make_execution(limits);
  const bool quick = is_quick(asked, comparisons(x.rows, q.rows, x.dim));
  const std::string type = chosen_index(index, x, q, k, parameters, asked);
  if (type != BruteForce::index_type.name) {
    if (parameters.filter != Filter::automatic) {
      throw InvalidArgument(
          fmt::format("the filter {} belongs to brute force, a {} has none; leave filter at "
                      "'auto', or use the index brute_force",
                      filter, type));
    }
    try {
      return search_for(asked, report, quick, q, k,
                        {[&](const Execution& execution) {
                           Execution rest = execution;
                           return tree_for_one_search(type, dataset, parameters.metric, execution, rest)
                               .search(q, k, rest, options);
                         },
                         [&](const NeighborsView& out, const Execution& execution) {
                           Execution rest = execution;
                           return tree_for_one_search(type, dataset, parameters.metric, execution, rest)
                               .search_into(q, out, rest, options);
                         }});
    } catch (const OutOfMemory&) {
      if (index != "auto") throw;  // else brute force, which takes less
    }
  }
  return search_for(asked, report, quick, q, k,
                    {[&](const Execution& execution) {
                       follow_rows(x);
                       return knn(x, q, k, parameters, execution, options);
                     },
                     [&](const NeighborsView& out, const Execution& execution) {
                       follow_rows(x);
                       return knn_into(x, q, out, parameters, execution, options);
                     }});
}

nb::tuple chosen(std::int64_t rows, std::int64_t dim, std::int64_t queries, std::int64_t k,
                 const std::string& metric, const std::string& device, double recall) {
  if (!(recall > 0 && recall <= 1)) {
    throw InvalidArgument(fmt::format("recall of {}: use above 0, to 1 for the exact answer", recall));
  }
  for (const auto& [value, what, least] : {std::tuple{rows, "rows", 0}, std::tuple{dim, "dim", 1},
                                           std::tuple{queries, "queries", 0}, std::tuple{k, "k", 1}}) {
    if (value < least) throw InvalidArgument(fmt::format("{} is {}; use at least {}", what, value, least));
  }
  const IndexChoice choice =
      choose_index(rows, dim, queries, k, parse_metric(metric), make_execution({0, 0, 0, device}), recall);
  return nb::make_tuple(choice.index, choice.reason);
}

AnyIndex build_index(const std::string& type, const Rows& dataset, const std::string& metric,
                     const std::string& filter, std::int64_t leaf_size, std::optional<bool> directions,
                     std::optional<std::int64_t> lists, const CallLimits& limits, const nb::object& report) {
  IndexParameters parameters = Indexes::parameters(type, parse_metric(metric));
  set_filter(parameters, parse_filter(filter));
  set_leaf_size(parameters, leaf_size);
  if (auto* brute_force = std::get_if<BruteForceParameters>(&parameters)) {
    brute_force->directions = directions;
    brute_force->lists = lists;
  }
  std::optional<AnyIndex> index;
  const Execution asked = make_execution(limits);
  const std::int64_t looks = type == BruteForce::index_type.name ? 1 : tree_build_depth;
  run(asked, report, is_quick(asked, comparisons(dataset.dataset.rows(), looks, dataset.dataset.dim())),
      [&](const Execution& execution) {
        follow_rows(dataset.dataset);
        index = AnyIndex::build(dataset.dataset, parameters, execution);
      });
  return *std::move(index);
}

AnyIndex load_index(const std::filesystem::path& path, const CallLimits& limits, const nb::object& report) {
  std::optional<AnyIndex> index;
  run(make_execution(limits), report, false,
      [&](const Execution& execution) { index = AnyIndex::load(path, execution); });
  return *std::move(index);
}

// The list that a walk for k rows a query takes; 0: the exact engine answers.
std::int64_t list_of(const Vamana& graph, const SearchOptions& options, std::int64_t k) {
  if (options.allowed != nullptr) return 0;
  if (options.list_size) return std::max(*options.list_size, k);
  const double recall = options.recall.value_or(Vamana::default_recall);
  const RecallPoint* point = recall < 1 ? graph.recall_curve().reaching(recall, k) : nullptr;
  return point == nullptr ? 0 : std::max(point->list_size, k);
}

// Rows that a search looks at for a query, at most: a walk through a graph few of them. The first on a GPU
// brings them there, which takes a while where there are billions of values.
std::int64_t looked_at(const AnyIndex& index, const SearchOptions& options, std::int64_t k) {
  constexpr double soon_there = 4e9;
  const auto* graph = index.get_if<Vamana>();
  if (graph == nullptr || comparisons(index.rows(), 1, index.dim()) > soon_there) return index.rows();
  const std::int64_t list = list_of(*graph, options, k);
  const std::int64_t degree = graph->parameters().max_degree;
  return list > 0 && list < index.rows() / degree ? list * degree : index.rows();
}

nb::tuple search_index(const AnyIndex& index, const Rows& queries, std::int64_t k,
                       std::optional<double> recall, std::optional<std::int64_t> list_size,
                       std::optional<std::int64_t> beam_width, std::optional<std::int64_t> rerank,
                       const RowSet* allowed, const CallLimits& limits, const nb::object& report,
                       const AnswerRoom& room) {
  const DatasetView& q = queries.dataset;
  const SearchOptions options{.recall = recall,
                              .list_size = list_size,
                              .beam_width = beam_width,
                              .rerank = rerank,
                              .allowed = allowed};
  const Execution asked = make_execution(limits);
  return search_for(asked, report,
                    is_quick(asked, comparisons(looked_at(index, options, k), q.rows, index.dim())), q, k,
                    {[&](const Execution& execution) { return index.search(q, k, execution, options); },
                     [&](const NeighborsView& out, const Execution& execution) {
                       return index.search_into(q, out, execution, options);
                     }},
                    room);
}

// A graph: built for long, and always watched.
AnyIndex build_vamana(const Rows& dataset, const std::string& metric, std::int64_t max_degree,
                      std::int64_t build_list_size, double alpha, std::uint64_t seed, std::int64_t code_bits,
                      std::int64_t code_dim, const std::string& codes, std::int64_t rabitq_bits,
                      std::int64_t pq_subspaces, const CallLimits& limits, const nb::object& report) {
  const VamanaParameters parameters{
      parse_metric(metric),   max_degree,  build_list_size, alpha, seed, code_bits, code_dim,
      parse_code_kind(codes), rabitq_bits, pq_subspaces};
  std::optional<AnyIndex> index;
  run(make_execution(limits), report, false, [&](const Execution& execution) {
    follow_rows(dataset.dataset);
    index = AnyIndex::build(dataset.dataset, parameters, execution);
  });
  return *std::move(index);
}

nb::dict vamana_parameters(const AnyIndex& index) {
  const VamanaParameters& parameters = vamana_of(index).parameters();
  nb::dict out;
  out["max_degree"] = parameters.max_degree;
  out["build_list_size"] = parameters.build_list_size;
  out["alpha"] = parameters.alpha;
  out["seed"] = parameters.seed;
  out["code_bits"] = parameters.code_bits;
  out["code_dim"] = vamana_of(index).code_dim();
  out["codes"] = std::string(name(parameters.codes));
  out["code_bytes"] = vamana_of(index).code_bytes();
  return out;
}

nb::list recall_curve(const AnyIndex& index) {
  nb::list out;
  for (const RecallPoint& p : vamana_of(index).recall_curve().points) {
    out.append(nb::make_tuple(p.k, p.list_size, p.recall.recall, p.recall.lower, p.recall.upper, p.hops,
                              p.distances));
  }
  return out;
}

void save_index(const AnyIndex& index, const std::filesystem::path& path, const nb::object& report) {
  run(make_execution({0, 0, 0, "cpu"}), report, false,
      [&](const Execution& execution) { index.save(path, execution); });
}

nb::list device_list() {
  nb::list out;
  for (const DeviceInfo& info : devices()) {
    nb::dict entry;
    entry["name"] = name(info.device);
    entry["description"] = info.description;
    entry["memory_bytes"] = info.memory_bytes;
    entry["cores"] = info.cores;
    entry["instruction_sets"] = info.instruction_sets;
    entry["usable"] = info.usable;
    entry["note"] = info.note;
    out.append(entry);
  }
  return out;
}

std::string calibrate_call(std::int64_t threads, const std::optional<std::filesystem::path>& file,
                           const std::string& device, const nb::object& report) {
  Calibration done;
  run(make_execution({threads, 0, 0, device}), report, false,
      [&](const Execution& execution) { done = calibrate(file ? *file : calibration_file(), execution); });
  return to_json(done);
}

std::vector<std::string> calibration_list() {
  std::vector<std::string> list;
  for (const Calibration& c : known_calibrations()) list.push_back(to_json(c));
  return list;
}

void bind_index(nb::module_& module) {
  nb::class_<AnyIndex> index(module, "Index", "A built index of any type; copies share it.");
  index
      .def("search", &search_index, nb::arg("queries"), nb::arg("k"), nb::arg("recall").none(),
           nb::arg("list_size").none(), nb::arg("beam_width").none(), nb::arg("rerank").none(),
           nb::arg("allowed").none(), nb::arg("limits"), nb::arg("report").none(),
           nb::arg("room").none() = nb::none(),
           "(distances, indices, statistics) of the k nearest rows of each query; room: addresses of "
           "distances and indices on the GPU of the queries, which then takes them.")
      .def("save", &save_index, nb::arg("path"), nb::arg("report").none(),
           "Writes one file, whole or not at all.")
      .def_prop_ro("type", &AnyIndex::type, "Name of the index type.")
      .def_prop_ro("rows", &AnyIndex::rows, "Rows of the dataset.")
      .def_prop_ro("dim", &AnyIndex::dim, "Elements a row.")
      .def_prop_ro(
          "dtype", [](const AnyIndex& self) { return numpy_name(self.dtype()); },
          "Element type, as NumPy names it.")
      .def_prop_ro(
          "metric", [](const AnyIndex& self) { return std::string(name(self.metric())); },
          "Name of the metric.")
      .def_prop_ro(
          "filter",
          [](const AnyIndex& self) {
            const auto* brute_force = self.get_if<BruteForce>();
            return brute_force == nullptr ? std::string() : std::string(name(brute_force->filter()));
          },
          "Name of the filter in use; empty where the type has none.")
      .def_prop_ro("memory_bytes", &AnyIndex::memory_bytes, "Bytes held beyond the dataset.")
      .def_prop_ro("vamana_parameters", &vamana_parameters, "What a graph was built with.")
      .def_prop_ro("recall_curve", &recall_curve,
                   "(k, list size, recall, lower, upper, hops, distances) of each point measured.")
      .def_prop_ro(
          "graph_hash", [](const AnyIndex& self) { return vamana_of(self).graph_hash(); },
          "Equal for equal graphs.");
  bind_trees(index);
  bind_tuning(module, index);
  module.def("build", &build_index, nb::arg("type"), nb::arg("dataset"), nb::arg("metric"), nb::arg("filter"),
             nb::arg("leaf_size"), nb::arg("directions").none(), nb::arg("lists").none(), nb::arg("limits"),
             nb::arg("report").none(), "Builds an index of a named type over rows it keeps alive.");
  module.def("build_vamana", &build_vamana, nb::arg("dataset"), nb::arg("metric"), nb::arg("max_degree"),
             nb::arg("build_list_size"), nb::arg("alpha"), nb::arg("seed"), nb::arg("code_bits"),
             nb::arg("code_dim"), nb::arg("codes"), nb::arg("rabitq_bits"), nb::arg("pq_subspaces"),
             nb::arg("limits"), nb::arg("report").none(), "Builds a graph over rows it keeps alive.");
  module.def("load", &load_index, nb::arg("path"), nb::arg("limits"), nb::arg("report").none(),
             "Opens a saved index.");
}

}  // namespace
}  // namespace kith::python

NB_MODULE(_kith, module) {
  using namespace kith::python;
  // An index that a thread still searches at the interpreter's end is no fault: nothing is printed.
  nb::set_leak_warnings(false);
  watch_the_interpreters_end();
  module.doc() = "The compiled part of kith. Use the package kith.";
  nb::register_exception_translator(&translate);
  module.def(
      "version", [] { return std::string(kith::version()); }, "Version of the library.");
  module.def("devices", &device_list, "What devices() of the package makes its list from.");
  module.def("calibrate", &calibrate_call, nb::arg("threads"), nb::arg("file").none(), nb::arg("device"),
             nb::arg("report").none(), "Measures a device and keeps what was measured, JSON.");
  module.def("calibrations", &calibration_list, "What choices go by, JSON.");
  module.def("index_types", &kith::index_types, "Names that build() takes.");
  bind_rows(module);
  nb::class_<kith::RowSet>(module, "RowSet", "Which rows may be found.")
      .def(
          "__init__",
          [](kith::RowSet* self, const nb::bytes& flags) {
            new (self) kith::RowSet(kith::RowSet::from_flags(
                {reinterpret_cast<const std::uint8_t*>(flags.data()), flags.size()}));
          },
          nb::arg("flags"), "A byte a row, 0 for a row that may not be found.");
  bind_gpu(module);
  bind_answer(module);
  bind_index(module);
  module.def("knn", &knn_call, nb::arg("dataset"), nb::arg("queries"), nb::arg("k"), nb::arg("metric"),
             nb::arg("filter"), nb::arg("index"), nb::arg("allowed").none(), nb::arg("limits"),
             nb::arg("report").none(), "(distances, indices, statistics) without keeping an index.");
  module.def("choose_index", &chosen, nb::arg("rows"), nb::arg("dim"), nb::arg("queries"), nb::arg("k"),
             nb::arg("metric"), nb::arg("device"), nb::arg("recall"),
             "(type, reason) of the index that answers soonest.");
  bind_io(module);
  bind_codes(module);
  bind_graph_files(module);
  bind_tiles(module);
  bind_sharded(module);
}
