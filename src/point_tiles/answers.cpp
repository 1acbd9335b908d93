#include "point_tiles/answers.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <string>
#include <type_traits>
#include <utility>

#include <fmt/format.h>

#include "core/atomic_file.hpp"
#include "core/parallel.hpp"
#include "io/format.hpp"
#include "kith/error.hpp"
#include "point_tiles/tuning.hpp"

namespace kith::point_tiles {
namespace {

namespace fs = std::filesystem;

constexpr std::uint32_t no_row = std::numeric_limits<std::uint32_t>::max();

// The suffix stands where that of the indices does.
fs::path rows_file(const fs::path& indices) {
  constexpr std::string_view suffix = ".indices.npy";
  const std::string text = indices.string();
  return text.substr(0, text.size() - suffix.size()) + ".rows.npy";
}

}  // namespace

template <class T>
void AnswersInMemory<T>::put(std::int64_t first, std::int64_t count, const std::int64_t* rows,
                             const T* distances) {
  std::copy_n(rows, count * k_, rows_.begin() + first * k_);
  std::copy_n(distances, count * k_, distances_.begin() + first * k_);
}

template <class T>
AnswersInFiles<T>::AnswersInFiles(const fs::path& output, std::int64_t k,
                                  std::span<const std::int64_t> tile_rows, const TileAnswerOptions& options,
                                  std::int64_t bucket_rows)
    : files_(io::neighbor_files(output, FileFormat::npy)),
      k_(k),
      width_(options.index_width == IndexWidth::u32 ? 4 : 8),
      in_order_of_tiles_(options.order == AnswerOrder::tiles) {
  places_.push_back(0);
  for (const std::int64_t rows : tile_rows) places_.push_back(places_.back() + rows);
  const std::int64_t all = places_.back();
  bucket_rows_ = std::clamp<std::int64_t>(bucket_rows, 1, std::max<std::int64_t>(all, 1));
  buckets_ = (all + bucket_rows_ - 1) / bucket_rows_;
  if (!in_order_of_tiles_) starts_.resize(tile_rows.size() * static_cast<std::size_t>(buckets_ + 1));
  files_.push_back(rows_file(files_[0]));
  // Headers first, so that what stands in the order of tiles needs only its name.
  const auto open = [&](OutputFile& file, const fs::path& path, const char* descr, const std::string& shape) {
    file = OutputFile(temporary_name(path));
    const std::string header = io::npy_header(descr, shape);
    file.write(0, header.data(), header.size());
    return static_cast<std::uint64_t>(header.size());
  };
  const std::string lists = fmt::format("({}, {})", all, k);
  const char* number = width_ == 4 ? "<u4" : "<i8";
  indices_header_ = open(indices_, files_[0], number, lists);
  distances_header_ = open(distances_, files_[1], std::is_same_v<T, float> ? "<f4" : "<f8", lists);
  rows_header_ = open(rows_, files_[2], number, fmt::format("({},)", all));
}

template <class T>
void AnswersInFiles<T>::write_numbers(OutputFile& file, std::uint64_t header, std::int64_t at,
                                      const std::int64_t* from, std::int64_t count) {
  const std::uint64_t offset = header + static_cast<std::uint64_t>(at) * static_cast<std::uint64_t>(width_);
  if (width_ == 8) {
    file.write(offset, from, static_cast<std::size_t>(count) * sizeof(std::int64_t));
    return;
  }
  constexpr std::int64_t piece = 1 << 18;
  for (std::int64_t done = 0; done < count; done += piece) {
    narrow_.clear();
    for (std::int64_t i = done; i < std::min(count, done + piece); ++i) {
      narrow_.push_back(from[i] < 0 ? no_row : static_cast<std::uint32_t>(from[i]));
    }
    file.write(offset + static_cast<std::uint64_t>(done) * 4, narrow_.data(), narrow_.size() * 4);
  }
}

template <class T>
void AnswersInFiles<T>::put_rows(std::int64_t tile, std::span<const std::int64_t> rows) {
  write_numbers(rows_, rows_header_, place(tile), rows.data(), static_cast<std::int64_t>(rows.size()));
  if (in_order_of_tiles_) return;
  std::int64_t* starts = starts_.data() + tile * (buckets_ + 1);
  for (std::int64_t b = 0; b <= buckets_; ++b) {
    starts[b] = std::ranges::lower_bound(rows, b * bucket_rows_) - rows.begin();
  }
}

template <class T>
void AnswersInFiles<T>::put(std::int64_t first, std::int64_t count, const std::int64_t* rows,
                            const T* distances) {
  write_numbers(indices_, indices_header_, first * k_, rows, count * k_);
  distances_.write(distances_header_ + static_cast<std::uint64_t>(first * k_) * sizeof(T), distances,
                   static_cast<std::size_t>(count * k_) * sizeof(T));
}

template <class T>
std::vector<fs::path> AnswersInFiles<T>::finish(const Execution& execution) {
  if (!in_order_of_tiles_) return write_in_order_of_input(execution);
  // Everything that can fail for want of space comes before the first rename.
  for (OutputFile* file : {&indices_, &distances_, &rows_}) file->sync();
  const RenamingTogether together;
  indices_.rename_to(files_[0]);
  distances_.rename_to(files_[1]);
  rows_.rename_to(files_[2]);
  return files_;
}

// A bucket of consecutive rows at a time: in every tile those are one run, since a tile's rows ascend.
template <class T>
std::vector<fs::path> AnswersInFiles<T>::write_in_order_of_input(const Execution& execution) {
  const std::int64_t all = places_.back();
  const auto tiles = static_cast<std::int64_t>(places_.size()) - 1;
  std::vector<fs::path> names(files_.begin(), files_.begin() + 2);
  std::vector<AtomicFile> out;
  out.reserve(2);
  for (const fs::path& name : names) out.emplace_back(name, execution.cancelled);
  const std::string lists = fmt::format("({}, {})", all, k_);
  out[0].write(io::npy_header(width_ == 4 ? "<u4" : "<i8", lists));
  out[1].write(io::npy_header(std::is_same_v<T, float> ? "<f4" : "<f8", lists));

  const auto list_numbers = static_cast<std::size_t>(k_ * width_);
  const auto list_distances = static_cast<std::size_t>(k_) * sizeof(T);
  const std::int64_t piece = std::max<std::int64_t>(
      1, tuning::block_bytes / static_cast<std::int64_t>(list_numbers + list_distances));
  const auto held = static_cast<std::size_t>(bucket_rows_);
  std::vector<std::byte> numbers(held * list_numbers);
  std::vector<std::byte> distances(held * list_distances);
  std::vector<std::byte> some_rows(static_cast<std::size_t>(piece * width_));
  std::vector<std::byte> some_numbers(static_cast<std::size_t>(piece) * list_numbers);
  std::vector<std::byte> some_distances(static_cast<std::size_t>(piece) * list_distances);
  ProgressCounter progress(execution, "answer", all);
  for (std::int64_t bucket = 0; bucket < buckets_; ++bucket) {
    const std::int64_t first = bucket * bucket_rows_;
    const std::int64_t count = std::min(bucket_rows_, all - first);
    for (std::int64_t tile = 0; tile < tiles; ++tile) {
      const std::int64_t* starts = starts_.data() + tile * (buckets_ + 1) + bucket;
      for (std::int64_t at = starts[0]; at < starts[1]; at += piece) {
        const std::int64_t here = std::min(piece, starts[1] - at);
        const auto from = static_cast<std::uint64_t>(place(tile) + at);
        const auto size = static_cast<std::size_t>(here);
        rows_.read(rows_header_ + from * static_cast<std::uint64_t>(width_), some_rows.data(),
                   size * static_cast<std::size_t>(width_));
        indices_.read(indices_header_ + from * list_numbers, some_numbers.data(), size * list_numbers);
        distances_.read(distances_header_ + from * list_distances, some_distances.data(),
                        size * list_distances);
        for (std::size_t i = 0; i < size; ++i) {
          std::int64_t row = 0;
          std::memcpy(&row, some_rows.data() + i * static_cast<std::size_t>(width_),
                      static_cast<std::size_t>(width_));
          const auto to = static_cast<std::size_t>(row - first);
          std::memcpy(numbers.data() + to * list_numbers, some_numbers.data() + i * list_numbers,
                      list_numbers);
          std::memcpy(distances.data() + to * list_distances, some_distances.data() + i * list_distances,
                      list_distances);
        }
        progress.advance(here);
      }
    }
    out[0].write(numbers.data(), static_cast<std::size_t>(count) * list_numbers);
    out[1].write(distances.data(), static_cast<std::size_t>(count) * list_distances);
  }
  commit_all(out);
  progress.finish();
  return names;
}

template class AnswersInMemory<float>;
template class AnswersInMemory<double>;
template class AnswersInFiles<float>;
template class AnswersInFiles<double>;

}  // namespace kith::point_tiles
