#include "point_tiles/sweep.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>
#include <limits>
#include <mutex>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "core/plural.hpp"
#include "core/visit_dtype.hpp"
#include "kith/error.hpp"
#include "point_tiles/tuning.hpp"

namespace kith::point_tiles {
namespace {

// A list of one query in a block: its row and distance, k + 1 of them where the query is taken out itself,
// and what a search takes for a query beside it.
std::int64_t list_bytes(std::int64_t k, bool doubles) {
  return (k + 1) * (8 + (doubles ? 8 : 4)) + 64;
}

}  // namespace

MemoryShares::MemoryShares(const Manifest& manifest, const TileMemory& memory, std::int64_t k,
                           std::int64_t limit, bool limited, std::int64_t held) {
  const std::int64_t rows = manifest.largest_tile();
  const std::int64_t a_list = list_bytes(k, memory.doubles);
  const std::int64_t building = memory.build(rows) - memory.resident(rows);
  const std::int64_t least_block = std::min(rows, tuning::least_block);
  // The tile that is searched, and the one that is read meanwhile.
  const std::int64_t data = 2 * memory.data(rows);
  const std::int64_t least = data + 2 * memory.resident(rows) + std::max(building, least_block * a_list) +
                             tuning::least_waiting + held;
  if (least > limit) {
    throw OutOfMemory(
        fmt::format("searching two tiles of {} and the lists of {} for k = {} takes about {} bytes{}, {} {}; "
                    "raise the limit, or build the "
                    "tiles again with fewer points in each (--tile-points)",
                    plural(rows, "point"), plural(least_block, "row"), k, least,
                    held > 0 ? fmt::format(", {} of them for queries and answers", held) : "",
                    limited ? "the limit is" : "half of the free memory is", limit));
  }
  const std::int64_t spare = limit - least;
  const std::int64_t lists = std::min({rows * a_list, spare / 3, tuning::largest_block_bytes});
  const std::int64_t work = std::max({building, least_block * a_list, lists});
  const std::int64_t most = std::max(least_block, tuning::largest_block_bytes / a_list);
  block_rows = std::clamp<std::int64_t>(std::min(work / a_list, most), 1, std::max<std::int64_t>(rows, 1));
  waiting = tuning::least_waiting + spare / 6;
  resident = limit - held - data - work - waiting;
}

template <class T>
Sweep<T>::Sweep(const Folder& folder, const TileSearchOptions& options, std::int64_t k,
                const MemoryShares& shares, std::filesystem::path file, Answers<T>& answers,
                const Execution& execution)
    : folder_(folder),
      options_(options),
      k_(k),
      shares_(shares),
      answers_(answers),
      execution_(execution),
      stop_(execution_),
      layout_{k, static_cast<std::int64_t>(folder.manifest().row_bytes())},
      resident_(folder, options.metric, options.inside,
                {folder.manifest().row_bytes(), folder.manifest().dim, folder.manifest().dtype == Dtype::f64,
                 options.inside != BruteForce::index_type.name},
                shares.resident),
      postponed_(layout_, std::move(file), shares.waiting / 2),
      mail_(folder.manifest().tiles.size()) {
  // What indexes take has been counted here.
  execution_.memory_limit = 0;
  execution_.progress = nullptr;
  statistics_.tiles = static_cast<std::int64_t>(folder.manifest().tiles.size());
  statistics_.tile_bytes = folder.bytes();
  statistics_.nan_rows = folder.manifest().nan_rows;
}

template <class T>
bool Sweep<T>::load(const std::byte* from, double* to, bool& nan) const {
  const Manifest& manifest = folder_.manifest();
  bool finite = true;
  nan = false;
  visit_dtype(manifest.dtype, [&]<class Value>(Value) {
    for (std::int64_t j = 0; j < manifest.dim; ++j) {
      Value value;
      std::memcpy(&value, from + static_cast<std::size_t>(j) * sizeof(Value), sizeof(Value));
      to[j] = to_double(value);
      finite = finite && std::isfinite(to[j]);
      nan = nan || std::isnan(to[j]);
    }
  });
  return finite;
}

template <class T>
T Sweep<T>::distance(const double* point, bool finite, std::int64_t number) const {
  // A point with an infinity is infinitely far from all others, and they from it.
  if (!finite || !tile(number).has_box()) return std::numeric_limits<T>::infinity();
  return distance_to_box<T>(options_.metric, folder_.manifest().dim, point, box(number));
}

// The k nearest in one tile, by row numbers.
template <class T>
void Sweep<T>::nearest(const Resident& where, const DatasetView& queries, std::int64_t k, std::int64_t* rows,
                       T* distances) const {
  const NeighborsView out{rows, distances, queries.rows, k};
  if (const PointTree* tree = where.index.point_tree()) {
    (void)tree->search_into(queries, out, execution_, options_.radius);
  } else {
    (void)where.index.search_into(queries, out, execution_);
  }
}

template <class T>
void Sweep<T>::join(const TileData& data, std::int64_t place) {
  resident_.reach(data.tile);
  const auto here = resident_.add(data, execution_);
  answer(*here, data.coordinates.view(), nullptr, place, true);
  serve(data.tile, *here);
}

template <class T>
void Sweep<T>::search(std::int64_t number, const DatasetView& queries, std::span<const std::int64_t> places) {
  resident_.reach(number);
  const auto here = resident_.get(number, execution_);
  answer(*here, queries, places.data(), 0, false);
  serve(number, *here);
}

template <class T>
void Sweep<T>::serve(std::int64_t number) {
  if (!has_mail(number)) return;
  resident_.reach(number);
  const auto here = resident_.get(number, execution_);
  serve(number, *here);
}

// The other tiles by their distance from a group of queries.
template <class T>
auto Sweep<T>::tiles_around(std::int64_t number, const DatasetView& queries, bool join) const
    -> std::vector<Far> {
  const std::int64_t dim = folder_.manifest().dim;
  std::vector<double> lower, upper;
  if (join) {
    lower = tile(number).lower;
    upper = tile(number).upper;
  } else {
    std::vector<double> point(static_cast<std::size_t>(dim));
    for (std::int64_t i = 0; i < queries.rows; ++i) {
      bool nan = false;
      if (!load(static_cast<const std::byte*>(queries.row(i)), point.data(), nan)) continue;
      if (lower.empty()) lower = upper = point;
      for (std::size_t j = 0; j < point.size(); ++j) {
        lower[j] = std::min(lower[j], point[j]);
        upper[j] = std::max(upper[j], point[j]);
      }
    }
  }
  std::vector<Far> around;
  for (std::int64_t other = 0; other < statistics_.tiles; ++other) {
    if (other == number) continue;
    T far = std::numeric_limits<T>::infinity();
    if (!lower.empty() && tile(other).has_box()) {
      far = distance_of_boxes<T>(options_.metric, dim, {lower.data(), upper.data()}, box(other));
    }
    around.push_back({far, static_cast<std::int32_t>(other)});
  }
  std::sort(around.begin(), around.end(), [](const Far& a, const Far& b) {
    return a.distance != b.distance ? a.distance < b.distance : a.tile < b.tile;
  });
  return around;
}

// Whether along some axis each other box begins where this one has ended, or ends where it begins. It is so
// where planes divide tiles, and is not where a tile of equal points was cut by row number.
template <class T>
bool Sweep<T>::stands_apart(std::int64_t number) const {
  const Tile& own = tile(number);
  if (!own.has_box()) return false;
  for (std::int64_t other = 0; other < statistics_.tiles; ++other) {
    const Tile& its = tile(other);
    if (other == number || !its.has_box()) continue;
    bool apart = false;
    for (std::size_t j = 0; j < own.lower.size(); ++j) {
      apart = apart || its.lower[j] >= own.upper[j] || its.upper[j] <= own.lower[j];
    }
    if (!apart) return false;
  }
  return true;
}

// The distance of a point in a box to its nearest side. A box that stands apart is no nearer: its gap is at
// least that in one dimension, and what other dimensions add is not negative.
template <class T>
T Sweep<T>::distance_to_side(const double* point, const BoxView& around) const {
  double gap = std::numeric_limits<double>::infinity();
  for (std::int64_t j = 0; j < folder_.manifest().dim; ++j) {
    gap = std::min(gap, std::min(point[j] - around.lower[j], around.upper[j] - point[j]));
  }
  constexpr double origin = 0;
  return distance_to_box<T>(options_.metric, 1, &gap, {&origin, &origin});
}

template <class T>
void Sweep<T>::answer(const Resident& here, const DatasetView& queries, const std::int64_t* places,
                      std::int64_t place, bool join) {
  const std::vector<Far> around = tiles_around(here.tile, queries, join);
  const bool apart = join && stands_apart(here.tile);
  const bool without_self = join && !options_.include_self;
  const PointTree* tree = here.index.point_tree();
  const std::int64_t dim = folder_.manifest().dim;
  for (std::int64_t first = 0; first < queries.rows; first += shares_.block_rows) {
    const std::int64_t count = std::min(shares_.block_rows, queries.rows - first);
    const bool whole = join && tree != nullptr && count == queries.rows;
    // A query of the tile's own finds itself as well: one more, and it is taken out.
    const std::int64_t k = without_self && !whole ? k_ + 1 : k_;
    if (rows_.empty()) {
      rows_ = AlignedBuffer<std::int64_t>(shares_.block_rows * (k_ + 1));
      distances_ = AlignedBuffer<T>(shares_.block_rows * (k_ + 1));
    }
    if (whole) {
      (void)tree->all_knn_into({rows_.data(), distances_.data(), count, k}, options_.include_self, execution_,
                               options_.radius);
    } else {
      nearest(here, queries.slice(first, count), k, rows_.data(), distances_.data());
    }

    std::vector<std::pair<std::int64_t, std::vector<std::int32_t>>>
        crossing;  // queries of the block, and the tiles they need
    std::int64_t nans = 0;
    std::mutex mutex;
    constexpr std::int64_t part = 1 << 10;
    if (k != k_) {
      // In place and in order: a list moves to where the ones before it were.
      for (std::int64_t i = 0; i < count; ++i) {
        const std::int64_t* rows = rows_.data() + i * k;
        const std::int64_t self = std::find(rows, rows + k_, first + i) - rows;
        for (std::int64_t j = 0; j < k_; ++j) {
          const std::int64_t from = i * k + j + (j >= self ? 1 : 0);
          rows_[i * k_ + j] = rows_[from];
          distances_[i * k_ + j] = distances_[from];
        }
      }
    }
    parallel_for(execution_, (count + part - 1) / part, [&](std::int64_t p) {
      std::vector<double> point(static_cast<std::size_t>(dim));
      std::vector<std::pair<std::int64_t, std::vector<std::int32_t>>> found;
      std::int64_t some_nans = 0;
      for (std::int64_t i = p * part; i < std::min(count, (p + 1) * part); ++i) {
        std::int64_t* rows = rows_.data() + i * k_;
        T* distances = distances_.data() + i * k_;
        for (std::int64_t j = 0; j < k_ && rows[j] >= 0; ++j) {
          if (static_cast<double>(distances[j]) > options_.radius) {  // brute force knows of none
            std::fill(rows + j, rows + k_, -1);
            std::fill(distances + j, distances + k_, std::numeric_limits<T>::infinity());
            break;
          }
          rows[j] = here.rows[static_cast<std::size_t>(rows[j])];
        }
        bool nan = false;
        const bool finite = load(static_cast<const std::byte*>(queries.row(first + i)), point.data(), nan);
        if (nan) {
          ++some_nans;
          continue;
        }
        const T bound = kth(rows, distances);
        // Most rows are nearer to all of their neighbours than to any side of their tile.
        if (apart && bound < distance_to_side(point.data(), box(here.tile))) continue;
        std::vector<std::int32_t> tiles;
        for (const Far& other : around) {
          if (finite && !needs(bound, other.distance)) break;  // the rest is farther
          if (needs(bound, distance(point.data(), finite, other.tile))) tiles.push_back(other.tile);
        }
        if (!tiles.empty()) {
          std::sort(tiles.begin(), tiles.end());
          found.emplace_back(i, std::move(tiles));
        }
      }
      const std::scoped_lock lock(mutex);
      nans += some_nans;
      std::move(found.begin(), found.end(), std::back_inserter(crossing));
    });
    statistics_.queries += count;
    statistics_.nan_queries += nans;
    statistics_.crossed += static_cast<std::int64_t>(crossing.size());
    // Places need not follow each other; where they do, one write takes many.
    if (places == nullptr) {
      answers_.put(place + first, count, rows_.data(), distances_.data());
    } else {
      for (std::int64_t i = 0; i < count;) {
        std::int64_t end = i + 1;
        while (end < count && places[first + end] == places[first + end - 1] + 1) ++end;
        answers_.put(places[first + i], end - i, rows_.data() + i * k_, distances_.data() + i * k_);
        i = end;
      }
    }
    std::vector<Query> some;
    for (std::size_t c = 0; c < crossing.size(); ++c) {
      auto& [i, tiles] = crossing[c];
      Query query{places == nullptr ? place + first + i : places[first + i], std::move(tiles),
                  std::make_unique<std::int64_t[]>(static_cast<std::size_t>(layout_.words()))};
      std::copy_n(rows_.data() + i * k_, k_, layout_.rows(query));
      std::copy_n(distances_.data() + i * k_, k_, layout_.distances(query));
      std::memcpy(layout_.point(query), queries.row(first + i), folder_.manifest().row_bytes());
      some.push_back(std::move(query));
      if (some.size() < tuning::visiting_block && c + 1 < crossing.size()) continue;
      visit_resident(some);
      for (Query& visited : some) pass_on(std::move(visited), here.tile);
      some.clear();
    }
    stop_.check();
  }
}

// What is needed of the tiles in memory, the most recent first: they lie nearest on the curve.
template <class T>
void Sweep<T>::visit_resident(std::vector<Query>& queries) {
  std::vector<Query*> visitors;
  for (const std::int64_t number : resident_.tiles()) {
    visitors.clear();
    for (Query& query : queries) {
      if (std::ranges::binary_search(query.tiles, static_cast<std::int32_t>(number)))
        visitors.push_back(&query);
    }
    if (!visitors.empty()) visit(*resident_.find(number), visitors);
  }
}

template <class T>
void Sweep<T>::visit(const Resident& where, std::vector<Query*>& queries) {
  statistics_.visits += static_cast<std::int64_t>(queries.size());
  const auto block =
      static_cast<std::size_t>(std::min<std::int64_t>(shares_.block_rows, tuning::visiting_block));
  for (std::size_t first = 0; first < queries.size(); first += block) {
    visit_some(where, std::span(queries).subspan(first, std::min(block, queries.size() - first)));
  }
}

template <class T>
void Sweep<T>::visit_some(const Resident& where, std::span<Query*> queries) {
  const auto count = static_cast<std::int64_t>(queries.size());
  const Manifest& manifest = folder_.manifest();
  Dataset points = Dataset::allocate(manifest.dtype, count, manifest.dim);
  auto* to = static_cast<std::byte*>(points.mutable_data());
  for (std::size_t i = 0; i < queries.size(); ++i) {
    std::memcpy(to + i * manifest.row_bytes(), layout_.point(*queries[i]), manifest.row_bytes());
  }
  std::vector<std::int64_t> rows(static_cast<std::size_t>(count * k_));
  std::vector<T> distances(static_cast<std::size_t>(count * k_));
  nearest(where, points.view(), k_, rows.data(), distances.data());
  constexpr std::int64_t part = 1 << 8;
  parallel_for(execution_, (count + part - 1) / part, [&](std::int64_t p) {
    for (std::int64_t i = p * part; i < std::min(count, (p + 1) * part); ++i) {
      Query& query = *queries[static_cast<std::size_t>(i)];
      std::int64_t* list = rows.data() + i * k_;
      for (std::int64_t j = 0; j < k_ && list[j] >= 0; ++j)
        list[j] = where.rows[static_cast<std::size_t>(list[j])];
      merge(query, list, distances.data() + i * k_);
      forget_tiles(query, where.tile);
    }
  });
  stop_.check();
}

// Two lists by (distance, row), of different rows.
template <class T>
void Sweep<T>::merge(Query& query, const std::int64_t* rows, const T* distances) const {
  std::int64_t* old_rows = layout_.rows(query);
  T* old_distances = layout_.distances(query);
  std::vector<std::int64_t> merged_rows(static_cast<std::size_t>(k_));
  std::vector<T> merged_distances(static_cast<std::size_t>(k_));
  std::int64_t a = 0;
  std::int64_t b = 0;
  for (std::int64_t j = 0; j < k_; ++j) {
    const bool none_a = old_rows[a] < 0;
    const bool none_b = rows[b] < 0 || static_cast<double>(distances[b]) > options_.radius;
    const bool take_b = !none_b && (none_a || distances[b] < old_distances[a] ||
                                    (distances[b] == old_distances[a] && rows[b] < old_rows[a]));
    // One list gives at most j rows before the j-th, so neither index passes its end.
    merged_rows[static_cast<std::size_t>(j)] = take_b ? rows[b] : old_rows[a];
    merged_distances[static_cast<std::size_t>(j)] = take_b ? distances[b] : old_distances[a];
    take_b ? ++b : none_a ? a : ++a;
  }
  std::copy(merged_rows.begin(), merged_rows.end(), old_rows);
  std::copy(merged_distances.begin(), merged_distances.end(), old_distances);
}

// The tile just visited, and those that the list no longer needs.
template <class T>
void Sweep<T>::forget_tiles(Query& query, std::int64_t visited) const {
  std::vector<double> point(static_cast<std::size_t>(folder_.manifest().dim));
  bool nan = false;
  const bool finite = load(layout_.point(query), point.data(), nan);
  const T bound = kth(layout_.rows(query), layout_.distances(query));
  std::erase_if(query.tiles, [&](std::int32_t number) {
    return number == visited || !needs(bound, distance(point.data(), finite, number));
  });
}

template <class T>
void Sweep<T>::pass_on(Query query, std::int64_t current) {
  if (query.tiles.empty()) {
    answers_.put(query.place, 1, layout_.rows(query), layout_.distances(query));
    return;
  }
  const auto next = std::ranges::upper_bound(query.tiles, static_cast<std::int32_t>(current));
  const std::int64_t bytes = layout_.bytes(query);
  // In the last sweep all of them ascend, and are what the budget holds.
  if (next == query.tiles.end() || (!last_ && mail_bytes_ + bytes > shares_.waiting / 2)) {
    postponed_.add(std::move(query));
    return;
  }
  mail_bytes_ += bytes;
  mail_[static_cast<std::size_t>(*next)].push_back(std::move(query));
}

template <class T>
void Sweep<T>::serve(std::int64_t number, const Resident& here) {
  std::vector<Query> queries = std::exchange(mail_[static_cast<std::size_t>(number)], std::vector<Query>());
  if (queries.empty()) return;
  std::vector<Query*> visitors;
  for (Query& query : queries) {
    mail_bytes_ -= layout_.bytes(query);
    visitors.push_back(&query);
  }
  visit(here, visitors);
  for (Query& query : queries) pass_on(std::move(query), number);
}

template <class T>
void Sweep<T>::finish() {
  statistics_.postponed = postponed_.count();
  last_ = true;
  postponed_.take([&](std::vector<Query> queries) {
    for (Query& query : queries) pass_on(std::move(query), -1);
    for (std::int64_t number = 0; number < statistics_.tiles; ++number) serve(number);
  });
}

template <class T>
TileStatistics Sweep<T>::statistics() const {
  TileStatistics result = statistics_;
  result.bytes_read = resident_.bytes_read();
  result.tiles_read_again = resident_.reads_again();
  return result;
}

template class Sweep<float>;
template class Sweep<double>;

}  // namespace kith::point_tiles
