// Answers of the library as NumPy arrays, and back.
#include "_answer.hpp"

#include <fmt/format.h>

#include "_run.hpp"
#include "core/parallel.hpp"
#include "kith/error.hpp"
#include "kith/evaluate.hpp"

namespace nb = nanobind;

namespace kith::python {
namespace {

template <class T>
std::vector<T> copy(const void* data, std::size_t size, const Execution& execution) {
  constexpr std::size_t piece = std::size_t{1} << 22U;
  const T* values = static_cast<const T*>(data);
  std::vector<T> out;
  out.reserve(size);
  StopRequest stop(execution);
  for (std::size_t at = 0; at < size; at += piece) {
    out.insert(out.end(), values + at, values + std::min(size, at + piece));
    stop.check();
  }
  return out;
}

}  // namespace

nb::dict statistics_dict(const SearchStatistics& s) {
  nb::dict out;
  out["index"] = nb::str(s.index.c_str());
  out["filter"] = nb::str(s.filter.c_str());
  out["instruction_set"] = nb::str(s.instruction_set.c_str());
  out["pairs"] = s.pairs;
  out["candidates"] = s.candidates;
  out["fallbacks"] = s.fallbacks;
  out["directions"] = s.directions;
  out["lists"] = s.lists;
  out["nan_rows"] = s.nan_rows;
  out["nan_queries"] = s.nan_queries;
  out["collapsed_rows"] = s.collapsed_rows;
  out["hops"] = s.hops;
  out["cached_hops"] = s.cached_hops;
  out["distances"] = s.distances;
  out["list_size"] = s.list_size;
  out["certified"] = s.certified;
  out["recall"] = s.recall;
  out["seconds"] = s.seconds;
  return out;
}

nb::tuple to_python(Neighbors&& neighbors) {
  const auto queries = static_cast<std::size_t>(neighbors.queries);
  const auto k = static_cast<std::size_t>(neighbors.k);
  nb::object distances = std::visit(
      [&](auto& held) {
        return own(std::move(held), {queries, k});
      },
      neighbors.distances);
  nb::object indices = own(std::move(neighbors.indices), {queries, k});
  return nb::make_tuple(distances, indices, statistics_dict(neighbors.statistics));
}

nb::tuple to_python(RadiusNeighbors&& found) {
  const std::size_t total = found.indices.size();
  nb::object offsets = own(std::move(found.offsets), {static_cast<std::size_t>(found.queries) + 1});
  nb::object distances =
      std::visit([&](auto& held) { return own(std::move(held), {total}); }, found.distances);
  nb::object indices = own(std::move(found.indices), {total});
  return nb::make_tuple(offsets, indices, distances, statistics_dict(found.statistics));
}

Neighbors from_python(const Distances& distances, const Indices& indices, const Execution& execution) {
  if (distances.shape(0) != indices.shape(0) || distances.shape(1) != indices.shape(1)) {
    throw InvalidArgument(fmt::format("distances are [{}, {}], indices [{}, {}]; they must be the same",
                                      distances.shape(0), distances.shape(1), indices.shape(0),
                                      indices.shape(1)));
  }
  Neighbors out;
  out.queries = static_cast<std::int64_t>(indices.shape(0));
  out.k = static_cast<std::int64_t>(indices.shape(1));
  out.indices = copy<std::int64_t>(indices.data(), indices.size(), execution);
  if (distances.dtype() == nb::dtype<float>()) {
    out.distances = copy<float>(distances.data(), distances.size(), execution);
  } else if (distances.dtype() == nb::dtype<double>()) {
    out.distances = copy<double>(distances.data(), distances.size(), execution);
  } else {
    throw nb::type_error("distances are neither float32 nor float64; use distances.astype(numpy.float64)");
  }
  return out;
}

void bind_answer(nb::module_& module) {
  module.def(
      "evaluate",
      [](const Distances& distances, const Indices& indices, const Distances& true_distances,
         const Indices& true_indices, std::int64_t k) {
        Evaluation e;
        run({}, nb::none(), false, [&](const Execution& execution) {
          e = evaluate(from_python(distances, indices, execution),
                       from_python(true_distances, true_indices, execution), k, execution.cancelled);
        });
        const auto pair = [](const Interval& interval) {
          return nb::make_tuple(interval.lower, interval.upper);
        };
        nb::dict out;
        out["queries"] = e.queries;
        out["k"] = e.k;
        out["recall"] = e.recall;
        out["recall_interval"] = pair(e.recall_interval);
        out["recall_with_ties"] = e.recall_with_ties;
        out["recall_with_ties_interval"] = pair(e.recall_with_ties_interval);
        out["distance_ratio"] = e.distance_ratio;
        out["distance_ratio_interval"] = pair(e.distance_ratio_interval);
        out["exact_queries"] = e.exact_queries;
        out["exact_share_interval"] = pair(e.exact_share_interval);
        return out;
      },
      nb::arg("distances"), nb::arg("indices"), nb::arg("true_distances"), nb::arg("true_indices"),
      nb::arg("k") = 0, "Recall and distance ratio of a result against the truth, as a dict.");
}

}  // namespace kith::python
