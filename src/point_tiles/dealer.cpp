#include "point_tiles/dealer.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <type_traits>

#include <fmt/format.h>

#include "core/beside.hpp"
#include "core/plural.hpp"
#include "core/visit_dtype.hpp"
#include "kith/error.hpp"
#include "point_tiles/journal.hpp"
#include "point_tiles/partition.hpp"
#include "point_tiles/tuning.hpp"

namespace kith::point_tiles {
Dealer::Dealer(std::int64_t dim, Dtype dtype, const std::optional<io::IntegerScale>& integers,
               std::int64_t rows, std::int64_t tile_points, Undone& undone, const Execution& execution)
    : dim_(dim),
      dtype_(dtype),
      integers_(integers),
      row_bytes_(static_cast<std::size_t>(dim) * (integers ? sizeof(std::int32_t) : size_of(dtype))),
      record_(static_cast<std::int64_t>(row_bytes_ + sizeof(std::int64_t))),
      tile_points_(tile_points),
      memory_(memory_of(execution)),
      execution_(execution),
      progress_(execution, "partition", rows),
      undone_(undone),
      extents_(nlohmann::json::array()) {
  // An extent is no larger than a tile, so that one that is cut between extents ends in parts of its size.
  const std::int64_t usual = std::clamp<std::int64_t>(tuning::extent_bytes / record_, 1, tile_points_);
  most_buffers_ = std::max<std::int64_t>(tuning::fewest_buffers, memory_ / 2 / (usual * record_));
  buffer_rows_ = usual;
  block_rows_ =
      std::max<std::int64_t>(1, std::min<std::int64_t>(tuning::dealt_bytes, memory_ / 32) / record_);
  const std::int64_t least = tuning::fewest_buffers * buffer_rows_ * record_ + block_rows_ * 3 * record_;
  if (least > memory_) {
    throw OutOfMemory(
        fmt::format("dividing {} of {} bytes among tiles takes {} bytes at the least, the limit is {}; "
                    "raise the limit, or make "
                    "smaller tiles",
                    plural(rows, "row"), row_bytes_, least, memory_));
  }
}

// use(i, point, whether all of its values are finite, whether one is a NaN) for rows as doubles.
template <class Use>
void Dealer::for_rows(const std::byte* rows, std::int64_t count, const Use& use) const {
  const auto all = [&](auto dim, std::size_t bytes, const auto& value) {
    std::vector<double> held(static_cast<std::size_t>(dim_));
    double* point = held.data();
    for (std::int64_t i = 0; i < count; ++i, rows += row_bytes_) {
      bool finite = true, nan = false;
      for (std::int64_t j = 0; j < dim; ++j) {
        point[j] = value(rows + static_cast<std::size_t>(j) * bytes, j);
        finite = finite && std::isfinite(point[j]);
        nan = nan || std::isnan(point[j]);
      }
      use(i, point, finite, nan);
    }
  };
  const auto of_dim = [&](std::size_t bytes, const auto& value) {
    if (dim_ == 3) return all(std::integral_constant<std::int64_t, 3>(), bytes, value);
    all(dim_, bytes, value);
  };
  if (integers_) {
    return of_dim(sizeof(std::int32_t), [&](const std::byte* from, std::int64_t axis) {
      std::int32_t integer = 0;
      std::memcpy(&integer, from, sizeof integer);
      return integers_->value(integer, static_cast<std::size_t>(axis));
    });
  }
  visit_dtype(dtype_, [&]<class T>(T) {
    of_dim(sizeof(T), [](const std::byte* from, std::int64_t /*axis*/) {
      T value;
      std::memcpy(&value, from, sizeof value);
      return to_double(value);
    });
  });
}

// Planes from a sample: short runs from one end to the other.
Dealer::Plan Dealer::make_plan(Records& records) {
  Plan plan;
  const std::int64_t n = records.rows();
  const std::int64_t wanted = (n + tile_points_ - 1) / tile_points_;
  // Too many for the buffers there is memory for: first into fewer, and each of them once more.
  const std::int64_t rounds = (wanted + most_buffers_ - 1) / most_buffers_;
  const std::int64_t tiles = rounds <= 1 ? wanted : (wanted + rounds - 1) / rounds;
  if (tiles >= 2) {
    const std::int64_t wished = std::clamp<std::int64_t>(tiles * tuning::sample_of_a_tile,
                                                         tuning::least_sample, tuning::sample_points);
    const std::int64_t most = std::clamp<std::int64_t>(memory_ / 4 / ((dim_ + 2) * 8), 1024, wished);
    // As many places for a small sample as for a large one: points of a run lie beside each other in space,
    // too.
    const std::int64_t run = std::max<std::int64_t>(1, tuning::sample_run * wished / tuning::sample_points);
    const std::int64_t runs = n <= most ? (n + run - 1) / run : most / run;
    std::vector<double> sample;
    sample.reserve(static_cast<std::size_t>(std::min(n, most) * dim_));
    std::vector<std::byte> coordinates(static_cast<std::size_t>(run) * row_bytes_);
    std::vector<std::int64_t> numbers(static_cast<std::size_t>(run));
    std::int64_t count = 0;
    const auto begin_of = [&](std::int64_t r) {
      return n <= most ? r * run
                       : static_cast<std::int64_t>(static_cast<double>(n - run) * static_cast<double>(r) /
                                                   static_cast<double>(runs));
    };
    for (std::int64_t r = 0, expected = 0; r < runs; ++r) {
      // One request after the other, a disk would take seconds.
      for (; expected < std::min(runs, r + tuning::sample_runs_ahead); ++expected) {
        records.expect(begin_of(expected), std::min(run, n - begin_of(expected)));
      }
      const std::int64_t first = begin_of(r);
      const std::int64_t here = std::min(run, n - first);
      records.read(first, here, coordinates.data(), numbers.data());
      for_rows(coordinates.data(), here,
               [&](std::int64_t /*i*/, const double* point, bool finite, bool /*nan*/) {
                 if (!finite) return;
                 sample.insert(sample.end(), point, point + dim_);
                 ++count;
               });
      if (r % 64 == 0) progress_.check();
    }
    plan.splitters = Splitters(std::move(sample), count, dim_, tiles);
  }
  const std::int64_t buffers = plan.splitters.tiles() + 1;
  plan.capacity = std::clamp<std::int64_t>(memory_ / 2 / buffers / record_, buffer_rows_, most_capacity());
  plan.checkpoint = tuning::buffers_a_checkpoint * buffers * plan.capacity;
  return plan;
}

std::int64_t Dealer::most_capacity() const {
  return std::max(buffer_rows_, std::min(tile_points_, tuning::largest_extent_rows));
}

// The limit may be another than that of the run that made the plan.
void Dealer::check_plan(const Plan& plan) const {
  const std::int64_t buffers = (plan.splitters.tiles() + 1) * plan.capacity * record_;
  if (buffers <= memory_ * 3 / 4) return;
  throw OutOfMemory(fmt::format(
      "the run that was interrupted divides rows with {} bytes of buffers, the limit is {}; raise the "
      "limit, or remove '{}' to begin again",
      buffers, memory_, work_.path().string()));
}

Dealer::Plan Dealer::plan(Records& records) {
  if (replayed_ < work_.records().size()) {
    const nlohmann::json& record = work_.records()[replayed_++];
    const std::int64_t tiles = whole(member(record, "tiles"), "the number of tiles", 1,
                                     std::numeric_limits<std::int32_t>::max() - 1);
    Plan plan{splitters_from(member(record, "splitters"), tiles, dim_),
              whole(member(record, "capacity"), "the rows of a buffer", 1, most_capacity()),
              whole(member(record, "checkpoint"), "the rows to the next safe place", 1, most_bytes)};
    check_plan(plan);
    return plan;
  }
  Plan made = make_plan(records);
  undone_.records.push_back({{"deal", deals_},
                             {"tile_points", tile_points_},
                             {"splitters", to_json(made.splitters)},
                             {"tiles", made.splitters.tiles()},
                             {"capacity", made.capacity},
                             {"checkpoint", made.checkpoint}});
  return made;
}

// It will be divided again, under new checksums, or stand in the manifest.
void Dealer::check_extent(const OpenSegment& segment, const Extent& extent) {
  const std::string name = "tiles/" + segment.file.path().filename().string();
  const auto bytes = static_cast<std::size_t>(static_cast<std::uint64_t>(extent.rows) * row_bytes_);
  std::vector<std::byte> coordinates(bytes);
  std::vector<std::int64_t> numbers(static_cast<std::size_t>(extent.rows));
  work_.check_file(name, extent.offset + bytes + numbers.size() * sizeof(std::int64_t));
  segment.file.read(extent.offset, coordinates.data(), bytes);
  segment.file.read(extent.offset + bytes, numbers.data(), numbers.size() * sizeof(std::int64_t));
  if (extent_hash(coordinates.data(), bytes, numbers.data(), numbers.size()) != extent.hash) {
    throw DamagedWork(work_.path(), name,
                      fmt::format("the {} at byte {} do not match their checksum", plural(extent.rows, "row"),
                                  extent.offset));
  }
  progress_.check();
}

// What the runs before have dealt. @return rows that they have come to
std::int64_t Dealer::replay(const Plan& plan, std::int64_t all, std::vector<Growing>& tiles,
                            OpenSegment& segment, bool of_cloud) {
  std::int64_t rows = 0;
  // Segments that nobody needs may be gone by then.
  const bool check = work_.last("divided") == nullptr;
  std::int64_t known = 0;
  for (; replayed_ < work_.records().size(); ++replayed_) {
    const nlohmann::json& record = work_.records()[replayed_];
    if (!record.contains("dealt") || whole(record["dealt"], "a deal", 0, most_bytes) != deals_) break;
    rows = whole(member(record, "rows"), "rows that were dealt", rows, all);
    segment.end = static_cast<std::uint64_t>(whole(member(record, "end"), "the end of a segment",
                                                   static_cast<std::int64_t>(segment.end), most_bytes));
    if (of_cloud) nan_rows_ = whole(member(record, "nans"), "rows with NaN", 0, rows);
    for (const nlohmann::json& piece : member(record, "extents")) {
      Dealt dealt = dealt_from(piece, tiles.size(), plan.capacity, record_, segment.end, dim_);
      dealt.extent.segment = segment.number;
      if (check) check_extent(segment, dealt.extent);
      Growing& tile = tiles[dealt.tile];
      tile.rows += dealt.extent.rows;
      tile.extents.push_back(dealt.extent);
      tile.bounds.push_back(std::move(dealt.bounds));
      known += dealt.extent.rows;
    }
  }
  if (known != rows) throw BadRecord(fmt::format("{} of {} rows that were dealt lie in tiles", known, rows));
  if (of_cloud) progress_.advance(rows);
  return rows;
}

std::vector<Growing> Dealer::divide(Records& records, OpenSegment& segment, bool whole) {
  const Plan plan = this->plan(records);
  std::vector<Growing> tiles;
  if (whole || plan.splitters.tiles() >= 2) {
    // The last one takes rows that no box holds.
    tiles.resize(static_cast<std::size_t>(plan.splitters.tiles()) + 1);
    const std::int64_t first = replay(plan, records.rows(), tiles, segment, whole);
    if (first < records.rows()) {
      work_.check_file("tiles/" + segment.file.path().filename().string(), segment.end);
      segment.file.truncate(segment.end);
      deal(records, first, plan, tiles, segment, whole);
    }
    std::erase_if(tiles, [](const Growing& tile) { return tile.rows == 0; });
  }
  ++deals_;
  return tiles;
}

// Which tile each row of a block is of. @return rows with a NaN
std::int64_t Dealer::tell_apart(RowBlock& block, const Plan& plan) const {
  constexpr std::int64_t part = 1 << 13;
  std::atomic<std::int64_t> nans{0};
  parallel_for(execution_, (block.count + part - 1) / part, [&](std::int64_t p) {
    const std::int64_t first = p * part;
    std::int32_t* tiles = block.tiles.data() + first;
    std::int64_t its_nans = 0;
    for_rows(block.coordinates.data() + static_cast<std::size_t>(first) * row_bytes_,
             std::min(part, block.count - first),
             [&](std::int64_t i, const double* point, bool finite, bool nan) {
               tiles[i] =
                   static_cast<std::int32_t>(finite ? plan.splitters.tile_of(point) : plan.splitters.tiles());
               its_nans += nan ? 1 : 0;
             });
    nans.fetch_add(its_nans, std::memory_order_relaxed);
  });
  return nans;
}

Bounds Dealer::box_of(const std::byte* rows, std::int64_t count) const {
  Bounds bounds;
  for_rows(rows, count, [&](std::int64_t /*i*/, const double* point, bool /*finite*/, bool /*nan*/) {
    bounds.include(point, static_cast<std::size_t>(dim_));
  });
  return bounds;
}

void Dealer::deal(Records& records, std::int64_t first, const Plan& plan, std::vector<Growing>& tiles,
                  OpenSegment& segment, bool whole) {
  const std::int64_t n = records.rows();
  TileBuffers buffers(
      tiles.size(), plan.capacity, row_bytes_, static_cast<std::size_t>(plan.splitters.tiles()),
      [this](const std::byte* rows, std::int64_t count) { return box_of(rows, count); }, execution_);
  const auto safe_after = [&](std::int64_t row) {
    return std::min(n, (row / plan.checkpoint + 1) * plan.checkpoint);
  };
  const std::int64_t most = std::min(n, block_rows_);
  RowBlock one(most, row_bytes_);
  RowBlock other(most, row_bytes_);
  RowBlock* block = &one;
  RowBlock* next = &other;
  const auto read = [&](RowBlock& to, std::int64_t from) {
    to.first = from;
    to.count = std::min(block_rows_, safe_after(from) - from);
    records.read(from, to.count, to.coordinates.data(), to.numbers.data());
  };
  read(*block, first);
  while (first < n) {
    // The next is read meanwhile; the future waits for its thread when it goes.
    const std::int64_t end = first + block->count;
    std::future<void> reading;
    if (end < n) reading = beside([&read, next, end] { read(*next, end); });
    const std::int64_t nans = tell_apart(*block, plan);
    take(buffers.deal(*block, segment), tiles);
    first = end;
    if (whole) {
      nan_rows_ += nans;
      progress_.advance(block->count);
    }
    if (first == n || first % plan.checkpoint == 0) {
      take(buffers.flush(segment), tiles);
      undone_.records.push_back({{"dealt", deals_},
                                 {"rows", first},
                                 {"nans", nan_rows_},
                                 {"end", segment.end},
                                 {"extents", std::exchange(extents_, nlohmann::json::array())}});
      if (undone_.saver.due()) undone_.note_behind();
    }
    progress_.check();
    if (first < n) reading.get();
    std::swap(block, next);
  }
}

void Dealer::take(std::vector<NewExtent> made, std::vector<Growing>& tiles) {
  for (NewExtent& next : made) {
    extents_.push_back(to_json(next.tile, next.extent, next.bounds));
    Growing& growing = tiles[next.tile];
    growing.rows += next.extent.rows;
    growing.extents.push_back(next.extent);
    growing.bounds.push_back(std::move(next.bounds));
  }
}

void Undone::note_behind() {
  if (records.empty()) return;
  saver.wait();
  std::vector<OpenSegment*> open;
  for (OpenSegment& segment : segments) open.push_back(&segment);
  saver.begin([this, open, noted = std::exchange(records, {})] {
    for (OpenSegment* segment : open) segment->file.sync();
    work.note_all(noted);
  });
}

void Undone::note() {
  note_behind();
  saver.wait();
}

}  // namespace kith::point_tiles
