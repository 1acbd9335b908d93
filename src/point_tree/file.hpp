// Trees on disk: the arrays of a Tree as sections of an index file (io/index_file.hpp).
#pragma once

#include <filesystem>
#include <memory>

#include "kith/execution.hpp"
#include "point_tree/tree.hpp"

namespace kith::point_tree {

/// @throws IoError, Cancelled
void save(const Tree& tree, const std::filesystem::path& path, const Execution& execution);

/// Maps the file and checks that every number in it can be followed.
/// @param type what it must hold; of static storage
/// @throws IoError, Cancelled
std::shared_ptr<const Tree> load(const std::filesystem::path& path, const TreeType& type,
                                 const Execution& execution = {});

}  // namespace kith::point_tree
