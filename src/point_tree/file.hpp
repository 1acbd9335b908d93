// Trees on disk: the arrays of a Tree as sections of an index file (io/index_file.hpp).
#pragma once

#include <filesystem>
#include <memory>
#include <string_view>

#include "kith/execution.hpp"
#include "point_tree/tree.hpp"

namespace kith::point_tree {

/// @throws IoError, Cancelled
void save(const Tree& tree, const std::filesystem::path& path, const Execution& execution);

/// Maps the file and checks that every number in it can be followed.
/// @param index the type it must hold
/// @throws IoError, Cancelled
std::shared_ptr<const Tree> load(const std::filesystem::path& path, std::string_view index,
                                 const Execution& execution = {});

}  // namespace kith::point_tree
