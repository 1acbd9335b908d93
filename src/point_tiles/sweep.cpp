#include "point_tiles/sweep.hpp"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <limits>
#include <mutex>
#include <utility>

#include "point_tiles/tuning.hpp"

namespace kith::point_tiles {

template <class T>
Sweep<T>::Sweep(const Folder& folder, const Question& question, const MemoryShares& shares,
                std::filesystem::path file, bool lasting, Answers<T>& answers, const Execution& execution)
    : folder_(folder),
      question_(question),
      shares_(shares),
      answers_(answers),
      execution_(execution),
      stop_(execution_),
      row_bytes_(static_cast<std::size_t>(folder.manifest().row_bytes())),
      reach_(folder.manifest(), question.metric, question.radius),
      layout_{static_cast<std::int64_t>(row_bytes_), question.kind != Kind::count, question.points},
      resident_(folder, question, shares.resident, shares.ahead),
      search_(question, shares.block_rows, shares.lists),
      visits_(question, shares.visiting_rows, shares.lists),
      postponed_(layout_, std::move(file), lasting, shares.waiting / 2),
      mail_(folder.manifest().tiles.size()) {
  // What indexes take has been counted here.
  execution_.memory_limit = 0;
  execution_.progress = nullptr;
  statistics_.tiles = static_cast<std::int64_t>(folder.manifest().tiles.size());
  statistics_.tile_bytes = folder.bytes();
  statistics_.nan_rows = folder.manifest().nan_rows;
}

template <class T>
T Sweep<T>::kth(std::int64_t found, const T* distances) const {
  return question_.kind == Kind::nearest && found == question_.k ? distances[found - 1]
                                                                 : std::numeric_limits<T>::infinity();
}

template <class T>
void Sweep<T>::join(const TileData& data, std::int64_t place) {
  resident_.reach(data.tile);
  const auto here = resident_.add(data, execution_);
  answer(*here, data.coordinates.view(), nullptr, place, true);
  serve(data.tile, *here);
}

template <class T>
void Sweep<T>::search(std::int64_t number, const DatasetView& queries, std::span<const std::int64_t> places,
                      std::int64_t next) {
  resident_.reach(number);
  const auto here = resident_.get(number, execution_);
  next = std::min(next, next_mail(number));
  if (next < statistics_.tiles) resident_.expect(next);
  answer(*here, queries, places.data(), 0, false);
  serve(number, *here);
}

template <class T>
void Sweep<T>::serve(std::int64_t number) {
  if (mail_[static_cast<std::size_t>(number)].empty()) return;
  resident_.reach(number);
  const auto here = resident_.get(number, execution_);
  if (const std::int64_t next = next_mail(number); next < statistics_.tiles) resident_.expect(next);
  serve(number, *here);
}

// The tile after this one that somebody waits for; past the last where nobody does.
template <class T>
std::int64_t Sweep<T>::next_mail(std::int64_t tile) const {
  std::int64_t next = tile + 1;
  while (next < statistics_.tiles && mail_[static_cast<std::size_t>(next)].empty()) ++next;
  return next;
}

template <class T>
void Sweep<T>::answer(const Resident& here, const DatasetView& queries, const std::int64_t* places,
                      std::int64_t place, bool join) {
  const auto around = join ? reach_.around(here.tile) : reach_.around(here.tile, queries);
  const bool apart = join && reach_.stands_apart(here.tile);
  const auto point_of = [&](std::int64_t i) { return static_cast<const std::byte*>(queries.row(i)); };
  Lists<T> lists;
  for (std::int64_t first = 0; first < queries.rows; first += lists.queries) {
    lists = search_.find(here, queries, first, join, execution_);
    std::vector<Crossing> crossing =
        find_crossing(here, queries.slice(first, lists.queries), lists, apart, around);
    statistics_.queries += lists.queries;
    statistics_.crossed += static_cast<std::int64_t>(crossing.size());
    const Block<T> block{
        lists, point_of(first),
        question_.points ? static_cast<const std::byte*>(here.coordinates.view().data) : nullptr};
    const std::int64_t* its_places = places == nullptr ? nullptr : places + first;
    const auto place_of = [&](std::int64_t i) {
      return its_places == nullptr ? place + first + i : its_places[i];
    };
    std::int64_t from = 0;
    if (!answers_.finished_only()) {
      std::vector<std::int64_t> growing;
      for (const Crossing& query : crossing) growing.push_back(place_of(query.query));
      answers_.expect_again(growing);
    } else {
      for (const Crossing& growing : crossing) {
        put(block, from, growing.query - from, its_places, place + first);
        from = growing.query + 1;
      }
    }
    put(block, from, lists.queries - from, its_places, place + first);
    answers_.expect_again({});

    std::vector<Waiting> some;
    for (Crossing& growing : crossing) {
      const std::int64_t i = growing.query;
      some.push_back(
          make_waiting(here, lists, i, point_of(first + i), place_of(i), std::move(growing.tiles)));
      if (static_cast<std::int64_t>(some.size()) < shares_.visiting_rows && &growing != &crossing.back())
        continue;
      visit_resident(some);
      for (Waiting& visited : some) pass_on(std::move(visited), here.tile);
      some.clear();
    }
    stop_.check();
  }
}

// The queries of a block that need other tiles, ascending. Rows become row numbers where nobody needs them as
// places.
template <class T>
auto Sweep<T>::find_crossing(const Resident& here, const DatasetView& queries, const Lists<T>& lists,
                             bool apart, std::span<const typename Reach<T>::Far> around)
    -> std::vector<Crossing> {
  std::vector<Crossing> crossing;
  std::mutex mutex;
  constexpr std::int64_t part = 1 << 10;
  parallel_for(execution_, (lists.queries + part - 1) / part, [&](std::int64_t p) {
    Point point;
    std::vector<Crossing> found;
    std::int64_t nans = 0;
    for (std::int64_t i = p * part; i < std::min(lists.queries, (p + 1) * part); ++i) {
      const std::int64_t entries = lists.entries(i);
      if (!question_.points) {
        std::int64_t* rows = lists.rows + lists.begin(i);
        for (std::int64_t j = 0; j < entries; ++j) rows[j] = here.rows[static_cast<std::size_t>(rows[j])];
      }
      reach_.load(static_cast<const std::byte*>(queries.row(i)), point);
      if (point.nan) {
        ++nans;
        continue;
      }
      const T bound = kth(entries, lists.distances + lists.begin(i));
      // Most rows are nearer to all of their neighbours than to any side of their tile.
      if (apart && !reach_.needs(bound, reach_.distance_to_side(point, here.tile))) continue;
      std::vector<std::int32_t> tiles;
      reach_.find(point, bound, around, tiles);
      if (!tiles.empty()) found.push_back({i, std::move(tiles)});
    }
    const std::scoped_lock lock(mutex);
    statistics_.nan_queries += nans;
    std::move(found.begin(), found.end(), std::back_inserter(crossing));
  });
  std::sort(crossing.begin(), crossing.end(),
            [](const Crossing& a, const Crossing& b) { return a.query < b.query; });
  return crossing;
}

// Places need not follow each other; where they do, one call takes many.
template <class T>
void Sweep<T>::put(const Block<T>& block, std::int64_t first, std::int64_t count, const std::int64_t* places,
                   std::int64_t place) {
  for (std::int64_t i = first; i < first + count;) {
    std::int64_t end = places == nullptr ? first + count : i + 1;
    while (end < first + count && places[end] == places[end - 1] + 1) ++end;
    Block<T> part = block;
    Lists<T>& lists = part.lists;
    lists.queries = end - i;
    if (lists.counts != nullptr) {
      lists.counts += i;
    } else if (lists.offsets != nullptr) {
      lists.offsets += i;
    } else {
      lists.rows += i * lists.k;
      lists.distances += i * lists.k;
    }
    part.queries += static_cast<std::size_t>(i) * row_bytes_;
    answers_.put(places == nullptr ? place + i : places[i], part);
    i = end;
  }
}

template <class T>
Waiting Sweep<T>::make_waiting(const Resident& here, const Lists<T>& lists, std::int64_t i,
                               const std::byte* point, std::int64_t place,
                               std::vector<std::int32_t> tiles) const {
  Waiting query;
  query.place = place;
  query.tiles = std::move(tiles);
  layout_.allocate(query, lists.size(i));
  layout_.set_point(query, point);
  const std::int64_t* rows = lists.rows + lists.begin(i);
  for (std::int64_t j = 0; j < lists.entries(i); ++j) {
    layout_.distances(query)[j] = lists.distances[lists.begin(i) + j];
    // allocate() has made room for as many. NOLINTNEXTLINE(clang-analyzer-security.ArrayBound)
    layout_.rows(query)[j] = question_.points ? here.rows[static_cast<std::size_t>(rows[j])] : rows[j];
    if (question_.points) {
      std::memcpy(layout_.points_of(query) + static_cast<std::size_t>(j) * row_bytes_,
                  here.coordinates.view().row(rows[j]), row_bytes_);
    }
  }
  return query;
}

// What is needed of the tiles in memory, the most recent first: they lie nearest on the curve.
template <class T>
void Sweep<T>::visit_resident(std::vector<Waiting>& queries) {
  std::vector<Waiting*> visitors;
  for (const std::int64_t number : resident_.tiles()) {
    visitors.clear();
    for (Waiting& query : queries) {
      if (std::ranges::binary_search(query.tiles, static_cast<std::int32_t>(number)))
        visitors.push_back(&query);
    }
    if (!visitors.empty()) visit(*resident_.find(number), visitors);
  }
}

template <class T>
void Sweep<T>::visit(const Resident& where, std::span<Waiting*> queries) {
  statistics_.visits += static_cast<std::int64_t>(queries.size());
  const Manifest& manifest = folder_.manifest();
  while (!queries.empty()) {
    const auto some =
        queries.first(std::min(queries.size(), static_cast<std::size_t>(shares_.visiting_rows)));
    queries = queries.subspan(some.size());
    Dataset points = Dataset::allocate(manifest.dtype, static_cast<std::int64_t>(some.size()), manifest.dim);
    auto* to = static_cast<std::byte*>(points.mutable_data());
    for (std::size_t i = 0; i < some.size(); ++i) {
      std::memcpy(to + i * row_bytes_, layout_.point(*some[i]), row_bytes_);
    }
    Lists<T> lists;
    for (std::int64_t first = 0; first < points.rows(); first += lists.queries) {
      lists = visits_.find(where, points.view(), first, false, execution_);
      constexpr std::int64_t part = 1 << 8;
      parallel_for(execution_, (lists.queries + part - 1) / part, [&](std::int64_t p) {
        for (std::int64_t i = p * part; i < std::min(lists.queries, (p + 1) * part); ++i) {
          Waiting& query = *some[static_cast<std::size_t>(first + i)];
          merge(query, where, lists, i);
          forget_tiles(query, where.tile);
        }
      });
      stop_.check();
    }
  }
}

// Two lists by (distance, row), of different rows.
template <class T>
void Sweep<T>::merge(Waiting& query, const Resident& where, const Lists<T>& lists, std::int64_t i) const {
  const std::int64_t more = lists.size(i);
  if (more == 0) return;
  if (question_.kind == Kind::count) {
    query.found += more;
    return;
  }
  Waiting merged;
  layout_.allocate(merged, std::min(question_.most(), query.found + more));
  layout_.set_point(merged, layout_.point(query));
  const std::int64_t* rows = lists.rows + lists.begin(i);
  const T* distances = lists.distances + lists.begin(i);
  std::int64_t a = 0;
  std::int64_t b = 0;
  for (std::int64_t j = 0; j < merged.found; ++j) {
    // One list gives at most j rows before the j-th, so where both are over no row is left to take.
    bool take_b = a == query.found;
    if (!take_b && b < more) {
      const std::int64_t row = where.rows[static_cast<std::size_t>(rows[b])];
      const T old = layout_.distances(query)[a];
      take_b = distances[b] < old || (distances[b] == old && row < layout_.rows(query)[a]);
    }
    // allocate() has made room for as many. NOLINTNEXTLINE(clang-analyzer-security.ArrayBound)
    layout_.rows(merged)[j] = take_b ? where.rows[static_cast<std::size_t>(rows[b])] : layout_.rows(query)[a];
    layout_.distances(merged)[j] = take_b ? distances[b] : layout_.distances(query)[a];
    if (question_.points) {
      const void* from = take_b ? where.coordinates.view().row(rows[b])
                                : layout_.points_of(query) + static_cast<std::size_t>(a) * row_bytes_;
      std::memcpy(layout_.points_of(merged) + static_cast<std::size_t>(j) * row_bytes_, from, row_bytes_);
    }
    take_b ? ++b : ++a;
  }
  query.found = merged.found;
  query.words = std::move(merged.words);
}

// The tile just visited, and those that the list no longer needs.
template <class T>
void Sweep<T>::forget_tiles(Waiting& query, std::int64_t visited) const {
  Point point;
  reach_.load(layout_.point(query), point);
  const T bound = kth(query.found, layout_.distances(query));
  std::erase_if(query.tiles, [&](std::int32_t number) {
    return number == visited || !reach_.needs(bound, reach_.distance(point, number));
  });
}

template <class T>
void Sweep<T>::put_finished(const Waiting& query) {
  std::int64_t count = query.found;
  const std::int64_t offsets[2] = {0, count};
  const bool entries = question_.kind != Kind::count;
  answers_.put(query.place,
               {{1, layout_.rows(query), layout_.distances(query), 0, offsets, entries ? nullptr : &count},
                layout_.point(query),
                question_.points ? layout_.points_of(query) : nullptr,
                true});
}

template <class T>
void Sweep<T>::pass_on(Waiting query, std::int64_t current) {
  if (query.tiles.empty()) {
    put_finished(query);
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
  std::vector<Waiting> queries = std::exchange(mail_[static_cast<std::size_t>(number)], {});
  if (queries.empty()) return;
  std::vector<Waiting*> visitors;
  for (Waiting& query : queries) {
    mail_bytes_ -= layout_.bytes(query);
    visitors.push_back(&query);
  }
  visit(here, visitors);
  for (Waiting& query : queries) pass_on(std::move(query), number);
}

template <class T>
void Sweep<T>::finish(std::uint64_t from, const std::function<void(std::uint64_t)>& after) {
  statistics_.postponed = postponed_.count();
  last_ = true;
  postponed_.take(
      from,
      [&](std::vector<Waiting> queries) {
        for (Waiting& query : queries) pass_on(std::move(query), -1);
        queries = std::vector<Waiting>();
        for (std::int64_t number = 0; number < statistics_.tiles; ++number) serve(number);
      },
      after);
}

template <class T>
TileStatistics Sweep<T>::statistics() const {
  TileStatistics result = statistics_;
  result.bytes_read = resident_.bytes_read();
  result.tiles_read_again = resident_.reads_again();
  const ReadStatistics reading = resident_.read_statistics();
  result.reader = reading.reader;
  result.bytes_direct += reading.direct_bytes;
  result.read_seconds = reading.seconds;
  result.waited_seconds = reading.waited;
  return result;
}

template class Sweep<float>;
template class Sweep<double>;

}  // namespace kith::point_tiles
