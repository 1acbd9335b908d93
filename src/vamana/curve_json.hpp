// Recall curves in files.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "kith/recall.hpp"

namespace kith::vamana {

/// {"queries": ..., "points": [[k, list size, recall, lower, upper, hops, distances], ...]}
nlohmann::json to_json(const RecallCurve& curve);

/// @throws InvalidArgument for a curve that makes no sense, nlohmann::json::exception
RecallCurve curve_from(const nlohmann::json& json);

}  // namespace kith::vamana
