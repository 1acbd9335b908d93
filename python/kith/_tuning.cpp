#include "_tuning.hpp"

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

#include <fmt/format.h>
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "_gpu.hpp"
#include "_rows.hpp"
#include "_run.hpp"
#include "kith/tuning.hpp"

namespace nb = nanobind;

namespace kith::python {
namespace {

Tuning tune(const AnyIndex& index, const Rows& queries, const std::vector<std::int64_t>& ks,
            const CallLimits& limits, const nb::object& report) {
  Tuning tuning;
  const Vamana& graph = vamana_of(index);
  run(make_execution(limits), report, false,
      [&](const Execution& execution) { tuning = graph.tune(queries.dataset, ks, execution); });
  return tuning;
}

AnyIndex insert(const AnyIndex& index, const Rows& rows, const CallLimits& limits, const nb::object& report) {
  std::optional<AnyIndex> larger;
  const Vamana& graph = vamana_of(index);
  run(make_execution(limits), report, false, [&](const Execution& execution) {
    follow_rows(rows.dataset);
    larger = graph.insert(rows.dataset, execution);
  });
  return *std::move(larger);
}

nb::list points_of(const Tuning& tuning) {
  nb::list out;
  for (std::size_t i = 0; i < tuning.curve.points.size(); ++i) {
    const RecallPoint& p = tuning.curve.points[i];
    out.append(nb::make_tuple(p.k, p.list_size, p.recall.recall, p.recall.lower, p.recall.upper, p.hops,
                              p.distances, tuning.queries_per_second[i]));
  }
  return out;
}

nb::dict distribution_of(const Tuning& tuning) {
  const QueryDistribution& its = tuning.distribution;
  nb::dict out;
  out["other"] = its.other();
  out["rows"] = its.rows;
  out["difference"] = its.difference;
  out["p_value"] = its.p_value;
  out["queries_median"] = its.queries_median;
  out["rows_median"] = its.rows_median;
  return out;
}

}  // namespace

const Vamana& vamana_of(const AnyIndex& index) {
  const auto* vamana = index.get_if<Vamana>();
  if (vamana == nullptr) throw nb::type_error(fmt::format("a {} is no Vamana", index.type()).c_str());
  return *vamana;
}

void bind_tuning(nb::module_& module, nb::class_<AnyIndex>& index) {
  nb::class_<Tuning>(module, "Tuning", "Recall of a graph for queries of the caller's.")
      .def_ro("graph_hash", &Tuning::graph_hash, "Of the graph that it is for.")
      .def_prop_ro(
          "queries", [](const Tuning& self) { return self.curve.queries; }, "How many were measured.")
      .def_prop_ro("points", &points_of,
                   "(k, list size, recall, lower, upper, hops, distances, queries a second) of each point.")
      .def_prop_ro("distribution", &distribution_of, "Of the queries against the rows.")
      .def(
          "save",
          [](const Tuning& self, const std::filesystem::path& path) {
            run({}, nb::none(), false,
                [&](const Execution& execution) { write_tuning(path, self, execution.cancelled); });
          },
          nb::arg("path"), "Writes one file, whole or not at all.");
  module.def("read_tuning", &read_tuning, nb::arg("path"), "Reads a file that save() wrote.");
  index
      .def("tune", &tune, nb::arg("queries"), nb::arg("ks"), nb::arg("limits"), nb::arg("report").none(),
           "Measures the recall of a graph for these queries.")
      .def(
          "tuned",
          [](const AnyIndex& self, const Tuning& tuning) -> AnyIndex {
            return vamana_of(self).tuned(tuning);
          },
          nb::arg("tuning"), "The same graph, going by a tuning.")
      .def("insert", &insert, nb::arg("rows"), nb::arg("limits"), nb::arg("report").none(),
           "A graph over these rows, too.");
}

}  // namespace kith::python
