// From rows to nodes: codes, and rows with equal codes together.
#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>
#include <mutex>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <xxhash.h>

#include "core/large_vector.hpp"
#include "core/parallel.hpp"
#include "kith/error.hpp"
#include "vamana/graph.hpp"

namespace kith::vamana {
namespace {

constexpr std::int64_t rows_a_task = 2048;

struct Hashed {
  std::uint64_t hash;
  std::uint32_t row;
  friend bool operator<(const Hashed& a, const Hashed& b) {
    return a.hash != b.hash ? a.hash < b.hash : a.row < b.row;
  }
};

// Rows in groups by the first bits of their hashes: of up to some 30 million rows so small that a thread
// sorts one in its cache.
class HashGroups {
 public:
  HashGroups(const std::vector<std::uint64_t>& hashes, const std::vector<std::uint32_t>& left_out,
             const Execution& execution)
      : bits_(std::min(most_bits, static_cast<int>(std::bit_width(hashes.size() / rows_a_group)))),
        begins_((std::size_t{1} << static_cast<unsigned>(bits_)) + 1, 0) {
    const auto n = static_cast<std::int64_t>(hashes.size());
    const std::int64_t parts = std::clamp<std::int64_t>(n / rows_a_part, 1, most_parts);
    const std::int64_t groups = count();
    // How many rows of a part a group has, and then where they go.
    std::vector<std::int64_t> places(static_cast<std::size_t>(parts * groups), 0);
    const auto for_each = [&](std::int64_t part, const auto& use) {
      const std::int64_t end = n * (part + 1) / parts;
      std::int64_t* its = places.data() + part * groups;
      auto out = std::ranges::lower_bound(left_out, static_cast<std::uint32_t>(n * part / parts));
      for (std::int64_t i = n * part / parts; i < end; ++i) {
        const auto row = static_cast<std::uint32_t>(i);
        if (out != left_out.end() && *out == row) {
          ++out;
          continue;
        }
        use(Hashed{hashes[row], row}, its[group_of(hashes[row])]);
      }
    };
    parallel_for(execution, parts, [&](std::int64_t part) {
      for_each(part, [](const Hashed& /*hashed*/, std::int64_t& place) { ++place; });
    });
    std::int64_t all = 0;
    for (std::int64_t group = 0; group < groups; ++group) {
      begins_[static_cast<std::size_t>(group)] = all;
      for (std::int64_t part = 0; part < parts; ++part) {
        std::int64_t& place = places[static_cast<std::size_t>(part * groups + group)];
        all += std::exchange(place, all);
      }
    }
    begins_.back() = all;
    rows_ = large_vector<Hashed>(all, execution);
    parallel_for(execution, parts, [&](std::int64_t part) {
      for_each(part, [&](const Hashed& hashed, std::int64_t& place) {
        rows_[static_cast<std::size_t>(place++)] = hashed;
      });
    });
  }

  std::int64_t count() const { return static_cast<std::int64_t>(begins_.size()) - 1; }
  /// Sorts a group. All rows of a hash are in one.
  std::span<const Hashed> sorted(std::int64_t group) {
    const auto at = [&](std::int64_t i) { return begins_[static_cast<std::size_t>(i)]; };
    const std::span its(rows_.data() + at(group), static_cast<std::size_t>(at(group + 1) - at(group)));
    // Of equal rows they ascend already.
    if (!std::is_sorted(its.begin(), its.end())) std::sort(its.begin(), its.end());
    return its;
  }

 private:
  static constexpr std::size_t rows_a_group = 8192;
  static constexpr int most_bits = 12;
  static constexpr std::int64_t rows_a_part = std::int64_t{1} << 16U;
  static constexpr std::int64_t most_parts = 64;

  std::size_t group_of(std::uint64_t hash) const {
    return bits_ == 0 ? 0 : static_cast<std::size_t>(hash >> static_cast<unsigned>(64 - bits_));
  }

  int bits_;
  std::vector<std::int64_t> begins_;  // of each group in rows_, and the end
  std::vector<Hashed> rows_;
};

}  // namespace

std::uint64_t node_bytes(const codes::ScalarSpace& space, std::int64_t rows) {
  // Codes, and while rows are grouped the hash of each twice; later on less.
  return static_cast<std::uint64_t>(rows) *
         (static_cast<std::uint64_t>(space.code_bytes()) + sizeof(std::uint64_t) + sizeof(Hashed));
}

Nodes make_nodes(const DatasetView& rows, const codes::ScalarSpace& space, const Execution& execution) {
  Nodes nodes;
  const std::int64_t n = rows.rows;
  const std::int64_t bytes = space.code_bytes();
  nodes.codes = AlignedBuffer<std::uint8_t>(n * bytes);
  auto hashes = large_vector<std::uint64_t>(n, execution);
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
      hashes[static_cast<std::size_t>(i)] = XXH3_64bits(code, static_cast<std::size_t>(bytes));
      if (told) continue;
      const std::scoped_lock lock(mutex);
      nan_rows.push_back(static_cast<std::uint32_t>(i));
    }
    progress.advance(end - task * rows_a_task);
  });
  progress.finish();
  std::sort(nan_rows.begin(), nan_rows.end());
  nodes.nan_rows = static_cast<std::int64_t>(nan_rows.size());
  StopRequest stop(execution);
  stop.check();
  std::optional<HashGroups> groups(std::in_place, hashes, nan_rows, execution);
  hashes = std::vector<std::uint64_t>();  // {} would keep its memory
  stop.check();

  // leader[i]: the first row with row i's code. Rows with equal hashes are compared with the leaders before
  // them: one, but for collisions.
  const auto same = [&](std::uint32_t a, std::uint32_t b) {
    return std::memcmp(nodes.codes.data() + std::int64_t{a} * bytes,
                       nodes.codes.data() + std::int64_t{b} * bytes, static_cast<std::size_t>(bytes)) == 0;
  };
  auto leader = large_vector<std::uint32_t>(n, execution, no_node);
  std::atomic<bool> grouped = nodes.nan_rows > 0;
  parallel_for(threads, groups->count(), [&](std::int64_t group) {
    stop.check();
    std::vector<std::uint32_t> leaders;  // of rows with one hash
    std::uint64_t hash = 0;
    for (const Hashed& hashed : groups->sorted(group)) {
      if (std::exchange(hash, hashed.hash) != hashed.hash) leaders.clear();
      const auto found =
          std::ranges::find_if(leaders, [&](std::uint32_t other) { return same(hashed.row, other); });
      leader[hashed.row] = found == leaders.end() ? hashed.row : *found;
      if (found == leaders.end()) {
        leaders.push_back(hashed.row);
      } else {
        grouped = true;
      }
    }
  });
  nodes.count = n;
  if (!grouped) return nodes;

  groups.reset();
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
