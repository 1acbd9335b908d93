#include "codes/checks.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <mutex>

#include <fmt/format.h>

#include "codes/cpu/row_kernels.hpp"
#include "core/int128.hpp"
#include "core/parallel.hpp"
#include "core/sample.hpp"
#include "core/search_checks.hpp"
#include "cuda/device_choice.hpp"
#include "kith/error.hpp"

namespace kith {

std::string_view name(CodeKind kind) noexcept {
  switch (kind) {
    case CodeKind::scalar: return "scalar";
    case CodeKind::rabitq: return "rabitq";
    case CodeKind::pq: return "pq";
  }
  return "";
}

CodeKind parse_code_kind(std::string_view text) {
  for (const CodeKind kind : {CodeKind::scalar, CodeKind::rabitq, CodeKind::pq}) {
    if (text == name(kind)) return kind;
  }
  throw InvalidArgument(fmt::format("'{}' is no kind of codes; use scalar, rabitq or pq", text));
}

namespace codes {
namespace {

// The first row, by number, that cannot be encoded, from tasks that end in any order.
class FirstBad {
 public:
  void report(std::int64_t row) {
    const std::scoped_lock lock(mutex_);
    row_ = std::min(row_, row);
  }
  bool any() const { return row_ < std::numeric_limits<std::int64_t>::max(); }
  std::int64_t row() const { return row_; }

 private:
  std::mutex mutex_;
  std::int64_t row_ = std::numeric_limits<std::int64_t>::max();
};

[[noreturn]] void refuse_row(const char* what, std::int64_t row) {
  throw InvalidArgument(
      fmt::format("row {} of the {} has a value that is not finite or beyond 2^50 (1.1e15) in magnitude; "
                  "codes hold others "
                  "only: leave the row out, or scale the data",
                  row, what));
}

}  // namespace

void load_row(const DatasetView& rows, std::int64_t i, double* values) {
  row_kernels().load[static_cast<int>(rows.dtype)](rows.row(i), rows.dim, values);
}

// All rows are checked before any is used: the error does not depend on threads.
void check_values(const DatasetView& rows, const char* what, const Execution& execution, double longest) {
  FirstBad bad;
  FirstBad too_long;
  parallel_for(execution, (rows.rows + rows_a_task - 1) / rows_a_task, [&](std::int64_t task) {
    std::vector<double> values(static_cast<std::size_t>(rows.dim));
    for (std::int64_t i = task * rows_a_task; i < std::min(rows.rows, (task + 1) * rows_a_task); ++i) {
      load_row(rows, i, values.data());
      if (!codes::in_range(values.data(), rows.dim)) {
        bad.report(i);
      } else if (std::sqrt(row_kernels().sum_of_squares(values.data(), rows.dim)) > longest) {
        too_long.report(i);
      }
    }
  });
  if (bad.any()) refuse_row(what, bad.row());
  if (too_long.any()) {
    throw InvalidArgument(
        fmt::format("row {} of the {} is longer than every row trained on ({}), which scalar codes under "
                    "inner_product cannot "
                    "hold; train on all rows, or use rabitq",
                    too_long.row(), what, longest));
  }
}

void check_place(const DatasetView& view, const char* what, const Execution& execution) {
  validate(view, what);
  if (cuda::kind_of_devices(execution) != Device::Kind::cpu) {
    throw InvalidArgument(
        fmt::format("codes are made and read on the CPU, the device asked for is {}; use cpu",
                    name(execution.devices.front())));
  }
  if (view.space == MemorySpace::cuda) {
    throw InvalidArgument(fmt::format(
        "the {} lie in the memory of cuda:{}, codes are made and read on the CPU; copy them to the host",
        what, view.device));
  }
}

void check_memory(std::int64_t count, std::int64_t each, const char* what, const Execution& execution) {
  const auto need = static_cast<int128>(count) * each;
  if (execution.memory_limit > 0 && need > static_cast<int128>(execution.memory_limit)) {
    throw OutOfMemory(fmt::format(
        "{} take {} bytes, the limit is {}; raise the limit, or work through the rows or queries in parts",
        what, static_cast<double>(need), execution.memory_limit));
  }
}

void check_codes(const DatasetView& codes, const Quantizer& quantizer, const Execution& execution) {
  check_place(codes, "codes", execution);
  if (codes.dtype == Dtype::u8 && codes.dim == quantizer.code_bytes()) return;
  throw InvalidArgument(
      fmt::format("the codes are {} of {} a row, those of this quantizer u8 of {}; pass what its "
                  "encode() gave",
                  name(codes.dtype), codes.dim, quantizer.code_bytes()));
}

void check_fit(const DatasetView& rows, const char* what, const Quantizer& quantizer) {
  if (rows.dim == quantizer.dim() && rows.dtype == quantizer.dtype()) return;
  throw InvalidArgument(
      fmt::format("the {} are {} of dimension {}, the quantizer was trained on {} of dimension {}; "
                  "pass such rows, or train another",
                  what, name(rows.dtype), rows.dim, name(quantizer.dtype()), quantizer.dim()));
}

double Coding::largest_norm() const {
  return std::numeric_limits<double>::infinity();
}

bool in_range(const double* values, std::int64_t dim) {
  for (std::int64_t i = 0; i < dim; ++i) {
    if (!(std::abs(values[i]) <= largest_value)) return false;  // NaN, too
  }
  return true;
}

TrainingRows training_rows(const DatasetView& rows, std::int64_t count, const Execution& execution) {
  TrainingRows training;
  training.mean.assign(static_cast<std::size_t>(rows.dim), 0.0);
  std::vector<double> values(training.mean.size());
  StopRequest stop(execution);
  const std::vector<std::int64_t> sample = sample_rows(rows.rows, count);
  for (const std::int64_t i : sample) {
    stop.check();
    load_row(rows, i, values.data());
    if (!in_range(values.data(), rows.dim)) continue;
    training.rows.push_back(i);
    for (std::size_t j = 0; j < values.size(); ++j) training.mean[j] += values[j];
  }
  if (training.rows.empty()) {
    throw InvalidArgument(fmt::format(
        "none of the {} rows to train on has finite values within 2^50 (1.1e15) only; codes hold no others",
        sample.size()));
  }
  for (double& value : training.mean) value /= static_cast<double>(training.rows.size());
  return training;
}

void check_parameters(CodesParameters& parameters, std::int64_t dim) {
  if (dim > Quantizer::largest_dim) {
    throw InvalidArgument(
        fmt::format("rows of dimension {}; codes are for up to {}", dim, Quantizer::largest_dim));
  }
  const Metric metric = std::visit([](const auto& its) { return its.metric; }, parameters);
  if (metric == Metric::euclidean) {
    throw InvalidArgument(
        "codes do not know the metric euclidean; use sqeuclidean, which has the same order");
  }
  if (metric == Metric::cosine) {
    throw InvalidArgument(
        "codes do not know the metric cosine; divide rows and queries by their norms and use inner_product");
  }
  if (metric != Metric::sqeuclidean && metric != Metric::inner_product) {
    throw InvalidArgument(
        fmt::format("codes do not know the metric {}; use sqeuclidean or inner_product", name(metric)));
  }
  if (const auto* scalar = std::get_if<ScalarCodesParameters>(&parameters)) {
    if (scalar->bits != 4 && scalar->bits != 8) {
      throw InvalidArgument(
          fmt::format("scalar codes of {} bits; use 8 or 4, or rabitq for 1 to 8", scalar->bits));
    }
  } else if (const auto* rabitq = std::get_if<RabitqParameters>(&parameters)) {
    if (rabitq->bits < 1 || rabitq->bits > 8) {
      throw InvalidArgument(fmt::format("rabitq codes of {} bits; use 1 to 8", rabitq->bits));
    }
  } else if (auto* pq = std::get_if<PqParameters>(&parameters)) {
    if (pq->subspaces < 0 || pq->subspaces > dim) {
      throw InvalidArgument(fmt::format(
          "{} subspaces for rows of dimension {}; use 1 to the dimension, or 0 for one for every four",
          pq->subspaces, dim));
    }
    if (pq->iterations < 1 || pq->iterations > 1000) {
      throw InvalidArgument(fmt::format("{} iterations of k-means; use 1 to 1000", pq->iterations));
    }
    if (pq->training_rows < 1) {
      throw InvalidArgument(
          fmt::format("training_rows is {}; use 1 or more, 65536 for most data", pq->training_rows));
    }
    if (pq->subspaces == 0) pq->subspaces = std::max<std::int64_t>(1, dim / 4);
  }
}

}  // namespace codes
}  // namespace kith
