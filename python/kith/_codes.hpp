// Quantizers: rows as codes of a few bits a value.
#pragma once

#include <nanobind/nanobind.h>

namespace kith::python {

void bind_codes(nanobind::module_& module);

}  // namespace kith::python
