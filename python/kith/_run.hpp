// Runs a call of the library with the GIL released, Ctrl-C watched and progress reported.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <tuple>

#include <nanobind/nanobind.h>

#include "kith/execution.hpp"

namespace kith::python {

/// threads, memory_limit, device_memory_limit, device: what _execution() of _index.py makes.
using CallLimits = std::tuple<std::int64_t, std::int64_t, std::int64_t, std::string>;

/// Execution of a call from Python's arguments.
/// @throws InvalidArgument, DeviceError
Execution make_execution(const CallLimits& limits);

/// Whether a call with so many element comparisons is over before anybody could press Ctrl-C. A thread of its
/// own would then cost more than the work. A GPU does more in that time.
bool is_quick(const Execution& execution, double comparisons);

/// The same for a search of a tree for k rows a query, which looks at a small part of the rows, as a rule.
bool is_quick_walk(std::int64_t rows, std::int64_t dim, std::int64_t queries, std::int64_t k);

/// Runs work(execution) and returns when it is over. The GIL is free meanwhile; a signal whose
/// handler raises (Ctrl-C) or an exception of `report` stops the work and is raised here.
/// @param report called as report(stage, done, total) from this thread, or None
/// @param quick run it in this thread, without watching: for work of less than some milliseconds
void run(Execution execution, nanobind::object report, bool quick,
         const std::function<void(const Execution&)>& work);

}  // namespace kith::python
