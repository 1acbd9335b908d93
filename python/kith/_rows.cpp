// Arrays of Python as datasets. Rows whose elements are adjacent are used where they lie; the
// array is kept alive by the dataset, whoever releases it last and from whatever thread.
#include "_rows.hpp"

#include <cstring>
#include <memory>
#include <optional>

#include <fmt/format.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>

#include "_gil.hpp"
#include "_gpu.hpp"
#include "_run.hpp"
#include "core/parallel.hpp"
#include "core/visit_dtype.hpp"
#include "kith/error.hpp"

namespace nb = nanobind;

namespace kith::python {
namespace {

using Array = nb::ndarray<nb::ro>;

std::optional<Dtype> dtype_from(nb::dlpack::dtype type) {
  if (type.lanes != 1) return std::nullopt;
  const auto code = static_cast<nb::dlpack::dtype_code>(type.code);
  using enum nb::dlpack::dtype_code;
  if (code == Float && type.bits == 32) return Dtype::f32;
  if (code == Float && type.bits == 64) return Dtype::f64;
  if (code == Float && type.bits == 16) return Dtype::f16;
  if (code == Bfloat && type.bits == 16) return Dtype::bf16;
  if (code == Int && type.bits == 8) return Dtype::i8;
  if (code == UInt && type.bits == 8) return Dtype::u8;
  return std::nullopt;
}

std::string describe(nb::dlpack::dtype type) {
  const auto code = static_cast<nb::dlpack::dtype_code>(type.code);
  using enum nb::dlpack::dtype_code;
  const char* kind = code == Int       ? "int"
                     : code == UInt    ? "uint"
                     : code == Float   ? "float"
                     : code == Bfloat  ? "bfloat"
                     : code == Complex ? "complex"
                     : code == Bool    ? "bool"
                                       : "an unknown type of bits ";
  return fmt::format("{}{}", kind, type.bits);
}

// Elements that are copied before anybody could press Ctrl-C.
constexpr std::int64_t quick_copy = 1 << 20;

// Elements of a strided matrix to adjacent ones; the strides may be negative or zero.
template <class T>
void gather(const T* from, std::int64_t rows, std::int64_t dim, std::int64_t row_stride,
            std::int64_t column_stride, T* to, const Execution& execution) {
  StopRequest stop(execution);
  // Tiles of 64 x 64 keep both sides in the cache when the matrix is column-major.
  constexpr std::int64_t tile = 64;
  for (std::int64_t r0 = 0; r0 < rows; r0 += tile) {
    const std::int64_t r1 = std::min(rows, r0 + tile);
    stop.check();
    for (std::int64_t c0 = 0; c0 < dim; c0 += tile) {
      const std::int64_t c1 = std::min(dim, c0 + tile);
      for (std::int64_t r = r0; r < r1; ++r) {
        for (std::int64_t c = c0; c < c1; ++c) to[r * dim + c] = from[r * row_stride + c * column_stride];
      }
    }
  }
}

// The array is Python's: whoever drops the last copy of the dataset needs the GIL to let go of it.
std::shared_ptr<const void> keep(Array array) {
  return {new Array(std::move(array)), [](Array* held) {
            if (!nb::is_alive()) return;  // after the interpreter's end there is nobody to give it back to
            const TakeGil gil;
            delete held;
          }};
}

std::string place_of(const DatasetView& view) {
  return view.space == MemorySpace::cuda ? fmt::format("cuda:{}", view.device) : "cpu";
}

}  // namespace

std::shared_ptr<const void> keep_object(nb::object object) {
  return {new nb::object(std::move(object)), [](nb::object* held) {
            if (!nb::is_alive()) return;
            const TakeGil gil;
            delete held;
          }};
}

const char* numpy_name(Dtype dtype) noexcept {
  switch (dtype) {
    case Dtype::f32: return "float32";
    case Dtype::f16: return "float16";
    case Dtype::bf16: return "bfloat16";
    case Dtype::i8: return "int8";
    case Dtype::u8: return "uint8";
    case Dtype::f64: return "float64";
  }
  return "?";
}

Rows import_rows(nb::handle object, const std::string& what, const std::string& reinterpret,
                 bool one_row_allowed) {
  Array array;
  if (!nb::try_cast(object, array)) {
    throw nb::type_error(fmt::format("{}: a {} that offers neither DLPack nor the buffer protocol; pass an "
                                     "array, for example numpy.asarray(...)",
                                     what, nb::type_name(object.type()).c_str())
                             .c_str());
  }
  const bool on_gpu = array.device_type() == nb::device::cuda::value ||
                      array.device_type() == nb::device::cuda_managed::value;
  if (on_gpu) {
    require_gpu(static_cast<int>(array.device_id()), what);
  } else if (array.device_type() != nb::device::cpu::value &&
             array.device_type() != nb::device::cuda_host::value) {
    throw nb::type_error(fmt::format("{}: the array lies on a device (DLPack type {}, number {}); move it to "
                                     "the host first, for example with .cpu()",
                                     what, array.device_type(), array.device_id())
                             .c_str());
  }
  const auto dtype = reinterpret.empty() ? dtype_from(array.dtype()) : parse_dtype(reinterpret);
  if (!dtype) {
    throw nb::type_error(fmt::format("{}: element type {}; use float32, float64, float16, bfloat16, int8 or "
                                     "uint8",
                                     what, describe(array.dtype()))
                             .c_str());
  }
  if (array.dtype().bits != 8 * size_of(*dtype)) {
    throw nb::type_error(
        fmt::format("{}: {}-bit elements cannot be read as {}", what, array.dtype().bits, numpy_name(*dtype))
            .c_str());
  }

  std::int64_t rows = 0;
  std::int64_t dim = 0;
  std::int64_t row_stride = 0;
  std::int64_t column_stride = 1;
  if (array.ndim() == 2) {
    rows = static_cast<std::int64_t>(array.shape(0));
    dim = static_cast<std::int64_t>(array.shape(1));
    row_stride = array.stride(0);
    column_stride = array.stride(1);
  } else if (array.ndim() == 1 && one_row_allowed) {
    rows = 1;
    dim = static_cast<std::int64_t>(array.shape(0));
    row_stride = dim;
    column_stride = array.stride(0);
  } else {
    throw InvalidArgument(fmt::format(
        "{}: an array of {} dimension{}; {} needed{}", what, array.ndim(), array.ndim() == 1 ? "" : "s",
        one_row_allowed ? "[rows, dim], or [dim] for one query, is" : "[rows, dim] is",
        array.ndim() == 1 ? "; use x.reshape(-1, 1) for numbers, x.reshape(1, -1) for one vector" : ""));
  }
  // Strides that never come into play may hold anything.
  if (rows <= 1) row_stride = dim;
  if (dim <= 1 || rows == 0) column_stride = 1;

  const bool aligned = reinterpret_cast<std::uintptr_t>(array.data()) % size_of(*dtype) == 0;
  if (aligned && column_stride == 1 && row_stride >= dim) {
    DatasetView view(array.data(), *dtype, rows, dim, row_stride);
    if (on_gpu) {
      view.space = MemorySpace::cuda;
      view.device = static_cast<int>(array.device_id());
    }
    return {Dataset::adopt(view, keep(std::move(array))), false};
  }
  validate(DatasetView(array.data(), *dtype, rows, dim, dim), what.c_str());
  if (!aligned) {
    throw InvalidArgument(fmt::format(
        "{}: the elements are not aligned to their size of {} bytes; pass a copy", what, size_of(*dtype)));
  }
  if (on_gpu) {
    throw InvalidArgument(fmt::format(
        "{}: strides of {} and {} elements; on a GPU the elements of a row must be adjacent and rows "
        "must follow each other: pass a contiguous copy, for example x.contiguous()",
        what, row_stride, column_stride));
  }
  Dataset copy;
  run({}, nb::none(), rows * dim <= quick_copy, [&](const Execution& execution) {
    copy = Dataset::allocate(*dtype, rows, dim);
    visit_dtype(*dtype, [&]<class T>(T) {
      gather(static_cast<const T*>(static_cast<const void*>(array.data())), rows, dim, row_stride,
             column_stride, static_cast<T*>(copy.mutable_data()), execution);
    });
  });
  return {copy, true};
}

Rows widen(const Rows& rows, Dtype to) {
  const DatasetView& from = rows.dataset.view();
  if (from.dtype == to) return rows;
  const bool small_integer = from.dtype == Dtype::i8 || from.dtype == Dtype::u8;
  const bool half = from.dtype == Dtype::f16 || from.dtype == Dtype::bf16;
  const bool exact = to == Dtype::f64 || (to == Dtype::f32 && (half || small_integer)) ||
                     ((to == Dtype::f16 || to == Dtype::bf16) && small_integer);
  if (!exact) {
    throw InvalidArgument(
        fmt::format("{} cannot hold every {} value", numpy_name(to), numpy_name(from.dtype)));
  }
  if (from.space == MemorySpace::cuda) {
    throw nb::type_error(
        fmt::format("an array of {} on cuda:{} meets one of {}; convert one of them where it "
                    "lies, for example with x.to(torch.{}) or x.astype('{}')",
                    numpy_name(from.dtype), from.device, numpy_name(to), numpy_name(to), numpy_name(to))
            .c_str());
  }
  Dataset wide;
  run({}, nb::none(), from.rows * from.dim <= quick_copy, [&](const Execution& execution) {
    StopRequest stop(execution);
    wide = Dataset::allocate(to, from.rows, from.dim);
    visit_dtype(from.dtype, [&]<class From>(From) {
      visit_dtype(to, [&]<class To>(To) {
        auto* out = static_cast<To*>(wide.mutable_data());
        for (std::int64_t i = 0; i < from.rows; ++i) {
          const auto* row = static_cast<const From*>(from.row(i));
          if (i % 1024 == 0) stop.check();
          for (std::int64_t j = 0; j < from.dim; ++j, ++out) {
            const double value = to_double(row[j]);
            if constexpr (std::is_same_v<To, float16>) {
              *out = to_float16(static_cast<float>(value));
            } else if constexpr (std::is_same_v<To, bfloat16>) {
              *out = to_bfloat16(static_cast<float>(value));
            } else {
              *out = static_cast<To>(value);
            }
          }
        }
      });
    });
  });
  return {wide, true};
}

void bind_rows(nb::module_& module) {
  nb::class_<Rows>(
      module, "Rows",
      "A matrix [rows, dim] that the library can read: the array's own memory where its rows are "
      "contiguous, else a copy.")
      .def(
          "__init__",
          [](Rows* self, nb::handle array, const std::string& what, const std::string& reinterpret,
             bool one_row_allowed) {
            new (self) Rows(import_rows(array, what, reinterpret, one_row_allowed));
          },
          nb::arg("array"), nb::arg("what"), nb::arg("reinterpret") = "", nb::arg("one_row_allowed") = false,
          "Takes an object with __dlpack__ or the buffer protocol; `what` names it in messages.")
      .def(
          "widen", [](const Rows& self, const std::string& dtype) { return widen(self, parse_dtype(dtype)); },
          nb::arg("dtype"), "The same values in a wider element type, as a copy.")
      .def_prop_ro(
          "rows", [](const Rows& self) { return self.dataset.rows(); }, "Number of rows.")
      .def_prop_ro(
          "dim", [](const Rows& self) { return self.dataset.dim(); }, "Elements a row.")
      .def_prop_ro(
          "dtype", [](const Rows& self) { return numpy_name(self.dataset.dtype()); },
          "Element type, as NumPy names it.")
      .def_prop_ro(
          "device", [](const Rows& self) { return place_of(self.dataset.view()); },
          "Where the rows lie: \"cpu\" or \"cuda:0\".")
      .def_ro("copied", &Rows::copied, "True where the array's memory could not be used as it is.");
}

}  // namespace kith::python
