// From mean distances in the order of the input to what is asked of outliers: flags, the points that remain.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "kith/execution.hpp"
#include "kith/point_tiles.hpp"
#include "point_tiles/columns.hpp"
#include "point_tiles/folder.hpp"
#include "point_tiles/work_folder.hpp"

namespace kith::point_tiles {

class OutlierFiles {
 public:
  /// @throws InvalidArgument where none is named
  explicit OutlierFiles(const TileOutlierFiles& files);

  const std::filesystem::path& first() const { return files_.front(); }
  const std::vector<std::filesystem::path>& files() const { return files_; }
  std::vector<std::string> names() const;
  const WorkFolder::Moves& moves() const { return moves_; }

  /// Sums over mean distances in the order of the input, and writes the files that are named.
  void write(WorkFolder& work, const Folder& folder, const Columns& columns, double ratio,
             std::int64_t memory, TileOutliers& result, const Execution& execution) const;

  /// What a finished run keeps for another.
  nlohmann::json store(const TileOutliers& result) const;
  void load(const nlohmann::json& from, TileOutliers& result) const;

 private:
  TileOutlierFiles asked_;
  std::vector<std::filesystem::path> files_;
  WorkFolder::Moves moves_;
};

}  // namespace kith::point_tiles
