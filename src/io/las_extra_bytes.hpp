// Extra bytes of LAS points: what follows the attributes of the point format, and the record that describes
// it. LAS 1.4 R15 (ASPRS 2019), table 24.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "io/las.hpp"
#include "io/point_copy.hpp"

namespace kith::io::las {

/// A file's start and records with further columns of extra bytes.
struct Extended {
  std::vector<std::byte> start;  ///< everything before the points
  std::vector<Piece> kept;       ///< what stays of a point's record; the columns follow
};

/// @throws IoError where the file describes its extra bytes wrongly; InvalidArgument where the format has no
/// room for the columns
Extended extend(const Source& source, const Header& header, const std::vector<std::string>& names,
                Dtype type);

}  // namespace kith::io::las
