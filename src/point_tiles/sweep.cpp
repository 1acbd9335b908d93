#include "point_tiles/sweep.hpp"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <limits>
#include <mutex>
#include <string>
#include <utility>

#include <fmt/format.h>

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
      resident_(folder, question,
                memory_of_tiles(folder.manifest(), question, !shares.devices.devices.empty()),
                shares.resident, shares.ahead, shares.devices.devices, shares.on_device.resident),
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
  std::vector<std::string> names;
  for (const Device& device : execution.devices) names.push_back(name(device));
  statistics_.device = fmt::format("{}", fmt::join(names, ", "));
  if (shares_.ready > 0) {
    ahead_ = std::make_unique<TilesAhead<T>>(folder_, question_, shares_, execution_, clock_);
  }
}

template <class T>
auto Sweep<T>::end_of(std::int64_t found, const T* distances, const std::int64_t* rows,
                      const std::int64_t* numbers) const -> End {
  if (question_.kind != Kind::nearest || found < question_.k) return {};
  const std::int64_t last = rows[found - 1];
  return {distances[found - 1], numbers == nullptr ? last : numbers[last]};
}

template <class T>
ReadyTile<T> Sweep<T>::read(std::int64_t tile) {
  if (ahead_ == nullptr) return {resident_.read(tile), nullptr, nullptr};
  resident_.count_read(tile);
  return ahead_->take(tile);
}

template <class T>
void Sweep<T>::join(ReadyTile<T> ready, std::int64_t place) {
  const std::int64_t number = ready.data.tile;
  const Dataset queries = ready.data.coordinates;
  resident_.reach(number);
  std::shared_ptr<const Resident> here = ready.made;
  if (here == nullptr) {
    const DeviceClock::Busy busy(clock_, resident_.device_of(number));
    here = resident_.add(std::move(ready.data), on(resident_.device_of(number)));
  } else {
    resident_.add(here);
  }
  if (reduces(question_, *here) && (ready.own != nullptr || here->device.kind == Device::Kind::cpu)) {
    answer_reduced(*here, queries.view(), place, std::move(ready.own));
  } else {
    settle();
    answer(*here, queries.view(), nullptr, place, true, ready.own.get());
    if (ready.own != nullptr) ahead_->give_back(std::move(ready.own));
  }
  serve(number, *here);
}

template <class T>
std::shared_ptr<const Resident> Sweep<T>::get(std::int64_t number) {
  const DeviceClock::Busy busy(clock_, resident_.device_of(number));
  return resident_.get(number, on(resident_.device_of(number)));
}

template <class T>
Lists<T> Sweep<T>::find(TileSearch<T>& search, const Resident& where, const DatasetView& queries,
                        std::int64_t first, bool own) {
  const DeviceClock::Busy busy(clock_, where.device);
  return search.find(where, queries, first, own, on(where.device));
}

template <class T>
void Sweep<T>::search(std::int64_t number, const DatasetView& queries, std::span<const std::int64_t> places,
                      std::int64_t next) {
  resident_.reach(number);
  const auto here = get(number);
  next = std::min(next, next_mail(number));
  if (next < statistics_.tiles) resident_.expect(next);
  answer(*here, queries, places.data(), 0, false, nullptr);
  serve(number, *here);
}

template <class T>
void Sweep<T>::answer(const Resident& here, const DatasetView& queries, const std::int64_t* places,
                      std::int64_t place, bool join, const OwnAnswers<T>* own) {
  const auto around = join ? reach_.around(here.tile) : reach_.around(here.tile, queries);
  const bool apart = join && reach_.stands_apart(here.tile);
  const auto point_of = [&](std::int64_t i) { return static_cast<const std::byte*>(queries.row(i)); };
  Lists<T> lists;
  for (std::int64_t first = 0; first < queries.rows; first += lists.queries) {
    lists = own != nullptr ? own->lists : find(search_, here, queries, first, join);
    if (!question_.points) number_rows(here, lists);
    std::vector<Crossing> crossing =
        find_crossing(here, queries.slice(first, lists.queries), apart, around, [&](std::int64_t i) {
          return end_of(lists.entries(i), lists.distances + lists.begin(i), lists.rows + lists.begin(i),
                        question_.points ? here.rows.data() : nullptr);
        });
    statistics_.queries += lists.queries;
    statistics_.crossed += static_cast<std::int64_t>(crossing.size());
    const Block<T> block{
        lists, point_of(first),
        question_.points ? static_cast<const std::byte*>(here.coordinates.view().data) : nullptr};
    const std::int64_t* its_places = places == nullptr ? nullptr : places + first;
    const auto place_of = [&](std::int64_t i) {
      return its_places == nullptr ? place + first + i : its_places[i];
    };
    const auto make_queries = [&](std::span<Crossing> part) {
      std::vector<Waiting> some(part.size());
      for_parts(part.size(), [&](std::size_t i) {
        const std::int64_t query = part[i].query;
        some[i] = make_waiting(here, lists, query, point_of(first + query), place_of(query),
                               std::move(part[i].tiles));
      });
      return some;
    };
    if (question_.reduction != Reduction::none) {  // asked of a tile's own rows alone, in their order
      reduced_.resize(static_cast<std::size_t>(lists.queries * reduced_values()));
      answers_.reduce(block, reduced_.data());
      const auto growing = reduce_crossing(here, crossing, place + first, reduced_.data(), make_queries);
      put_values(growing, place + first, lists.queries, reduced_.data());
      continue;
    }
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

    for (std::span<Crossing> left = crossing; !left.empty();) {
      const auto part = left.first(std::min(left.size(), static_cast<std::size_t>(shares_.visiting_rows)));
      left = left.subspan(part.size());
      std::vector<Waiting> some = make_queries(part);
      visit_resident(some);
      put_finished(some);
      for (Waiting& visited : some) pass_on(std::move(visited), here.tile);
    }
    stop_.check();
  }
}

// Places in a tile become row numbers.
template <class T>
void Sweep<T>::number_rows(const Resident& here, const Lists<T>& lists) const {
  for_parts(static_cast<std::size_t>(lists.queries), [&](std::size_t i) {
    const auto query = static_cast<std::int64_t>(i);
    std::int64_t* rows = lists.rows + lists.begin(query);
    const std::int64_t entries = lists.entries(query);
    for (std::int64_t j = 0; j < entries; ++j) rows[j] = here.rows[static_cast<std::size_t>(rows[j])];
  });
}

// The queries that need other tiles, ascending, by how their lists end.
template <class T>
template <class Bound>
auto Sweep<T>::find_crossing(const Resident& here, const DatasetView& queries, bool apart,
                             std::span<const typename Reach<T>::Far> around, const Bound& end_of_list)
    -> std::vector<Crossing> {
  std::vector<Crossing> crossing;
  std::mutex mutex;
  constexpr std::int64_t part = 1 << 10;
  parallel_for(execution_, (queries.rows + part - 1) / part, [&](std::int64_t p) {
    const std::int64_t first = p * part, last = std::min(queries.rows, first + part);
    T kth[part];
    bool sure[part] = {};
    // Most rows are nearer to all of their neighbours than to any side of their tile.
    if (apart) {
      for (std::int64_t i = first; i < last; ++i) kth[i - first] = end_of_list(i).distance;
      reach_.find_sure(queries.slice(first, last - first), here.tile, kth, sure);
    }
    Point point;
    std::vector<Crossing> found;
    std::int64_t nans = 0;
    for (std::int64_t i = first; i < last; ++i) {
      if (sure[i - first]) continue;
      reach_.load(static_cast<const std::byte*>(queries.row(i)), point);
      if (point.nan) {
        ++nans;
        continue;
      }
      const End end = end_of_list(i);
      if (apart && !reach_.needs(end.distance, reach_.distance_to_side(point, here.tile))) continue;
      std::vector<std::int32_t> tiles;
      reach_.find(point, end, around, tiles);
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

// use(block) of the one list.
template <class T>
template <class Use>
void Sweep<T>::use_finished(const Waiting& query, const Use& use) const {
  std::int64_t count = query.found;
  const std::int64_t offsets[2] = {0, count};
  const bool entries = question_.kind != Kind::count;
  use(Block<T>{{1, layout_.rows(query), layout_.distances(query), 0, offsets, entries ? nullptr : &count},
               layout_.point(query),
               question_.points ? layout_.points_of(query) : nullptr,
               true});
}

// Those of them that are done, whose answers go to the disk; the others stay.
template <class T>
void Sweep<T>::put_finished(std::vector<Waiting>& queries) {
  std::vector<const Waiting*> finished;
  for (const Waiting& query : queries) {
    if (query.tiles.empty()) finished.push_back(&query);
  }
  if (question_.reduction == Reduction::none) {
    for (const Waiting* query : finished) {
      use_finished(*query, [&](const Block<T>& block) { answers_.put(query->place, block); });
    }
  } else {
    const std::int64_t width = reduced_values();
    std::vector<std::int64_t> places;
    for (const Waiting* query : finished) places.push_back(query->place);
    std::vector<double> values(finished.size() * static_cast<std::size_t>(width));
    for_parts(finished.size(), [&](std::size_t i) {
      use_finished(*finished[i], [&](const Block<T>& block) {
        answers_.reduce(block, values.data() + i * static_cast<std::size_t>(width));
      });
    });
    answers_.put_values_at(places, values.data());
  }
  std::erase_if(queries, [](const Waiting& query) { return query.tiles.empty(); });
}

// The same of all rows of a tile, of which is known what their lists come to: only those that need other
// tiles have lists here, too. They are put while the next tile is answered, or its tree is built: no query of
// that one, nor any that waits for it, has its place among them.
template <class T>
void Sweep<T>::answer_reduced(const Resident& here, const DatasetView& queries, std::int64_t place,
                              std::unique_ptr<OwnAnswers<T>> mine) {
  std::shared_ptr<OwnAnswers<T>> ready = std::move(mine);
  Reduced<T>& own = ready != nullptr ? ready->reduced : own_;
  if (ready == nullptr) {
    settle();
    own.find(here, question_, on(here.device));
  }
  const auto around = reach_.around(here.tile);
  std::vector<Crossing> crossing =
      find_crossing(here, queries, reach_.stands_apart(here.tile), around, [&](std::int64_t i) {
        const std::int64_t last = own.kth_row(i);
        return End{own.kth(i), last < here.rows.size() ? here.rows[last] : last};
      });
  statistics_.queries += queries.rows;
  statistics_.crossed += static_cast<std::int64_t>(crossing.size());
  std::vector<std::int64_t> growing =
      reduce_crossing(here, crossing, place, own.values(),
                      [&](std::span<Crossing> some) { return waiting_of(here, queries, some, place); });
  values_.begin([this, place, rows = queries.rows, growing = std::move(growing), ready, &own] {
    put_values(growing, place, rows, own.values());
    if (ready != nullptr) ahead_->give_back(std::make_unique<OwnAnswers<T>>(std::move(*ready)));
  });
  stop_.check();
}

// Rows that cross a tile's sides visit the tiles in memory first; the values of those that are done then
// replace what their lists in their own tile were reduced to, so that nearly everything is put once.
// make_queries(some) makes queries of rows that cross. Returns the places of those that wait.
template <class T>
template <class MakeQueries>
std::vector<std::int64_t> Sweep<T>::reduce_crossing(const Resident& here, std::span<Crossing> crossing,
                                                    std::int64_t place, double* values,
                                                    const MakeQueries& make_queries) {
  const std::int64_t width = reduced_values();
  std::vector<std::int64_t> growing;
  for (std::span<Crossing> left = crossing; !left.empty();) {
    const auto part = left.first(std::min(left.size(), static_cast<std::size_t>(shares_.visiting_rows)));
    left = left.subspan(part.size());
    std::vector<Waiting> some = make_queries(part);
    visit_resident(some);
    for_parts(some.size(), [&](std::size_t i) {
      if (!some[i].tiles.empty()) return;
      use_finished(some[i], [&](const Block<T>& block) {
        answers_.reduce(block, values + (some[i].place - place) * width);
      });
    });
    for (Waiting& visited : some) {
      if (visited.tiles.empty()) continue;
      growing.push_back(visited.place);
      pass_on(std::move(visited), here.tile);
    }
    stop_.check();
  }
  return growing;
}

template <class T>
void Sweep<T>::put_values(std::span<const std::int64_t> growing, std::int64_t place, std::int64_t rows,
                          const double* values) {
  answers_.expect_again(growing);
  answers_.put_values(place, rows, values);
  answers_.expect_again({});
}

// Their lists in their own tile.
template <class T>
std::vector<Waiting> Sweep<T>::waiting_of(const Resident& here, const DatasetView& queries,
                                          std::span<Crossing> crossing, std::int64_t place) {
  const auto count = static_cast<std::int64_t>(crossing.size());
  Dataset points = Dataset::allocate(queries.dtype, count, queries.dim);
  auto* to = static_cast<std::byte*>(points.mutable_data());
  std::vector<std::int64_t> places;
  for (const Crossing& query : crossing) {
    std::memcpy(to, queries.row(query.query), row_bytes_);
    to += row_bytes_;
    places.push_back(query.query);
  }
  Lists<T> lists;
  {
    const DeviceClock::Busy busy(clock_, here.device);
    lists = visits_.find_some(here, points.view(), places.data(), on(here.device));
  }
  if (!question_.points) number_rows(here, lists);
  std::vector<Waiting> waiting(crossing.size());
  for_parts(crossing.size(), [&](std::size_t i) {
    const auto query = static_cast<std::int64_t>(i);
    waiting[i] = make_waiting(here, lists, query, static_cast<const std::byte*>(points.view().row(query)),
                              place + crossing[i].query, std::move(crossing[i].tiles));
    forget_tiles(waiting[i], here.tile);  // where the list ends was not known
  });
  return waiting;
}

template <class T>
void Sweep<T>::finish(std::uint64_t from, const std::function<void(std::uint64_t)>& after) {
  settle();
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
  const auto add = [&](const ReadStatistics& some) {
    result.bytes_direct += some.direct_bytes;
    result.read_seconds += some.seconds;
    result.waited_seconds += some.waited;
  };
  add(reading);
  if (ahead_ != nullptr) add(ahead_->statistics());
  result.device_seconds = clock_.seconds();
  return result;
}

template class Sweep<float>;
template class Sweep<double>;

}  // namespace kith::point_tiles
