// Files in, NumPy arrays out, and back.
#pragma once

#include <nanobind/nanobind.h>

namespace kith::python {

void bind_io(nanobind::module_& module);

}  // namespace kith::python
