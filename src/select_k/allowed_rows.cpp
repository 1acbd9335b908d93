#include "select_k/allowed_rows.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include <fmt/format.h>

#include "core/large_vector.hpp"
#include "core/parallel.hpp"
#include "cuda/device_memory.hpp"
#include "kith/error.hpp"

namespace kith {
namespace {

// Costs in nanoseconds; only their ratios matter.
constexpr double a_gathered_row = 60;  // to copy a row and to make an index of it
constexpr double a_gathered_value = 4;
// Longer lists than this are never worth it: brute force on a GPU sorts them in memory.
constexpr std::int64_t longest_list = 4096;
// Answers that wait to be thinned out.
constexpr std::int64_t most_waiting_bytes = std::int64_t{256} << 20U;

// How many of all rows to ask for, so that k of them are allowed most of the time.
std::int64_t list_for(std::int64_t k, const RowSet& allowed) {
  const double share = static_cast<double>(allowed.count()) / static_cast<double>(allowed.rows());
  const double wanted = static_cast<double>(k) / share;
  return static_cast<std::int64_t>(
      std::min(static_cast<double>(allowed.rows()), wanted + 3 * std::sqrt(wanted / share) + 1));
}

// Whether the next search goes over all rows. As soon as such searches have taken as long for a query as an
// index of the allowed rows would have, it is made: that is at most twice the least that could be had.
class Choice {
 public:
  Choice(const RowSet& allowed, std::int64_t k, std::int64_t dim, const WaysToSearch& ways)
      : all_(static_cast<double>(allowed.rows())),
        some_(static_cast<double>(allowed.count())),
        k_(static_cast<double>(k)),
        gathering_(some_ * (a_gathered_row + a_gathered_value * static_cast<double>(dim))),
        ways_(ways) {}

  // @param queries that have no answer yet
  bool over_all(std::int64_t queries, std::int64_t list) {
    const auto length = static_cast<double>(list);
    const SearchCosts& costs = ways_.costs;
    // More than half of the rows are not copied: comparing with all is not twice the work.
    const bool no_copy = !ways_.copy_fits || (spent_ == 0 && 2 * some_ > all_);
    if (list > longest_list) return some_ == all_;
    spent_ += length * costs.list_place + all_ * costs.row;
    const double saved = k_ * costs.list_place + some_ * costs.row;
    return no_copy || static_cast<double>(queries) * (spent_ - saved) <= gathering_;
  }

 private:
  double all_, some_, k_, gathering_;
  const WaysToSearch& ways_;
  double spent_ = 0;  // for a query, on searches over all rows
};

// The numbers in the set, ascending.
std::vector<std::int64_t> numbers_of(const RowSet& allowed) {
  std::vector<std::int64_t> numbers;
  numbers.reserve(static_cast<std::size_t>(allowed.count()));
  const auto words = allowed.words();
  for (std::size_t w = 0; w < words.size(); ++w) {
    for (std::uint64_t bits = words[w]; bits != 0; bits &= bits - 1) {
      numbers.push_back(static_cast<std::int64_t>(w) * 64 + std::countr_zero(bits));
    }
  }
  return numbers;
}

// Answers of some queries, in a search's whole answer.
class Answer {
 public:
  Answer(std::int64_t queries, std::int64_t k, Dtype distances, const Execution& execution) {
    out_.queries = queries;
    out_.k = k;
    out_.indices = large_vector<std::int64_t>(queries * k, execution, -1);
    if (distances == Dtype::f64) {
      out_.distances = large_vector<double>(queries * k, execution, std::numeric_limits<double>::infinity());
    } else {
      out_.distances = large_vector<float>(queries * k, execution, std::numeric_limits<float>::infinity());
    }
  }

  // The allowed of what was found, up to k, as the answer of query `q`. False where more may be allowed
  // beyond the end of the list.
  bool take(std::int64_t q, const Neighbors& found, std::int64_t query, const RowSet* allowed) {
    const auto indices = found.indices_of(query);
    std::int64_t taken = 0;
    for (std::size_t j = 0; j < indices.size() && taken < out_.k; ++j) {
      if (indices[j] < 0) return true;
      if (allowed != nullptr && !allowed->contains(indices[j])) continue;
      const auto at = static_cast<std::size_t>(q * out_.k + taken++);
      out_.indices[at] = indices[j];
      std::visit(
          [&](auto& distances) {
            using Distances = std::remove_reference_t<decltype(distances)>;
            distances[at] =
                std::get<Distances>(found.distances)[static_cast<std::size_t>(query * found.k) + j];
          },
          out_.distances);
    }
    return taken == out_.k;
  }

  Neighbors& whole() { return out_; }

 private:
  Neighbors out_;
};

}  // namespace

void check_allowed(const RowSet& allowed, std::int64_t rows, std::string_view what) {
  if (allowed.rows() == rows) return;
  throw InvalidArgument(
      fmt::format("the allowed rows are a set over {} rows, the {} has {}; make the set over as many",
                  allowed.rows(), what, rows));
}

Dataset pick_rows(const DatasetView& rows, std::span<const std::int64_t> numbers) {
  Dataset picked = Dataset::allocate(rows.dtype, static_cast<std::int64_t>(numbers.size()), rows.dim);
  auto* to = static_cast<std::byte*>(picked.mutable_data());
  const std::size_t row_bytes = static_cast<std::size_t>(rows.dim) * size_of(rows.dtype);
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    std::memcpy(to + i * row_bytes, rows.row(numbers[i]), row_bytes);
  }
  return picked;
}

void GatheredRows::renumber(Neighbors& found) const {
  renumber(NeighborsView{.indices = found.indices.data(), .queries = found.queries, .k = found.k});
}

void GatheredRows::renumber(const NeighborsView& found) const {
  for (std::int64_t& index : std::span(found.indices, static_cast<std::size_t>(found.queries * found.k))) {
    if (index >= 0) index = numbers[static_cast<std::size_t>(index)];
  }
}

GatheredRows gather(const DatasetView& rows, const RowSet& allowed, const Execution& execution) {
  GatheredRows out;
  out.numbers = numbers_of(allowed);
  const auto count = static_cast<std::int64_t>(out.numbers.size());
  const std::size_t row_bytes = static_cast<std::size_t>(rows.dim) * size_of(rows.dtype);
  if (execution.memory_limit > 0 && static_cast<std::uint64_t>(count) * row_bytes > execution.memory_limit) {
    throw OutOfMemory(
        fmt::format("the {} allowed rows take {} bytes side by side, the limit is {}; raise the limit, or "
                    "allow fewer rows",
                    count, static_cast<std::uint64_t>(count) * row_bytes, execution.memory_limit));
  }
  out.rows = Dataset::allocate(rows.dtype, count, rows.dim);
  auto* to = static_cast<std::byte*>(out.rows.mutable_data());
  const std::int64_t block =
      std::max<std::int64_t>(1, (std::int64_t{16} << 20U) / static_cast<std::int64_t>(row_bytes));
  const auto from_host = [&](const DatasetView& source, std::int64_t first, std::int64_t begin,
                             std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      std::memcpy(to + static_cast<std::size_t>(i) * row_bytes,
                  source.row(out.numbers[static_cast<std::size_t>(i)] - first), row_bytes);
    }
  };
  if (rows.space == MemorySpace::host) {
    ProgressCounter progress(execution, "gathering", std::max<std::int64_t>(1, count));
    parallel_for(resolve_threads(execution), (count + block - 1) / block, [&](std::int64_t b) {
      from_host(rows, 0, b * block, std::min(count, (b + 1) * block));
      progress.advance(std::min(block, count - b * block));
    });
    progress.finish();
    return out;
  }
  StopRequest stop(execution);
  std::vector<std::byte> piece(static_cast<std::size_t>(std::min(block, rows.rows)) * row_bytes);
  for (std::int64_t first = 0, next = 0; first < rows.rows && next < count; first += block) {
    const std::int64_t size = std::min(block, rows.rows - first);
    const auto end =
        std::lower_bound(out.numbers.begin() + next, out.numbers.end(), first + size) - out.numbers.begin();
    if (end > next) {
      cuda::copy_rows_to_host(rows.slice(first, size), piece.data());
      from_host(DatasetView(piece.data(), rows.dtype, size, rows.dim, rows.dim), first, next, end);
      next = end;
    }
    stop.check();
  }
  return out;
}

Dataset on_host(const DatasetView& rows) {
  if (rows.space == MemorySpace::host) return Dataset::adopt(rows, nullptr);
  Dataset copy = Dataset::allocate(rows.dtype, rows.rows, rows.dim);
  cuda::copy_rows_to_host(rows, copy.mutable_data());
  return copy;
}

Neighbors search_allowed(const RowSet& allowed, const DatasetView& queries, std::int64_t k, Dtype distances,
                         const Execution& execution, const WaysToSearch& ways) {
  Answer answer(queries.rows, k, distances, execution);
  SearchStatistics& statistics = answer.whole().statistics;
  if (queries.rows == 0 || allowed.count() == 0) return std::move(answer.whole());

  // Queries in host memory from here on: those that are searched again are picked out.
  Dataset host;
  const auto pick = [&](const std::vector<std::int64_t>& numbers) {
    if (host.rows() == 0) host = on_host(queries);
    return pick_rows(host.view(), numbers);
  };

  std::vector<std::int64_t> left;
  std::int64_t list = list_for(k, allowed);
  bool first_pass = true;
  Choice choice(allowed, k, queries.dim, ways);
  while (choice.over_all(first_pass ? queries.rows : static_cast<std::int64_t>(left.size()), list)) {
    Dataset picked;
    if (!first_pass) picked = pick(left);
    const DatasetView& asked = first_pass ? queries : picked.view();
    std::int64_t waiting = most_waiting_bytes;
    if (execution.memory_limit > 0) {
      waiting = std::min(waiting, static_cast<std::int64_t>(execution.memory_limit / 4));
    }
    const std::int64_t block = std::clamp<std::int64_t>(waiting / (16 * list), 1, asked.rows);
    std::vector<std::int64_t> still;
    for (std::int64_t b = 0; b < asked.rows; b += block) {
      const Neighbors found = ways.all(asked.slice(b, std::min(block, asked.rows - b)), list);
      add(statistics, found.statistics);
      for (std::int64_t i = 0; i < found.queries; ++i) {
        const std::int64_t q = first_pass ? b + i : left[static_cast<std::size_t>(b + i)];
        if (!answer.take(q, found, i, &allowed) && list < allowed.rows()) still.push_back(q);
      }
    }
    left = std::move(still);
    if (left.empty()) return std::move(answer.whole());
    first_pass = false;
    list = std::min(allowed.rows(), 4 * list);
  }
  Dataset picked;
  if (!first_pass) picked = pick(left);
  const Neighbors found = ways.allowed(first_pass ? queries : picked.view(), std::min(k, allowed.count()));
  add(statistics, found.statistics);
  for (std::int64_t i = 0; i < found.queries; ++i) {
    (void)answer.take(first_pass ? i : left[static_cast<std::size_t>(i)], found, i, nullptr);
  }
  return std::move(answer.whole());
}

void deliver(const Neighbors& answer, const NeighborsView& out) {
  const std::size_t cells = answer.indices.size();
  const auto copy = [&](const void* from, void* to, std::size_t bytes) {
    if (out.space == MemorySpace::cuda) {
      cuda::copy_to_device(from, to, out.device, bytes);
    } else if (bytes > 0) {
      std::memcpy(to, from, bytes);
    }
  };
  copy(answer.indices.data(), out.indices, cells * sizeof(std::int64_t));
  std::visit(
      [&](const auto& distances) { copy(distances.data(), out.distances, cells * sizeof(distances[0])); },
      answer.distances);
}

void add(SearchStatistics& sum, const SearchStatistics& more) {
  if (sum.index.empty()) {
    sum = more;
    return;
  }
  sum.pairs += more.pairs;
  sum.candidates += more.candidates;
  sum.fallbacks += more.fallbacks;
  sum.nan_queries += more.nan_queries;
  sum.hops += more.hops;
  sum.distances += more.distances;
  sum.certified = sum.certified && more.certified;
  sum.seconds += more.seconds;
}

}  // namespace kith
