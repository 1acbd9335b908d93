// Graphs and product quantizers of other libraries for Python.
#pragma once

#include <nanobind/nanobind.h>

namespace kith::python {

void bind_graph_files(nanobind::module_& module);

}  // namespace kith::python
