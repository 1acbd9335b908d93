/// @file
/// How a call runs: devices, threads, memory budget, progress, cancellation. Passed to every call,
/// stored in no index, so several threads may search one index at once.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace kith {

/// A place to run on.
struct Device {
  enum class Kind : std::uint8_t { cpu, cuda };
  Kind kind = Kind::cpu;
  int ordinal = 0;

  friend bool operator==(const Device&, const Device&) = default;
};

/// "cpu", "cuda:0".
std::string name(const Device& device);

/// Parses "cpu", "cuda", "cuda:1", "cuda:0,1,2", "all" (every CUDA device) or "auto" (a CUDA device
/// where there is one that an index can run on, else the CPU).
/// @throws InvalidArgument for other text, DeviceError when a named device is not there
std::vector<Device> parse_devices(std::string_view text);

/// What a device is; see devices().
struct DeviceInfo {
  Device device;
  std::string description;         ///< model name
  std::uint64_t memory_bytes = 0;  ///< total memory
  int cores = 0;                   ///< hardware threads, or multiprocessors
  std::string instruction_sets;    ///< kernel paths usable here, best first: "avx512_vnni avx2 portable"
  bool usable = true;
  std::string note;  ///< why it is not usable
};

/// The CPU first, then every CUDA device the driver reports.
std::vector<DeviceInfo> devices();

/// One report of a long run.
struct Progress {
  const char* stage = "";  ///< "build", "search", ...
  std::int64_t done = 0;   ///< units of work finished
  std::int64_t total = 0;  ///< units of work in all
};

/// How a call runs. The default is: this CPU, all its cores, no limit on memory, silent.
struct Execution {
  std::vector<Device> devices = {Device{}};
  int threads = 0;  ///< 0: one per hardware thread this process may use
  /// Bytes of host memory the call may take beyond its inputs, some MiB of working space aside; 0: no limit.
  std::uint64_t memory_limit = 0;
  /// Bytes of each GPU's memory the call may take beyond arrays of the caller's that lie there, some MiB of
  /// working space aside; 0: 15/16 of what is free. Calls on the CPU refuse any other value.
  std::uint64_t device_memory_limit = 0;

  /// A cudaStream_t: what it has been given so far comes before what the call reads and writes in GPU memory.
  /// nullptr: the default streams, the legacy one (and what that waits for) and the calling thread's own, of
  /// the current device and of the devices that the call uses. The call itself is complete when it returns,
  /// for every stream.
  void* stream = nullptr;
  /// false: the call comes after no stream, for arrays that nothing is pending for. It then overlaps with
  /// whatever the default streams do.
  bool follow_stream = true;

  /// Called now and then from a worker thread, never concurrently. Must not throw.
  std::function<void(const Progress&)> progress;
  /// Polled at least ten times a second, never concurrently; return true to stop. The call then throws
  /// Cancelled.
  std::function<bool()> cancelled;
};

/// The number of threads `execution` resolves to on this machine.
/// @throws InvalidArgument when threads is negative or above 4096
int resolve_threads(const Execution& execution);

}  // namespace kith
