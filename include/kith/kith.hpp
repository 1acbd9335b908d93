/// @file
/// Everything public. Plain C++20; no CUDA headers are needed to compile against it.
#pragma once

#include "kith/any_index.hpp"    // IWYU pragma: export
#include "kith/brute_force.hpp"  // IWYU pragma: export
#include "kith/calibration.hpp"  // IWYU pragma: export
#include "kith/codes.hpp"        // IWYU pragma: export
#include "kith/convert.hpp"      // IWYU pragma: export
#include "kith/dataset.hpp"      // IWYU pragma: export
#include "kith/dtype.hpp"        // IWYU pragma: export
#include "kith/error.hpp"        // IWYU pragma: export
#include "kith/evaluate.hpp"     // IWYU pragma: export
#include "kith/execution.hpp"    // IWYU pragma: export
#include "kith/filter.hpp"       // IWYU pragma: export
#include "kith/generate.hpp"     // IWYU pragma: export
#include "kith/graph_files.hpp"  // IWYU pragma: export
#include "kith/io.hpp"           // IWYU pragma: export
#include "kith/metric.hpp"       // IWYU pragma: export
#include "kith/neighbors.hpp"    // IWYU pragma: export
#include "kith/point_tiles.hpp"  // IWYU pragma: export
#include "kith/recall.hpp"       // IWYU pragma: export
#include "kith/row_set.hpp"      // IWYU pragma: export
#include "kith/sharded.hpp"      // IWYU pragma: export
#include "kith/support.hpp"      // IWYU pragma: export
#include "kith/tuning.hpp"       // IWYU pragma: export
#include "kith/version.hpp"      // IWYU pragma: export
