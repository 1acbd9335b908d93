#include "io/source_stream.hpp"

#include <algorithm>
#include <iterator>

namespace kith::io {
namespace {

constexpr std::uint64_t stretch_bytes = std::uint64_t{1} << 20U;  // converted between two looks at the pass
constexpr std::size_t most_places = std::size_t{1} << 15U;

}  // namespace

void RecordStream::expect(std::int64_t row, std::int64_t count) {
  if (source_.map == nullptr) return;
  const std::byte* first = data() + offset_ + static_cast<std::uint64_t>(row) * record_bytes_;
  source_.map->expect(first, first + static_cast<std::uint64_t>(count) * record_bytes_);
}

void RecordStream::read(void* out, std::int64_t count) {
  read_as(out, count, row_bytes(),
          [&](const std::byte* records, std::int64_t some, std::byte* to) { convert(records, some, to); });
}

void RecordStream::read_as(void* out, std::int64_t count, std::size_t bytes, const Convert& convert) {
  if (count == 0) return;
  const auto at = [&](std::int64_t row) {
    return data() + offset_ + static_cast<std::uint64_t>(row) * record_bytes_;
  };
  if (next_ != came_to_) pass_.jump(at(came_to_), at(next_));
  const auto stretch = static_cast<std::int64_t>(std::max<std::uint64_t>(1, stretch_bytes / record_bytes_));
  auto* to = static_cast<std::byte*>(out);
  while (count > 0) {
    const std::int64_t here = std::min(count, stretch);
    pass_.reached(at(next_));
    convert(at(next_), here, to);
    to += static_cast<std::size_t>(here) * bytes;
    next_ += here;
    count -= here;
  }
  came_to_ = next_;
}

void RowPlaces::add(const RowPlace& place) {
  places_.push_back(place);
  if (places_.size() == most_places) {
    for (std::size_t i = 0; 2 * i < places_.size(); ++i) places_[i] = places_[2 * i];
    places_.resize(most_places / 2);
    step_ *= 2;
  }
  due_ = places_.back().row + step_;
}

const RowPlace& RowPlaces::before(std::int64_t row) const {
  return *std::prev(std::ranges::upper_bound(places_, row, {}, &RowPlace::row));
}

void WalkedStream::begin_at(const RowPlace& first) {
  places_.passed(first);
  place_ = first;
}

void WalkedStream::walk_on(std::byte* to) {
  pass_.reached(data() + place_.offset);
  walk(place_, to);
  places_.passed(place_);
}

void WalkedStream::read(void* out, std::int64_t count) {
  if (count == 0) return;
  const RowPlace& known = places_.before(next_);
  if (next_ < place_.row || known.row > place_.row) {
    pass_.jump(data() + place_.offset, data() + known.offset);
    place_ = known;
  }
  while (place_.row < next_) walk_on(nullptr);
  auto* to = static_cast<std::byte*>(out);
  for (std::int64_t i = 0; i < count; ++i, to += row_bytes()) walk_on(to);
  next_ = place_.row;
}

Dataset read_rows(PointStream& stream, const Source& source, const ReadOptions& options) {
  const RowRange range = wanted_rows(source, options, stream.rows());
  Dataset result = Dataset::allocate(stream.dtype(), range.count, stream.dim());
  stream.seek(range.first);
  stream.read(result.mutable_data(), range.count);
  return result;
}

}  // namespace kith::io
