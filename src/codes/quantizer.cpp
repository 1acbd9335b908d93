// Quantizer: checks arguments and deals rows and queries out to workers.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <limits>
#include <mutex>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "codes/checks.hpp"
#include "codes/coding.hpp"
#include "codes/cpu/row_kernels.hpp"
#include "core/instruction_set.hpp"
#include "core/large_vector.hpp"
#include "core/parallel.hpp"
#include "core/search_checks.hpp"
#include "kith/error.hpp"
#include "select_k/top_k.hpp"

namespace kith {
namespace {

using codes::check_codes;
using codes::check_fit;
using codes::check_memory;
using codes::check_place;
using codes::check_values;
using codes::load_row;
using codes::row_kernels;
using codes::rows_a_task;
using codes::Worker;

// Tasks of rows_a_task rows: body(task, from, to).
template <class Body>
void each_task(const Execution& execution, const char* stage, std::int64_t rows, const Body& body) {
  ProgressCounter progress(execution, stage, rows);
  parallel_for(resolve_threads(execution), (rows + rows_a_task - 1) / rows_a_task, [&](std::int64_t task) {
    progress.check();
    const std::int64_t from = task * rows_a_task;
    const std::int64_t to = std::min(rows, from + rows_a_task);
    body(task, from, to);
    progress.advance(to - from);
  });
  progress.finish();
}

// Rows of codes one after the other, whatever the stride.
class Adjacent {
 public:
  const std::uint8_t* of(const DatasetView& codes, std::int64_t from, std::int64_t to) {
    if (codes.contiguous()) return static_cast<const std::uint8_t*>(codes.row(from));
    const auto bytes = static_cast<std::size_t>(codes.dim);
    copy_.resize(static_cast<std::size_t>(to - from) * bytes);
    for (std::int64_t i = from; i < to; ++i) {
      std::memcpy(copy_.data() + static_cast<std::size_t>(i - from) * bytes, codes.row(i), bytes);
    }
    return copy_.data();
  }

 private:
  std::vector<std::uint8_t> copy_;
};

}  // namespace

Quantizer Quantizer::train(const DatasetView& rows, const CodesParameters& parameters,
                           const Execution& execution) {
  check_place(rows, "rows", execution);
  auto state = std::make_shared<State>();
  state->parameters = parameters;
  codes::check_parameters(state->parameters, rows.dim);
  if (rows.rows == 0) throw InvalidArgument("there are no rows to train on; pass at least one");
  state->rows = {rows.dtype, rows.dim};
  if (const auto* pq = std::get_if<PqParameters>(&state->parameters)) {
    check_memory(std::min(rows.rows, pq->training_rows), rows.dim * 4, "the rows that pq is trained on",
                 execution);
  }
  const auto train = [&](const auto& its) {
    using Parameters = std::decay_t<decltype(its)>;
    if constexpr (std::is_same_v<Parameters, ScalarCodesParameters>) {
      (void)codes::training_rows(rows, rows_a_task, execution);  // refuses what nothing can be learnt from
      return codes::train_scalar(rows, its, execution);
    } else if constexpr (std::is_same_v<Parameters, RabitqParameters>) {
      return codes::train_rabitq(rows, its, execution);
    } else {
      return codes::train_pq(rows, its, execution);
    }
  };
  state->coding = or_out_of_memory([] { return std::string("training; use fewer rows"); },
                                   [&] { return std::visit(train, state->parameters); });
  return Quantizer(std::move(state));
}

Dataset Quantizer::encode(const DatasetView& rows, const Execution& execution) const {
  check_place(rows, "rows", execution);
  check_fit(rows, "rows", *this);
  check_memory(rows.rows, code_bytes(), "the codes", execution);
  check_values(rows, "rows", execution, state_->coding->largest_norm());
  Dataset out = Dataset::allocate(Dtype::u8, rows.rows, code_bytes());
  auto* bytes = static_cast<std::uint8_t*>(out.mutable_data());
  each_task(execution, "encoding", rows.rows, [&](std::int64_t, std::int64_t from, std::int64_t to) {
    const auto worker = state_->coding->worker(default_confidence);
    for (std::int64_t i = from; i < to; ++i) worker->encode(rows.row(i), bytes + i * code_bytes());
  });
  return out;
}

namespace {

// One query against all codes, piece by piece: take(from, to, distances, bounds).
template <class Stop, class Take>
void estimate_all(Worker& worker, const DatasetView& codes, bool bounded, Stop& stop, const Take& take) {
  Adjacent adjacent;
  float distances[rows_a_task];
  float bounds[rows_a_task];
  for (std::int64_t from = 0; from < codes.rows; from += rows_a_task) {
    if (from % (64 * rows_a_task) == 0) stop.check();
    const std::int64_t to = std::min(codes.rows, from + rows_a_task);
    worker.estimate(adjacent.of(codes, from, to), to - from, distances, bounded ? bounds : nullptr);
    take(from, to, distances, bounds);
  }
}

}  // namespace

Dataset Quantizer::decode(const DatasetView& codes, const Execution& execution) const {
  check_codes(codes, *this, execution);
  const Dtype type = distance_dtype(dtype());
  check_memory(codes.rows, dim() * static_cast<std::int64_t>(size_of(type)), "the decoded rows", execution);
  Dataset out = Dataset::allocate(type, codes.rows, dim());
  each_task(execution, "decoding", codes.rows, [&](std::int64_t, std::int64_t from, std::int64_t to) {
    const auto worker = state_->coding->worker(default_confidence);
    std::vector<double> values(static_cast<std::size_t>(dim()));
    for (std::int64_t i = from; i < to; ++i) {
      worker->decode(static_cast<const std::uint8_t*>(codes.row(i)), values.data());
      if (type == Dtype::f64) {
        std::copy(values.begin(), values.end(), out.mutable_values<double>().begin() + i * dim());
      } else {
        std::transform(values.begin(), values.end(), out.mutable_values<float>().begin() + i * dim(),
                       [](double value) { return static_cast<float>(value); });
      }
    }
  });
  return out;
}

Estimates Quantizer::estimate(const DatasetView& queries, const DatasetView& codes,
                              const Execution& execution, double confidence) const {
  check_place(queries, "queries", execution);
  check_fit(queries, "queries", *this);
  check_codes(codes, *this, execution);
  if (!(confidence > 0 && confidence < 1)) {
    throw InvalidArgument(fmt::format("a confidence of {}; use above 0, below 1", confidence));
  }
  const bool bounded = state_->coding->bounded();
  check_answer_memory(static_cast<int128>(queries.rows) * codes.rows, bounded ? 8 : 4,
                      fmt::format("{} queries and {} codes", queries.rows, codes.rows), "the estimates",
                      execution);
  check_values(queries, "queries", execution);
  Estimates out;
  out.queries = queries.rows;
  out.rows = codes.rows;
  or_out_of_memory([] { return std::string("the estimates; ask for fewer queries at a time"); },
                   [&] {
                     out.distances = large_vector<float>(queries.rows * codes.rows, execution);
                     if (bounded) out.bounds = large_vector<float>(queries.rows * codes.rows, execution);
                     return true;
                   });
  StopRequest stop(execution);
  parallel_for(resolve_threads(execution), queries.rows, [&](std::int64_t q) {
    const auto worker = state_->coding->worker(confidence);
    worker->set_query(queries.row(q));
    estimate_all(*worker, codes, bounded, stop,
                 [&](std::int64_t from, std::int64_t to, const float* distances, const float* bounds) {
                   const auto at = static_cast<std::ptrdiff_t>(q * codes.rows + from);
                   std::copy(distances, distances + (to - from), out.distances.begin() + at);
                   if (bounded) std::copy(bounds, bounds + (to - from), out.bounds.begin() + at);
                 });
  });
  return out;
}

Neighbors Quantizer::search(const DatasetView& queries, const DatasetView& codes, std::int64_t k,
                            const Execution& execution) const {
  const auto start = std::chrono::steady_clock::now();
  check_place(queries, "queries", execution);
  check_k(k);
  check_fit(queries, "queries", *this);
  check_codes(codes, *this, execution);
  const bool wide = dtype() == Dtype::f64;
  check_answer_memory(static_cast<int128>(queries.rows) * k, wide ? 16 : 12,
                      fmt::format("{} queries with k = {}", queries.rows, k), "the answer", execution);
  check_values(queries, "queries", execution);
  Neighbors out;
  out.queries = queries.rows;
  out.k = k;
  const std::int64_t cells = queries.rows * k;
  const auto fill = [&]<class R>(std::vector<R> distances) {
    ProgressCounter progress(execution, "search", queries.rows);
    parallel_for(resolve_threads(execution), queries.rows, [&](std::int64_t q) {
      const auto worker = state_->coding->worker(default_confidence);
      worker->set_query(queries.row(q));
      TopK<float> nearest(std::min(k, std::max<std::int64_t>(codes.rows, 1)));
      estimate_all(*worker, codes, false, progress,
                   [&](std::int64_t from, std::int64_t to, const float* its, const float*) {
                     for (std::int64_t i = from; i < to; ++i) {
                       // Estimates of codes that are nobody's may be NaN: they are never near.
                       if (its[i - from] <= nearest.bound()) nearest.offer(its[i - from], i);
                     }
                   });
      std::int64_t rank = q * k;
      for (const auto& [distance, row] : nearest.take()) {
        distances[static_cast<std::size_t>(rank)] = static_cast<R>(distance);
        out.indices[static_cast<std::size_t>(rank++)] = row;
      }
      progress.advance(1);
    });
    progress.finish();
    out.distances = std::move(distances);
  };
  or_out_of_memory([] { return std::string("the answer; ask for fewer queries at a time"); },
                   [&] {
                     out.indices = large_vector<std::int64_t>(cells, execution, -1);
                     if (wide) {
                       fill(large_vector<double>(cells, execution, std::numeric_limits<double>::infinity()));
                     } else {
                       fill(large_vector<float>(cells, execution, std::numeric_limits<float>::infinity()));
                     }
                     return true;
                   });
  out.statistics.index = name(kind());
  out.statistics.filter = "none";
  out.statistics.instruction_set = name(active_instruction_set());
  out.statistics.pairs = queries.rows * codes.rows;
  out.statistics.certified = false;
  out.statistics.recall = 0;
  out.statistics.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return out;
}

double Quantizer::reconstruction_error(const DatasetView& rows, const DatasetView& codes,
                                       const Execution& execution) const {
  check_place(rows, "rows", execution);
  check_fit(rows, "rows", *this);
  check_codes(codes, *this, execution);
  if (rows.rows != codes.rows || rows.rows == 0) {
    throw InvalidArgument(
        fmt::format("{} rows and {} codes; pass the codes of the rows, at least one", rows.rows, codes.rows));
  }
  check_values(rows, "rows", execution);
  // Sums of tasks, added in their order: the same for any number of threads.
  const auto tasks = static_cast<std::size_t>((rows.rows + rows_a_task - 1) / rows_a_task);
  std::vector<double> mean(static_cast<std::size_t>(dim()), 0.0);
  std::vector<double> values(mean.size());
  StopRequest stop(execution);
  for (std::int64_t i = 0; i < rows.rows; ++i) {
    if (i % rows_a_task == 0) stop.check();
    load_row(rows, i, values.data());
    for (std::size_t j = 0; j < mean.size(); ++j) mean[j] += values[j];
  }
  for (double& value : mean) value /= static_cast<double>(rows.rows);
  std::vector<double> lost(tasks);
  std::vector<double> whole(tasks);
  each_task(execution, "comparing", rows.rows, [&](std::int64_t task, std::int64_t from, std::int64_t to) {
    const auto worker = state_->coding->worker(default_confidence);
    std::vector<double> row(mean.size());
    std::vector<double> decoded(mean.size());
    for (std::int64_t i = from; i < to; ++i) {
      load_row(rows, i, row.data());
      worker->decode(static_cast<const std::uint8_t*>(codes.row(i)), decoded.data());
      lost[static_cast<std::size_t>(task)] +=
          row_kernels().residual_squared(row.data(), decoded.data(), dim());
      whole[static_cast<std::size_t>(task)] += row_kernels().residual_squared(row.data(), mean.data(), dim());
    }
  });
  const double error = std::accumulate(lost.begin(), lost.end(), 0.0);
  return error > 0 ? error / std::accumulate(whole.begin(), whole.end(), 0.0) : 0;
}

void Quantizer::save(const std::filesystem::path& path, const Execution& execution) const {
  codes::save(*state_, path, execution);
}

Quantizer Quantizer::load(const std::filesystem::path& path, const Execution& execution) {
  return Quantizer(codes::load(path, execution));
}

CodeKind Quantizer::kind() const noexcept {
  return static_cast<CodeKind>(state_->parameters.index());
}
const CodesParameters& Quantizer::parameters() const noexcept {
  return state_->parameters;
}
Metric Quantizer::metric() const noexcept {
  const CodesParameters& parameters = state_->parameters;
  if (const auto* scalar = std::get_if<ScalarCodesParameters>(&parameters)) return scalar->metric;
  if (const auto* rabitq = std::get_if<RabitqParameters>(&parameters)) return rabitq->metric;
  return std::get_if<PqParameters>(&parameters)->metric;
}
Dtype Quantizer::dtype() const noexcept {
  return state_->rows.dtype;
}
std::int64_t Quantizer::dim() const noexcept {
  return state_->rows.dim;
}
std::int64_t Quantizer::code_bytes() const noexcept {
  return state_->coding->code_bytes();
}
std::uint64_t Quantizer::memory_bytes() const noexcept {
  return state_->coding->memory_bytes();
}

}  // namespace kith
