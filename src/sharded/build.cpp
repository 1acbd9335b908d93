// One shard after the other is read, built and saved in a work folder, which at the end becomes the folder.
#include "sharded/build.hpp"

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <variant>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/int128.hpp"
#include "core/memory_budget.hpp"
#include "core/parallel.hpp"
#include "core/plural.hpp"
#include "core/positioned_file.hpp"
#include "kith/error.hpp"
#include "point_tiles/running_hash.hpp"
#include "point_tiles/work_folder.hpp"
#include "sharded/cells.hpp"
#include "sharded/folder.hpp"
#include "sharded/manifest.hpp"
#include "sharded/row_numbers.hpp"
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

Metric metric_of(const IndexParameters& parameters) {
  return std::visit([](const auto& its) { return its.metric; }, parameters);
}

// `automatic` is decided.
Partition partition_of(const RowSource& rows, const ShardedParameters& parameters) {
  const Metric metric = metric_of(parameters.index);
  const bool can = boxes_tell(rows.dim, metric);
  if (parameters.partition == Partition::space && !can) {
    throw InvalidArgument(
        fmt::format("partition by space takes up to {} dimensions and the metrics sqeuclidean, euclidean and "
                    "manhattan; these "
                    "rows have {}, the metric is {}: use the partition rows",
                    most_box_dimensions, plural(rows.dim, "dimension"), name(metric)));
  }
  if (parameters.partition != Partition::automatic) return parameters.partition;
  const bool tree = Indexes::type_of(parameters.index).takes(SearchOption::radius);
  return can && tree && parameters.shards > 1 ? Partition::space : Partition::rows;
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
        if constexpr (requires { its.lists; }) {
          // Folders of before know nothing of it.
          if (its.lists) object["lists"] = *its.lists;
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

// The rows of a shard.
struct RowsOfShard {
  Dataset rows;
  std::vector<std::int64_t> numbers{};  // which they are of all, by space
};

class Build {
 public:
  Build(const RowSource& rows, const ShardedParameters& parameters, Partition partition, WorkFolder& work,
        const Execution& execution)
      : rows_(rows),
        parameters_(parameters),
        work_(work),
        execution_(execution),
        folder_(work.file(folder_name)) {
    const IndexType& type = Indexes::type_of(parameters.index);
    manifest_.index = type.name;
    manifest_.dtype = rows.dtype;
    manifest_.metric = metric_of(parameters.index);
    manifest_.dim = rows.dim;
    manifest_.rows = rows.rows;
    std::error_code ignored;
    fs::create_directory(folder_, ignored);  // or it is there from a run before
    if (partition == Partition::space) divide();
  }

  void run() {
    take_up();
    if (cells_) {
      while (next() < parameters_.shards) add_group();
    } else {
      while (next() < parameters_.shards) add_shard();
    }
    if (execution_.progress) execution_.progress({"build", rows_.rows + counting_, rows_.rows + counting_});
    OutputFile file = OutputFile::lasting(work_.file(fmt::format("{}/{}", folder_name, io::manifest_name)));
    const std::string text = to_text(manifest_);
    file.truncate(0);
    file.write(0, text.data(), text.size());
    file.sync();
    sync_folder(folder_);
  }

 private:
  std::int64_t next() const { return std::ssize(manifest_.shards); }

  // The first row of a shard: their sizes differ by one at the most.
  std::int64_t base_of(std::int64_t shard) const {
    return static_cast<std::int64_t>(static_cast<int128>(rows_.rows) * shard / parameters_.shards);
  }

  // But for what is known once it is built.
  Shard shard_of(std::int64_t number) const {
    Shard shard{.file = shard_file(number)};
    if (cells_) {
      shard.rows = sizes_[static_cast<std::size_t>(number)];
    } else {
      shard.base = base_of(number);
      shard.rows = base_of(number + 1) - shard.base;
    }
    return shard;
  }

  // Cells, and how many rows each has. Where one would have none, as few rows are finite, they are divided as
  // they follow each other, unless space is asked for.
  void divide() {
    Execution execution = execution_;
    take_off_limit(Cells::bytes(rows_.rows, rows_.dim, parameters_.shards), "a sample of the rows takes",
                   "use the partition rows", execution);
    cells_.emplace(rows_, parameters_.shards, execution);
    sizes_.assign(static_cast<std::size_t>(parameters_.shards), 0);
    counting_ = rows_.rows / 8;
    const Execution part = part_of(execution_, "build", 0, counting_, rows_.rows + counting_);
    point_tiles::RunningHash content;
    for_each_block(rows_, execution_, [&](const DatasetView& block, std::int64_t first) {
      for (const std::int32_t cell : cells_->of(block, first, execution_)) {
        ++sizes_[static_cast<std::size_t>(cell)];
      }
      add_content(block, content);
      if (part.progress) part.progress({"build", first + block.rows, rows_.rows});
    });
    content_ = content.value();
    if (rows_.rows == 0 || std::ranges::find(sizes_, 0) == sizes_.end()) return;
    if (parameters_.partition == Partition::space) {
      throw InvalidArgument(
          fmt::format("partition by space: of {} not all would have a row, as too few of {} are finite; make "
                      "fewer, or use the partition rows",
                      plural(parameters_.shards, "shard"), plural(rows_.rows, "row")));
    }
    cells_.reset();
  }

  // What a run before has done; what it was at when it was killed goes.
  void take_up() {
    std::set<std::string> files;
    const auto take = [&](const std::string& name, std::uint64_t bytes, std::uint64_t hash,
                          const auto& hash_of) {
      const std::string file = fmt::format("{}/{}", folder_name, name);
      work_.check_file(file, bytes);
      if (hash_of(folder_ / name) != hash) {
        throw DamagedWork(work_.path(), file, "it does not match its checksum in the journal");
      }
      files.insert(name);
    };
    for (const nlohmann::json& record : work_.records()) {
      if (!record.contains("shard")) continue;
      Shard shard = shard_of(next());
      shard.bytes = record.at("bytes").get<std::uint64_t>();
      shard.hash = io::parse_hash(record.at("xxh3").get<std::string>());
      shard.nan_rows = record.at("nan_rows").get<std::int64_t>();
      shard.lower = record.at("lower").get<std::vector<double>>();
      shard.upper = record.at("upper").get<std::vector<double>>();
      take(shard.file, shard.bytes, shard.hash, [](const fs::path& path) { return header_hash(path); });
      if (cells_) {
        const nlohmann::json& numbers = record.at("row_numbers");
        shard.numbers = {numbers_file(next()), numbers.at("bytes").get<std::uint64_t>(),
                         io::parse_hash(numbers.at("xxh3").get<std::string>())};
        take(shard.numbers.file, shard.numbers.bytes, shard.numbers.hash,
             [&](const fs::path& path) { return numbers_hash(path, execution_.cancelled); });
      }
      done_ += shard.rows;
      manifest_.shards.push_back(shard);
    }
    std::error_code ignored;
    for (const fs::directory_entry& entry : fs::directory_iterator(folder_)) {
      if (!files.contains(entry.path().filename().string())) fs::remove(entry.path(), ignored);
    }
  }

  // Rows that follow each other.
  void add_shard() {
    Shard shard = shard_of(next());
    Execution execution = execution_;
    if (!rows_.in_memory) take_off_rows(bytes_of(shard.rows), shard.rows, execution);
    RowsOfShard rows{rows_.take(shard.base, shard.rows)};
    add(std::move(shard), std::move(rows), execution);
  }

  // The next shards whose rows have room at once are read in one go, and built one after the other.
  void add_group() {
    const std::int64_t first = next();
    const std::uint64_t limit = execution_.memory_limit;
    const std::uint64_t room = (limit > 0 ? limit : static_cast<std::uint64_t>(machine_memory())) / 4;
    std::int64_t last = first;
    std::uint64_t held = 0;
    do {
      held += bytes_of(sizes_[static_cast<std::size_t>(last)]);
      ++last;
    } while (last < parameters_.shards && held + bytes_of(sizes_[static_cast<std::size_t>(last)]) <= room);
    Execution execution = execution_;
    take_off_rows(held, sizes_[static_cast<std::size_t>(first)], execution);
    std::vector<RowsOfShard> group = gather(first, last);
    for (RowsOfShard& rows : group) {
      add(shard_of(next()), std::exchange(rows, {}), execution);
      if (execution.memory_limit > 0) execution.memory_limit += bytes_of(manifest_.shards.back().rows);
    }
  }

  std::vector<RowsOfShard> gather(std::int64_t first, std::int64_t last) const {
    std::vector<RowsOfShard> group;
    for (std::int64_t cell = first; cell < last; ++cell) {
      const std::int64_t rows = sizes_[static_cast<std::size_t>(cell)];
      group.push_back({Dataset::allocate(rows_.dtype, rows, rows_.dim)});
      group.back().numbers.reserve(static_cast<std::size_t>(rows));
    }
    const std::size_t row_bytes = static_cast<std::size_t>(rows_.dim) * size_of(rows_.dtype);
    point_tiles::RunningHash content;
    for_each_block(rows_, execution_, [&](const DatasetView& block, std::int64_t row) {
      add_content(block, content);
      const std::vector<std::int32_t> cells = cells_->of(block, row, execution_);
      for (std::int64_t i = 0; i < block.rows; ++i) {
        const std::int64_t cell = cells[static_cast<std::size_t>(i)];
        if (cell < first || cell >= last) continue;
        RowsOfShard& its = group[static_cast<std::size_t>(cell - first)];
        if (std::cmp_equal(its.numbers.size(), its.rows.rows())) throw_changed();
        std::memcpy(static_cast<std::byte*>(its.rows.mutable_data()) + its.numbers.size() * row_bytes,
                    block.row(i), row_bytes);
        its.numbers.push_back(row + i);
      }
    });
    for (const RowsOfShard& its : group) {
      if (!std::cmp_equal(its.numbers.size(), its.rows.rows())) throw_changed();
    }
    if (content.value() != content_) throw_changed();
    return group;
  }

  // Rows of files are read again for each group, and must be the same: each then is in one shard.
  void add_content(const DatasetView& block, point_tiles::RunningHash& content) const {
    if (rows_.in_memory) return;
    content.add(block.data, static_cast<std::size_t>(block.rows * block.dim) * size_of(block.dtype));
  }

  [[noreturn]] static void throw_changed() {
    throw point_tiles::StaleWork(
        "the rows have changed since they were read first; run it again, and leave the files as they are "
        "meanwhile");
  }

  void add(Shard shard, RowsOfShard its, const Execution& limits) {
    const Execution execution =
        part_of(limits, "build", counting_ + done_, shard.rows, rows_.rows + counting_);
    const fs::path path = folder_ / shard.file;
    {
      const RowsOfShard held = std::move(its);
      survey(held.rows, manifest_.metric, shard);
      AnyIndex::build(held.rows, parameters_.index, execution).save(path, execution);
      if (cells_) shard.numbers = write_numbers(folder_, next(), held.numbers);
    }
    shard.bytes = fs::file_size(path);
    shard.hash = header_hash(path);
    nlohmann::json record = {{"shard", next()},
                             {"bytes", shard.bytes},
                             {"xxh3", io::hash_text(shard.hash)},
                             {"nan_rows", shard.nan_rows},
                             {"lower", shard.lower},
                             {"upper", shard.upper}};
    if (cells_) {
      record["row_numbers"] = {{"bytes", shard.numbers.bytes}, {"xxh3", io::hash_text(shard.numbers.hash)}};
    }
    sync_folder(folder_);  // what is noted is on the disk
    work_.note(record);
    done_ += shard.rows;
    manifest_.shards.push_back(std::move(shard));
  }

  std::uint64_t bytes_of(std::int64_t rows) const {
    const std::size_t row_bytes = static_cast<std::size_t>(rows_.dim) * size_of(rows_.dtype);
    return static_cast<std::uint64_t>(rows) * (row_bytes + (cells_ ? sizeof(std::int64_t) : 0));
  }

  void take_off_rows(std::uint64_t bytes, std::int64_t rows, Execution& execution) const {
    take_off_limit(bytes, fmt::format("the {} of a shard take", plural(rows, "row")),
                   fmt::format("make more shards than {}", parameters_.shards), execution);
  }

  // What is held while a shard is built. @param what takes it: the beginning of a sentence
  static void take_off_limit(std::uint64_t bytes, const std::string& what, const std::string& remedy,
                             Execution& execution) {
    if (execution.memory_limit == 0) return;
    if (bytes >= execution.memory_limit) {
      throw OutOfMemory(fmt::format("{} {} bytes, the limit is {}; raise it, or {}", what, bytes,
                                    execution.memory_limit, remedy));
    }
    execution.memory_limit -= bytes;
  }

  const RowSource& rows_;
  const ShardedParameters& parameters_;
  WorkFolder& work_;
  const Execution& execution_;
  fs::path folder_;
  Manifest manifest_;
  std::optional<Cells> cells_;       // of a partition by space
  std::vector<std::int64_t> sizes_;  // rows of each cell
  std::uint64_t content_ = 0;        // the checksum of all rows of files
  std::int64_t counting_ = 0;        // of progress: what counting them is of the whole, in rows
  std::int64_t done_ = 0;            // rows of the shards that are built
};

}  // namespace

void check_place(const fs::path& folder) {
  std::error_code ignored;
  if (folder.empty()) throw InvalidArgument("the folder of shards has no name; name one");
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
    if (entry.is_regular_file(ignored) && (name == io::manifest_name || is_shard_file(name))) continue;
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
  check_metric(Indexes::type_of(parameters.index), metric_of(parameters.index));
  const Partition partition = partition_of(rows, parameters);
  const nlohmann::json task = {{"call", "shard"},
                               {"sources", sources},
                               {"rows", rows.rows},
                               {"dim", rows.dim},
                               {"dtype", name(rows.dtype)},
                               {"shards", parameters.shards},
                               {"partition", name(partition)},
                               {"index", to_json(parameters.index)}};
  WorkFolder work(folder, task, resumable);
  point_tiles::resumably(work, [&] {
    const fs::path place = folder.has_filename() ? folder : folder.parent_path();
    const WorkFolder::Moves moves = {{folder_name, place}};
    nlohmann::json nothing;
    if (work.was_finished(moves, nothing)) return;
    Build(rows, parameters, partition, work, execution).run();
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
