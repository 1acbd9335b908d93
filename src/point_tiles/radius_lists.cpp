#include "point_tiles/radius_lists.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <type_traits>

#include <fmt/format.h>

#include "core/parallel.hpp"
#include "io/format.hpp"
#include "point_tiles/tuning.hpp"

namespace kith::point_tiles {

namespace {

OutputFile open_log(WorkFolder& work, const SavedLists& saved, RunningHash& hash) {
  constexpr const char* name = "lists";
  if (saved.bytes > 0) work.check_file(name, saved.bytes);
  OutputFile log = OutputFile::lasting(work.file(name));
  std::vector<std::byte> piece;
  for (std::uint64_t at = 0; at < saved.bytes; at += piece.size()) {
    piece.resize(static_cast<std::size_t>(std::min<std::uint64_t>(tuning::block_bytes, saved.bytes - at)));
    log.read(at, piece.data(), piece.size());
    hash.add(piece.data(), piece.size());
  }
  if (saved.bytes > 0 && hash.value() != saved.hash) {
    throw DamagedWork(work.path(), name, "lists in it are not those that an interrupted run has noted");
  }
  log.truncate(saved.bytes);
  return log;
}

}  // namespace

template <class T>
RadiusLists<T>::RadiusLists(WorkFolder& work, Columns& columns, std::int64_t width, const SavedLists& saved)
    : work_(work), columns_(columns), width_(width), log_(open_log(work, saved, hash_)), end_(saved.bytes) {}

template <class T>
std::vector<Column> RadiusLists<T>::columns() {
  return {{"lists.places", "<i8", 2, sizeof(ListPlace)}};
}

template <class T>
void RadiusLists<T>::put(std::int64_t first, const Block<T>& block) {
  if (block.lists.queries == 0) return;
  places_.clear();
  for (std::int64_t i = 0; i < block.lists.queries; ++i) {
    const std::int64_t count = block.lists.size(i);
    places_.push_back({static_cast<std::int64_t>(end_), count});
    const auto append = [&](const void* from, std::size_t bytes) {
      const auto* begin = static_cast<const std::byte*>(from);
      buffer_.insert(buffer_.end(), begin, begin + bytes);
      end_ += bytes;
    };
    append(block.lists.rows + block.lists.begin(i), static_cast<std::size_t>(count) * sizeof(std::int64_t));
    append(block.lists.distances + block.lists.begin(i), static_cast<std::size_t>(count) * sizeof(T));
    if (static_cast<std::int64_t>(buffer_.size()) > tuning::block_bytes) (void)flush();
  }
  columns_.put(0, first, block.lists.queries, places_.data());
}

template <class T>
SavedLists RadiusLists<T>::flush() {
  log_.write(end_ - buffer_.size(), buffer_.data(), buffer_.size());
  hash_.add(buffer_.data(), buffer_.size());
  buffer_.clear();
  return {end_, hash_.value()};
}

template <class T>
void RadiusLists<T>::check(const ListPlace& list) const {
  const auto end = static_cast<std::int64_t>(end_);
  if (list.offset >= 0 && list.offset <= end && list.count >= 0 &&
      list.count <= (end - list.offset) / entry) {
    return;
  }
  throw DamagedWork(
      work_.path(), columns_.file(0),
      fmt::format("a list of {} at byte {}, where the lists have {} bytes", list.count, list.offset, end));
}

template <class T>
std::int64_t RadiusLists<T>::total() const {
  constexpr std::int64_t piece = 1 << 16;
  std::vector<ListPlace> some(static_cast<std::size_t>(piece));
  std::int64_t sum = 0;
  for (std::int64_t at = 0; at < columns_.rows(); at += piece) {
    const std::int64_t here = std::min(piece, columns_.rows() - at);
    columns_.read(0, at, here, some.data());
    for (std::int64_t i = 0; i < here; ++i) {
      const ListPlace& list = some[static_cast<std::size_t>(i)];
      check(list);
      sum += list.count;
    }
  }
  return sum;
}

// Three arrays that grow from front to back.
template <class T>
class RadiusLists<T>::Output {
 public:
  Output(WorkFolder& work, std::int64_t queries, std::int64_t total, std::int64_t width) : width_(width) {
    const char* descr[] = {"<i8", width == 4 ? "<u4" : "<i8", std::is_same_v<T, float> ? "<f4" : "<f8"};
    const std::int64_t sizes[] = {queries + 1, total, total};
    for (int i = 0; i < 3; ++i) {
      files_[i] = OutputFile::lasting(work.file(files[i]));
      files_[i].truncate(0);
      const std::string header = io::npy_header(descr[i], fmt::format("({},)", sizes[i]));
      append(i, header.data(), header.size());
    }
  }
  void append(int file, const void* from, std::size_t bytes) {
    files_[file].write(ends_[file], from, bytes);
    files_[file].start_writing(ends_[file], bytes);
    ends_[file] += bytes;
  }
  void append_rows(const std::vector<std::int64_t>& rows) {
    if (width_ == 8) return append(1, rows.data(), rows.size() * sizeof(std::int64_t));
    narrow_.assign(rows.begin(), rows.end());
    append(1, narrow_.data(), narrow_.size() * sizeof(std::uint32_t));
  }
  void sync() {
    for (OutputFile& file : files_) file.sync();
  }

 private:
  std::int64_t width_;
  OutputFile files_[3];
  std::uint64_t ends_[3] = {};
  std::vector<std::uint32_t> narrow_;
};

// As many lists at a time as memory holds, read as they lie in the file and put where they belong.
template <class T>
void RadiusLists<T>::write_lists(const std::vector<ListPlace>& lists, std::int64_t memory, Output& out) {
  std::vector<std::int64_t> rows, starts;
  std::vector<T> distances;
  std::vector<std::size_t> order;
  std::vector<std::byte> piece;
  for (std::size_t begin = 0; begin < lists.size();) {
    std::size_t end = begin;
    std::int64_t entries = 0;
    starts.clear();
    while (end < lists.size() && (end == begin || (entries + lists[end].count) * 2 * entry <= memory)) {
      starts.push_back(entries);
      entries += lists[end++].count;
    }
    rows.resize(static_cast<std::size_t>(entries));
    distances.resize(static_cast<std::size_t>(entries));
    order.resize(end - begin);
    std::iota(order.begin(), order.end(), begin);
    std::sort(order.begin(), order.end(),
              [&](std::size_t a, std::size_t b) { return lists[a].offset < lists[b].offset; });
    for (std::size_t i = 0; i < order.size();) {
      // Lists that follow each other are read together.
      std::int64_t bytes = 0;
      std::size_t next = i;
      const std::int64_t from = lists[order[i]].offset;
      while (next < order.size() && lists[order[next]].offset == from + bytes &&
             (next == i || bytes < tuning::block_bytes)) {
        bytes += lists[order[next++]].count * entry;
      }
      piece.resize(static_cast<std::size_t>(bytes));
      log_.read(static_cast<std::uint64_t>(from), piece.data(), piece.size());
      const std::byte* at = piece.data();
      for (; i < next; ++i) {
        const auto count = static_cast<std::size_t>(lists[order[i]].count);
        const auto to = static_cast<std::size_t>(starts[order[i] - begin]);
        if (count == 0) continue;
        std::memcpy(rows.data() + to, at, count * sizeof(std::int64_t));
        std::memcpy(distances.data() + to, at + count * sizeof(std::int64_t), count * sizeof(T));
        at += count * static_cast<std::size_t>(entry);
      }
    }
    out.append_rows(rows);
    out.append(2, distances.data(), distances.size() * sizeof(T));
    begin = end;
  }
}

template <class T>
std::int64_t RadiusLists<T>::write(std::int64_t memory, const Execution& execution) {
  const std::int64_t all = columns_.rows();
  const std::int64_t neighbors = total();
  Output out(work_, all, neighbors, width_);
  constexpr auto a_row = static_cast<std::int64_t>(2 * sizeof(ListPlace) + 4 * sizeof(std::int64_t));
  const std::int64_t bucket = std::clamp<std::int64_t>(memory / 4 / a_row, 1, 1 << 20);
  constexpr std::int64_t piece = 1 << 14;
  ProgressCounter progress(execution, "answer", all);
  std::int64_t at = 0;
  out.append(0, &at, sizeof at);
  std::vector<Columns::Run> runs;
  std::vector<std::int64_t> numbers(static_cast<std::size_t>(piece)), ends;
  std::vector<ListPlace> some(static_cast<std::size_t>(piece)), lists;
  for (std::int64_t first = 0; first < all; first += bucket) {
    const std::int64_t last = std::min(first + bucket, all);
    lists.assign(static_cast<std::size_t>(last - first), {});
    columns_.find_runs(first, last, runs);
    for (const Columns::Run& run : runs) {
      for (std::int64_t from = run.begin; from < run.end; from += piece) {
        const std::int64_t here = std::min(piece, run.end - from);
        columns_.read_rows(from, here, first, last, numbers.data());
        columns_.read(0, from, here, some.data());
        for (std::int64_t i = 0; i < here; ++i) {
          const ListPlace& list = some[static_cast<std::size_t>(i)];
          check(list);
          lists[static_cast<std::size_t>(numbers[static_cast<std::size_t>(i)] - first)] = list;
        }
      }
    }
    ends.clear();
    for (const ListPlace& list : lists) ends.push_back(at += list.count);
    out.append(0, ends.data(), ends.size() * sizeof(std::int64_t));
    write_lists(lists, memory / 2, out);
    progress.advance(last - first);
  }
  out.sync();
  progress.finish();
  return neighbors;
}

template <class T>
void RadiusInMemory<T>::put(std::int64_t first, const Block<T>& block) {
  for (std::int64_t i = 0; i < block.lists.queries; ++i) {
    const std::int64_t count = block.lists.size(i);
    held_ += 2 * count * static_cast<std::int64_t>(sizeof(std::int64_t) + sizeof(T));
    if (held_ > budget_) {
      throw OutOfMemory(
          fmt::format("the neighbours found so far need {} bytes for the answer, {} are left of the limit; "
                      "use a smaller radius, ask for the nearest few (max_neighbors), or have it written to "
                      "files from queries in tiles",
                      held_, budget_));
    }
    const std::int64_t begin = block.lists.begin(i);
    List& list = lists_[static_cast<std::size_t>(first + i)];
    list.rows.assign(block.lists.rows + begin, block.lists.rows + begin + count);
    list.distances.assign(block.lists.distances + begin, block.lists.distances + begin + count);
  }
}

template <class T>
RadiusNeighbors RadiusInMemory<T>::take() {
  RadiusNeighbors out;
  out.queries = static_cast<std::int64_t>(lists_.size());
  out.offsets = {0};
  for (const List& list : lists_) {
    out.offsets.push_back(out.offsets.back() + static_cast<std::int64_t>(list.rows.size()));
  }
  std::vector<T> distances;
  out.indices.reserve(static_cast<std::size_t>(out.offsets.back()));
  distances.reserve(static_cast<std::size_t>(out.offsets.back()));
  for (List& list : lists_) {
    out.indices.insert(out.indices.end(), list.rows.begin(), list.rows.end());
    distances.insert(distances.end(), list.distances.begin(), list.distances.end());
    list = {};
  }
  out.distances = std::move(distances);
  return out;
}

template class RadiusLists<float>;
template class RadiusLists<double>;
template class RadiusInMemory<float>;
template class RadiusInMemory<double>;

}  // namespace kith::point_tiles
