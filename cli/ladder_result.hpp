// The result of kith ladder: as JSON (schema in docs/ladder.md) and as text.
#pragma once

#include <optional>
#include <string>

#include <nlohmann/json.hpp>

#include "climb.hpp"
#include "machine.hpp"

namespace kith::cli {

/// One case, every rung of it.
nlohmann::ordered_json ladder_case_json(const ladder::Climb& climb,
                                        const std::optional<ladder::GpuMachine>& machine);
/// null without a GPU.
nlohmann::ordered_json ladder_gpu_json(const std::optional<ladder::GpuMachine>& machine);

/// The table of a case, beside the published figures, what was left out, and who was fastest.
std::string ladder_case_text(const ladder::Climb& climb, const std::optional<ladder::GpuMachine>& machine,
                             bool copies);

}  // namespace kith::cli
