#include "point_tiles/tiles_ahead.hpp"

#include <chrono>
#include <system_error>
#include <utility>

namespace kith::point_tiles {
namespace {

using Clock = std::chrono::steady_clock;

double since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace

template <class T>
TilesAhead<T>::TilesAhead(const Folder& folder, const Question& question, const MemoryShares& shares,
                          const Execution& execution, DeviceClock& clock)
    : folder_(folder), question_(question), shares_(shares), execution_(execution), clock_(clock) {}

template <class T>
TilesAhead<T>::~TilesAhead() {
  {
    const std::scoped_lock lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

template <class T>
void TilesAhead<T>::start(std::int64_t tile) {
  next_ = taken_ = tile;
  for (std::int64_t i = 0; i < shares_.ready; ++i) {
    try {
      threads_.emplace_back([this] { work(); });
    } catch (const std::system_error&) {
      break;  // no more threads to be had; without any take() does it all
    }
  }
}

template <class T>
void TilesAhead<T>::work() {
  const std::unique_ptr<PieceReader> reader = make_piece_reader();
  const auto tiles = static_cast<std::int64_t>(folder_.manifest().tiles.size());
  while (true) {
    std::int64_t tile = 0;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return stop_ || next_ >= tiles || next_ < taken_ + shares_.ready; });
      if (stop_ || next_ >= tiles) return;
      tile = next_++;
    }
    Done done;
    try {
      done.tile = make(tile, *reader);
    } catch (...) {
      done.failure = std::current_exception();
    }
    const std::scoped_lock lock(mutex_);
    done_.emplace(tile, std::move(done));
    changed_.notify_all();
  }
}

template <class T>
std::unique_ptr<OwnAnswers<T>> TilesAhead<T>::take_memory() {
  {
    const std::scoped_lock lock(mutex_);
    if (!idle_.empty()) {
      std::unique_ptr<OwnAnswers<T>> own = std::move(idle_.back());
      idle_.pop_back();
      return own;
    }
  }
  const std::int64_t rows = folder_.manifest().largest_tile();
  return std::make_unique<OwnAnswers<T>>(
      OwnAnswers<T>{TileSearch<T>(question_, rows, shares_.lists), {}, {}});
}

template <class T>
void TilesAhead<T>::give_back(std::unique_ptr<OwnAnswers<T>> own) {
  const std::scoped_lock lock(mutex_);
  idle_.push_back(std::move(own));
}

template <class T>
ReadyTile<T> TilesAhead<T>::make(std::int64_t tile, PieceReader& reader) {
  const std::uint64_t before = reader.direct_bytes();
  TileBatch batch = read_tiles(folder_, reader, tile, tile + 1);
  {
    const std::scoped_lock lock(mutex_);
    statistics_.reader = reader.name();
    statistics_.direct_bytes += reader.direct_bytes() - before;
    statistics_.seconds += batch.seconds;
  }
  const std::vector<Device>& devices = shares_.devices.devices;
  const Device device = devices[static_cast<std::size_t>(tile) % devices.size()];
  const Execution there = execution_on(device, shares_.on_device.work, execution_);
  ReadyTile<T> ready;
  ready.data.tile = tile;
  ready.data.coordinates = batch.tiles.front().coordinates;
  const DeviceClock::Busy busy(clock_, device);
  ready.made = make_resident(question_, std::move(batch.tiles.front()), there);
  if (question_.kind != Kind::nearest) return ready;  // lists of no known length: nobody knows their memory
  ready.own = take_memory();
  if (reduces(question_, *ready.made)) {
    ready.own->reduced.find(*ready.made, question_, there);
  } else {
    ready.own->lists = ready.own->search.find(*ready.made, ready.data.coordinates.view(), 0, true, there);
  }
  return ready;
}

template <class T>
ReadyTile<T> TilesAhead<T>::take(std::int64_t tile) {
  const Clock::time_point start = Clock::now();
  std::unique_lock lock(mutex_);
  if (threads_.empty()) this->start(tile);
  if (threads_.empty()) {
    lock.unlock();
    const std::unique_ptr<PieceReader> reader = make_piece_reader();
    return make(tile, *reader);
  }
  changed_.wait(lock, [&] { return done_.contains(tile); });
  Done done = std::move(done_.extract(tile).mapped());
  taken_ = tile + 1;
  changed_.notify_all();
  statistics_.waited += since(start);
  if (done.failure) std::rethrow_exception(done.failure);
  return std::move(done.tile);
}

template <class T>
ReadStatistics TilesAhead<T>::statistics() const {
  const std::scoped_lock lock(mutex_);
  return statistics_;
}

template class TilesAhead<float>;
template class TilesAhead<double>;

}  // namespace kith::point_tiles
