// Finding equal rows by hash.
#include "codes/duplicates.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <limits>
#include <unordered_map>

#include <xxhash.h>

#include "core/parallel.hpp"
#include "core/parallel_sort.hpp"
#include "core/sample.hpp"

namespace kith::codes {
namespace {

struct Hashed {
  std::uint64_t hash;
  std::int64_t row;
  friend bool operator<(const Hashed& a, const Hashed& b) {
    return a.hash != b.hash ? a.hash < b.hash : a.row < b.row;
  }
};

// A group this large (or this share of the rows) is worth collapsing.
constexpr double share_worth_it = 0.05;
constexpr std::int64_t few_rows = 4096;

// Two samples. By content: of the rows whose hash ends in zeros every copy is seen, which shows how many rows
// have a twin. By position: a value that fills a share of the rows shows up twice among rows taken at a
// stride.
bool worth_grouping(const DatasetView& data, std::size_t row_bytes, const Execution& execution) {
  const std::int64_t n = data.rows;
  std::unordered_map<std::uint64_t, std::int64_t> seen;
  const std::vector<std::int64_t> sample = sample_rows(n, few_rows);
  std::int64_t twins = 0;
  for (const std::int64_t i : sample) {
    if (++seen[XXH3_64bits(data.row(i), row_bytes)] > 1) ++twins;
  }
  if (static_cast<double>(twins) > share_worth_it * static_cast<double>(sample.size())) return true;
  for (const auto& [hash, count] : seen) {
    if (count >= 8) return true;
  }
  if (n <= few_rows) return false;

  int zeros = 0;
  while ((n >> zeros) > 16 * few_rows) ++zeros;
  const std::uint64_t mask = (std::uint64_t{1} << zeros) - 1;
  constexpr std::int64_t chunk = 16384;
  const std::int64_t chunks = (n + chunk - 1) / chunk;
  std::vector<std::vector<std::uint64_t>> found(static_cast<std::size_t>(chunks));
  parallel_for(execution, chunks, [&](std::int64_t c) {
    for (std::int64_t i = c * chunk; i < std::min(n, (c + 1) * chunk); ++i) {
      const std::uint64_t hash = XXH3_64bits(data.row(i), row_bytes);
      if ((hash & mask) == 0) found[static_cast<std::size_t>(c)].push_back(hash);
    }
  });
  std::vector<std::uint64_t> all;
  for (const auto& part : found) all.insert(all.end(), part.begin(), part.end());
  std::sort(all.begin(), all.end());
  const auto distinct = std::unique(all.begin(), all.end()) - all.begin();
  return static_cast<double>(all.size()) - static_cast<double>(distinct) >
         share_worth_it * static_cast<double>(all.size());
}

}  // namespace

Duplicates Duplicates::find(const DatasetView& data, const Execution& execution) {
  Duplicates result;
  if (data.rows < 2) return result;
  const std::size_t row_bytes = static_cast<std::size_t>(data.dim) * size_of(data.dtype);
  const int threads = resolve_threads(execution);
  if (!worth_grouping(data, row_bytes, execution)) return result;

  std::vector<Hashed> hashed(static_cast<std::size_t>(data.rows));
  constexpr std::int64_t chunk = 16384;
  parallel_for(execution, (data.rows + chunk - 1) / chunk, [&](std::int64_t c) {
    for (std::int64_t i = c * chunk; i < std::min(data.rows, (c + 1) * chunk); ++i) {
      hashed[static_cast<std::size_t>(i)] = {XXH3_64bits(data.row(i), row_bytes), i};
    }
  });
  parallel_sort(threads, hashed);

  // Runs of one hash, ascending rows. Rows whose bytes differ from the run's first are a collision: left
  // alone. The groups found are written over the list itself, first and size ahead of the others: a copy of
  // it would be more than the codes.
  std::size_t used = 0;
  std::size_t groups = 0;
  for (std::size_t i = 0; i < hashed.size();) {
    const Hashed run = hashed[i];
    const std::size_t head = used;
    std::size_t j = i + 1;
    for (; j < hashed.size() && hashed[j].hash == run.hash; ++j) {
      if (std::memcmp(data.row(run.row), data.row(hashed[j].row), row_bytes) == 0) {
        if (used == head) ++used;
        hashed[used++].row = hashed[j].row;
      }
    }
    if (used > head) {
      hashed[head] = {used - head - 1, run.row};
      ++groups;
    }
    i = j;
  }
  struct Group {
    std::int64_t first;
    std::size_t at, size;
  };
  std::vector<Group> order;
  order.reserve(groups);
  for (std::size_t at = 0; at < used; at += 1 + hashed[at].hash) {
    order.push_back({hashed[at].row, at + 1, hashed[at].hash});
  }
  std::sort(order.begin(), order.end(), [](const Group& a, const Group& b) { return a.first < b.first; });
  result.firsts_.reserve(groups);
  result.offsets_.reserve(groups + 1);
  result.rows_.reserve(used - groups);
  result.offsets_.push_back(0);
  for (const Group& group : order) {
    result.firsts_.push_back(group.first);
    for (std::size_t t = 0; t < group.size; ++t) result.rows_.push_back(hashed[group.at + t].row);
    result.offsets_.push_back(static_cast<std::int64_t>(result.rows_.size()));
  }
  return result;
}

std::span<const std::int64_t> Duplicates::of(std::int64_t row) const {
  const auto at = std::lower_bound(firsts_.begin(), firsts_.end(), row);
  if (at == firsts_.end() || *at != row) return {};
  const auto i = static_cast<std::size_t>(at - firsts_.begin());
  return {rows_.data() + offsets_[i], static_cast<std::size_t>(offsets_[i + 1] - offsets_[i])};
}

}  // namespace kith::codes
