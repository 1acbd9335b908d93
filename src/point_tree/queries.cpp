#include "point_tree/queries.hpp"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "core/large_vector.hpp"
#include "core/parallel.hpp"
#include "cuda/caller_stream.hpp"
#include "cuda/device_memory.hpp"
#include "point_tree/backend.hpp"
#include "point_tree/cpu/search.hpp"
#include "point_tree/memory.hpp"
#include "point_tree/tuning.hpp"
#include "point_tree/within.hpp"

namespace kith::point_tree {
namespace {

Execution on_cpu(const Execution& execution) {
  Execution cpu = execution;
  cpu.devices = {Device{}};
  cpu.device_memory_limit = 0;
  cpu.stream = nullptr;
  cpu.follow_stream = false;
  return cpu;
}

// Rows in host memory: a view of the caller's, or a copy.
struct HostRows {
  std::vector<std::byte> bytes;
  DatasetView view;

  HostRows(Dtype dtype, std::int64_t rows, std::int64_t dim)
      : bytes(static_cast<std::size_t>(rows * dim) * size_of(dtype)),
        view(bytes.data(), dtype, rows, dim, dim) {}
  // What the caller's streams still write comes first.
  HostRows(const DatasetView& rows, const Execution& execution) : view(rows) {
    if (rows.space == MemorySpace::host) return;
    cuda::wait_for_caller(execution, {rows.device});
    *this = HostRows(rows.dtype, rows.rows, rows.dim);
    cuda::copy_rows_to_host(rows, bytes.data());
  }
  HostRows(const HostRows&) = delete;
  HostRows& operator=(const HostRows&) = delete;
  HostRows(HostRows&&) = default;
  HostRows& operator=(HostRows&&) = default;
  ~HostRows() = default;
};

// The CPU's answers of some queries, by their numbers in `out`. What no part reaches holds -1 and +inf: rows
// with a NaN, and whatever is past the last row.
template <class T>
SearchStatistics walk(const Tree& tree, const Asked& asked, std::int64_t k, double radius,
                      std::int64_t* indices, T* distances, const Execution& execution, const char* stage) {
  if (k > tree.rows || (asked.queries == nullptr && tree.nan_rows > 0)) {
    constexpr std::int64_t block = 1 << 20;
    const std::int64_t cells = asked.count(tree) * k;
    parallel_for(execution, (cells + block - 1) / block, [&](std::int64_t b) {
      const std::int64_t size = std::min(block, cells - b * block);
      std::fill_n(indices + b * block, size, -1);
      std::fill_n(distances + b * block, size, std::numeric_limits<T>::infinity());
    });
  }
  return run<T>(tree, asked, Kind::nearest, k, radius, execution, stage, [&](const Part<T>& part) {
    for (std::int64_t i = 0; i < part.count; ++i) {
      std::copy_n(part.rows + i * part.k, part.k, indices + part.queries[i] * k);
      std::copy_n(part.distances + i * part.k, part.k, distances + part.queries[i] * k);
    }
  });
}

void copy_into(const NeighborsView& out, const void* from, void* to, std::size_t bytes) {
  if (out.space == MemorySpace::cuda) {
    cuda::copy_to_device(from, to, out.device, bytes);
  } else {
    std::memcpy(to, from, bytes);
  }
}

// Queries that a device left to the CPU: rows or values with infinities have a part in their answers.
template <class T>
class Left {
 public:
  Left(const Tree& tree, const Asked& asked, double radius, const NeighborsView& out,
       const Execution& execution, const char* stage)
      : tree_(tree),
        asked_(asked),
        radius_(radius),
        out_(out),
        execution_(without_progress(on_cpu(execution))),  // the device has reported every query
        stage_(stage),
        without_self_(asked.queries == nullptr && !asked.include_self) {}

  void answer(std::vector<std::int64_t> numbers, SearchStatistics& statistics) {
    if (numbers.empty()) return;
    std::sort(numbers.begin(), numbers.end());
    if (asked_.queries == nullptr) {
      values_ = by_row<T>(tree_, execution_);
      all_ = DatasetView(values_.data(), tree_.rows, tree_.dim);
    } else {
      queries_.emplace(*asked_.queries, execution_);
      all_ = queries_->view;
    }
    constexpr std::size_t block = 1U << 16U;
    for (std::size_t first = 0; first < numbers.size(); first += block) {
      answer_block({numbers.data() + first, std::min(block, numbers.size() - first)}, statistics);
    }
  }

 private:
  void answer_block(std::span<const std::int64_t> numbers, SearchStatistics& statistics) {
    const auto count = static_cast<std::int64_t>(numbers.size());
    HostRows rows(all_.dtype, count, tree_.dim);
    const auto row_bytes = static_cast<std::size_t>(tree_.dim) * size_of(all_.dtype);
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      std::memcpy(rows.bytes.data() + i * row_bytes, all_.row(numbers[i]), row_bytes);
    }
    // As a query a row finds itself, too: one more, and it is taken out.
    const std::int64_t k = out_.k + (without_self_ ? 1 : 0);
    std::vector<std::int64_t> indices(static_cast<std::size_t>(count * k));
    std::vector<T> distances(static_cast<std::size_t>(count * k));
    const SearchStatistics walked =
        walk<T>(tree_, {&rows.view}, k, radius_, indices.data(), distances.data(), execution_, stage_);
    statistics.pairs += walked.pairs;
    statistics.candidates += walked.candidates;
    for (std::int64_t i = 0; without_self_ && i < count; ++i) {
      const auto list = indices.begin() + i * k;
      const auto self = std::find(list, list + k - 1, numbers[static_cast<std::size_t>(i)]) - list;
      // To the front, so that the lists of k - 1 lie as the answer has them.
      const auto skip = [&](auto from, auto to) {
        for (std::int64_t j = 0; j < out_.k; ++j) to[j] = from[j + (j >= self ? 1 : 0)];
      };
      skip(list, indices.begin() + i * out_.k);
      skip(distances.begin() + i * k, distances.begin() + i * out_.k);
    }
    write(numbers, indices.data(), distances.data());
  }

  // Neighbouring queries lie side by side: one copy for each run of them.
  void write(std::span<const std::int64_t> numbers, const std::int64_t* indices, const T* distances) const {
    const auto k = static_cast<std::size_t>(out_.k);
    for (std::size_t first = 0; first < numbers.size();) {
      std::size_t end = first + 1;
      while (end < numbers.size() && numbers[end] == numbers[end - 1] + 1) ++end;
      const auto cells = (end - first) * k;
      const auto at = numbers[first] * out_.k;
      copy_into(out_, indices + first * k, out_.indices + at, cells * sizeof(std::int64_t));
      copy_into(out_, distances + first * k, static_cast<T*>(out_.distances) + at, cells * sizeof(T));
      first = end;
    }
  }

  const Tree& tree_;
  const Asked& asked_;
  double radius_;
  const NeighborsView& out_;
  Execution execution_;
  const char* stage_;
  bool without_self_;
  std::vector<T> values_;
  std::optional<HostRows> queries_;
  DatasetView all_;
};

}  // namespace

std::size_t cell_bytes(const Tree& tree) {
  return sizeof(std::int64_t) + size_of(distance_dtype(tree.dtype));
}

void check_memory(int128 values, std::size_t bytes_each, const char* what, std::int64_t queries,
                  const Execution& execution) {
  check_answer_memory(values, bytes_each, fmt::format("{} queries", queries), what, execution);
}

template <class T>
std::vector<T> by_row(const Tree& tree, const Execution& execution) {
  auto values = large_vector<T>(tree.rows * tree.dim, execution, std::numeric_limits<T>::quiet_NaN());
  copy_points<T>(tree, values.data(), execution);
  for (std::size_t i = 0; i < tree.infinite.size(); ++i) {
    const double* from = tree.infinite_values.data() + static_cast<std::int64_t>(i) * tree.dim;
    std::transform(from, from + tree.dim, values.begin() + tree.infinite[i] * tree.dim,
                   [](double v) { return static_cast<T>(v); });
  }
  return values;
}
template std::vector<float> by_row(const Tree&, const Execution&);
template std::vector<double> by_row(const Tree&, const Execution&);

SearchStatistics nearest_into(const Tree& tree, const Asked& asked, double radius, const NeighborsView& out,
                              const Execution& execution, const char* stage) {
  return visit_distances(tree, [&]<class T>() {
    const DeviceBackend* device = backend_of(execution);
    if (device == nullptr) {
      return walk<T>(tree, asked, out.k, radius, out.indices, static_cast<T*>(out.distances), execution,
                     stage);
    }
    std::vector<std::int64_t> left;
    SearchStatistics statistics = device->nearest(tree, asked, radius, out, execution, stage, left);
    Left<T>(tree, asked, radius, out, execution, stage).answer(std::move(left), statistics);
    return statistics;
  });
}

Neighbors nearest(const Tree& tree, const Asked& asked, std::int64_t k, double radius,
                  const Execution& execution, const char* stage) {
  const std::int64_t count = asked.count(tree);
  const DatasetView shape(nullptr, tree.dtype, tree.rows, tree.dim, tree.dim);
  check_memory(nearest_bytes(shape, asked.queries == nullptr ? -1 : count, k, execution), 1, "the answer",
               count, execution);
  return neighbors_or_out_of_memory(count, [&] {
    Neighbors out;
    out.queries = count;
    out.k = k;
    out.indices = large_vector<std::int64_t>(count * k, execution);
    visit_distances(tree, [&]<class T>() {
      auto distances = large_vector<T>(count * k, execution);
      out.statistics = nearest_into(tree, asked, radius, {out.indices.data(), distances.data(), count, k},
                                    execution, stage);
      out.distances = std::move(distances);
    });
    return out;
  });
}

RadiusNeighbors within(const Tree& tree, const DatasetView& queries, double radius,
                       const RadiusOptions& options, const Execution& execution) {
  if (options.max_neighbors > 0 && options.max_neighbors < tree.rows) {
    return nearest_within(nearest(tree, {&queries}, options.max_neighbors, radius, execution, "search"));
  }
  return neighbors_or_out_of_memory(queries.rows, [&] {
    const DeviceBackend* device = backend_of(execution);
    // Without end every row is within, those with an infinity, too: nothing to search.
    if (device != nullptr && radius < infinity) {
      return device->within(tree, queries, radius, options.sorted, execution);
    }
    const HostRows host(queries, execution);
    return within_on_cpu(tree, host.view, radius, options.sorted, on_cpu(execution));
  });
}

std::vector<std::int64_t> count(const Tree& tree, const DatasetView& queries, double radius,
                                const Execution& execution) {
  const std::int64_t order = backend_of(execution) == nullptr ? order_bytes(queries.rows) : 0;
  check_memory(static_cast<int128>(queries.rows) * 8 + order, 1, "the counts", queries.rows, execution);
  return neighbors_or_out_of_memory(queries.rows, [&] {
    auto counts = large_vector<std::int64_t>(queries.rows, execution);
    const DeviceBackend* device = backend_of(execution);
    if (device != nullptr && radius < infinity) {
      device->count(tree, queries, radius, counts.data(), execution);
      return counts;
    }
    const HostRows host(queries, execution);
    visit_distances(tree, [&]<class T>() {
      run<T>(tree, {&host.view}, Kind::count, 1, radius, on_cpu(execution), "count",
             [&](const Part<T>& part) {
               for (std::int64_t i = 0; i < part.count; ++i) {
                 counts[static_cast<std::size_t>(part.queries[i])] = part.counts[i];
               }
             });
    });
    return counts;
  });
}

}  // namespace kith::point_tree
