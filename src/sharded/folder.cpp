#include "sharded/folder.hpp"

#include <algorithm>
#include <chrono>
#include <limits>
#include <optional>
#include <thread>
#include <utility>

#include <fmt/format.h>
#include <xxhash.h>

#include "core/memory_budget.hpp"
#include "core/parallel.hpp"
#include "io/index_file.hpp"
#include "kith/error.hpp"

namespace kith::sharded {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t no_limit = std::numeric_limits<std::uint64_t>::max();

// 0 is no limit, and stays it.
std::uint64_t taken_off(std::uint64_t limit, std::uint64_t bytes) {
  if (limit == 0) return 0;
  return limit > bytes ? limit - bytes : 1;
}

std::uint64_t hash_of(const IndexFile& file) {
  // Magic, version and reserved bytes, length of the header at byte 16, its hash, the header from byte 32 on.
  constexpr std::size_t length_at = 16;
  constexpr std::size_t prefix = 32;
  const auto bytes = file.file()->bytes();
  std::uint64_t length = 0;
  std::memcpy(&length, bytes.data() + length_at, sizeof length);
  return XXH3_64bits(bytes.data(), prefix + length);
}

}  // namespace

struct Folder::Slot {
  bool opening = false;  // one call opens it, others wait
  std::optional<AnyIndex> index{};
  RowNumbers numbers{0};          // where there is an index
  std::vector<Device> devices{};  // that it was opened for
  std::optional<Held> held{};     // known once it has been open

  void let_go() {
    index.reset();
    numbers = RowNumbers(0);
  }
};

bool on_gpu(const Execution& execution) {
  return !execution.devices.empty() && execution.devices.front().kind == Device::Kind::cuda;
}

std::uint64_t header_hash(const fs::path& path) {
  return hash_of(IndexFile::open(path, false));
}

Folder::Folder(fs::path path) : path_(std::move(path)) {
  std::error_code ignored;
  if (!fs::exists(path_, ignored)) {
    throw IoError(fmt::format("cannot read '{}': there is no such folder", path_.string()));
  }
  if (!fs::is_directory(path_, ignored)) {
    throw IoError(
        fmt::format("'{}' is a file, and shards are a folder; name the one that was built", path_.string()));
  }
  const fs::path file = path_ / io::manifest_name;
  std::error_code why;
  if (!fs::exists(file, why)) {
    if (why) throw IoError(fmt::format("cannot read '{}': {}", file.string(), why.message()));
    throw IoError(fmt::format("'{}' has no {}: it is no folder of shards; make one with kith shard",
                              path_.string(), io::manifest_name));
  }
  manifest_ = parse_manifest(io::read_text(file), file.string());
  type_ = Indexes::find(manifest_.index);
  if (type_ == nullptr) {
    throw IoError(
        fmt::format("'{}' names indexes of type '{}', which this Kith does not know; use a newer one",
                    file.string(), manifest_.index));
  }
  for (std::int64_t i = 0; i < shards(); ++i) {
    check_file(shard(i).file, shard(i).bytes);
    if (shard(i).numbers.bytes > 0) check_file(shard(i).numbers.file, shard(i).numbers.bytes);
    slots_.push_back(std::make_unique<Slot>());
  }
  hook_.emplace([this] { mutex_.lock(); },
                [this](bool in_child) {
                  if (in_child) {  // whoever opened one stayed behind
                    for (const auto& its : slots_) its->opening = false;
                  }
                  mutex_.unlock();
                });
}

void Folder::check_file(const std::string& name, std::uint64_t bytes) const {
  const fs::path its = path_ / name;
  std::error_code ignored;
  // A link may lead anywhere; Kith writes none.
  const fs::file_type kind = fs::symlink_status(its, ignored).type();
  if (kind == fs::file_type::not_found) {
    throw IoError(
        fmt::format("'{}' is missing, which the manifest names; build the shards again", its.string()));
  }
  if (kind != fs::file_type::regular) {
    throw IoError(
        fmt::format("'{}' is no file but a link or another thing; put the shard's file there, or "
                    "build the shards again",
                    its.string()));
  }
  if (const std::uint64_t size = fs::file_size(its); size != bytes) {
    throw IoError(fmt::format("'{}' is {}: it has {} bytes, the manifest says {}; build the shards again",
                              its.string(), size < bytes ? "truncated" : "corrupt", size, bytes));
  }
}

Folder::~Folder() = default;

void Folder::check_shard(std::int64_t number, bool sections, const std::function<bool()>& cancelled) const {
  const IndexFile file = IndexFile::open(file_of(number), sections, cancelled);
  if (file.file()->size() != shard(number).bytes || hash_of(file) != shard(number).hash) {
    throw IoError(
        fmt::format("'{}' is not the shard that the manifest names: its checksum is another; build the "
                    "shards again",
                    file_of(number).string()));
  }
}

AnyIndex Folder::load(std::int64_t number, const Execution& execution) const {
  check_shard(number, false, execution.cancelled);
  AnyIndex index = AnyIndex::load(file_of(number), execution);
  if (index.type() == manifest_.index && index.rows() == shard(number).rows && index.dim() == manifest_.dim &&
      index.dtype() == manifest_.dtype && index.metric() == manifest_.metric) {
    return index;
  }
  throw IoError(
      fmt::format("'{}' holds {} x {} {} in an index {} ({}), the manifest says {} x {} {}, {} ({}); build "
                  "the shards again",
                  file_of(number).string(), index.rows(), index.dim(), name(index.dtype()), index.type(),
                  name(index.metric()), shard(number).rows, manifest_.dim, name(manifest_.dtype),
                  manifest_.index, name(manifest_.metric)));
}

Folder::Room::Room(const Execution& execution)
    : host(execution.memory_limit > 0 ? execution.memory_limit
                                      : static_cast<std::uint64_t>(machine_memory()) / 2),
      device(no_limit) {
  if (!on_gpu(execution)) return;
  if (execution.device_memory_limit > 0) {
    device = execution.device_memory_limit * execution.devices.size();
    return;
  }
  device = 0;
  for (const DeviceInfo& info : devices()) {
    if (std::ranges::find(execution.devices, info.device) != execution.devices.end()) {
      device += info.memory_bytes / 2;
    }
  }
}

bool Folder::Room::holds(const Held& open, const Held& more) const {
  return open.file + open.made + more.file + more.made <= host && open.device + more.device <= device;
}

// A tree is its file; a GPU holds what was made there.
Folder::Held Folder::held_by(std::int64_t number, const AnyIndex& index, const Execution& execution) const {
  Held held{.file = shard(number).files_bytes()};
  if (on_gpu(execution)) {
    held.device = index.memory_bytes();
  } else if (index.point_tree() == nullptr) {
    held.made = index.memory_bytes();
  }
  return held;
}

Folder::Held Folder::open_but(std::int64_t number) const {
  Held sum;
  for (std::int64_t i = 0; i < shards(); ++i) {
    if (i == number || !slot(i).index) continue;
    const Held its = expected(i);  // which is known once it has been open
    sum.file += its.file;
    sum.made += its.made;
    sum.device += its.device;
  }
  return sum;
}

// Of a shard that was never open: its file, and as much again.
Folder::Held Folder::expected(std::int64_t number) const {
  const std::uint64_t bytes = shard(number).bytes;
  return slot(number).held.value_or(
      Held{.file = shard(number).files_bytes(), .made = bytes, .device = bytes});
}

Folder::Held Folder::largest_closed_but(std::int64_t number) const {
  Held largest;
  for (std::int64_t i = 0; i < shards(); ++i) {
    if (i == number || slot(i).index) continue;
    const Held one = expected(i);
    largest.file = std::max(largest.file, one.file);
    largest.made = std::max(largest.made, one.made);
    largest.device = std::max(largest.device, one.device);
  }
  return largest;
}

// The last ones first: searches come by in order, and find the first ones open when they begin again.
void Folder::close_beyond(const Room& room, std::int64_t number) const {
  for (std::int64_t i = shards() - 1; i >= 0 && !room.holds(open_but(number), expected(number)); --i) {
    if (i != number) slot(i).let_go();
  }
}

// One call's turn to open a shard. Those that wait for it can be cancelled.
class Folder::Turn {
 public:
  Turn(const Folder& folder, Slot& slot, const Execution& execution) : folder_(folder), slot_(slot) {
    StopRequest stop(execution);
    while (!begins()) {
      stop.check();
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  ~Turn() {
    const std::scoped_lock lock(folder_.mutex_);
    slot_.opening = false;
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

 private:
  bool begins() {
    const std::scoped_lock lock(folder_.mutex_);
    return !std::exchange(slot_.opening, true);
  }

  const Folder& folder_;
  Slot& slot_;
};

Folder::Opened Folder::open_shard(std::int64_t number, const Execution& execution) const {
  Slot& its = slot(number);
  const Turn turn(*this, its, execution);
  const Room room(execution);
  const std::size_t gpus = std::max<std::size_t>(execution.devices.size(), 1);
  std::optional<AnyIndex> index;
  RowNumbers numbers(0);
  Held others;
  {
    const std::scoped_lock lock(mutex_);
    if (its.index && its.devices == execution.devices) {
      index = its.index;
      numbers = its.numbers;
    }
    if (!index) its.let_go();  // what lies on other devices
    close_beyond(room, number);
    others = open_but(number);
  }
  if (!index) {
    Execution rest = execution;
    rest.memory_limit = taken_off(execution.memory_limit, others.made);
    rest.device_memory_limit = taken_off(execution.device_memory_limit, others.device / gpus);
    numbers = RowNumbers::open(path_, shard(number), execution.cancelled);
    index = load(number, rest);
    const std::scoped_lock lock(mutex_);
    const Held own = held_by(number, *index, execution);
    its.held = own;
    Held all = open_but(number);
    all.file += own.file;
    all.made += own.made;
    all.device += own.device;
    // One that stays leaves room for the largest of those to come.
    if (room.holds(all, largest_closed_but(number))) {
      its.index = index;
      its.numbers = numbers;
      its.devices = execution.devices;
    }
  }
  const Held own = held_by(number, *index, execution);
  Execution left = execution;
  left.memory_limit = taken_off(execution.memory_limit, others.made + own.made);
  left.device_memory_limit = taken_off(execution.device_memory_limit, (others.device + own.device) / gpus);
  return {*std::move(index), std::move(numbers), std::move(left)};
}

void Folder::close() const {
  const std::scoped_lock lock(mutex_);
  for (const auto& its : slots_) its->let_go();
}

std::int64_t Folder::open_shards() const {
  const std::scoped_lock lock(mutex_);
  return std::ranges::count_if(slots_, [](const auto& its) { return its->index.has_value(); });
}

std::uint64_t Folder::memory_bytes() const {
  const std::scoped_lock lock(mutex_);
  const Held open = open_but(-1);
  return open.made + open.device;
}

}  // namespace kith::sharded
