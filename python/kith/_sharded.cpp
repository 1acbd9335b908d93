// Shards for Python: checked arguments in, NumPy arrays out.
#include "_sharded.hpp"

#include <algorithm>
#include <concepts>
#include <filesystem>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "_answer.hpp"
#include "_gpu.hpp"
#include "_rows.hpp"
#include "_run.hpp"
#include "kith/error.hpp"
#include "kith/sharded.hpp"

namespace nb = nanobind;

namespace kith::python {
namespace {

/// type, metric, shards, partition, and what the type alone is built with: name and value.
using Asked = std::tuple<std::string, std::string, std::int64_t, std::string, nb::dict>;

// visit(name, set) for each parameter of a type but the metric; set(value) takes what Python gave.
template <class Parameters, class Visit>
void for_each_parameter(Parameters& its, const Visit& visit) {
  const auto number = [&](const char* name, auto& place) {
    visit(name, [&](nb::handle value) { place = nb::cast<std::decay_t<decltype(place)>>(value); });
  };
  if constexpr (requires { its.filter; }) {
    visit("filter", [&](nb::handle value) { its.filter = parse_filter(nb::cast<std::string>(value)); });
  }
  if constexpr (requires { its.directions; }) number("directions", its.directions);
  if constexpr (requires { its.lists; }) number("lists", its.lists);
  if constexpr (requires { its.leaf_size; }) number("leaf_size", its.leaf_size);
  if constexpr (requires { its.max_degree; }) {
    number("max_degree", its.max_degree);
    number("build_list_size", its.build_list_size);
    number("alpha", its.alpha);
    number("seed", its.seed);
    number("code_bits", its.code_bits);
    number("code_dim", its.code_dim);
    visit("codes", [&](nb::handle value) { its.codes = parse_code_kind(nb::cast<std::string>(value)); });
    number("rabitq_bits", its.rabitq_bits);
    number("pq_subspaces", its.pq_subspaces);
  }
}

ShardedParameters parameters_of(const Asked& asked) {
  const auto& [type, metric, shards, partition, options] = asked;
  ShardedParameters parameters{Indexes::parameters(type, parse_metric(metric)), shards,
                               parse_partition(partition)};
  std::visit(
      [&, &type = type, &options = options](auto& its) {
        std::vector<std::string> known;
        std::size_t used = 0;
        for_each_parameter(its, [&](const char* name, const auto& set) {
          known.emplace_back(name);
          if (!options.contains(name)) return;
          ++used;
          try {
            set(options[name]);
          } catch (const nb::cast_error&) {
            throw nb::type_error(
                fmt::format("{}: {} is no value for it", name, nb::cast<std::string>(nb::repr(options[name])))
                    .c_str());
          }
        });
        if (used == options.size()) return;
        for (const auto& [name, value] : options) {
          const auto given = nb::cast<std::string>(name);
          if (std::ranges::find(known, given) != known.end()) continue;
          throw InvalidArgument(fmt::format("shards of type {} are built with {}, not with {}; leave it out",
                                            type, fmt::join(known, ", "), given));
        }
      },
      parameters.index);
  return parameters;
}

template <class From>
Sharded build(const std::filesystem::path& folder, const From& from, const Asked& asked,
              const CallLimits& limits, const nb::object& report) {
  std::optional<Sharded> shards;
  const ShardedParameters parameters = parameters_of(asked);
  run(make_execution(limits), report, false, [&](const Execution& execution) {
    if constexpr (std::same_as<From, Rows>) {
      shards = Sharded::build(folder, from.dataset.view(), parameters, execution);
    } else {
      shards = Sharded::build(folder, from, parameters, execution);
    }
  });
  return *std::move(shards);  // NOLINT(bugprone-unchecked-optional-access): run() has built them, or thrown
}

Sharded join(const std::filesystem::path& folder, const std::vector<std::filesystem::path>& parts,
             const CallLimits& limits, const nb::object& report) {
  std::optional<Sharded> shards;
  run(make_execution(limits), report, false,
      [&](const Execution& execution) { shards = Sharded::join(folder, parts, execution); });
  return *std::move(shards);  // NOLINT(bugprone-unchecked-optional-access): run() has made it, or thrown
}

AnyIndex shard(const Sharded& shards, std::int64_t number, const CallLimits& limits,
               const nb::object& report) {
  std::optional<AnyIndex> index;
  run(make_execution(limits), report, false,
      [&](const Execution& execution) { index = shards.shard(number, execution); });
  return *std::move(index);  // NOLINT(bugprone-unchecked-optional-access): run() has opened it, or thrown
}

nb::object row_numbers(const Sharded& shards, std::int64_t number, const CallLimits& limits,
                       const nb::object& report) {
  std::vector<std::int64_t> rows;
  run(make_execution(limits), report, false,
      [&](const Execution& execution) { rows = shards.row_numbers(number, execution); });
  const std::size_t size = rows.size();
  return own(std::move(rows), {size});
}

nb::tuple search(const Sharded& shards, const Rows& queries, std::int64_t k, std::optional<double> radius,
                 std::optional<double> recall, std::optional<std::int64_t> list_size,
                 std::optional<std::int64_t> beam_width, std::optional<std::int64_t> rerank,
                 const RowSet* allowed, const CallLimits& limits, const nb::object& report) {
  const DatasetView& q = queries.dataset;
  const SearchOptions options{.radius = radius,
                              .recall = recall,
                              .list_size = list_size,
                              .beam_width = beam_width,
                              .rerank = rerank,
                              .allowed = allowed};
  // Shards may have to be opened, which reads them.
  return search_for(make_execution(limits), report, false, q, k,
                    {[&](const Execution& execution) { return shards.search(q, k, execution, options); },
                     [&](const NeighborsView& out, const Execution& execution) {
                       return shards.search_into(q, out, execution, options);
                     }});
}

nb::tuple radius_search(const Sharded& shards, const Rows& queries, double radius, bool sorted,
                        std::int64_t max_neighbors, const CallLimits& limits, const nb::object& report) {
  RadiusNeighbors found;
  run(make_execution(limits), report, false, [&](const Execution& execution) {
    Execution how = execution;
    follow_queries(how, queries.dataset);
    found = shards.radius_search(queries.dataset.view(), radius, {sorted, max_neighbors}, how);
  });
  return to_python(std::move(found));
}

nb::object count_within(const Sharded& shards, const Rows& queries, double radius, const CallLimits& limits,
                        const nb::object& report) {
  std::vector<std::int64_t> counts;
  run(make_execution(limits), report, false, [&](const Execution& execution) {
    Execution how = execution;
    follow_queries(how, queries.dataset);
    counts = shards.count_within(queries.dataset.view(), radius, how);
  });
  const std::size_t size = counts.size();
  return own(std::move(counts), {size});
}

void verify(const Sharded& shards, const CallLimits& limits, const nb::object& report) {
  run(make_execution(limits), report, false, [&](const Execution& execution) { shards.verify(execution); });
}

}  // namespace

void bind_sharded(nb::module_& module) {
  nb::class_<Sharded>(module, "Sharded", "A folder of shards.")
      .def_prop_ro("type", [](const Sharded& self) { return std::string(self.index_type().name); })
      .def_prop_ro("rows", &Sharded::rows)
      .def_prop_ro("dim", &Sharded::dim)
      .def_prop_ro("dtype", [](const Sharded& self) { return std::string(numpy_name(self.dtype())); })
      .def_prop_ro("metric", [](const Sharded& self) { return std::string(name(self.metric())); })
      .def_prop_ro("shards", &Sharded::shards)
      .def_prop_ro("open_shards", &Sharded::open_shards)
      .def_prop_ro("memory_bytes", &Sharded::memory_bytes)
      .def_prop_ro("bytes", &Sharded::bytes)
      .def_prop_ro("partition", [](const Sharded& self) { return std::string(name(self.partition())); })
      .def_prop_ro("folder", [](const Sharded& self) { return self.folder(); })
      .def("shard_rows", &Sharded::shard_rows)
      .def("close", &Sharded::close, nb::call_guard<nb::gil_scoped_release>());
  module.def("build_shards", &build<std::vector<std::filesystem::path>>, nb::arg("folder"), nb::arg("files"),
             nb::arg("asked"), nb::arg("limits"), nb::arg("report").none(), "Shards of files.");
  module.def("build_shards_of_rows", &build<Rows>, nb::arg("folder"), nb::arg("rows"), nb::arg("asked"),
             nb::arg("limits"), nb::arg("report").none(), "Shards of an array.");
  module.def("join_shards", &join, nb::arg("folder"), nb::arg("parts"), nb::arg("limits"),
             nb::arg("report").none(), "Folders of shards as one.");
  module.def("one_shard", &shard, nb::arg("shards"), nb::arg("number"), nb::arg("limits"),
             nb::arg("report").none(), "A shard as an index of its own.");
  module.def("row_numbers", &row_numbers, nb::arg("shards"), nb::arg("number"), nb::arg("limits"),
             nb::arg("report").none(), "Row numbers of a shard's rows among all.");
  module.def(
      "open_shards", [](const std::filesystem::path& folder) { return Sharded::open(folder); },
      nb::arg("folder"), "A folder that was built.");
  module.def("shards_search", &search, nb::arg("shards"), nb::arg("queries"), nb::arg("k"),
             nb::arg("radius").none(), nb::arg("recall").none(), nb::arg("list_size").none(),
             nb::arg("beam_width").none(), nb::arg("rerank").none(), nb::arg("allowed").none(),
             nb::arg("limits"), nb::arg("report").none(), "(distances, indices, statistics)");
  module.def("shards_radius_search", &radius_search, nb::arg("shards"), nb::arg("queries"), nb::arg("radius"),
             nb::arg("sorted"), nb::arg("max_neighbors"), nb::arg("limits"), nb::arg("report").none(),
             "(offsets, indices, distances, statistics) of the rows within a radius.");
  module.def("shards_count_within", &count_within, nb::arg("shards"), nb::arg("queries"), nb::arg("radius"),
             nb::arg("limits"), nb::arg("report").none(), "Numbers of rows within a radius.");
  module.def("verify_shards", &verify, nb::arg("shards"), nb::arg("limits"), nb::arg("report").none(),
             "Raises where a shard is damaged.");
}

}  // namespace kith::python
