// Runs a call of the library with the GIL released.
//
// Only the thread that called may run Python's signal handlers and only while it holds the GIL, so the
// work goes to a helper thread and the caller waits, looking after signals and progress 20 times a second.
#include "_run.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "_gil.hpp"
#include "kith/error.hpp"

namespace nb = nanobind;

namespace kith::python {
namespace {

constexpr std::chrono::milliseconds look_every{50};

constexpr double quick_work = 4e6;
constexpr double quick_gpu_work = 4e8;
// Rows that a walk through a tree looks at: some leaves, and more of them for long lists.
constexpr double walked_rows = 1000;
constexpr double walked_rows_a_neighbor = 20;

struct Report {
  std::string stage;
  std::int64_t done = 0;
  std::int64_t total = 0;
};

// What the two threads share.
struct Shared {
  std::mutex mutex;
  std::condition_variable changed;
  bool finished = false;
  std::vector<Report> reports;  // not yet delivered; the latest of each stage
  std::atomic<bool> stop{false};
  std::exception_ptr error;  // of the work; read after finished
};

// Delivers reports and runs signal handlers; needs the GIL. Throws nb::python_error.
void attend(const nb::object& report, const std::vector<Report>& reports) {
  for (const Report& r : reports) report(r.stage.c_str(), r.done, r.total);
  if (PyErr_CheckSignals() != 0) throw nb::python_error();
}

}  // namespace

Execution make_execution(const CallLimits& limits) {
  const auto& [threads, memory_limit, device_memory_limit, device] = limits;
  if (threads < 0 || threads > 4096) {
    throw InvalidArgument(fmt::format("{} threads; use 1 to 4096, or 0 for all cores", threads));
  }
  for (const auto& [bytes, which] :
       {std::pair{memory_limit, "memory"}, std::pair{device_memory_limit, "device memory"}}) {
    if (bytes >= 0) continue;
    throw InvalidArgument(fmt::format(
        "a {} limit of {} bytes; use a positive number of bytes, or 0 for no limit", which, bytes));
  }
  Execution execution;
  execution.threads = static_cast<int>(threads);
  execution.memory_limit = static_cast<std::uint64_t>(memory_limit);
  execution.devices = parse_devices(device);
  execution.device_memory_limit = static_cast<std::uint64_t>(device_memory_limit);
  if (device_memory_limit > 0 && execution.devices.front().kind == Device::Kind::cpu) {
    if (device != "auto") {
      throw InvalidArgument(fmt::format(
          "a device memory limit of {} bytes, but the device {} is no GPU; name one, or use memory_limit",
          device_memory_limit, device));
    }
    execution.device_memory_limit = 0;  // no GPU was found: none of its memory is taken
  }
  // The thread that does the work may be another: whose default stream comes first is settled where arrays
  // come in (_gpu.cpp).
  execution.follow_stream = false;
  return execution;
}

bool is_quick(const Execution& execution, double comparisons) {
  const bool gpu = !execution.devices.empty() && execution.devices.front().kind == Device::Kind::cuda;
  return comparisons <= (gpu ? quick_gpu_work : quick_work);
}

bool is_quick_walk(std::int64_t rows, std::int64_t dim, std::int64_t queries, std::int64_t k) {
  const auto elements = static_cast<double>(queries) * static_cast<double>(dim);
  const double walked =
      std::min(static_cast<double>(rows), walked_rows + walked_rows_a_neighbor * static_cast<double>(k));
  // In bad data a walk sees every row; that must end soon, too.
  return elements * walked <= quick_work && elements * static_cast<double>(rows) <= 25 * quick_work;
}

void run(Execution execution, nb::object report, bool quick,
         const std::function<void(const Execution&)>& work) {
  if (quick && report.is_none()) {
    const FreeGil free_gil;
    work(execution);
    return;
  }
  Shared shared;
  execution.cancelled = [&shared] { return shared.stop.load(std::memory_order_relaxed); };
  if (!report.is_none()) {
    execution.progress = [&shared](const Progress& progress) {
      const std::lock_guard lock(shared.mutex);
      if (shared.reports.empty() || shared.reports.back().stage != progress.stage) {
        shared.reports.emplace_back();
        shared.reports.back().stage = progress.stage;
      }
      shared.reports.back().done = progress.done;
      shared.reports.back().total = progress.total;
    };
  }
  std::exception_ptr raised;  // by Python code: a signal handler or the report
  {
    const FreeGil free_gil;
    std::jthread worker([&] {
      try {
        work(execution);
      } catch (...) {
        shared.error = std::current_exception();
      }
      const std::lock_guard lock(shared.mutex);
      shared.finished = true;
      shared.changed.notify_one();
    });
    bool finished = false;
    while (!finished) {
      std::vector<Report> reports;
      {
        std::unique_lock lock(shared.mutex);
        shared.changed.wait_for(lock, look_every, [&] { return shared.finished; });
        finished = shared.finished;
        reports.swap(shared.reports);
      }
      if (gate_is_closed()) shared.stop = true;
      if (shared.stop || (finished && reports.empty())) continue;
      const TakeGil gil;
      try {
        attend(report, reports);
      } catch (nb::python_error&) {
        raised = std::current_exception();
        shared.stop = true;
      }
    }
  }
  if (raised != nullptr) std::rethrow_exception(raised);
  if (shared.error != nullptr) std::rethrow_exception(shared.error);
}

}  // namespace kith::python
