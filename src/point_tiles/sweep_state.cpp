// What a sweep leaves on disk, and how another process takes it up.
#include <memory>
#include <optional>

#include "point_tiles/sweep.hpp"
#include "point_tiles/work_folder.hpp"

namespace kith::point_tiles {

template <class T>
SavedSweep Sweep<T>::save(const std::filesystem::path& file, std::int64_t next, std::function<void()>& sync) {
  SavedSweep saved;
  saved.next = next;
  const auto out = std::make_shared<OutputFile>(OutputFile::lasting(file));
  out->truncate(0);
  RunningHash hash;
  std::vector<std::byte> bytes;
  const auto flush = [&] {
    out->write(saved.waiting_bytes, bytes.data(), bytes.size());
    hash.add(bytes.data(), bytes.size());
    saved.waiting_bytes += bytes.size();
    bytes.clear();
  };
  const auto add = [&](const std::vector<Waiting>& queries) {
    for (const Waiting& query : queries) {
      layout_.append(query, bytes);
      if (bytes.size() > std::size_t{1} << 20U) flush();
    }
  };
  for (const auto& queries : mail_) add(queries);
  add(postponed_.in_memory());
  flush();
  sync = [out, spilled = postponed_.spilled()] {
    out->sync();
    if (spilled != nullptr) spilled->sync();
  };
  saved.waiting_hash = hash.value();
  saved.postponed_bytes = postponed_.file_bytes();
  saved.postponed_hash = postponed_.file_hash();
  saved.postponed = postponed_.file_count();
  saved.statistics = statistics();
  return saved;
}

template <class T>
void Sweep<T>::resume(const SavedSweep& saved, const std::filesystem::path& file, std::int64_t joined,
                      std::uint64_t from, std::int64_t places,
                      const std::function<void(std::int64_t)>& waits) {
  const auto damaged = [](const std::filesystem::path& what, const char* why) {
    return DamagedWork(what.parent_path(), what.filename().string(), why);
  };
  constexpr const char* not_noted = "it is not what an interrupted run has noted";
  constexpr const char* impossible = "a query that waits in it cannot be one";
  const WaitingLimits limits{places, static_cast<std::int64_t>(mail_.size()), question_.most(),
                             folder_.manifest().rows};
  const TileStatistics known = statistics_;
  statistics_ = saved.statistics;
  // What the folder says, the journal need not.
  statistics_.tiles = known.tiles;
  statistics_.tile_bytes = known.tile_bytes;
  statistics_.nan_rows = known.nan_rows;
  resident_.resume(joined, saved.statistics.bytes_read, saved.statistics.tiles_read_again);
  if (!postponed_.resume(saved.postponed_bytes, saved.postponed, saved.postponed_hash)) {
    throw damaged(postponed_.file(), not_noted);
  }
  if (!postponed_.for_each(from, limits, [&](const Waiting& query) { waits(query.place); })) {
    throw damaged(postponed_.file(), impossible);
  }
  const InputFile in(file);
  if (in.size() != saved.waiting_bytes) throw damaged(file, not_noted);
  RunningHash hash;
  std::vector<std::byte> piece(std::size_t{1} << 20U);
  for (std::uint64_t at = 0; at < saved.waiting_bytes; at += piece.size()) {
    piece.resize(static_cast<std::size_t>(std::min<std::uint64_t>(piece.size(), saved.waiting_bytes - at)));
    in.read(at, piece.data(), piece.size());
    hash.add(piece.data(), piece.size());
  }
  if (hash.value() != saved.waiting_hash) throw damaged(file, not_noted);
  for (std::uint64_t at = 0; at < saved.waiting_bytes;) {
    std::optional<Waiting> query = layout_.read_checked(in, at, saved.waiting_bytes, limits);
    if (!query) throw damaged(file, impossible);
    waits(query->place);
    pass_on(*std::move(query), joined - 1);
  }
}

template class Sweep<float>;
template class Sweep<double>;

}  // namespace kith::point_tiles
