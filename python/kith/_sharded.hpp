// Shards for Python.
#pragma once

#include <nanobind/nanobind.h>

namespace kith::python {

void bind_sharded(nanobind::module_& module);

}  // namespace kith::python
