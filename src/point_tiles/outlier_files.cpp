#include "point_tiles/outlier_files.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include <fmt/format.h>

#include "core/parallel.hpp"
#include "io/format.hpp"
#include "point_tiles/journal.hpp"
#include "point_tiles/tuning.hpp"

namespace kith::point_tiles {
namespace {

constexpr const char* flags_name = "outlier";
constexpr const char* kept_name = "kept";
constexpr const char* means_name = "mean_distance.input";

// Values of the file that columns wrote, from front to back, in the caller's order: the same sums whatever
// the tiles.
template <class Use>
void for_each_mean(const InputFile& file, std::uint64_t header, std::int64_t rows, const Use& use) {
  std::vector<double> some(static_cast<std::size_t>(tuning::block_bytes) / sizeof(double));
  for (std::int64_t at = 0; at < rows; at += static_cast<std::int64_t>(some.size())) {
    const auto here = std::min(some.size(), static_cast<std::size_t>(rows - at));
    file.read(header + static_cast<std::uint64_t>(at) * sizeof(double), some.data(), here * sizeof(double));
    use(at, std::span<const double>(some.data(), here));
  }
}

// An array that grows from front to back.
class ArrayFile {
 public:
  ArrayFile(const std::filesystem::path& path, const std::string& header) : file_(OutputFile::lasting(path)) {
    file_.truncate(0);
    append(header.data(), header.size());
  }
  void append(const void* from, std::size_t bytes) {
    file_.write(end_, from, bytes);
    file_.start_writing(end_, bytes);
    end_ += bytes;
  }
  void sync() { file_.sync(); }

 private:
  OutputFile file_;
  std::uint64_t end_ = 0;
};

// The points that remain, in the order of the input: a bucket of rows at a time, of each tile a run.
void write_kept(const std::filesystem::path& path, const Folder& folder, const Columns& columns,
                const InputFile& flags, std::uint64_t flags_header, std::int64_t kept, std::int64_t memory,
                const Execution& execution) {
  const Manifest& manifest = folder.manifest();
  const auto row_bytes = static_cast<std::size_t>(manifest.row_bytes());
  ArrayFile out(path,
                io::npy_header(io::npy_descr(manifest.dtype), fmt::format("({}, {})", kept, manifest.dim)));
  const std::int64_t bucket = std::clamp<std::int64_t>(memory / static_cast<std::int64_t>(row_bytes + 1), 1,
                                                       std::max<std::int64_t>(manifest.rows, 1));
  const std::int64_t piece =
      std::max<std::int64_t>(1, tuning::block_bytes / static_cast<std::int64_t>(manifest.record_bytes()));
  std::vector<std::byte> points(static_cast<std::size_t>(std::min(bucket, manifest.rows)) * row_bytes);
  std::vector<std::byte> some(static_cast<std::size_t>(piece) * row_bytes);
  std::vector<std::int64_t> numbers(static_cast<std::size_t>(piece));
  std::vector<std::uint8_t> flagged(static_cast<std::size_t>(std::min(bucket, manifest.rows)));
  ProgressCounter progress(execution, "points", manifest.rows);
  std::vector<Columns::Run> runs;
  for (std::int64_t first = 0; first < manifest.rows; first += bucket) {
    const std::int64_t last = std::min(first + bucket, manifest.rows);
    flags.read(flags_header + static_cast<std::uint64_t>(first), flagged.data(),
               static_cast<std::size_t>(last - first));
    columns.find_runs(first, last, runs);
    for (std::int64_t tile = 0; tile < columns.tiles(); ++tile) {
      const Columns::Run& run = runs[static_cast<std::size_t>(tile)];
      for (std::int64_t at = run.begin; at < run.end; at += piece) {
        const std::int64_t here = std::min(piece, run.end - at);
        columns.read_rows(at, here, first, last, numbers.data());
        folder.read_points(tile, at - columns.place(tile), here, some.data());
        for (std::int64_t i = 0; i < here; ++i) {
          std::memcpy(points.data() +
                          static_cast<std::size_t>(numbers[static_cast<std::size_t>(i)] - first) * row_bytes,
                      some.data() + static_cast<std::size_t>(i) * row_bytes, row_bytes);
        }
        progress.advance(here);
      }
    }
    // Those that remain move together.
    std::size_t to = 0;
    for (std::size_t i = 0; i < static_cast<std::size_t>(last - first); ++i) {
      if (flagged[i] != 0) continue;
      if (to != i) std::memcpy(points.data() + to * row_bytes, points.data() + i * row_bytes, row_bytes);
      ++to;
    }
    out.append(points.data(), to * row_bytes);
  }
  out.sync();
  progress.finish();
}

}  // namespace

OutlierFiles::OutlierFiles(const TileOutlierFiles& files) : asked_(files) {
  const auto add = [&](const std::filesystem::path& path, const char* name) {
    if (path.empty()) return;
    files_.push_back(path);
    moves_.emplace_back(name, path);
  };
  add(files.outlier, flags_name);
  add(files.mean_distance, means_name);
  add(files.kept, kept_name);
  if (files_.empty()) {
    throw InvalidArgument(
        "no file for the outliers; name one for the flags, the mean distances or the points kept");
  }
}

std::vector<std::string> OutlierFiles::names() const {
  std::vector<std::string> names;
  for (const auto& [name, to] : moves_) names.emplace_back(name);
  return names;
}

void OutlierFiles::write(WorkFolder& work, const Folder& folder, const Columns& columns, double ratio,
                         std::int64_t memory, TileOutliers& result, const Execution& execution) const {
  const std::int64_t rows = folder.manifest().rows;
  const InputFile means(work.path() / means_name);
  const std::uint64_t header = means.size() - static_cast<std::uint64_t>(rows) * sizeof(double);
  double sum = 0;
  std::int64_t counted = 0;
  for_each_mean(means, header, rows, [&](std::int64_t, std::span<const double> some) {
    for (const double m : some) {
      if (!std::isfinite(m)) continue;
      sum += m;
      ++counted;
    }
  });
  result.mean = counted > 0 ? sum / static_cast<double>(counted) : std::numeric_limits<double>::quiet_NaN();
  double squares = 0;
  for_each_mean(means, header, rows, [&](std::int64_t, std::span<const double> some) {
    for (const double m : some) {
      if (std::isfinite(m)) squares += (m - result.mean) * (m - result.mean);
    }
  });
  result.deviation = counted > 1 ? std::sqrt(squares / static_cast<double>(counted - 1)) : 0;
  result.threshold = result.mean + ratio * result.deviation;

  const std::string flags_header = io::npy_header("|b1", fmt::format("({},)", rows));
  {
    ArrayFile flags(work.file(flags_name), flags_header);
    std::vector<std::uint8_t> some_flags;
    for_each_mean(means, header, rows, [&](std::int64_t, std::span<const double> some) {
      some_flags.clear();
      for (const double m : some) {
        some_flags.push_back(!(m <= result.threshold) ? 1 : 0);
        result.outliers += some_flags.back();
        result.alone += std::isnan(m) ? 1 : 0;
      }
      flags.append(some_flags.data(), some_flags.size());
    });
    flags.sync();
  }
  if (!asked_.kept.empty()) {
    const InputFile flags(work.path() / flags_name);
    write_kept(work.file(kept_name), folder, columns, flags, flags_header.size(), rows - result.outliers,
               memory, execution);
  }
}

nlohmann::json OutlierFiles::store(const TileOutliers& result) const {
  // As text, which holds every double exactly, a NaN as well.
  return {{"mean", fmt::format("{}", result.mean)},
          {"deviation", fmt::format("{}", result.deviation)},
          {"threshold", fmt::format("{}", result.threshold)},
          {"outliers", result.outliers},
          {"alone", result.alone}};
}

void OutlierFiles::load(const nlohmann::json& from, TileOutliers& result) const {
  const auto number = [&](const char* key) { return real(member(from, key), key); };
  const auto count = [&](const char* key) { return whole(member(from, key), key, 0, most_bytes); };
  result.mean = number("mean");
  result.deviation = number("deviation");
  result.threshold = number("threshold");
  result.outliers = count("outliers");
  result.alone = count("alone");
}

}  // namespace kith::point_tiles
