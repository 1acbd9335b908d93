// Queries that are not done: what they have found, and the tiles they still have to visit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "core/positioned_file.hpp"

namespace kith::point_tiles {

/// One of them. Its list is exact over the tiles that it has visited.
template <class T>
struct Waiting {
  std::int64_t place = 0;           ///< of its answer
  std::vector<std::int32_t> tiles;  ///< still to visit, ascending
  std::unique_ptr<std::int64_t[]>
      list;  ///< k rows, then k distances, then the point, in as many words as they need
};

/// How lists lie in memory.
template <class T>
struct WaitingLayout {
  std::int64_t k = 0;
  std::int64_t row_bytes = 0;

  std::int64_t words() const {
    constexpr std::int64_t word = sizeof(std::int64_t);
    const auto distances = k * static_cast<std::int64_t>(sizeof(T));
    return k + (distances + word - 1) / word + (row_bytes + word - 1) / word;
  }
  std::int64_t* rows(const Waiting<T>& query) const { return query.list.get(); }
  T* distances(const Waiting<T>& query) const { return reinterpret_cast<T*>(query.list.get() + k); }
  std::byte* point(const Waiting<T>& query) const {
    constexpr std::int64_t word = sizeof(std::int64_t);
    return reinterpret_cast<std::byte*>(query.list.get() + k +
                                        (k * static_cast<std::int64_t>(sizeof(T)) + word - 1) / word);
  }
  /// Bytes that one takes, its allocations' own included.
  std::int64_t bytes(const Waiting<T>& query) const {
    return static_cast<std::int64_t>(sizeof query) + 32 + words() * 8 +
           static_cast<std::int64_t>(query.tiles.size()) * 4;
  }
};

/// Queries that wait for a sweep over the tiles they need: in memory up to a budget, beyond it in a file.
template <class T>
class Postponed {
 public:
  /// @param file beside which a file may be made
  Postponed(const WaitingLayout<T>& layout, std::filesystem::path file, std::int64_t budget)
      : layout_(layout), file_(std::move(file)), budget_(budget) {}

  void add(Waiting<T> query) {
    ++count_;
    held_ += layout_.bytes(query);
    queries_.push_back(std::move(query));
    if (held_ > budget_) spill();
  }

  std::int64_t count() const noexcept { return count_; }
  std::int64_t held() const noexcept { return held_; }

  /// Calls use(queries) with as many at a time as the budget holds.
  template <class Use>
  void take(const Use& use) {
    use(std::exchange(queries_, std::vector<Waiting<T>>()));
    held_ = 0;
    std::vector<Waiting<T>> some;
    std::int64_t taken = 0;
    for (std::uint64_t at = 0; at < end_;) {
      Waiting<T> query;
      std::int64_t tiles = 0;
      std::int64_t header[2] = {};
      spilled_.read(at, header, sizeof header);
      at += sizeof header;
      query.place = header[0];
      tiles = header[1];
      query.tiles.resize(static_cast<std::size_t>(tiles));
      spilled_.read(at, query.tiles.data(), query.tiles.size() * sizeof(std::int32_t));
      at += query.tiles.size() * sizeof(std::int32_t);
      query.list = std::make_unique<std::int64_t[]>(static_cast<std::size_t>(layout_.words()));
      spilled_.read(at, query.list.get(), static_cast<std::size_t>(layout_.words()) * sizeof(std::int64_t));
      at += static_cast<std::uint64_t>(layout_.words()) * sizeof(std::int64_t);
      taken += layout_.bytes(query);
      some.push_back(std::move(query));
      if (taken > budget_ || at == end_) {
        use(std::exchange(some, std::vector<Waiting<T>>()));
        taken = 0;
      }
    }
  }

 private:
  void spill() {
    if (end_ == 0) spilled_ = OutputFile(temporary_name(file_));
    std::vector<std::byte> bytes;
    const auto append = [&](const void* from, std::size_t count) {
      const auto* begin = static_cast<const std::byte*>(from);
      bytes.insert(bytes.end(), begin, begin + count);
    };
    for (const Waiting<T>& query : queries_) {
      const std::int64_t header[2] = {query.place, static_cast<std::int64_t>(query.tiles.size())};
      append(header, sizeof header);
      append(query.tiles.data(), query.tiles.size() * sizeof(std::int32_t));
      append(query.list.get(), static_cast<std::size_t>(layout_.words()) * sizeof(std::int64_t));
      if (bytes.size() > std::size_t{1} << 20U) flush(bytes);
    }
    flush(bytes);
    queries_ = std::vector<Waiting<T>>();
    held_ = 0;
  }
  void flush(std::vector<std::byte>& bytes) {
    spilled_.write(end_, bytes.data(), bytes.size());
    end_ += bytes.size();
    bytes.clear();
  }

  WaitingLayout<T> layout_;
  std::filesystem::path file_;
  std::int64_t budget_;
  std::int64_t held_ = 0;
  std::int64_t count_ = 0;
  std::vector<Waiting<T>> queries_;
  OutputFile spilled_;
  std::uint64_t end_ = 0;
};

}  // namespace kith::point_tiles
