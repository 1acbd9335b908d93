// Point tiles for Python.
#pragma once

#include <nanobind/nanobind.h>

namespace kith::python {

void bind_tiles(nanobind::module_& module);

}  // namespace kith::python
