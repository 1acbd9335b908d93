// Devices of both kinds: listed, named on a command line, and named by a call.
#include "cuda/device_choice.hpp"

#include <charconv>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "core/cpu_device.hpp"
#include "cuda/devices.hpp"
#include "cuda/fork.hpp"
#include "kith/error.hpp"

namespace kith {

std::vector<DeviceInfo> devices() {
  std::vector<DeviceInfo> list = {cpu_device()};
  for (DeviceInfo& device : cuda::devices()) list.push_back(std::move(device));
  return list;
}

std::vector<Device> parse_devices(std::string_view text) {
  if (text == "cpu") return {Device{}};
  std::vector<Device> usable;
  for (const DeviceInfo& gpu : cuda::devices()) {
    if (gpu.usable) usable.push_back(gpu.device);
  }
  if (text == "auto") {
    return usable.empty() ? std::vector{Device{}} : std::vector{usable.front()};
  }
  const bool names_cuda = text == "cuda" || text == "all" || text.starts_with("cuda:");
  if (!names_cuda) {
    throw InvalidArgument(
        fmt::format("device '{}' is not one Kith knows; use cpu, cuda, cuda:0, cuda:0,1, all or auto", text));
  }
  std::vector<Device> chosen;
  if (text == "cuda") {
    chosen.push_back({Device::Kind::cuda, 0});
  } else if (text == "all") {
    chosen = usable;
  } else {
    std::string_view rest = text.substr(5);
    while (true) {
      int ordinal = -1;
      const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), ordinal);
      if (error != std::errc{} || ordinal < 0) {
        throw InvalidArgument(
            fmt::format("device '{}': '{}' is not a list of device numbers such as 0,1", text, rest));
      }
      const Device device{Device::Kind::cuda, ordinal};
      for (const Device& other : chosen) {
        if (other == device)
          throw InvalidArgument(fmt::format("device '{}' names device {} twice", text, ordinal));
      }
      chosen.push_back(device);
      rest.remove_prefix(static_cast<std::size_t>(end - rest.data()));
      if (rest.empty()) break;
      if (rest.front() != ',') {
        throw InvalidArgument(fmt::format("device '{}': use a comma between device numbers", text));
      }
      rest.remove_prefix(1);
    }
  }
  for (const Device& device : chosen) (void)cuda::info_of(device);
  if (chosen.empty())
    throw DeviceError(fmt::format("no CUDA device: {}; use the device cpu", cuda::absence()));
  return chosen;
}

namespace cuda {

DeviceInfo info_of(const Device& gpu) {
  for (DeviceInfo& info : devices()) {
    if (info.device != gpu) continue;
    if (!info.usable) throw DeviceError(fmt::format("{} cannot be used: {}", name(gpu), info.note));
    return std::move(info);
  }
  throw DeviceError(fmt::format("{} is not there: {}; use the device cpu", name(gpu), absence()));
}

Device::Kind kind_of_devices(const Execution& execution) {
  if (execution.devices.empty()) throw InvalidArgument("no device is named; use cpu");
  const Device::Kind kind = execution.devices.front().kind;
  for (const Device& device : execution.devices) {
    if (device.kind != kind) {
      throw InvalidArgument(
          "a search runs on the CPU or on CUDA devices, not on both; name one kind of device");
    }
  }
  if (kind == Device::Kind::cpu && execution.device_memory_limit > 0) {
    throw InvalidArgument(
        fmt::format("a device memory limit of {} bytes, but the call runs on the CPU; name a CUDA device, or "
                    "use the memory limit, which is for host memory",
                    execution.device_memory_limit));
  }
  if (kind == Device::Kind::cuda) {
#ifdef KITH_CUDA_ENABLED
    use_driver();
#else
    throw DeviceError(
        fmt::format("{} cannot be used: {}; use the device cpu", name(execution.devices.front()), absence()));
#endif
  }
  return kind;
}

}  // namespace cuda

}  // namespace kith
