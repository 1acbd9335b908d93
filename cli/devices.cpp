// kith devices: where searches can run.
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "commands.hpp"
#include "units.hpp"

namespace kith::cli {

void add_devices(CLI::App& app, Common& common) {
  CLI::App& command =
      add_command(app, common, "devices", "List the processors and GPUs Kith can use", [&common] {
        const auto list = devices();
        if (common.json) {
          nlohmann::json array = nlohmann::json::array();
          for (const DeviceInfo& info : list) {
            array.push_back({{"device", name(info.device)},
                             {"description", info.description},
                             {"memory_bytes", info.memory_bytes},
                             {"cores", info.cores},
                             {"instruction_sets", info.instruction_sets},
                             {"usable", info.usable},
                             {"note", info.note}});
          }
          print_json(nlohmann::json{{"devices", array}});
          return;
        }
        print(fmt::format("{:<8} {:<10} {:>6}  {}\n", "device", "memory", "cores", "model"));
        for (const DeviceInfo& info : list) {
          print(fmt::format("{:<8} {:<10} {:>6}  {}\n", name(info.device),
                            format_bytes(static_cast<double>(info.memory_bytes)), info.cores,
                            info.description));
          if (!info.instruction_sets.empty()) {
            print(fmt::format("{:<8} kernel paths, best first: {}\n", "", info.instruction_sets));
          }
          if (!info.usable) print(fmt::format("{:<8} not usable: {}\n", "", info.note));
        }
      });
  common.about(command).details = {
      "The first column is what --device takes. The processor's kernel path is chosen at run time; the "
      "environment variable KITH_INSTRUCTION_SET forces another one of those listed."};
  common.about(command).examples = {{"kith devices", "Shows them as a table."},
                                    {"kith devices --json", "Shows them to a program."}};
}

}  // namespace kith::cli
