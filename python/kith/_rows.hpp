// Arrays of Python as datasets: DLPack or buffer in, rows of the library out.
#pragma once

#include <memory>
#include <string>

#include <nanobind/nanobind.h>

#include "kith/dataset.hpp"

namespace kith::python {

/// A matrix the library can read: the caller's own memory where it lies right, else a copy.
struct Rows {
  Dataset dataset;
  bool copied = false;
};

/// Takes any object with __dlpack__ or the buffer protocol, or a DLPack capsule. Memory of a GPU is taken
/// only where it lies right.
/// @param what names the argument in messages ("dataset", "queries")
/// @param reinterpret an element type to read the bits as ("bfloat16" for a uint16 view); empty: the array's
/// @param one_row_allowed a 1-D array of length d counts as [1, d]
/// @throws TypeError for an element type or memory space that is not supported, InvalidArgument for a shape
Rows import_rows(nanobind::handle array, const std::string& what, const std::string& reinterpret,
                 bool one_row_allowed);

/// The same values in a wider type; throws InvalidArgument where `to` cannot hold all of them.
Rows widen(const Rows& rows, Dtype to);

/// Keeps a Python object; whoever lets go of it last, from whatever thread, takes the GIL for it.
std::shared_ptr<const void> keep_object(nanobind::object object);

/// "float32", "float16", "bfloat16", "int8", "uint8" or "float64", as NumPy says it.
const char* numpy_name(Dtype dtype) noexcept;

void bind_rows(nanobind::module_& module);

}  // namespace kith::python
