// One shard after the other is read, built and saved in a work folder, which at the end becomes the folder.
#include "sharded/build.hpp"

#include <algorithm>
#include <memory>
#include <set>
#include <utility>
#include <variant>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/int128.hpp"
#include "core/plural.hpp"
#include "core/positioned_file.hpp"
#include "kith/error.hpp"
#include "point_tiles/work_folder.hpp"
#include "sharded/folder.hpp"
#include "sharded/manifest.hpp"
#include "sharded/visits.hpp"

namespace kith::sharded {
namespace {

namespace fs = std::filesystem;
using point_tiles::DamagedWork;
using point_tiles::WorkFolder;

constexpr const char* folder_name = "shards";

void check_shards(std::int64_t shards, std::int64_t rows) {
  const std::int64_t most = std::clamp<std::int64_t>(rows, 1, most_shards);
  if (shards >= 1 && shards <= most) return;
  throw InvalidArgument(
      fmt::format("{} of {}; use 1 to {}", plural(shards, "shard"), plural(rows, "row"), most));
}

// All parameters that a shard depends on.
nlohmann::json to_json(const IndexParameters& parameters) {
  nlohmann::json object = {{"type", Indexes::type_of(parameters).name}};
  std::visit(
      [&](const auto& its) {
        object["metric"] = name(its.metric);
        if constexpr (requires { its.filter; }) object["filter"] = name(its.filter);
        if constexpr (requires { its.directions; }) {
          object["directions"] = its.directions ? nlohmann::json(*its.directions) : nlohmann::json();
        }
        if constexpr (requires { its.leaf_size; }) object["leaf_size"] = its.leaf_size;
        if constexpr (requires { its.max_degree; }) {
          object["graph"] = {its.max_degree,  its.build_list_size, its.alpha,
                             its.seed,        its.code_bits,       its.code_dim,
                             name(its.codes), its.rabitq_bits,     its.pq_subspaces};
        }
      },
      parameters);
  return object;
}

class Build {
 public:
  Build(const RowSource& rows, const ShardedParameters& parameters, WorkFolder& work,
        const Execution& execution)
      : rows_(rows),
        parameters_(parameters),
        work_(work),
        execution_(execution),
        folder_(work.file(folder_name)) {
    const IndexType& type = Indexes::type_of(parameters.index);
    manifest_.index = type.name;
    manifest_.dtype = rows.dtype;
    manifest_.metric = std::visit([](const auto& its) { return its.metric; }, parameters.index);
    manifest_.dim = rows.dim;
    manifest_.rows = rows.rows;
    std::error_code ignored;
    fs::create_directory(folder_, ignored);  // or it is there from a run before
  }

  void run() {
    take_up();
    while (std::ssize(manifest_.shards) < parameters_.shards) add_shard();
    if (execution_.progress) execution_.progress({"build", rows_.rows, rows_.rows});
    OutputFile file = OutputFile::lasting(work_.file(fmt::format("{}/{}", folder_name, io::manifest_name)));
    const std::string text = to_text(manifest_);
    file.truncate(0);
    file.write(0, text.data(), text.size());
    file.sync();
    sync_folder(folder_);
  }

 private:
  // The first row of a shard: their sizes differ by one at the most.
  std::int64_t base_of(std::int64_t shard) const {
    return static_cast<std::int64_t>(static_cast<int128>(rows_.rows) * shard / parameters_.shards);
  }

  // But for what is known once it is built.
  Shard shard_of(std::int64_t number) const {
    Shard shard{.file = shard_file(number), .base = base_of(number)};
    shard.rows = base_of(number + 1) - shard.base;
    return shard;
  }

  // What a run before has done; what it was at when it was killed goes.
  void take_up() {
    std::set<std::string> files;
    for (const nlohmann::json& record : work_.records()) {
      if (!record.contains("shard")) continue;
      const auto number = std::ssize(manifest_.shards);
      Shard shard = shard_of(number);
      shard.bytes = record.at("bytes").get<std::uint64_t>();
      shard.hash = io::parse_hash(record.at("xxh3").get<std::string>());
      shard.nan_rows = record.at("nan_rows").get<std::int64_t>();
      shard.lower = record.at("lower").get<std::vector<double>>();
      shard.upper = record.at("upper").get<std::vector<double>>();
      const std::string file = fmt::format("{}/{}", folder_name, shard.file);
      work_.check_file(file, shard.bytes);
      if (header_hash(folder_ / shard.file) != shard.hash) {
        throw DamagedWork(work_.path(), file, "it does not match its checksum in the journal");
      }
      files.insert(shard.file);
      manifest_.shards.push_back(shard);
    }
    std::error_code ignored;
    for (const fs::directory_entry& entry : fs::directory_iterator(folder_)) {
      if (!files.contains(entry.path().filename().string())) fs::remove(entry.path(), ignored);
    }
  }

  void add_shard() {
    const auto number = std::ssize(manifest_.shards);
    Shard shard = shard_of(number);
    Execution execution = part_of(execution_, "build", shard.base, shard.rows, rows_.rows);
    if (!rows_.in_memory) take_off_limit(shard.rows, execution);
    const fs::path path = folder_ / shard.file;
    {
      const Dataset rows = rows_.take(shard.base, shard.rows);
      survey(rows, manifest_.metric, shard);
      AnyIndex::build(rows, parameters_.index, execution).save(path, execution);
    }
    shard.bytes = fs::file_size(path);
    shard.hash = header_hash(path);
    work_.note({{"shard", number},
                {"bytes", shard.bytes},
                {"xxh3", io::hash_text(shard.hash)},
                {"nan_rows", shard.nan_rows},
                {"lower", shard.lower},
                {"upper", shard.upper}});
    manifest_.shards.push_back(shard);
  }

  // The rows of a shard are held while it is built.
  void take_off_limit(std::int64_t rows, Execution& execution) const {
    if (execution.memory_limit == 0) return;
    const int128 bytes = static_cast<int128>(rows) * rows_.dim * static_cast<int128>(size_of(rows_.dtype));
    if (bytes >= static_cast<int128>(execution.memory_limit)) {
      throw OutOfMemory(fmt::format(
          "the {} of a shard take {} bytes, the limit is {}; raise it, or make more "
          "shards than {}",
          plural(rows, "row"), static_cast<double>(bytes), execution.memory_limit, parameters_.shards));
    }
    execution.memory_limit -= static_cast<std::uint64_t>(bytes);
  }

  const RowSource& rows_;
  const ShardedParameters& parameters_;
  WorkFolder& work_;
  const Execution& execution_;
  fs::path folder_;
  Manifest manifest_;
};

}  // namespace

void check_place(const fs::path& folder) {
  std::error_code ignored;
  if (!fs::exists(folder, ignored)) return;
  if (!fs::is_directory(folder, ignored)) {
    throw IoError(fmt::format("cannot write '{}': it is a file, and shards are a folder; name another",
                              folder.string()));
  }
  if (fs::is_empty(folder, ignored)) return;
  if (!io::has_manifest(manifest_kind, folder)) {
    throw IoError(fmt::format("cannot write '{}': the folder is not empty, and holds no shards; name another",
                              folder.string()));
  }
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (name == io::manifest_name || is_shard_file(name)) continue;
    throw IoError(
        fmt::format("cannot write '{}': beside shards it holds '{}', which would be lost; move that away, or "
                    "name another "
                    "folder",
                    folder.string(), name));
  }
}

void build(const RowSource& rows, const nlohmann::json& sources, bool resumable, const fs::path& folder,
           const ShardedParameters& parameters, const Execution& execution) {
  check_place(folder);
  check_shards(parameters.shards, rows.rows);
  check_metric(Indexes::type_of(parameters.index),
               std::visit([](const auto& its) { return its.metric; }, parameters.index));
  const nlohmann::json task = {{"call", "shard"},
                               {"sources", sources},
                               {"rows", rows.rows},
                               {"dim", rows.dim},
                               {"dtype", name(rows.dtype)},
                               {"shards", parameters.shards},
                               {"index", to_json(parameters.index)}};
  WorkFolder work(folder, task, resumable);
  point_tiles::resumably(work, [&] {
    const fs::path place = folder.has_filename() ? folder : folder.parent_path();
    const WorkFolder::Moves moves = {{folder_name, place}};
    nlohmann::json nothing;
    if (work.was_finished(moves, nothing)) return;
    Build(rows, parameters, work, execution).run();
    work.finish(moves);
  });
}

Execution part_of(const Execution& execution, const char* stage, std::int64_t done, std::int64_t units,
                  std::int64_t total) {
  Execution part = execution;
  if (!execution.progress) return part;
  // A part has stages of its own: what is reported never goes back.
  part.progress = [&execution, stage, done, units, total,
                   last = std::make_shared<std::int64_t>(done)](const Progress& its) {
    if (its.total <= 0) return;
    const auto more = static_cast<std::int64_t>(static_cast<int128>(units) * its.done / its.total);
    const std::int64_t now = std::min(done + more, total - 1);
    if (now <= *last) return;
    *last = now;
    execution.progress({stage, now, total});
  };
  return part;
}

}  // namespace kith::sharded
