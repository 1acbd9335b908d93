// Queries that are not done: what they have found, and the tiles they still have to visit.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "core/positioned_file.hpp"
#include "point_tiles/running_hash.hpp"

namespace kith::point_tiles {

/// One of them. Its list is exact over the tiles that it has visited.
struct Waiting {
  std::int64_t place = 0;           ///< of its answer
  std::int64_t found = 0;           ///< entries of its list, or how many where only that is asked for
  std::vector<std::int32_t> tiles;  ///< still to visit, ascending
  /// The point, rows, distances and, where they are asked for, the coordinates of those rows; each from a
  /// word on.
  std::unique_ptr<std::int64_t[]> words;
};

/// What those in a file of another run can be.
struct WaitingLimits {
  std::int64_t places = 0;  ///< of answers
  std::int64_t tiles = 0;
  std::int64_t most = 0;  ///< entries of a list
  std::int64_t rows = 0;  ///< that may be found
};

/// How those lie in memory. T: the type of distances.
template <class T>
struct WaitingLayout {
  std::int64_t row_bytes = 0;
  bool entries = true;  ///< false: only their number is kept
  bool points = false;

  std::int64_t words(std::int64_t found) const {
    const std::int64_t n = entries ? found : 0;
    return words_of(row_bytes) + n + words_of(n * static_cast<std::int64_t>(sizeof(T))) +
           (points ? words_of(n * row_bytes) : 0);
  }
  void allocate(Waiting& query, std::int64_t found) const {
    query.found = found;
    query.words = std::make_unique_for_overwrite<std::int64_t[]>(static_cast<std::size_t>(words(found)));
    query.words[words(found) - 1] = 0;  // what no value fills is written to files, too
    query.words[words_of(row_bytes) - 1] = 0;
    if (entries && found > 0) {
      query.words[words_of(row_bytes) + found + words_of(found * static_cast<std::int64_t>(sizeof(T))) - 1] =
          0;
    }
  }
  std::byte* point(const Waiting& query) const { return reinterpret_cast<std::byte*>(query.words.get()); }
  void set_point(const Waiting& query, const std::byte* from) const {
    std::copy_n(from, row_bytes, point(query));
  }
  std::int64_t* rows(const Waiting& query) const { return query.words.get() + words_of(row_bytes); }
  T* distances(const Waiting& query) const {
    return reinterpret_cast<T*>(rows(query) + (entries ? query.found : 0));
  }
  std::byte* points_of(const Waiting& query) const {
    return reinterpret_cast<std::byte*>(rows(query) + query.found +
                                        words_of(query.found * static_cast<std::int64_t>(sizeof(T))));
  }
  /// Bytes that one takes, its allocations' own included.
  std::int64_t bytes(const Waiting& query) const {
    constexpr std::int64_t allocations = 32;
    return static_cast<std::int64_t>(sizeof query) + allocations + words(query.found) * 8 +
           static_cast<std::int64_t>(query.tiles.capacity()) * 4;
  }

  /// As a file has it: place, found, number of tiles, tiles, words.
  void append(const Waiting& query, std::vector<std::byte>& to) const {
    const std::int64_t header[3] = {query.place, query.found, static_cast<std::int64_t>(query.tiles.size())};
    const auto add = [&](const void* from, std::size_t count) {
      const auto* begin = static_cast<const std::byte*>(from);
      to.insert(to.end(), begin, begin + count);
    };
    add(header, sizeof header);
    add(query.tiles.data(), query.tiles.size() * sizeof(std::int32_t));
    add(query.words.get(), static_cast<std::size_t>(words(query.found)) * sizeof(std::int64_t));
  }
  /// One from byte `at` on, which goes past it.
  template <class File>
  Waiting read(const File& file, std::uint64_t& at) const {
    const auto take = [&](void* to, std::size_t count) {
      file.read(at, to, count);
      at += count;
    };
    std::int64_t header[3] = {};
    take(header, sizeof header);
    Waiting query;
    query.place = header[0];
    query.tiles.resize(static_cast<std::size_t>(header[2]));
    take(query.tiles.data(), query.tiles.size() * sizeof(std::int32_t));
    allocate(query, header[1]);
    take(query.words.get(), static_cast<std::size_t>(words(query.found)) * sizeof(std::int64_t));
    return query;
  }

  /// The same from a file that another run has written, which ends at byte `end`; nothing where it cannot be
  /// one: whatever is a size or an index is compared with what there is before it is used.
  template <class File>
  std::optional<Waiting> read_checked(const File& file, std::uint64_t& at, std::uint64_t end,
                                      const WaitingLimits& limits) const {
    std::int64_t header[3] = {};
    if (end - at < sizeof header) return std::nullopt;
    file.read(at, header, sizeof header);
    const auto [place, found, tiles] = header;
    const auto left = static_cast<std::int64_t>(end - at - sizeof header);
    if (place < 0 || place >= limits.places || tiles < 1 || tiles > limits.tiles || found < 0 ||
        found > std::min(limits.most, limits.rows) || (entries && found > left / word) ||
        words(found) > (left - tiles * static_cast<std::int64_t>(sizeof(std::int32_t))) / word) {
      return std::nullopt;
    }
    Waiting query = read(file, at);
    std::int64_t before = -1;
    for (const std::int32_t tile : query.tiles) {
      if (tile <= before || tile >= limits.tiles) return std::nullopt;
      before = tile;
    }
    const std::int64_t* found_rows = rows(query);
    const auto is_row = [&](std::int64_t row) { return row >= 0 && row < limits.rows; };
    if (entries && !std::all_of(found_rows, found_rows + found, is_row)) return std::nullopt;
    return query;
  }

 private:
  static constexpr std::int64_t word = sizeof(std::int64_t);
  static std::int64_t words_of(std::int64_t bytes) { return (bytes + word - 1) / word; }
};

/// Queries that wait for a sweep over the tiles they need: in memory up to a budget, beyond it in a file.
template <class T>
class Postponed {
 public:
  /// @param file where those go that do not fit. `lasting`: it stays, and what a run before has written of it
  /// is taken up
  Postponed(const WaitingLayout<T>& layout, std::filesystem::path file, bool lasting, std::int64_t budget)
      : layout_(layout), file_(std::move(file)), lasting_(lasting), budget_(budget) {}

  void add(Waiting query) {
    ++count_;
    held_ += layout_.bytes(query);
    queries_.push_back(std::move(query));
    if (held_ > budget_) spill();
  }

  std::int64_t count() const noexcept { return count_; }
  const std::filesystem::path& file() const noexcept { return file_; }
  const std::vector<Waiting>& in_memory() const noexcept { return queries_; }

  /// What was in the file when a run before noted it. @return false where it is there no more
  bool resume(std::uint64_t bytes, std::int64_t count, std::uint64_t hash) {
    if (bytes == 0) return true;
    open();
    if (spilled_.size() < bytes) return false;
    std::vector<std::byte> piece(std::size_t{1} << 20U);
    for (; end_ < bytes; end_ += piece.size()) {
      piece.resize(static_cast<std::size_t>(std::min<std::uint64_t>(piece.size(), bytes - end_)));
      spilled_.read(end_, piece.data(), piece.size());
      hash_.add(piece.data(), piece.size());
    }
    spilled_.truncate(bytes);
    count_ = count;
    return hash_.value() == hash;
  }
  /// Those in the file from byte `at` on. @return false where there is one that cannot be
  template <class Use>
  bool for_each(std::uint64_t at, const WaitingLimits& limits, const Use& use) const {
    while (at < end_) {
      const std::optional<Waiting> query = layout_.read_checked(spilled_, at, end_, limits);
      if (!query) return false;
      use(*query);
    }
    return true;
  }
  std::uint64_t file_bytes() const noexcept { return end_; }
  std::int64_t file_count() const noexcept { return count_ - static_cast<std::int64_t>(queries_.size()); }
  std::uint64_t file_hash() const { return hash_.value(); }
  /// That file; null where there is none yet.
  OutputFile* spilled() noexcept { return open_ ? &spilled_ : nullptr; }

  /// Puts all into the file.
  void spill() {
    if (queries_.empty()) return;
    open();
    std::vector<std::byte> bytes;
    for (const Waiting& query : queries_) {
      layout_.append(query, bytes);
      if (bytes.size() > std::size_t{1} << 20U) flush(bytes);
    }
    flush(bytes);
    queries_ = std::vector<Waiting>();
    held_ = 0;
  }

  /// Calls use(queries) with as many at a time as the budget holds: what is in memory first, then the file
  /// from byte `at` on; and after(byte) when they are done.
  template <class Use, class After>
  void take(std::uint64_t at, const Use& use, const After& after) {
    if (!queries_.empty()) use(std::exchange(queries_, {}));
    held_ = 0;
    std::vector<Waiting> some;
    std::int64_t taken = 0;
    while (at < end_) {
      some.push_back(layout_.read(spilled_, at));
      taken += layout_.bytes(some.back());
      if (taken > budget_ || at == end_) {
        use(std::exchange(some, {}));
        after(at);
        taken = 0;
      }
    }
  }

 private:
  void open() {
    if (open_) return;
    spilled_ = lasting_ ? OutputFile::lasting(file_) : OutputFile(temporary_name(file_));
    open_ = true;
  }
  void flush(std::vector<std::byte>& bytes) {
    spilled_.write(end_, bytes.data(), bytes.size());
    hash_.add(bytes.data(), bytes.size());
    end_ += bytes.size();
    bytes.clear();
  }

  WaitingLayout<T> layout_;
  std::filesystem::path file_;
  bool lasting_;
  std::int64_t budget_;
  std::int64_t held_ = 0;
  std::int64_t count_ = 0;
  std::vector<Waiting> queries_;
  OutputFile spilled_;
  bool open_ = false;
  std::uint64_t end_ = 0;
  RunningHash hash_;
};

}  // namespace kith::point_tiles
