// From rows to nodes: codes, and rows with equal codes together.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>
#include <utility>

#include <fmt/format.h>
#include <xxhash.h>

#include "core/large_vector.hpp"
#include "core/parallel.hpp"
#include "core/parallel_sort.hpp"
#include "kith/error.hpp"
#include "vamana/graph.hpp"

namespace kith::vamana {
namespace {

constexpr std::int64_t rows_a_task = 2048;
constexpr std::int64_t hashes_a_task = std::int64_t{1} << 16U;

struct Hashed {
  std::uint64_t hash;
  std::uint32_t row;
  friend bool operator<(const Hashed& a, const Hashed& b) {
    return a.hash != b.hash ? a.hash < b.hash : a.row < b.row;
  }
};

}  // namespace

std::uint64_t node_bytes(const codes::ScalarSpace& space, std::int64_t rows) {
  // Codes, and while rows are grouped a hash, the group and its members for each.
  return static_cast<std::uint64_t>(rows) *
         (static_cast<std::uint64_t>(space.code_bytes()) + sizeof(Hashed) + 3 * sizeof(std::uint32_t));
}

Nodes make_nodes(const DatasetView& rows, const codes::ScalarSpace& space, const Execution& execution) {
  Nodes nodes;
  const std::int64_t n = rows.rows;
  const std::int64_t bytes = space.code_bytes();
  nodes.codes = AlignedBuffer<std::uint8_t>(n * bytes);
  auto hashes = large_vector<Hashed>(n, execution);
  std::vector<std::uint32_t> nan_rows;
  std::mutex mutex;
  const int threads = resolve_threads(execution);
  ProgressCounter progress(execution, "encoding", n);
  parallel_for(threads, (n + rows_a_task - 1) / rows_a_task, [&](std::int64_t task) {
    codes::ScalarCodec codec(space);
    const std::int64_t end = std::min(n, (task + 1) * rows_a_task);
    for (std::int64_t i = task * rows_a_task; i < end; ++i) {
      std::uint8_t* code = nodes.codes.data() + i * bytes;
      const bool told = codec.encode_row(rows.row(i), code);
      hashes[static_cast<std::size_t>(i)] = {XXH3_64bits(code, static_cast<std::size_t>(bytes)),
                                             static_cast<std::uint32_t>(i)};
      if (told) continue;
      const std::scoped_lock lock(mutex);
      nan_rows.push_back(static_cast<std::uint32_t>(i));
    }
    progress.advance(end - task * rows_a_task);
  });
  progress.finish();
  std::sort(nan_rows.begin(), nan_rows.end());
  nodes.nan_rows = static_cast<std::int64_t>(nan_rows.size());
  if (!nan_rows.empty()) {
    std::erase_if(hashes, [&](const Hashed& hashed) {
      return std::binary_search(nan_rows.begin(), nan_rows.end(), hashed.row);
    });
  }
  parallel_sort(threads, hashes);
  StopRequest stop(execution);
  stop.check();

  // leader[i]: the first row with row i's code. Rows with equal hashes are compared with the leaders before
  // them: one, but for collisions.
  const auto same = [&](std::uint32_t a, std::uint32_t b) {
    return std::memcmp(nodes.codes.data() + std::int64_t{a} * bytes,
                       nodes.codes.data() + std::int64_t{b} * bytes, static_cast<std::size_t>(bytes)) == 0;
  };
  std::vector<std::uint32_t> leader(static_cast<std::size_t>(n), no_node);
  std::atomic<bool> grouped = nodes.nan_rows > 0;
  const auto hashed = static_cast<std::int64_t>(hashes.size());
  const auto begins = [&](std::int64_t i) {  // a run of equal hashes
    return i == 0 || i == hashed ||
           hashes[static_cast<std::size_t>(i) - 1].hash != hashes[static_cast<std::size_t>(i)].hash;
  };
  parallel_for(threads, (hashed + hashes_a_task - 1) / hashes_a_task, [&](std::int64_t task) {
    stop.check();
    // Runs that begin in the task's part.
    std::int64_t i = task * hashes_a_task;
    const std::int64_t last = std::min(hashed, i + hashes_a_task);
    while (!begins(i)) ++i;
    std::vector<std::uint32_t> leaders;
    for (; i < hashed && (i < last || !begins(i)); ++i) {
      const std::uint32_t row = hashes[static_cast<std::size_t>(i)].row;
      if (begins(i)) leaders.clear();
      const auto found =
          std::find_if(leaders.begin(), leaders.end(), [&](std::uint32_t other) { return same(row, other); });
      leader[row] = found == leaders.end() ? row : *found;
      if (found == leaders.end()) leaders.push_back(row);
      if (leader[row] != row) grouped = true;
    }
  });
  nodes.count = n;
  if (!grouped) return nodes;

  hashes = {};
  // Codes of leaders move together, and each row learns its node: `leader` becomes the node's number.
  nodes.count = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    std::uint32_t& its = leader[static_cast<std::size_t>(i)];
    if (its == no_node) continue;
    if (its != i) {
      its = leader[its];  // an earlier row: it has its number already
      continue;
    }
    if (nodes.count != i) {
      std::memcpy(nodes.codes.data() + nodes.count * bytes, nodes.codes.data() + i * bytes,
                  static_cast<std::size_t>(bytes));
    }
    its = static_cast<std::uint32_t>(nodes.count++);
  }
  nodes.first.assign(static_cast<std::size_t>(nodes.count) + 1, 0);
  for (const std::uint32_t node : leader) {
    if (node != no_node) ++nodes.first[std::size_t{node} + 1];
  }
  for (std::size_t i = 1; i < nodes.first.size(); ++i) nodes.first[i] += nodes.first[i - 1];
  nodes.rows.resize(static_cast<std::size_t>(n - nodes.nan_rows));
  std::vector<std::uint32_t> next(nodes.first.begin(), nodes.first.end() - 1);
  for (std::int64_t i = 0; i < n; ++i) {
    const std::uint32_t node = leader[static_cast<std::size_t>(i)];
    if (node != no_node) nodes.rows[next[node]++] = static_cast<std::uint32_t>(i);
  }
  return nodes;
}

Nodes make_plain_nodes(const DatasetView& rows, const codes::ScalarSpace& space, const Execution& execution) {
  Nodes nodes;
  nodes.count = rows.rows;
  nodes.codes = AlignedBuffer<std::uint8_t>(rows.rows * space.code_bytes());
  std::atomic<std::int64_t> nan_row{rows.rows};
  ProgressCounter progress(execution, "encoding", rows.rows);
  parallel_for(
      resolve_threads(execution), (rows.rows + rows_a_task - 1) / rows_a_task, [&](std::int64_t task) {
        codes::ScalarCodec codec(space);
        const std::int64_t end = std::min(rows.rows, (task + 1) * rows_a_task);
        for (std::int64_t i = task * rows_a_task; i < end; ++i) {
          if (codec.encode_row(rows.row(i), nodes.codes.data() + i * space.code_bytes())) continue;
          // The first of all, whichever task comes to its own first.
          for (std::int64_t first = nan_row; i < first && !nan_row.compare_exchange_weak(first, i);) {
          }
          break;
        }
        progress.advance(end - task * rows_a_task);
      });
  progress.finish();
  if (nan_row < rows.rows) {
    throw InvalidArgument(fmt::format(
        "row {} has a NaN, and a graph that has a node for each row leads to it; leave such rows out "
        "and build that graph anew, or build one with Kith, which leaves them out itself",
        nan_row.load()));
  }
  return nodes;
}

}  // namespace kith::vamana
