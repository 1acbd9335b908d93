// Vamana::insert: an index over more rows, from one over some.
#include <atomic>
#include <cstring>
#include <mutex>
#include <utility>

#include <fmt/format.h>

#include "core/parallel.hpp"
#include "core/search_checks.hpp"
#include "kith/error.hpp"
#include "kith/vamana.hpp"
#include "vamana/calibrate.hpp"
#include "vamana/checks.hpp"

namespace kith {
namespace {

using vamana::Contents;

constexpr std::int64_t rows_a_task = 1024;
/// A value that is so many times farther from the mean than codes reach says that they are not for its row;
/// this share of the rows may have one. Codes of 4 bits cut values off much sooner.
constexpr double far_reach(const codes::ScalarSpace& space) {
  return space.bits == 4 ? 5 : 2;
}
constexpr double far_share = 0.01;

// Codes were made for other rows: these must be of their kind.
void check_fit(const codes::ScalarSpace& space, const DatasetView& rows, std::int64_t before,
               const Execution& execution) {
  if (space.raw_integers()) return;
  std::atomic<std::int64_t> far{0};
  std::mutex mutex;
  std::int64_t longest = -1;
  double length = 1;
  parallel_for(execution, (rows.rows + rows_a_task - 1) / rows_a_task, [&](std::int64_t task) {
    codes::ScalarCodec codec(space);
    const std::int64_t end = std::min(rows.rows, (task + 1) * rows_a_task);
    for (std::int64_t i = task * rows_a_task; i < end; ++i) {
      const codes::ScalarFit fit = codec.fit(rows.row(i));
      if (fit.reach > far_reach(space)) ++far;
      if (!(fit.length > 1)) continue;
      const std::scoped_lock lock(mutex);
      if (fit.length > length || (fit.length == length && i < longest)) {
        length = fit.length;
        longest = i;
      }
    }
  });
  if (longest >= 0) {
    throw InvalidArgument(
        fmt::format("row {} to be inserted is {:.4g} times as long as the longest of the {} rows that the "
                    "graph was first built over, of length {:.6g}; for inner_product none may be longer: "
                    "build the index anew over all rows",
                    longest, length, before, space.largest_norm));
  }
  if (static_cast<double>(far) > far_share * static_cast<double>(rows.rows)) {
    throw InvalidArgument(fmt::format(
        "{} of the {} rows to be inserted have values that are more than {} times as far from the "
        "mean as the codes of the first build reach, at most one in a hundred may; build the "
        "index anew over all rows",
        far.load(), rows.rows, far_reach(space)));
  }
}

// Both, one after the other.
Dataset joined(const DatasetView& first, const DatasetView& second, const Execution& execution) {
  Dataset all = Dataset::allocate(first.dtype, first.rows + second.rows, first.dim);
  const std::size_t bytes = static_cast<std::size_t>(first.dim) * size_of(first.dtype);
  auto* out = static_cast<char*>(all.mutable_data());
  parallel_for(execution, (all.rows() + rows_a_task - 1) / rows_a_task, [&](std::int64_t task) {
    const std::int64_t end = std::min(all.rows(), (task + 1) * rows_a_task);
    for (std::int64_t i = task * rows_a_task; i < end; ++i) {
      std::memcpy(out + static_cast<std::size_t>(i) * bytes,
                  i < first.rows ? first.row(i) : second.row(i - first.rows), bytes);
    }
  });
  return all;
}

void check_memory(const Contents& old, std::int64_t rows, const vamana::Backend& backend,
                  const Execution& execution) {
  const DatasetView& its = old.dataset.view();
  const std::uint64_t need =
      static_cast<std::uint64_t>(rows) * static_cast<std::uint64_t>(its.dim) * size_of(its.dtype) +
      vamana::node_bytes(old.built.space, rows) +
      vamana::walk_code_bytes(old.built.space, old.parameters, rows) +
      backend.build_bytes(rows, old.parameters, resolve_threads(execution));
  if (execution.memory_limit > 0 && need > execution.memory_limit) {
    throw OutOfMemory(fmt::format(
        "an index vamana of {} rows takes about {} bytes while rows are inserted, its copy of all "
        "rows included, the limit is {}; raise the limit, or build the index anew",
        rows, need, execution.memory_limit));
  }
}

}  // namespace

Vamana Vamana::insert(const DatasetView& rows, const Execution& execution) const {
  const Contents& old = *state_->contents;
  const DatasetView& its = old.dataset.view();
  validate(rows, "rows");
  const vamana::Backend& backend = vamana::backend_for(execution);
  if (rows.dim != its.dim || rows.dtype != its.dtype) {
    throw InvalidArgument(fmt::format(
        "the rows to be inserted are {} of dimension {}, the index has {} of dimension {}; they must be the "
        "same",
        name(rows.dtype), rows.dim, name(its.dtype), its.dim));
  }
  vamana::check_rows(rows);
  if (rows.rows == 0) return *this;
  if (its.rows == 0) return build(Dataset::copy(rows), old.parameters, execution);
  const std::int64_t all = its.rows + rows.rows;
  if (all > vamana::most_rows) {
    throw InvalidArgument(
        fmt::format("{} rows with those inserted; the index vamana takes up to {}, build several", all,
                    vamana::most_rows));
  }
  check_memory(old, all, backend, execution);
  return or_out_of_memory(
      [&] { return fmt::format("the index vamana of {} rows", all); },
      [&] {
        check_fit(old.built.space, rows, its.rows, execution);
        auto contents = std::make_shared<Contents>();
        contents->dataset = joined(its, rows, execution);
        contents->parameters = old.parameters;
        vamana::Built& built = contents->built;
        built.space = old.built.space;
        // Rows of equal codes join the nodes of the old ones, which come first.
        contents->plain = old.plain;
        built.nodes = (old.plain ? vamana::make_plain_nodes : vamana::make_nodes)(contents->dataset,
                                                                                  built.space, execution);
        built.walked = vamana::make_walk_codes(
            built.nodes, built.space, old.parameters,
            old.built.walked != nullptr ? old.built.walked->coding : nullptr, backend, execution);
        RecallCurve curve =
            vamana::build_and_measure(*contents, old.built.graph, its.rows, backend, execution);
        built.drop_what_built_it();
        return Vamana(std::make_shared<State>(std::move(contents), std::move(curve)));
      });
}

}  // namespace kith
