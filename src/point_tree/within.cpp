// Two ways to an answer of compressed sparse rows. What tasks find is kept in pieces until all is found, and
// then copied: one search, but for a while everything is there twice. Where that is more than the memory
// there is, the neighbours are counted first and a second search writes them to their places. Counting ends
// as soon as the answer alone is too large.
#include "point_tree/within.hpp"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "core/large_vector.hpp"
#include "core/long_sort.hpp"
#include "core/memory_budget.hpp"
#include "core/parallel.hpp"
#include "kith/error.hpp"
#include "point_tree/cpu/search.hpp"
#include "point_tree/memory.hpp"
#include "point_tree/queries.hpp"

namespace kith::point_tree {
namespace {

constexpr const char* stage = "radius search";

// Beyond the limit for what tasks are at work on; see tuning::collected_together.
constexpr std::int64_t working_space = 16 << 20;

template <class T>
class WithinSearch {
 public:
  WithinSearch(const Tree& tree, const DatasetView& queries, double radius, bool sorted,
               const Execution& execution)
      : tree_(tree),
        queries_(queries),
        radius_(radius),
        sorted_(sorted),
        execution_(execution),
        stop_(execution),
        limit_(execution.memory_limit > 0
                   ? static_cast<std::int64_t>(std::min<std::uint64_t>(execution.memory_limit, INT64_MAX))
                   : available_memory()) {}

  RadiusNeighbors run() {
    // Offsets and counts.
    const int128 fixed = (static_cast<int128>(queries_.rows) + 1) * 16 + order_bytes(queries_.rows);
    if (fixed > limit_) refuse(fixed, fmt::format("{} queries need", queries_.rows), "their offsets");
    left_ = limit_ - static_cast<std::int64_t>(fixed);
    out_.queries = queries_.rows;
    counts_ = large_vector<std::int64_t>(queries_.rows, execution_);
    try {
      find_once();
    } catch (const OverBudget&) {
      pieces_ = {};
      find_twice();
    }
    return std::move(out_);
  }

 private:
  static constexpr auto answer_bytes = static_cast<std::int64_t>(sizeof(std::int64_t) + sizeof(T));

  struct Piece {
    std::vector<std::int64_t> queries, ends;
    std::vector<Entry<T>> entries;
  };

  [[noreturn]] void refuse(int128 need, const std::string& who, const char* what) const {
    throw OutOfMemory(
        fmt::format("{} {} bytes for {}, {} {}; use a smaller radius, ask for the nearest few "
                    "(max_neighbors), or search the queries in parts",
                    who, static_cast<std::uint64_t>(need), what,
                    execution_.memory_limit > 0 ? "the limit is" : "this machine has", limit_));
  }

  void check_answer(std::int64_t found, std::int64_t searched) const {
    if (found <= left_ / answer_bytes) return;
    refuse(static_cast<int128>(found) * answer_bytes,
           fmt::format("the {} neighbours found so far, of {} of the {} queries, need", found, searched,
                       queries_.rows),
           "the answer");
  }

  // The entries of a part in the contract's order, query by query.
  void sort(const Part<T>& part) {
    std::int64_t from = 0;
    for (std::int64_t i = 0; i < part.count; ++i) {
      sort_long(part.entries + from, part.entries + part.ends[i], before<T>, [&] { stop_.check(); });
      from = part.ends[i];
    }
  }

  template <class Take>
  void search(Kind kind, MemoryBudget* budget, const Execution& execution, const Take& take) {
    out_.statistics =
        point_tree::run<T>(tree_, {&queries_}, kind, 1, radius_, execution, stage, take, budget);
  }

  void find_once() {
    MemoryBudget budget(left_);
    search(Kind::collect, &budget, execution_, [&](const Part<T>& part) {
      const std::int64_t total = part.ends[part.count - 1];
      check_answer(found_ += total, searched_ += part.count);
      // In a piece, and in the answer that it will be copied to.
      const auto bytes =
          total * (static_cast<std::int64_t>(sizeof(Entry<T>)) + answer_bytes) + part.count * 16;
      if (!budget.take(bytes)) throw OverBudget();
      if (sorted_) sort(part);
      Piece piece;
      piece.queries.assign(part.queries, part.queries + part.count);
      piece.ends.assign(part.ends, part.ends + part.count);
      piece.entries.assign(part.entries, part.entries + total);
      count(part);
      const std::scoped_lock lock(mutex_);
      pieces_.push_back(std::move(piece));
    });
    make_room();
    auto& distances = std::get<std::vector<T>>(out_.distances);
    parallel_for(execution_, static_cast<std::int64_t>(pieces_.size()), [&](std::int64_t p) {
      Piece& piece = pieces_[static_cast<std::size_t>(p)];
      write(static_cast<std::int64_t>(piece.queries.size()), piece.queries.data(), piece.ends.data(),
            piece.entries.data(), distances);
      piece = Piece{};
    });
  }

  void find_twice() {
    found_ = searched_ = 0;
    search(Kind::count, nullptr, execution_, [&](const Part<T>& part) {
      std::int64_t total = 0;
      for (std::int64_t i = 0; i < part.count; ++i) {
        total += counts_[static_cast<std::size_t>(part.queries[i])] = part.counts[i];
      }
      check_answer(found_ += total, searched_ += part.count);
    });
    make_room();
    // Each thread has a list; where there is no room for all of them, fewer search.
    for (Execution fewer = execution_; !write_all(fewer); fewer.threads = (fewer.threads + 3) / 4) {
      fewer.threads = resolve_threads(fewer);
      if (fewer.threads > 1) continue;
      refuse(static_cast<int128>(found_) * answer_bytes + working_space,
             fmt::format("the {} neighbours of {} queries need more than", found_.load(), queries_.rows),
             "the answer and a list of one query's");
    }
  }

  // Whether the memory sufficed.
  bool write_all(const Execution& execution) {
    MemoryBudget budget(std::max(left_ - found_ * answer_bytes, working_space));
    auto& distances = std::get<std::vector<T>>(out_.distances);
    try {
      search(Kind::collect, &budget, execution, [&](const Part<T>& part) {
        if (sorted_) sort(part);
        write(part.count, part.queries, part.ends, part.entries, distances);
      });
    } catch (const OverBudget&) {
      return false;
    }
    return true;
  }

  void count(const Part<T>& part) {
    std::int64_t from = 0;
    for (std::int64_t i = 0; i < part.count; ++i) {
      counts_[static_cast<std::size_t>(part.queries[i])] = part.ends[i] - from;
      from = part.ends[i];
    }
  }

  // Offsets, and the memory they lead to.
  void make_room() {
    out_.offsets.resize(counts_.size() + 1);
    std::int64_t at = 0;
    for (std::size_t q = 0; q < counts_.size(); ++q) {
      out_.offsets[q] = at;
      at += counts_[q];
    }
    out_.offsets.back() = at;
    counts_ = {};
    out_.indices = large_vector<std::int64_t>(at, execution_);
    out_.distances = large_vector<T>(at, execution_);
  }

  void write(std::int64_t count, const std::int64_t* queries, const std::int64_t* ends,
             const Entry<T>* entries, std::vector<T>& distances) {
    std::int64_t from = 0;
    for (std::int64_t i = 0; i < count; ++i) {
      auto to = static_cast<std::size_t>(out_.offsets[static_cast<std::size_t>(queries[i])]);
      for (; from < ends[i]; ++from, ++to) {
        out_.indices[to] = entries[from].row;
        distances[to] = entries[from].distance;
      }
    }
  }

  const Tree& tree_;
  const DatasetView& queries_;
  double radius_;
  bool sorted_;
  const Execution& execution_;
  StopRequest stop_;
  std::int64_t limit_;
  std::int64_t left_ = 0;  // of the limit, for neighbours
  std::vector<std::int64_t> counts_;
  std::atomic<std::int64_t> found_{0}, searched_{0};
  std::mutex mutex_;
  std::vector<Piece> pieces_;
  RadiusNeighbors out_;
};

// Each query's values, the first of k, move up to their place.
template <class T>
void close_gaps(std::vector<T>& values, const std::vector<std::int64_t>& offsets, std::int64_t k) {
  for (std::size_t q = 0; q + 1 < offsets.size(); ++q) {
    const auto from = values.begin() + static_cast<std::int64_t>(q) * k;
    std::copy(from, from + (offsets[q + 1] - offsets[q]), values.begin() + offsets[q]);
  }
  values.resize(static_cast<std::size_t>(offsets.back()));
  if (values.size() < values.capacity() / 16) values.shrink_to_fit();
}

}  // namespace

RadiusNeighbors within_on_cpu(const Tree& tree, const DatasetView& queries, double radius, bool sorted,
                              const Execution& execution) {
  return visit_distances(
      tree, [&]<class T>() { return WithinSearch<T>(tree, queries, radius, sorted, execution).run(); });
}

RadiusNeighbors nearest_within(Neighbors&& found) {
  RadiusNeighbors out;
  out.queries = found.queries;
  out.statistics = found.statistics;
  out.offsets.assign(static_cast<std::size_t>(found.queries) + 1, 0);
  for (std::int64_t q = 0; q < found.queries; ++q) {
    const auto row = found.indices_of(q);
    const auto count = std::find(row.begin(), row.end(), -1) - row.begin();
    out.offsets[static_cast<std::size_t>(q) + 1] = out.offsets[static_cast<std::size_t>(q)] + count;
  }
  close_gaps(found.indices, out.offsets, found.k);
  out.indices = std::move(found.indices);
  std::visit([&](auto& values) { close_gaps(values, out.offsets, found.k); }, found.distances);
  std::visit([&](auto& values) { out.distances = std::move(values); }, found.distances);
  return out;
}

}  // namespace kith::point_tree
